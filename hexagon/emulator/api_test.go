package emulator

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// driver compiles testdata/api with the emulator's sources and a sanitizer into
// one program; it runs one test of the ABI per call.
func driver(t *testing.T, sanitize string) string {
	compiler, _, err := findCompiler(t.Context(), "")
	require.NoError(t, err)
	dir := t.TempDir()
	require.NoError(t, WriteSources(dir))
	require.NoError(t, os.CopyFS(dir, os.DirFS(filepath.Join("testdata", "api"))))
	files, err := filepath.Glob(filepath.Join(dir, "*.c"))
	require.NoError(t, err)
	args := append(slices.Clone(arguments(sanitize)), "-Werror")
	objects, err := compileAll(t.Context(), compiler, args, dir, files)
	require.NoError(t, err)
	link := slices.Concat(args, objects, []string{"-o", "drive", "-lm"})
	require.NoError(t, run(t.Context(), dir, compiler, link))
	return filepath.Join(dir, "drive")
}

func drive(t *testing.T, program, name string) { driveWith(t, program, name, "threads=3") }

func driveWith(t *testing.T, program, name, setting string) {
	command := exec.CommandContext(t.Context(), program, name)
	// A hostile binary may ask for any size; the library must cope with a refusal.
	command.Env = append(os.Environ(), "ASAN_OPTIONS=allocator_may_return_null=1", "SDNPU_EMULATOR="+setting)
	output, err := command.CombinedOutput()
	require.NoError(t, err, "%s", output)
	require.Empty(t, string(output))
}

func TestABIUnderSanitizers(t *testing.T) {
	program := driver(t, "address,undefined")
	for _, test := range []struct{ name, sentence string }{
		{"round-trip", "saved graphs give the same bits, copied or mapped, and the same binary again"},
		{"subset", "only enabled graphs are loaded"},
		{"errors", "wrong handles, names, tensors, nodes and orders are refused by code and name"},
		{"execute-errors", "execute refuses buffers that do not fit exactly"},
		{"quantization", "every encoding is kept as given, whatever the client does to its arrays"},
		{"quantization-errors", "quantizations that cannot be right are refused by name"},
		{"binary-errors", "damaged, foreign and early binaries are refused"},
		{"mutations", "no mutated binary reads or writes out of bounds"},
		{"flipped-elements", "a flipped bit in a constant is told at the first run at the latest"},
		{"memory", "registered memory is used in place, and lives while a run uses it"},
		{"memory-errors", "memory that cannot be mapped is refused"},
		{"configs", "configs are taken where the vendor's library takes them"},
		{"system", "a binary is described without a device, however damaged it is"},
		{"arena", "shared places do not show in results"},
		{"threads", "contexts come and go beside executes"},
		{"free-while-running", "freeing a context waits for its executes"},
		{"logs", "the callback gets a format and a va_list"},
		{"profiles", "profiles tell what each node took"},
		{"devices", "devices answer for their chip, power votes are taken"},
	} {
		t.Run(test.sentence, func(t *testing.T) { drive(t, program, test.name) })
	}
	t.Run("a phone's time and memory are charged", func(t *testing.T) { driveWith(t, program, "pace", virtualTime) })
}

// Settings that keep a phone's time: one that tests can compute, and one whose
// sleeps are short.
const (
	virtualTime = "threads=3,profile=sd8gen2,as=qwen2.5-1.5b,pace=virtual"
	shortTime   = "threads=3,profile=sd8gen2,as=qwen2.5-1.5b,pace=wall,scale=0.001"
)

func TestABIUnderThreadSanitizer(t *testing.T) {
	program := driver(t, "thread")
	for _, name := range []string{"threads", "free-while-running"} {
		t.Run(name, func(t *testing.T) { drive(t, program, name) })
		t.Run(name+" in a phone's time", func(t *testing.T) { driveWith(t, program, name, shortTime) })
	}
}

// Optimised code is other code: the same driver without sanitizers.
func TestABIOfTheShippedBuild(t *testing.T) {
	program := driver(t, "")
	for _, name := range []string{"round-trip", "arena", "threads"} {
		t.Run(name, func(t *testing.T) { drive(t, program, name) })
	}
}

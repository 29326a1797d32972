package integration_test

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const module = "github.com/sdnpu/sdnpu"

// wall is what the packages under one folder may import besides the standard
// library and themselves. The longest matching folder counts.
type wall struct {
	folder   string
	internal []string // folders; "x/..." includes what lies below
	modules  []string // third-party module prefixes
	stdOnly  bool     // no clock, file, goroutine, logger: see pure
}

// pure lists standard packages that planning packages must not import: equal
// input gives equal output.
var pure = []string{"os", "os/exec", "net", "net/http", "log", "log/slog", "context", "syscall", "math/rand"}

// walls says as data who may import whom.
var walls = []wall{
	{folder: "spec", stdOnly: true},
	// Files are mapped and locked in one place; both packages know nothing of models.
	{folder: "spec/tokendb", internal: []string{"spec", "backend/mapped", "backend/filelock"}, modules: []string{"golang.org/x/sys", "golang.org/x/exp"}},
	{folder: "graphswap", stdOnly: true},
	{folder: "calibration", stdOnly: true},
	{folder: "backend"},
	{folder: "backend/mapped", modules: []string{"golang.org/x/sys"}},
	{folder: "backend/gguf", internal: []string{"backend/mapped", "backend/quant"}, modules: []string{"github.com/ollama/ollama/fs/gguf"}},
	{folder: "backend/quant", internal: []string{"backend"}},
	{folder: "backend/tokenizer", internal: []string{"backend/gguf"}},
	{folder: "backend/sampler"},
	{folder: "backend/filelock", modules: []string{"golang.org/x/sys"}},
	{folder: "backend/imagecache", internal: []string{"backend/filelock", "backend/mapped"}, modules: []string{"golang.org/x/sys"}},
	{folder: "backend/model", internal: []string{"backend", "backend/gguf", "backend/mapped", "backend/quant"}},
	{folder: "backend/model/modeltest", internal: []string{"backend/gguf", "backend/quant"}},
	{folder: "backend/cpu", internal: []string{"backend", "backend/quant"}, modules: []string{"golang.org/x/sys"}}, // which vector unit there is
	{folder: "backend/backendtest", internal: []string{"backend", "backend/quant"}, modules: []string{"github.com/stretchr/testify"}},
	{folder: "backend/chain", internal: []string{"backend", "backend/model", "backend/quant"}},
	{folder: "backend/engine", internal: []string{
		"backend", "backend/model", "backend/gguf", "backend/quant", "backend/tokenizer", "backend/sampler", "backend/imagecache", "backend/engine/draft", "spec/...", "graphswap/...", "calibration/...",
	}},
	{folder: "backend/engine/draft", internal: []string{"spec/...", "calibration"}},
	{folder: "spec/replay", internal: []string{"spec"}, stdOnly: true},
	{folder: "adapters/bench", internal: []string{"adapters/chat", "adapters/jsonfault", "backend/engine", "backend/engine/draft", "backend/tokenizer", "graphswap", "spec/..."}},
	{folder: "backend/engine/enginetest", internal: []string{
		"backend/...",
	}, modules: []string{"github.com/stretchr/testify"}},
	{folder: "hexagon", internal: []string{"backend", "backend/quant", "hexagon/qnn"}},
	{folder: "hexagon/qnn", modules: []string{"github.com/ebitengine/purego", "golang.org/x/sys"}},
	{folder: "hexagon/emulator"},
	{folder: "hexagon/emulator/profilegen", internal: []string{"graphswap"}},
	{folder: "hexagon/forms"}, // tests only
	{folder: "hexagon/whole"}, // tests only
	{folder: "hexagon/librarytest", internal: []string{"hexagon/emulator"}, modules: []string{"github.com/stretchr/testify"}},
	{folder: "adapters/config", internal: []string{"backend/gguf", "backend/engine", "backend/engine/draft"}},
	{folder: "adapters/jsonfault"},
	{folder: "adapters/chat", modules: []string{"github.com/nikolalohinski/gonja/v2"}},
	{folder: "adapters/execute", internal: []string{
		"backend", "backend/engine", "backend/engine/draft", "backend/gguf", "backend/model", "backend/model/modeltest", "backend/quant", "backend/tokenizer", "graphswap",
	}},
	{folder: "adapters/compile", internal: []string{"backend", "backend/engine", "backend/gguf", "backend/model"}},
	{folder: "adapters/llamaserver", internal: []string{"backend", "backend/engine", "backend/sampler"}, modules: []string{"golang.org/x/sys"}},
	{folder: "adapters/qnnruntime"},
	{folder: "adapters/profile", internal: []string{"backend/engine", "graphswap"}},
	{folder: "adapters/contact", internal: []string{"adapters/profile", "backend", "backend/engine", "backend/model", "backend/tokenizer", "graphswap"}},
	{folder: "adapters/estimate", internal: []string{"backend", "backend/model", "graphswap", "hexagon"}},
	{folder: "adapters/timeline", internal: []string{"adapters/jsonfault", "graphswap"}},
	{folder: "adapters/ollama", modules: []string{"golang.org/x/sys"}},
	{folder: "adapters/sdnpu", internal: []string{"adapters/...", "backend/...", "spec/...", "graphswap", "hexagon", "hexagon/qnn", "hexagon/emulator"}, modules: []string{
		"github.com/spf13/cobra", "github.com/spf13/pflag", "github.com/schollz/progressbar", "golang.org/x/sys", "golang.org/x/term",
	}},
	{folder: "integration_test", internal: []string{"..."}, modules: []string{"github.com/stretchr/testify"}},
}

// unsafeFolders may import unsafe: where C is called, where files are mapped,
// and where Windows wants structs.
var unsafeFolders = []string{"hexagon", "backend/mapped", "adapters"}

func TestImportsRunDownwardOnly(t *testing.T) {
	root := ".."
	files := 0
	err := filepath.WalkDir(root, func(file string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			_, noModule := os.Stat(filepath.Join(file, "go.mod")) // a module of its own has its own rules
			if name := entry.Name(); name == "testdata" || file != root && (strings.HasPrefix(name, ".") || noModule == nil) {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(file, ".go") {
			return nil
		}
		files++
		rel, err := filepath.Rel(root, file)
		require.NoError(t, err)
		checkFile(t, file, filepath.ToSlash(rel))
		return nil
	})
	require.NoError(t, err)
	require.Greater(t, files, 150, "the walk found hardly any file")
}

func checkFile(t *testing.T, file, rel string) {
	folder := path.Dir(rel)
	source, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
	require.NoError(t, err)
	w, found := wallOf(folder)
	require.True(t, found, "%s: no wall is defined for its folder", rel)
	test := strings.HasSuffix(rel, "_test.go")
	for _, spec := range source.Imports {
		imported, err := strconv.Unquote(spec.Path.Value)
		require.NoError(t, err)
		if imported == "C" {
			t.Errorf("%s uses cgo", rel)
		}
		if imported == "unsafe" && !slices.ContainsFunc(unsafeFolders, func(f string) bool { return within(folder, f) }) {
			t.Errorf("%s imports unsafe, which belongs in %v", rel, unsafeFolders)
		}
		if test {
			continue // tests may look anywhere
		}
		if reason := w.refuses(folder, imported); reason != "" {
			t.Errorf("%s imports %s: %s", rel, imported, reason)
		}
	}
}

func within(folder, top string) bool { return folder == top || strings.HasPrefix(folder, top+"/") }

func wallOf(folder string) (best wall, found bool) {
	for _, w := range walls {
		if within(folder, w.folder) && len(w.folder) >= len(best.folder) {
			best, found = w, true
		}
	}
	return best, found
}

// refuses says why an import breaks the wall, or nothing.
func (w wall) refuses(folder, imported string) string {
	first, _, _ := strings.Cut(imported, "/")
	if internal, ok := strings.CutPrefix(imported, module+"/"); ok {
		if internal == folder || slices.ContainsFunc(w.internal, func(allowed string) bool { return matches(internal, allowed) }) {
			return ""
		}
		return w.folder + " may import " + strings.Join(w.internal, ", ") + " of this module"
	}
	if !strings.Contains(first, ".") {
		if w.stdOnly && slices.Contains(pure, imported) {
			return w.folder + " is pure: no clock, file, goroutine, logger or context"
		}
		return ""
	}
	if slices.ContainsFunc(w.modules, func(m string) bool { return within(imported, m) }) {
		return ""
	}
	return w.folder + " may import modules " + strings.Join(w.modules, ", ")
}

func matches(internal, allowed string) bool {
	if prefix, ok := strings.CutSuffix(allowed, "..."); ok {
		return strings.HasPrefix(internal+"/", prefix)
	}
	return internal == allowed
}

func TestTheWallsRefuseWhatTheyShould(t *testing.T) {
	for _, tt := range []struct{ folder, imported string }{
		{"spec", module + "/backend"},
		{"spec", "os"},
		{"graphswap", module + "/spec"},
		{"backend/engine", module + "/hexagon"},
		{"backend/engine", module + "/backend/cpu"},
		{"backend/cpu", "github.com/ebitengine/purego"},
		{"hexagon", "github.com/ebitengine/purego"},
		{"hexagon/qnn", module + "/backend"},
		{"adapters/llamaserver", module + "/hexagon/qnn"},
		{"backend/model", "github.com/ollama/ollama/fs/ggml"},
	} {
		w, found := wallOf(tt.folder)
		require.True(t, found)
		require.NotEmpty(t, w.refuses(tt.folder, tt.imported), "%s importing %s", tt.folder, tt.imported)
	}
}

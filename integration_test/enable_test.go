package integration_test

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sdnpu/sdnpu/backend/gguf"
	"github.com/sdnpu/sdnpu/integration_test/host"
)

// pulled is the name of a model in Ollama's store whose file and adapters have no key
// of sdnpu.
const pulled = "stories:260k"

// store returns a checksum for each file in the store of the server in a folder,
// and the name of each folder.
func store(t *testing.T, dir string) map[string]string {
	files := map[string]string{}
	root := filepath.Join(dir, "home", "models")
	require.NoError(t, filepath.WalkDir(root, func(path string, e os.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			files[path] = "folder"
			return err
		}
		content, err := os.ReadFile(path)
		files[path] = fmt.Sprintf("%x", sha256.Sum256(content))
		return err
	}))
	return files
}

// onServer returns a call of the program sdnpu that talks to the given Ollama server. The
// user's home and cache are below the folder dir.
func onServer(t *testing.T, s *host.Server, dir string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(t.Context(), program(t), args...)
	cmd.Env = append(os.Environ(), "OLLAMA_HOST="+s.URL, "HOME="+dir, "XDG_CACHE_HOME="+filepath.Join(dir, "cache"))
	return cmd
}

// output runs a command that must succeed and returns its output.
func output(t *testing.T, cmd *exec.Cmd) string {
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s: %s", cmd, out)
	return string(out)
}

func TestEnabledModelRunsOnTheNPUAndDisableRestoresTheStore(t *testing.T) {
	p := lay(t, t.TempDir())
	s := p.serve(t, "SDNPU_EMULATOR="+roomForF16) // all recipes take the same time, so f16 is chosen
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	create(t, s, pulled, modelFile(t, "stories260K-f16.gguf"), "")
	before := store(t, p.dir)

	out := output(t, onServer(t, s, p.dir, "enable", pulled))
	require.Contains(t, out, "compiled block0")
	require.Regexp(t, `(?m)^recipe f16: [\d.]+ ms per token, same token at 99\.\d\d % of \d+ positions`, out)
	require.Contains(t, out, "stories:260k-npu runs on the NPU")
	require.Len(t, host.Lines(s.Log(), host.DeviceLine), 1)
	compiled := images(t, filepath.Join(p.dir, "images"))
	require.NotEmpty(t, compiled)

	r := references(t, "f16")[2]
	a := ask(t, s, "/api/chat", chat("stories:260k-npu", r.Prompt, greedy(len(r.IDs))))
	require.Equal(t, r.answer(), a.text)
	require.Len(t, host.Lines(s.Log(), host.DeviceLine), 1, "the first real request needs no second load")
	require.NotEmpty(t, a.report["plan"])
	require.NotEmpty(t, a.report["plan_reason"])
	require.Equal(t, "auto", a.report["draft"])
	require.Equal(t, "f16", a.report["recipe"])
	require.Regexp(t, `sdnpu recipe name=f16 reason="the fastest that passes its gate on this device: f16: `, s.Log())
	require.Positive(t, a.count(t, "npu_ops"))

	t.Run("a second variant of the same weights shares the images", func(t *testing.T) {
		create(t, s, "copy:1b", pulled, "")
		out := output(t, onServer(t, s, p.dir, "enable", "copy:1b", "--name", "other:npu"))
		require.Contains(t, out, "compiled before")
		require.NotContains(t, out, "compiled block0")
		require.Equal(t, compiled, images(t, filepath.Join(p.dir, "images")))
		list := output(t, onServer(t, s, p.dir, "enable", "--list"))
		require.Regexp(t, `(?m)^copy:1b +no$`, list)
		require.Regexp(t, `(?m)^other:npu +yes`, list)
		require.Regexp(t, `(?m)^stories:260k +no$`, list)
		output(t, onServer(t, s, p.dir, "disable", "other:npu"))
		_, err := s.Command(t.Context(), "rm", "copy:1b")
		require.NoError(t, err)
	})

	t.Run("heads that attend to some keys get a share each", func(t *testing.T) {
		const said = "measured which share of the keys each of 40 heads keeps"
		out := output(t, onServer(t, s, p.dir, "enable", pulled, "--name", "sparse:npu", "--set", "attention=auto"))
		require.Contains(t, out, said)
		output(t, onServer(t, s, p.dir, "disable", "sparse:npu"))
		out = output(t, onServer(t, s, p.dir, "enable", pulled, "--name", "sparse:npu", "--set", "attention=auto"))
		require.NotContains(t, out, said, "the measurement is stored")
		output(t, onServer(t, s, p.dir, "disable", "sparse:npu"))
	})

	t.Run("a recipe with integers is calibrated and checked", func(t *testing.T) {
		out := output(t, onServer(t, s, p.dir, "enable", pulled, "--name", "small:npu", "--set", "recipe=w4a16-lpbq"))
		require.Contains(t, out, "calibrating activations")
		require.Contains(t, out, "recipe w4a16-lpbq: passed")
		a := ask(t, s, "/api/chat", chat("small:npu", r.Prompt, greedy(4)))
		require.Equal(t, "w4a16-lpbq", a.report["recipe"])
		output(t, onServer(t, s, p.dir, "disable", "small:npu"))
	})

	require.Contains(t, output(t, onServer(t, s, p.dir, "disable", pulled)), "removed stories:260k-npu")
	eventually(t, "the variant's process ends", func() bool { return len(runners(t, s)) == 0 })
	require.Equal(t, before, store(t, p.dir))
}

func TestKilledEnableIsUndoneByTheNextCall(t *testing.T) {
	p := lay(t, t.TempDir())
	s := p.serve(t)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	create(t, s, pulled, modelFile(t, "stories260K-f16.gguf"), "")
	before := store(t, p.dir)
	output(t, onServer(t, s, p.dir, "enable", pulled)) // the first call compiles the model
	output(t, onServer(t, s, p.dir, "disable", pulled))
	eventually(t, "the variant's process ends", func() bool { return len(runners(t, s)) == 0 })
	begin := time.Now()
	output(t, onServer(t, s, p.dir, "enable", pulled))
	whole := time.Since(begin)
	output(t, onServer(t, s, p.dir, "disable", pulled))
	require.Equal(t, before, store(t, p.dir))

	const moments = 12
	interrupted := 0
	for i := range moments {
		for _, signal := range []os.Signal{os.Kill, os.Interrupt} {
			cmd := onServer(t, s, p.dir, "enable", pulled)
			require.NoError(t, cmd.Start())
			time.Sleep(whole * time.Duration(i) / moments)
			_ = cmd.Process.Signal(signal) // Signal fails if the process has ended
			if cmd.Wait() != nil {
				interrupted++
			}
			out, err := onServer(t, s, p.dir, "disable", pulled).CombinedOutput()
			require.True(t, err == nil || strings.Contains(string(out), "no NPU variant"), "%s", out)
			require.Equal(t, before, store(t, p.dir), "%v after %d of %d: %s", signal, i, moments, out)
			require.NoDirExists(t, filepath.Join(p.dir, "cache", "sdnpu", "enable"))
		}
	}
	require.Greater(t, interrupted, moments, "hardly any call was interrupted")
}

func TestEnableRefusesWhatCannotRun(t *testing.T) {
	p := lay(t, t.TempDir())
	s := p.serve(t)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	file := modelFile(t, "stories260K-f16.gguf")
	create(t, s, pulled, file, "")
	broken := filepath.Join(t.TempDir(), "broken.gguf")
	rewrite(t, file, broken, gguf.KeyValue{Name: "tokenizer.chat_template", Value: "{% for m in messages %}{{ m.content }}"})
	require.NoError(t, s.Create(t.Context(), "broken:1b", "FROM "+broken+"\n"))
	content, err := os.ReadFile(file)
	require.NoError(t, err)
	unknown := filepath.Join(t.TempDir(), "unknown.gguf")
	require.NoError(t, os.WriteFile(unknown, bytes.ReplaceAll(content, []byte("llama"), []byte("xlama")), 0o600))
	create(t, s, "unknown:1b", unknown, "")
	before := store(t, p.dir)
	for _, tt := range []struct {
		name string
		args []string
		want []string
		// asks is set if the command enable finds the fault only after Ollama has loaded
		// the new model
		asks bool
	}{
		{"architecture", []string{"unknown:1b"}, []string{"unknown:1b: ", "xlama", "llama, qwen2"}, false},
		{"template", []string{"broken:1b"}, []string{"chat template", "create a model FROM it with a TEMPLATE line"}, true},
		{"recipe below its gate", []string{pulled, "--set", "recipe=w8a16"}, []string{"below its gate"}, false},
		{"setting", []string{pulled, "--set", "plan=none"}, []string{"--set plan=none: "}, false},
		{"disabled", []string{pulled, "--set", "enabled=false"}, []string{"sdnpu disable"}, false},
		{"no model", []string{"absent:1b"}, []string{"absent:1b: Ollama has no such model"}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			log := len(s.Log())
			out, err := onServer(t, s, p.dir, append([]string{"enable"}, tt.args...)...).CombinedOutput()
			require.Error(t, err, "%s", out)
			for _, want := range tt.want {
				require.Contains(t, string(out), want)
			}
			require.Equal(t, tt.asks, strings.Contains(s.Log()[log:], "starting llama-server"))
			require.Equal(t, before, store(t, p.dir))
		})
	}
}

func TestEnableRefusesAnOllamaThatStartsAnotherRunner(t *testing.T) {
	p := lay(t, t.TempDir())
	runner := p.library("llama-server")
	require.NoError(t, os.Remove(runner))
	require.NoError(t, os.WriteFile(runner, []byte("#!/bin/sh\n"), 0o755))
	s := p.serve(t)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	create(t, s, pulled, modelFile(t, "stories260K-f16.gguf"), "")
	before := store(t, p.dir)
	out, err := onServer(t, s, p.dir, "enable", pulled).CombinedOutput()
	require.Error(t, err)
	require.Contains(t, string(out), "does not start sdnpu")
	require.Contains(t, string(out), "sdnpu install DIR")
	require.Equal(t, before, store(t, p.dir))
}

func TestDoctorNoticesAnUpdateOfOllama(t *testing.T) {
	root := t.TempDir()
	pinned := realOllama(t)
	content, err := os.ReadFile(pinned.Executable)
	require.NoError(t, err)
	installed := filepath.Join(root, "installed", "bin", "ollama")
	require.NoError(t, os.MkdirAll(filepath.Dir(installed), 0o755))
	require.NoError(t, os.WriteFile(installed, content, 0o755))
	private := filepath.Join(root, "private")
	sdnpu(t, "install", private, "--ollama", installed)
	doctor := func() string {
		out, err := exec.Command(program(t), "doctor", "--ollama", filepath.Join(private, "bin", "ollama")).CombinedOutput()
		require.Error(t, err, "there is no NPU here")
		return string(out)
	}
	require.NotContains(t, doctor(), "its layout")

	require.NoError(t, os.Remove(installed))
	require.NoError(t, os.WriteFile(installed, append(content, 0), 0o755))
	out := doctor()
	require.Contains(t, out, "was updated since: run `sdnpu install "+private+" --ollama "+installed+"`")
	sdnpu(t, "install", private, "--ollama", installed)
	require.NotContains(t, doctor(), "its layout", "the command mends it")

	runner := filepath.Join(private, "lib", "ollama", "llama-server")
	original := filepath.Join(private, "lib", "ollama", originalName)
	require.NoError(t, os.Rename(runner, runner+".kept"))
	require.NoError(t, os.WriteFile(runner, []byte("#!/bin/sh\n"), 0o755))
	require.NoError(t, os.WriteFile(original, []byte("#!/bin/sh\n"), 0o755))
	out = doctor()
	require.Contains(t, out, runner+" was replaced since sdnpu was installed")
	require.Contains(t, out, "remove this llama-server, and run `sdnpu install "+private+"`")
	require.NoError(t, os.Remove(runner))
	sdnpu(t, "install", private, "--ollama", installed)
	require.NotContains(t, doctor(), "was replaced since")
}

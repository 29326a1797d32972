package host

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/sdnpu/sdnpu/adapters/ollama"
	"github.com/sdnpu/sdnpu/hexagon/emulator"
)

// Builder makes the parts in a folder and keeps them for the next time.
type Builder struct {
	// Root is the checkout, Dir the folder for what is built.
	Root, Dir string
	// Progress receives lines for people.
	Progress io.Writer
}

func (b Builder) say(format string, args ...any) {
	fmt.Fprintf(b.Progress, format+"\n", args...)
}

// need finds a tool or names the command that installs it.
func need(remedy string, names ...string) error {
	for _, name := range names {
		if _, err := exec.LookPath(name); err == nil {
			return nil
		}
	}
	return fmt.Errorf("host: %s is missing: %s", names[0], remedy)
}

// Program builds our program without cgo and returns its path.
func (b Builder) Program(ctx context.Context) (string, error) {
	path := filepath.Join(b.Dir, "sdnpu")
	return path, b.goBuild(ctx, ".", path, "./adapters/sdnpu", "CGO_ENABLED=0")
}

// Emulator builds the emulator and returns the path of its library.
func (b Builder) Emulator(ctx context.Context) (string, error) {
	return emulator.Build(ctx, emulator.Options{Dir: filepath.Join(b.Dir, "emulator")})
}

// Ollama returns the installed Ollama, else one built from its Go module.
func (b Builder) Ollama(ctx context.Context) (ollama.Host, error) {
	h, err := ollama.Find("")
	if !errors.Is(err, ollama.ErrNotFound) {
		return h, err
	}
	return b.OllamaFromSource(ctx)
}

// OllamaFromSource builds the pinned version of Ollama from its Go module.
func (b Builder) OllamaFromSource(ctx context.Context) (ollama.Host, error) {
	if err := need("apt-get install gcc g++ libc6-dev", "g++", "clang++"); err != nil {
		return ollama.Host{}, err
	}
	path := filepath.Join(b.Dir, "ollama", "bin", "ollama")
	if _, err := os.Stat(path); err != nil {
		b.say("building Ollama from its Go module: the first time takes some minutes")
	}
	if err := b.goBuild(ctx, "integration_test/server", path, "github.com/ollama/ollama", "CGO_ENABLED=1"); err != nil {
		return ollama.Host{}, err
	}
	return ollama.Find(path)
}

// goBuild builds a package of the module in folder, counting packages aloud.
func (b Builder) goBuild(ctx context.Context, folder, out, pkg string, env ...string) error {
	if err := need("install Go 1.26 or newer from https://go.dev/dl", "go"); err != nil {
		return err
	}
	out, err := filepath.Abs(out)
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, "go", "build", "-v", "-o", out, pkg)
	cmd.Dir = filepath.Join(b.Root, folder)
	cmd.Env = append(os.Environ(), env...)
	lines, err := cmd.StderrPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("host: go build %s: %w", pkg, err)
	}
	var said bytes.Buffer
	count := 0
	for s := bufio.NewScanner(lines); s.Scan(); {
		fmt.Fprintln(&said, s.Text())
		if count++; count%25 == 0 {
			b.say("  … %d packages, now %s", count, s.Text())
		}
	}
	if err := cmd.Wait(); err != nil {
		return fmt.Errorf("host: go build %s: %w\n%s", pkg, err, &said)
	}
	return nil
}

package ollama

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"time"
)

// ErrNotOllama is returned for a program that does not answer as Ollama does.
var ErrNotOllama = errors.New("it is not Ollama")

// asked is how long a program may take to say its version: Ollama takes some
// tenths of a second, and seconds from a cold disk.
const asked = 20 * time.Second

// versionLine is what Ollama says, the second where no server answers it.
var versionLine = regexp.MustCompile(`(?m)(?:^ollama|client) version is (\S+)`)

// Version runs the program with --version and returns what it says, or an error
// that is [ErrNotOllama]. No server is asked: the address it is given is that of
// nobody.
func (h Host) Version(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, asked)
	defer cancel()
	cmd := exec.CommandContext(ctx, h.Executable, "--version")
	cmd.Env = append(os.Environ(), "OLLAMA_HOST=127.0.0.1:1")
	cmd.WaitDelay = asked // of what it started, and left with its output
	out, err := cmd.CombinedOutput()
	if found := versionLine.FindSubmatch(out); found != nil && err == nil {
		return string(found[1]), nil
	}
	said := strings.Join(strings.Fields(string(out[:min(len(out), 200)])), " ")
	switch {
	case ctx.Err() != nil:
		err = fmt.Errorf("it says nothing for %v", asked)
	case err == nil:
		err = fmt.Errorf("it says %q", said)
	case said != "":
		err = fmt.Errorf("%w, after %q", err, said)
	}
	return "", fmt.Errorf("ollama: %s --version: %w: %w", h.Executable, ErrNotOllama, err)
}

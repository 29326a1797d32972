package ollama

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
)

// ErrNotFound is returned when no Ollama is installed.
var ErrNotFound = errors.New("no Ollama found")

// Host is an installed Ollama.
type Host struct {
	// Executable is the ollama program, symbolic links resolved.
	Executable string
	// Library is its folder of helpers; empty when there is none.
	Library string
	// Runner is the llama-server it would start; empty when there is none.
	Runner string
}

func exe(name string) string {
	if runtime.GOOS == "windows" {
		return name + ".exe"
	}
	return name
}

// Find looks at one executable, or where Ollama usually lies when it is empty.
func Find(executable string) (Host, error) {
	candidates := []string{executable}
	if executable == "" {
		candidates = usualPlaces()
	}
	for _, c := range candidates {
		real, err := filepath.EvalSymlinks(c)
		if err != nil {
			continue
		}
		if real, err = filepath.Abs(real); err != nil { // links to it must not depend on where we are
			return Host{}, fmt.Errorf("ollama: %w", err)
		}
		if info, err := os.Stat(real); err == nil && info.Mode().IsRegular() {
			return inspect(real), nil
		}
	}
	return Host{}, fmt.Errorf("ollama: %w: looked at %q; install it from https://ollama.com/download or name its executable", ErrNotFound, candidates)
}

// All are the installations that lie where Ollama usually does, each once, the
// one that a shell starts first.
func All() (hosts []Host) {
	for _, place := range usualPlaces() {
		h, err := Find(place)
		if err == nil && !slices.Contains(hosts, h) {
			hosts = append(hosts, h)
		}
	}
	return hosts
}

func usualPlaces() []string {
	var places []string
	if path, err := exec.LookPath(exe("ollama")); err == nil {
		places = append(places, path)
	}
	if runtime.GOOS == "windows" {
		return append(places, filepath.Join(os.Getenv("LOCALAPPDATA"), "Programs", "Ollama", "ollama.exe"))
	}
	return append(places, "/usr/local/bin/ollama", "/usr/bin/ollama", "/opt/ollama/bin/ollama")
}

// inspect follows Ollama's own search as far as packages use it.
func inspect(executable string) Host {
	h := Host{Executable: executable}
	dir := filepath.Dir(executable)
	folders := []string{filepath.Join(dir, "..", "lib", "ollama"), filepath.Join(dir, "lib", "ollama")}
	if runtime.GOOS == "windows" {
		folders[0], folders[1] = folders[1], folders[0]
	}
	for _, folder := range folders {
		if info, err := os.Stat(folder); err != nil || !info.IsDir() {
			continue
		}
		h.Library = filepath.Clean(folder)
		break
	}
	if runner := filepath.Join(h.Library, exe("llama-server")); h.Library != "" {
		if _, err := os.Stat(runner); err == nil {
			h.Runner = runner
		}
	}
	return h
}

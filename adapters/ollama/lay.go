package ollama

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// ourNames lists the files in a layout's lib/ollama that are not links to the
// host's files of the same name.
var ourNames = []string{"llama-server", "llama-server.orig", "llama-quantize"}

// Lay creates or updates a private layout of an Ollama installation (the host) in
// dir and returns the path of its ollama executable. In the layout, bin/ollama is
// the host's executable, lib/ollama/llama-server is program, and
// lib/ollama/llama-server.orig links to the host's llama-server. Links to the
// host's other files are in the same folder. If the host has no llama-quantize,
// which `ollama create` needs, program is used in its place. Lay does not change
// the host.
func Lay(h Host, program, dir string) (string, error) {
	bin, lib := filepath.Join(dir, "bin"), filepath.Join(dir, "lib", "ollama")
	if h.Library != "" && sameFile(h.Library, lib) || sameFile(filepath.Dir(h.Executable), bin) {
		return "", fmt.Errorf("ollama: %s is the host's own folder: name another folder", dir)
	}
	for _, folder := range []string{bin, lib} {
		if err := os.MkdirAll(folder, 0o755); err != nil {
			return "", fmt.Errorf("ollama: lay out: %w", err)
		}
	}
	executable := filepath.Join(bin, exe("ollama"))
	if err := linkOrCopy(h.Executable, executable); err != nil {
		return "", fmt.Errorf("ollama: lay out: %w", err)
	}
	if err := linkOrCopy(program, filepath.Join(lib, exe("llama-server"))); err != nil {
		return "", fmt.Errorf("ollama: lay out: %w", err)
	}
	if err := linkLibrary(h, lib); err != nil {
		return "", fmt.Errorf("ollama: lay out: %w", err)
	}
	quantize := filepath.Join(lib, exe("llama-quantize"))
	if _, err := os.Stat(quantize); errors.Is(err, os.ErrNotExist) {
		if err := linkOrCopy(program, quantize); err != nil {
			return "", fmt.Errorf("ollama: lay out: %w", err)
		}
	}
	return executable, nil
}

// linkLibrary links the host's helper programs into the folder lib. The link to the
// host's llama-server is called llama-server.orig.
func linkLibrary(h Host, lib string) error {
	if err := dropOldLinks(lib); err != nil || h.Library == "" {
		return err
	}
	entries, err := os.ReadDir(h.Library)
	if err != nil {
		return err
	}
	// If the host is itself a layout, its llama-server is our program.
	laid := slices.ContainsFunc(entries, func(e os.DirEntry) bool { return e.Name() == exe("llama-server.orig") })
	for _, e := range entries {
		name := e.Name()
		switch name {
		case exe("llama-server"):
			if laid {
				continue
			}
			name = exe("llama-server.orig")
		case exe("llama-quantize"):
			if err := os.Remove(filepath.Join(lib, name)); err != nil && !errors.Is(err, os.ErrNotExist) {
				return err
			}
		}
		if err := linkAny(filepath.Join(h.Library, e.Name()), filepath.Join(lib, name)); err != nil {
			return err
		}
	}
	return nil
}

// dropOldLinks removes the links of an earlier layout, because their targets may no
// longer exist.
func dropOldLinks(lib string) error {
	entries, err := os.ReadDir(lib)
	if err != nil {
		return err
	}
	for _, e := range entries {
		ours := false
		for _, name := range ourNames {
			ours = ours || strings.TrimSuffix(e.Name(), ".exe") == name
		}
		if e.Type()&os.ModeSymlink == 0 && !ours || e.Name() == exe("llama-server") {
			continue
		}
		if err := os.Remove(filepath.Join(lib, e.Name())); err != nil {
			return err
		}
	}
	return nil
}

// linkAny creates a symbolic link. If symbolic links are not allowed (Windows
// without developer mode), linkAny copies the file.
func linkAny(from, to string) error {
	err := os.Symlink(from, to)
	if err == nil || errors.Is(err, os.ErrExist) {
		return err
	}
	if info, statErr := os.Stat(from); statErr != nil || info.IsDir() {
		return err
	}
	return linkOrCopy(from, to)
}

func sameFile(a, b string) bool {
	x, errX := os.Stat(a)
	y, errY := os.Stat(b)
	return errX == nil && errY == nil && os.SameFile(x, y)
}

// linkOrCopy creates to as a hard link of from, or as a copy if they are on
// different file systems.
func linkOrCopy(from, to string) error {
	if sameFile(from, to) {
		return nil
	}
	if err := os.Remove(to); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if os.Link(from, to) == nil {
		return nil
	}
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o755)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	if err = errors.Join(err, out.Close()); err != nil {
		return errors.Join(err, os.Remove(to))
	}
	return nil
}

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
)

// settings are the machine's: where things lie and which chip is meant. What a
// model wants stands in its config (package config).
type settings struct {
	// library selects the device: "emulator", "float", a path, or empty for the
	// first libQnnHtp.so that is found.
	library string
	// soc is the vendor's number of the chip; 0 leaves it to the library.
	soc uint32
	// cache is the folder of compiled images; empty means none.
	cache string
	// original is the llama-server that models not selected are handed to.
	original string
}

// x86SoC is the chip that the x86-64 libraries compile for where the user names
// none: SM8650. Their own default cannot run float32 RmsNorm.
const x86SoC = 57

// readSettings reads the machine's variables.
func readSettings() (settings, error) {
	s := settings{library: os.Getenv("SDNPU_LIBRARY"), original: os.Getenv("SDNPU_ORIGINAL")}
	if runtime.GOARCH == "amd64" {
		s.soc = x86SoC
	}
	if v := os.Getenv("SDNPU_SOC"); v != "" {
		n, err := strconv.ParseUint(v, 10, 32)
		if err != nil {
			return settings{}, fmt.Errorf("SDNPU_SOC=%q is not a number such as 57 (SM8650)", v)
		}
		s.soc = uint32(n)
	}
	switch v := os.Getenv("SDNPU_CACHE"); v {
	case "off":
	case "":
		base, err := os.UserCacheDir()
		if err != nil {
			base = os.TempDir()
		}
		s.cache = filepath.Join(base, "sdnpu", "images")
	default:
		s.cache = v
	}
	return s, nil
}

// programFolders are the folders in which files may lie beside this program: as
// it was called, and as the file that it is.
func programFolders(arg0 string) []string {
	var folders []string
	if filepath.Base(arg0) != arg0 {
		folders = append(folders, filepath.Dir(arg0))
	}
	if exe, err := os.Executable(); err == nil {
		if real, err := filepath.EvalSymlinks(exe); err == nil {
			exe = real
		}
		if dir := filepath.Dir(exe); len(folders) == 0 || dir != folders[0] {
			folders = append(folders, dir)
		}
	}
	return folders
}

// findOriginal returns the llama-server that was here before us, or "".
func (s settings) findOriginal(arg0 string) (string, error) {
	if s.original != "" {
		if _, err := os.Stat(s.original); err != nil {
			return "", fmt.Errorf("SDNPU_ORIGINAL: %w", err)
		}
		return s.original, nil
	}
	name := "llama-server.orig"
	if runtime.GOOS == "windows" {
		name += ".exe"
	}
	for _, folder := range programFolders(arg0) {
		path := filepath.Join(folder, name)
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() {
			return path, nil
		}
	}
	return "", nil
}

package integration_test

import (
	"path/filepath"
	"testing"
)

// arm64 tells how this machine runs programs for 64-bit Arm: under qemu, with the cross
// compiler's C library.
func arm64(t *testing.T) foreign {
	t.Helper()
	if testing.Short() {
		t.Skip("builds the program for another system")
	}
	const remedy = "apt-get install gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user"
	return foreign{
		name:     "linux/arm64",
		compiler: tool(t, "arm64", "aarch64-linux-gnu-gcc", remedy),
		run:      []string{tool(t, "arm64", "qemu-aarch64", remedy), "-L", "/usr/aarch64-linux-gnu"},
		path:     func(p string) string { return p },
	}
}

func TestLinuxOnArm64GeneratesOnTheEmulator(t *testing.T) {
	f := arm64(t)
	program := f.goTool(t, filepath.Join(t.TempDir(), "sdnpu"), "build", "./adapters/sdnpu")
	f.writesReferences(t, program, f.emulatorLibrary(t), 96)
}

func TestLinuxOnArm64BuildsAGraphOnTheVendorsLibrary(t *testing.T) {
	arm64(t).recordsABlock(t, t.TempDir(), "libQnnSaver.so")
}

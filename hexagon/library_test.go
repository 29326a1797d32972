package hexagon

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdnpu/sdnpu/backend"
	"github.com/sdnpu/sdnpu/hexagon/emulator"
)

// soc is the chip that tests compile for: SM8650.
const soc = 57

// onEachLibrary runs a test on the emulator and on the vendor's library.
func onEachLibrary(t *testing.T, test func(t *testing.T, path string)) {
	t.Run("emulator", func(t *testing.T) { test(t, emulatorLibrary(t)) })
	t.Run("vendor", func(t *testing.T) { test(t, vendorLibrary(t)) })
}

var emulatorFolder string

// buildEmulator builds the emulator once per test run.
var buildEmulator = sync.OnceValues(func() (string, error) {
	return emulator.Build(context.Background(), emulator.Options{Dir: emulatorFolder})
})

func TestMain(m *testing.M) {
	os.Exit(func() int {
		folder, err := os.MkdirTemp("", "hexagon-test-")
		if err != nil {
			panic(err)
		}
		defer func() { _ = os.RemoveAll(folder) }()
		emulatorFolder = folder
		return m.Run()
	}())
}

func emulatorLibrary(t testing.TB) string {
	t.Helper()
	path, err := buildEmulator()
	if errors.Is(err, emulator.ErrNoCompiler) || errors.Is(err, errors.ErrUnsupported) {
		t.Skip(err)
	}
	require.NoError(t, err)
	return path
}

// required says whether SDNPU_REQUIRE names what; its absence then fails.
func required(what string) bool {
	return slices.Contains(strings.Split(os.Getenv("SDNPU_REQUIRE"), ","), what)
}

// missing skips a test, or fails it where SDNPU_REQUIRE names what is missing.
func missing(t testing.TB, what, format string, args ...any) {
	t.Helper()
	if required(what) {
		t.Fatalf(format, args...)
	}
	t.Skipf(format, args...)
}

// vendorLibrary finds the vendor's library or skips.
func vendorLibrary(t testing.TB) string {
	t.Helper()
	folder := os.Getenv("SDNPU_VENDOR")
	path := filepath.Join(folder, "onnxruntime_qnn", "libQnnHtp.so")
	if _, err := os.Stat(path); folder == "" || err != nil {
		missing(t, "vendor", "no vendor library in SDNPU_VENDOR: run make vendor")
	}
	return path
}

// openLibrary opens a library that the caller closes.
func openLibrary(t testing.TB, path string) backend.Device {
	t.Helper()
	d, err := Open(Options{Library: path, SoC: soc})
	require.NoError(t, err)
	return d
}

// openDevice opens a library that the test closes.
func openDevice(t testing.TB, path string) *Device {
	t.Helper()
	d := openLibrary(t, path).(*Device)
	t.Cleanup(func() { require.NoError(t, d.Close()) })
	return d
}

package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/sdnpu/sdnpu/adapters/qnnruntime"
	"github.com/sdnpu/sdnpu/backend"
	"github.com/sdnpu/sdnpu/backend/cpu"
	"github.com/sdnpu/sdnpu/hexagon"
	"github.com/sdnpu/sdnpu/hexagon/emulator"
)

// errNoLibrary is returned when no libQnnHtp is found.
var errNoLibrary = errors.New("no QNN library found")

// openDevice opens the device that the settings select. There is no fallback:
// the float device and the emulator run only when named.
func (s settings) openDevice(ctx context.Context, arg0 string, logger *slog.Logger) (backend.Device, error) {
	o := hexagon.Options{Library: s.library, SoC: s.soc, Sharing: s.sharing, Costs: s.costs, Logger: logger}
	var err error
	switch s.library {
	case "float":
		return cpu.New(cpu.Options{}), nil
	case "emulator":
		o.Name = s.library
		o.Library, err = buildEmulator(ctx, logger, s.building)
	case "":
		o.Library, err = s.findLibrary(arg0)
	default:
		o.Library = nearby(s.library)
	}
	if err != nil {
		return nil, err
	}
	if err := showDriver(filepath.Dir(o.Library)); err != nil {
		return nil, err
	}
	// Our own emulator needs nobody to try it out.
	if o.Sharing == hexagon.TrySharing && s.library != "emulator" && !s.compileInline {
		if o.Sharing, err = s.askSharing(ctx, o); err != nil {
			return nil, err
		}
	}
	d, err := hexagon.Open(o)
	if err != nil && s.library == "emulator" { // nothing else is meant
		return nil, err
	}
	if err != nil {
		takes := fmt.Sprintf("SDNPU_LIBRARY or --library takes emulator, float or the path of a %s", libraryName())
		if near := nearest(s.library, []string{"emulator", "float"}); near != "" {
			takes = near + " is meant? " + takes
		}
		return nil, fmt.Errorf("%w; %s", err, takes) // never a nil *Device as a Device
	}
	return d, nil
}

// nearby is the path of a file in the current folder that is named without one,
// which the system's loader would not look at; any other name stays as it is.
func nearby(name string) string {
	if info, err := os.Stat(name); filepath.Base(name) == name && err == nil && info.Mode().IsRegular() {
		return absolute(name)
	}
	return name
}

// buildEmulator compiles the emulator, or finds it compiled; begin, when set, is
// told of the former.
func buildEmulator(ctx context.Context, logger *slog.Logger, begin func()) (string, error) {
	folder, err := cacheFolder("emulator")
	if err != nil {
		return "", fmt.Errorf("%w: set XDG_CACHE_HOME to a folder of your own", err)
	}
	return emulator.Build(ctx, emulator.Options{Dir: folder, Logger: logger, Begin: begin})
}

// libraryName is the file that the vendor ships for this system.
func libraryName() string {
	if runtime.GOOS == "windows" {
		return "QnnHtp.dll"
	}
	return "libQnnHtp.so"
}

// libraryFolders are searched in this order.
func libraryFolders(arg0 string) []string {
	folders := programFolders(arg0)
	for _, f := range programFolders(arg0) {
		folders = append(folders, filepath.Join(f, "sdnpu"))
	}
	if root := os.Getenv("QNN_SDK_ROOT"); root != "" {
		folders = append(folders, filepath.Join(root, "lib", sdkTarget()))
	}
	return foldersOnce(append(folders, filepath.SplitList(os.Getenv("LD_LIBRARY_PATH"))...))
}

// foldersOnce are folders as people read them in messages, each once; what is a
// file is none: this program often stands where a folder of its name could.
func foldersOnce(folders []string) (once []string) {
	for _, f := range folders {
		f = absolute(f)
		if info, err := os.Stat(f); slices.Contains(once, f) || err == nil && !info.IsDir() {
			continue
		}
		once = append(once, f)
	}
	return once
}

// sdkTarget is the vendor's name of this system in its SDK.
func sdkTarget() string {
	switch runtime.GOOS + "/" + runtime.GOARCH {
	case "windows/arm64":
		return "aarch64-windows-msvc"
	case "android/arm64":
		return "aarch64-android"
	case "linux/arm64":
		return "aarch64-oe-linux-gcc11.2"
	}
	return "x86_64-linux-clang"
}

// driverPath is where the DSP's driver looks for the images that stubs name;
// folders are separated by semicolons on every system.
const driverPath = "ADSP_LIBRARY_PATH"

// showDriver puts a library's folder on the driver's path where it holds DSP
// images. The driver reads the variable when it is loaded, after this.
func showDriver(folder string) error {
	path := os.Getenv(driverPath)
	if !qnnruntime.SkelFolder(folder) || slices.Contains(strings.Split(path, ";"), folder) {
		return nil
	}
	if path != "" {
		folder += ";" + path
	}
	return os.Setenv(driverPath, folder)
}

// findLibrary looks among the installed runtimes, and then where libraries lie.
func (s settings) findLibrary(arg0 string) (string, error) {
	installed, folders := runtimeFolders(arg0), libraryFolders(arg0)
	for _, folder := range installed {
		if i, err := qnnruntime.Find(folder); err == nil && i.System == qnnruntime.Here().String() {
			return i.Library(), nil
		}
	}
	for _, folder := range folders {
		path := filepath.Join(folder, libraryName())
		if _, err := os.Stat(path); err == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("%w: no runtime of %v is installed in %s, and %s is in none of %s; `sdnpu runtime install` fetches it, SDNPU_LIBRARY names another, SDNPU_LIBRARY=emulator tries without an NPU",
		errNoLibrary, qnnruntime.Here(), strings.Join(installed, ", "), libraryName(), strings.Join(folders, ", "))
}

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/sdnpu/sdnpu/adapters/qnnruntime"
	"github.com/sdnpu/sdnpu/backend"
	"github.com/sdnpu/sdnpu/hexagon"
)

// dspDriver is the vendor's library that reaches the DSP, part of the system and
// of no runtime.
var dspDriver = []string{"libcdsprpc.so", "libcdsprpc.so.1"}

// driverFolders are where systems keep it.
var driverFolders = []string{
	"/vendor/lib64", "/system/vendor/lib64", "/system/lib64",
	"/usr/lib", "/usr/lib64", "/usr/lib/aarch64-linux-gnu", "/lib/aarch64-linux-gnu", "/usr/local/lib",
}

// lookAtDSP says what stands between the library and the NPU: the chip that
// graphs are compiled for, the system's driver, and the images for the DSP.
func (s settings) lookAtDSP(c *backend.Capabilities, arg0 string) []finding {
	system := runtime.GOOS + "/" + runtime.GOARCH
	findings := []finding{lookAtChip(c), lookAtWindow(c), lookAtDriver(system, driverFolders), lookAtNodes(system, "/"), s.lookAtSkels(arg0)}
	folder := s.libraryFolder(arg0)
	if folder != "" {
		findings = append(findings, lookAtVersions(folder))
	}
	if !qnnruntime.SkelFolder(folder) {
		folder = ""
	}
	return append(findings, lookAtDriverPath(folder))
}

// libraryFolder is where the library lies that models would run on, "" for those
// that are no vendor's.
func (s settings) libraryFolder(arg0 string) string {
	switch s.library {
	case "float", "emulator":
		return ""
	case "":
		path, err := s.findLibrary(arg0)
		if err != nil {
			return ""
		}
		return filepath.Dir(path)
	}
	return filepath.Dir(nearby(s.library))
}

func lookAtChip(c *backend.Capabilities) finding {
	f := finding{what: "chip", found: "not known without a device", remedy: "SDNPU_SOC names one to compile for"}
	if c == nil {
		return f
	}
	f.found, f.remedy = "none", "this device compiles for no chip"
	if chip, err := hexagon.FindChip(c.SoC); err == nil {
		f.found, f.remedy = fmt.Sprintf("%s, number %d", chip.Name, chip.SoC), "SDNPU_SOC names another"
		if chip.Arch > 0 {
			f.found = fmt.Sprintf("%s (%s), number %d, Hexagon v%d", chip.Name, chip.Market, chip.SoC, chip.Arch)
		}
	}
	return f
}

// lookAtDriver looks for libcdsprpc, which only machines with an NPU have.
func lookAtDriver(system string, folders []string) finding {
	f := finding{what: "DSP driver"}
	for _, folder := range append(filepath.SplitList(os.Getenv("LD_LIBRARY_PATH")), folders...) {
		for _, name := range dspDriver {
			if path := filepath.Join(folder, name); exists(path) {
				f.found = path
				return f
			}
		}
	}
	switch system {
	case "linux/arm64", "android/arm64":
		f.remedy = dspDriver[0] + " is in none of the system's folders: install the board's fastrpc package, or put its folder on LD_LIBRARY_PATH; without it no NPU is reached"
	default:
		f.found, f.remedy = "not looked for", system+": Windows brings it with its NPU driver, other machines have no NPU"
	}
	return f
}

// lookAtSkels lists the DSP images and stubs beside the library that models
// would run on, and says where the driver is told to look for them.
func (s settings) lookAtSkels(arg0 string) finding {
	f := finding{what: "DSP images", found: "none", remedy: "they come with the library"}
	folder := s.libraryFolder(arg0)
	if folder == "" {
		if s.library != "" {
			f.remedy = s.library + " needs none"
		}
		return f
	}
	f.remedy = ""
	skels, stubs := dspFiles(folder, "Skel.so"), dspFiles(folder, "Stub.so")
	f.found = fmt.Sprintf("in %s: images %s, stubs %s; %s=%s", folder, listed(skels), listed(stubs), driverPath, os.Getenv(driverPath))
	if lost := without(stubs, skels); qnnruntime.SkelFolder(folder) && len(lost) > 0 {
		f.remedy = "stubs without their image: " + strings.Join(lost, ", ") + "; install the runtime again"
	}
	return f
}

// dspFiles are the Hexagon versions of libQnnHtpV<version><kind> in a folder.
func dspFiles(folder, kind string) (versions []string) {
	const prefix = "libQnnHtpV"
	paths, _ := filepath.Glob(filepath.Join(folder, prefix+"*"+kind)) // a folder with a pattern in its name lists nothing
	for _, p := range paths {
		versions = append(versions, "v"+strings.TrimSuffix(strings.TrimPrefix(filepath.Base(p), prefix), kind))
	}
	return versions
}

// without are the elements of a that b lacks.
func without(a, b []string) (left []string) {
	for _, x := range a {
		if !strings.Contains(" "+strings.Join(b, " ")+" ", " "+x+" ") {
			left = append(left, x)
		}
	}
	return left
}

func listed(versions []string) string {
	if len(versions) == 0 {
		return "none"
	}
	return strings.Join(versions, " ")
}

// reportJSON prints the findings as one object and counts what is missing.
func reportJSON(w io.Writer, findings []finding) (missing int, err error) {
	type line struct {
		What   string `json:"what"`
		OK     bool   `json:"ok"`
		Found  string `json:"found"`
		Remedy string `json:"remedy"`
	}
	lines := make([]line, len(findings))
	for i, f := range findings {
		lines[i] = line{f.what, f.found != "", f.found, f.remedy}
		if f.found == "" {
			missing++
		}
	}
	return missing, json.NewEncoder(w).Encode(struct {
		Findings []line `json:"findings"`
		Missing  int    `json:"missing"`
	}{lines, missing})
}

package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/sdnpu/sdnpu/backend"
	"github.com/sdnpu/sdnpu/hexagon"
)

// tellCode prints what is known of a failure.
func tellCode(w io.Writer, code string, asJSON bool) error {
	f, err := hexagon.FindFault(code)
	if err != nil {
		return err
	}
	if asJSON {
		return json.NewEncoder(w).Encode(f)
	}
	_, err = fmt.Fprintf(w, "code    %s (%s)\ncause   %s\nto do   %s\n", f.Code, f.Name, f.Cause, f.Remedy)
	return err
}

// lookAtWindow says how much a chip takes at once: its sessions address 32 bits,
// of which the system keeps a part.
func lookAtWindow(c *backend.Capabilities) finding {
	f := finding{what: "memory window", found: "not known without a chip"}
	if c == nil {
		return f
	}
	chip, err := hexagon.FindChip(c.SoC)
	if err != nil || chip.Arch == 0 {
		return f
	}
	const sharing = 73 // the first version whose images hold equal weights once
	f.found = fmt.Sprintf("Hexagon v%d: 3.75 GB a session, of which one context should take less than 3 GB", chip.Arch)
	f.remedy = "a block's graphs of all widths hold its weights once, where they were prepared on a PC"
	if chip.Arch < sharing {
		f.remedy = "each width of a block holds weights of its own: v73 is the first that shares them"
	}
	return f
}

// deviceNodes are those through which programs reach the DSP and its memory; of
// each line one is enough.
var deviceNodes = [][]string{
	{"/dev/fastrpc-cdsp", "/dev/fastrpc-cdsp-secure", "/dev/adsprpc-smd"},
	{"/dev/dma_heap/system", "/dev/ion"},
}

// lookAtNodes says which of them can be opened below a root.
func lookAtNodes(system, root string) finding {
	f := finding{what: "NPU access"}
	if system != "linux/arm64" && system != "android/arm64" {
		f.found, f.remedy = "not looked for", system+" reaches no NPU by device files"
		return f
	}
	var opened []string
	for _, alike := range deviceNodes {
		path, err := openable(root, alike)
		switch {
		case err == nil:
			opened = append(opened, path)
		case errors.Is(err, fs.ErrPermission):
			f.remedy = fmt.Sprintf("%s may not be opened: add this user to the group that owns it (ls -l %s), or write a udev rule; in a container pass it with --device", path, path)
			return f
		default:
			f.remedy = fmt.Sprintf("none of %s is there: the kernel has no driver for it, or the container was not given it (--device)", strings.Join(alike, ", "))
			return f
		}
	}
	f.found = strings.Join(opened, ", ")
	return f
}

// openable is the first of the files that opens, else one that there is.
func openable(root string, alike []string) (path string, err error) {
	err = fs.ErrNotExist
	for _, p := range alike {
		file, failed := os.OpenFile(filepath.Join(root, p), os.O_RDWR, 0)
		if failed == nil {
			return p, file.Close()
		}
		if !errors.Is(failed, fs.ErrNotExist) {
			path, err = p, failed
		}
	}
	return path, err
}

// lookAtDriverPath says whether the DSP's driver is told of folders that are there
// and of the one with the images.
func lookAtDriverPath(images string) finding {
	f := finding{what: "DSP path", found: driverPath + " is not set", remedy: "this program sets it where images lie beside the library"}
	path := os.Getenv(driverPath)
	if path == "" {
		return f
	}
	f.found, f.remedy = driverPath+"="+path, ""
	folders := strings.Split(path, ";")
	for _, folder := range folders {
		if info, err := os.Stat(folder); err != nil || !info.IsDir() {
			f.found, f.remedy = "", fmt.Sprintf("%s=%s names %q, which is no folder: folders are separated by semicolons, not by colons", driverPath, path, folder)
			return f
		}
	}
	if images != "" && !slices.Contains(folders, images) {
		f.remedy = images + " is put before it when the library there is opened"
	}
	return f
}

// buildVersion is what the vendor's libraries, stubs and images carry.
var buildVersion = regexp.MustCompile(`^v[0-9]+\.[0-9]+\.[0-9]+\.[0-9]{6,}`)

// versionOf is the first build that a file names, "" for none.
func versionOf(path string) string {
	data, err := os.ReadFile(path)
	for err == nil {
		i := bytes.Index(data, []byte("v2."))
		if i < 0 {
			break
		}
		data = data[i:]
		if v := buildVersion.Find(data[:min(len(data), 64)]); v != nil {
			return string(v)
		}
		data = data[1:]
	}
	return ""
}

// lookAtVersions compares the builds of the library in a folder with those of its
// stubs and images: the driver refuses others with a number that says nothing.
func lookAtVersions(folder string) finding {
	f := finding{what: "DSP versions", found: "no images to compare"}
	library := filepath.Join(folder, libraryName())
	want := versionOf(library)
	paths, _ := filepath.Glob(filepath.Join(folder, "*QnnHtpV*S*")) // stubs and skels of every system
	var other []string
	same := 0
	for _, p := range paths {
		switch v := versionOf(p); {
		case v == "" || want == "":
		case v != want:
			other = append(other, fmt.Sprintf("%s is %s", filepath.Base(p), v))
		default:
			same++
		}
	}
	if same+len(other) > 0 {
		f.found = fmt.Sprintf("library, stubs and images are %s", want)
	}
	if len(other) > 0 {
		f.found, f.remedy = "", fmt.Sprintf("%s is %s, but %s: install the runtime again, whole and into one folder", filepath.Base(library), want, strings.Join(other, ", "))
	}
	return f
}

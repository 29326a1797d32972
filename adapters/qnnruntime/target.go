package qnnruntime

import (
	"fmt"
	"runtime"
	"strings"
)

// Target is a system that a runtime is for, in Go's words.
type Target struct{ OS, Arch string }

// Here is the system that this program runs on.
func Here() Target { return Target{runtime.GOOS, runtime.GOARCH} }

// targets are the systems that the vendor makes wheels for: how the platform of
// a wheel's name begins and ends, and what the main library is called.
var targets = map[Target]struct{ begins, ends, library string }{
	{"linux", "amd64"}:   {"manylinux", "x86_64", "libQnnHtp.so"},
	{"linux", "arm64"}:   {"manylinux", "aarch64", "libQnnHtp.so"},
	{"windows", "amd64"}: {"win", "amd64", "QnnHtp.dll"},
	{"windows", "arm64"}: {"win", "arm64", "QnnHtp.dll"},
}

// ParseTarget reads "linux/arm64".
func ParseTarget(text string) (Target, error) {
	var t Target
	t.OS, t.Arch, _ = strings.Cut(text, "/")
	return t, t.check()
}

// String returns "linux/arm64".
func (t Target) String() string { return t.OS + "/" + t.Arch }

func (t Target) check() error {
	if _, ok := targets[t]; ok {
		return nil
	}
	hint := "there are wheels for linux/amd64, linux/arm64, windows/amd64 and windows/arm64"
	if t.OS == "android" {
		hint = "on Android the libraries come with the vendor's SDK: put them beside the program, or name them in SDNPU_LIBRARY"
	}
	return fmt.Errorf("%v: %w: %s", t, ErrNoWheel, hint)
}

// Library is the file name of the runtime's main library.
func (t Target) Library() string { return targets[t].library }

// accepts reports whether a wheel's platform tag, which may be several joined by
// dots, is this system's.
func (t Target) accepts(platform string) bool {
	want, ok := targets[t]
	for tag := range strings.SplitSeq(platform, ".") {
		if ok && strings.HasPrefix(tag, want.begins) && strings.HasSuffix(tag, "_"+want.ends) {
			return true
		}
	}
	return false
}

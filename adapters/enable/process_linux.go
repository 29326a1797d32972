package enable

import (
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// FindProcess finds the process that listens at an address of this machine. FindProcess
// finds processes of other users only if the user is root. FindProcess does not find
// processes in another network namespace, such as a container.
func FindProcess(u *url.URL) (p Process, found bool) {
	port, err := strconv.Atoi(u.Port())
	ip := net.ParseIP(u.Hostname())
	if err != nil || u.Hostname() != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return p, false
	}
	sockets := listening(port)
	if len(sockets) == 0 {
		return p, false
	}
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return p, false
	}
	for _, e := range entries {
		dir := filepath.Join("/proc", e.Name())
		if _, err := strconv.Atoi(e.Name()); err == nil && holds(dir, sockets) {
			return inspect(dir)
		}
	}
	return p, false
}

// listening returns the sockets that listen at a port, in the form that the links in
// /proc/PID/fd have.
func listening(port int) (sockets []string) {
	const listens = "0A" // the kernel's state TCP_LISTEN has the number 0A
	for _, table := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		text, err := os.ReadFile(table)
		if err != nil {
			continue
		}
		for l := range strings.Lines(string(text)) {
			f := strings.Fields(l)
			if len(f) > 9 && f[3] == listens && strings.HasSuffix(f[1], fmt.Sprintf(":%04X", port)) {
				sockets = append(sockets, "socket:["+f[9]+"]")
			}
		}
	}
	return sockets
}

// The method `holds` reports whether a process has one of the given sockets open.
func holds(dir string, sockets []string) bool {
	entries, err := os.ReadDir(filepath.Join(dir, "fd"))
	if err != nil { // the process belongs to another user, or has ended
		return false
	}
	return slices.ContainsFunc(entries, func(e os.DirEntry) bool {
		to, err := os.Readlink(filepath.Join(dir, "fd", e.Name()))
		return err == nil && slices.Contains(sockets, to)
	})
}

// inspect returns the description of a process that /proc contains.
func inspect(dir string) (p Process, found bool) {
	executable, err := os.Readlink(filepath.Join(dir, "exe"))
	if err != nil {
		return p, false
	}
	p.Executable, p.Deleted = strings.CutSuffix(executable, " (deleted)")
	if info, err := os.Stat(dir); err == nil {
		if s, ok := info.Sys().(*syscall.Stat_t); ok {
			p.Own = int(s.Uid) == os.Getuid()
		}
	}
	if text, err := os.ReadFile(filepath.Join(dir, "environ")); err == nil {
		p.Environment = slices.DeleteFunc(strings.Split(string(text), "\x00"), func(v string) bool { return v == "" })
	}
	return p, true
}

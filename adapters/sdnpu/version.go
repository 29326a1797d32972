package main

import "runtime/debug"

// version is the module's, or the commit that a checkout was built from.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	v := info.Main.Version
	if v == "(devel)" {
		v = "devel, of a commit that the build does not name"
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" && info.Main.Version == "(devel)" {
			v = "commit " + s.Value
		}
	}
	return v
}

package main

import "runtime/debug"

// version is the module's, or the commit that a checkout was built from.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	v := info.Main.Version
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" && v == "(devel)" {
			v = "commit " + s.Value
		}
	}
	return v
}

package cmdline

import "runtime/debug"

// Version returns the version of the module, or the commit of a checkout.
func Version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	return versionOfBuild(info)
}

// versionOfBuild returns the version of a build. It marks a checkout with uncommitted changes.
func versionOfBuild(info *debug.BuildInfo) string {
	v, commit, dirty := info.Main.Version, "", ""
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			commit = "commit " + s.Value
		case s.Key == "vcs.modified" && s.Value == "true":
			dirty = ", with changes"
		}
	}
	switch {
	case v != "" && v != "(devel)":
		return v // its suffix +dirty means changes
	case commit != "":
		return commit + dirty
	}
	return "devel (unknown commit)"
}

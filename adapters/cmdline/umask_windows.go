package cmdline

// protectNewFiles does nothing: on Windows new files inherit the permissions of
// their folder.
func protectNewFiles() {}

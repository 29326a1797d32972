//go:build unix && !linux

package trust

// hasAccessList is always false: lists of these systems do not show in the group's
// permission.
func hasAccessList(string) bool { return false }

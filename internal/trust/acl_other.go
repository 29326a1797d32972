//go:build unix && !linux

package trust

// hasAccessList returns false, because on these systems an access control list does not
// show in the group's permission.
func hasAccessList(string) bool { return false }

//go:build unix && !linux

package trust

// hasAccessList returns false on systems on which an access control list does not change
// the permission bits of the group.
func hasAccessList(string) bool { return false }

package trust

import "golang.org/x/sys/unix"

// hasAccessList reports whether a file or folder has an access control list.
func hasAccessList(path string) bool {
	size, err := unix.Lgetxattr(path, "system.posix_acl_access", nil)
	return err == nil && size > 0
}

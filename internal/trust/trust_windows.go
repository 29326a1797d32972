package trust

import (
	"fmt"
	"path/filepath"

	"golang.org/x/sys/windows"
)

// trustedInstaller owns the files of Windows itself.
const trustedInstaller = "S-1-5-80-956008885-3418522649-1831038044-1853292631-2271478464"

// Check returns nil if the owner of the file or folder at a path, and the owner of its
// folder, are trusted. If an owner is not trusted, Check returns [ErrUntrusted], which
// names the owner and the remedy. If nothing is at the path, Check returns
// [fs.ErrNotExist].
func Check(path string) error {
	real, err := filepath.EvalSymlinks(path)
	if err == nil {
		real, err = filepath.Abs(real)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	for _, entry := range []string{real, filepath.Dir(real)} {
		if err := checkOwner(entry); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
	}
	return nil
}

func checkOwner(path string) error {
	descriptor, err := windows.GetNamedSecurityInfo(path, windows.SE_FILE_OBJECT, windows.OWNER_SECURITY_INFORMATION)
	if err != nil {
		return err
	}
	owner, _, err := descriptor.Owner()
	if err != nil {
		return err
	}
	me, err := windows.GetCurrentProcessToken().GetTokenUser()
	if err != nil {
		return err
	}
	if owner.Equals(me.User.Sid) || owner.String() == trustedInstaller ||
		owner.IsWellKnown(windows.WinBuiltinAdministratorsSid) || owner.IsWellKnown(windows.WinLocalSystemSid) {
		return nil
	}
	return fmt.Errorf("%w: %s belongs to %s, want you, the Administrators or SYSTEM: move it to a folder of your own", ErrUntrusted, path, accountOf(owner))
}

// accountOf returns the name of a Windows account, or its number.
func accountOf(sid *windows.SID) string {
	if name, domain, _, err := sid.LookupAccount(""); err == nil {
		return domain + `\` + name
	}
	return sid.String()
}

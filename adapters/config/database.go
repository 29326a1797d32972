package config

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
)

const databaseKey = Prefix + "db"

// The constants below are values of SDNPU_DB that do not name folders.
const (
	databaseOff   = "off"   // databaseOff means that there is no database on disk, even if a model asks for one
	databaseAllow = "allow" // databaseAllow permits models to name a database in sdnpu's own folder
)

// maxDatabaseName limits the length in bytes of a database's name.
const maxDatabaseName = 64

// setDatabase sets the token database to what the user gave: a folder, off or
// allow.
func setDatabase(c *Config, v string) error {
	switch v {
	case databaseAllow:
		c.Database, c.databaseAllowed = "", true
		return nil
	case "", databaseOff:
		c.Database, c.DatabaseName, c.databaseAllowed = "", "", false
		return nil
	}
	folder, err := parseFolder(v)
	if err != nil {
		return err
	}
	c.Database, c.DatabaseName, c.databaseAllowed = folder, "", false
	return nil
}

// parseFolder accepts an absolute path, or a path that starts with "~/" for the
// user's home folder. A relative path is rejected, because it would depend on the
// folder in which the program is started.
func parseFolder(v string) (string, error) {
	if !filepath.IsAbs(v) && !strings.HasPrefix(v, "~/") || strings.ContainsRune(v, 0) {
		return "", errors.New("want an absolute path, one that starts with ~/, allow or off")
	}
	return v, nil
}

// setDatabaseName sets the name of the database for which a model asks.
// limitDatabaseName must have accepted the name.
func setDatabaseName(c *Config, v string) error {
	if v == databaseOff {
		v = ""
	}
	c.DatabaseName = v
	return nil
}

// limitDatabaseName accepts only a plain name from a model. The name of a database
// becomes a folder inside the folder of sdnpu's databases.
func limitDatabaseName(v string) error {
	switch {
	case v == "" || v == databaseOff:
		return nil
	case len(v) > maxDatabaseName || strings.Trim(v, "abcdefghijklmnopqrstuvwxyz0123456789-") != "":
		return fmt.Errorf("a model may not name a folder, only a plain name of at most %d letters a-z, digits and hyphens: "+
			"to keep answers on disk, set SDNPU_DB to a folder of your own", maxDatabaseName)
	case v == databaseAllow || slices.Contains(deviceNames, strings.TrimRight(v, "0123456789")):
		return errReserved
	}
	return nil
}

// deviceNames lists the beginnings of the names of Windows' devices, which cannot be
// names of folders.
var deviceNames = []string{"aux", "com", "con", "lpt", "nul", "prn"}

// permits reports whether a value that the user gave permits the database for which a
// model asked. If the user permits a model's database, Config.Origin still names the
// model as the source of the setting.
func (c *Config) permits(k Key, value string) bool {
	return k.Name == databaseKey && value == databaseAllow && c.DatabaseName != ""
}

// settleDatabase drops the database name that a model gave, unless the user permits
// it.
func (c *Config) settleDatabase() {
	if c.DatabaseName == "" {
		return
	}
	if !c.databaseAllowed {
		c.note("%s = %s in %s is ignored: a model keeps answers on disk only with your permission: "+
			"set SDNPU_DB=allow to permit it, or SDNPU_DB=off to silence this line", databaseKey, c.DatabaseName, c.Origin[databaseKey])
		c.DatabaseName = ""
	}
}

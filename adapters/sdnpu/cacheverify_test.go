package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdnpu/sdnpu/backend/imagecache"
)

func TestCacheVerifyFailsIfItCannotRemoveDamage(t *testing.T) {
	dir := useCache(t)
	compileInto(t, story)
	place := filepath.Join(dir, cacheJSON(t, "list")[0].Key+".image")
	require.NoError(t, os.Remove(place))
	require.NoError(t, os.MkdirAll(filepath.Join(place, "more"), 0o700))
	_, err := sdnpu(t, "cache", "verify")
	require.ErrorContains(t, err, "--fix removes them now")
	out, err := sdnpu(t, "cache", "verify", "--fix")
	require.ErrorContains(t, err, "1 of 1 damaged images could not be removed")
	require.ErrorContains(t, err, place+": ")
	require.Contains(t, out, ", cannot be removed: ")
	require.NoError(t, os.Remove(filepath.Join(place, "more")))
	_, err = sdnpu(t, "cache", "verify", "--fix")
	require.NoError(t, err)
	require.NoDirExists(t, place)
}

// The test constructs the result, because root can read every file.
func TestUnreadableImagesAreNotCalledDamaged(t *testing.T) {
	refused := &fs.PathError{Op: "open", Path: "/images/a.image", Err: fs.ErrPermission}
	for _, fix := range []bool{false, true} {
		var v verified
		i := imagecache.Info{Path: refused.Path, Damage: refused, Unread: true}
		if fix {
			i.Kept = refused
		}
		require.NoError(t, v.add(i))
		require.Equal(t, "1 image, 0 damaged, 1 cannot be read", v.summary())
		require.EqualError(t, v.verdict(fix), "cache verify: 1 of 1 images cannot be read and are kept, because they may be valid: "+
			"allow this user to read them\n  /images/a.image: permission denied")
	}
}

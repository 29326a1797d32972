package signing

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
)

// privateFolder returns a folder that only this user can write.
func privateFolder(t testing.TB) string {
	dir := t.TempDir()
	require.NoError(t, os.Chmod(dir, 0o700))
	return dir
}

func newKey(t testing.TB) (PrivateKey, string) {
	path := filepath.Join(privateFolder(t), "key.pem")
	public, err := NewKey(path)
	require.NoError(t, err)
	key, err := ReadPrivateKey(path)
	require.NoError(t, err)
	require.Equal(t, public, key.Public())
	return key, path
}

// TestOnlyTheSignedContentIsAccepted flips each bit of the content and of the
// signature, one at a time, and requires that Verify fails.
func TestOnlyTheSignedContentIsAccepted(t *testing.T) {
	key, _ := newKey(t)
	other, _ := newKey(t)
	accepted := []PublicKey{other.Public(), key.Public()}
	content := []byte("a manifest\n")
	signature := key.Sign("images", content)
	by, err := Verify(accepted, "images", content, signature)
	require.NoError(t, err)
	require.Equal(t, key.Public(), by)
	_, err = Verify(accepted[:1], "images", content, signature)
	require.ErrorIs(t, err, ErrUnknownKey)
	require.ErrorIs(t, err, ErrSignature)
	for _, purpose := range []string{"", "image", "models"} {
		_, err = Verify(accepted, purpose, content, signature)
		require.ErrorIs(t, err, ErrSignature, purpose)
	}
	for _, original := range [][]byte{content, signature} {
		for i := range 8 * len(original) {
			changed := bytes.Clone(original)
			changed[i/8] ^= 1 << (i % 8)
			a, b := content, changed
			if &original[0] == &content[0] {
				a, b = changed, signature
			}
			if _, err := Verify(accepted, "images", a, b); err == nil {
				// the digits of a key may be written in capitals
				require.Equal(t, bytes.ToLower(signature), bytes.ToLower(b), "bit %d", i)
				require.Equal(t, content, a)
			}
		}
		for n := range original {
			a, b := content, original[:n]
			if &original[0] == &content[0] {
				a, b = original[:n], signature
			}
			_, err := Verify(accepted, "images", a, b)
			require.ErrorIs(t, err, ErrSignature, "%d bytes", n)
		}
	}
	_, err = Verify(accepted, "images", content, append(signature, '\n'))
	require.ErrorIs(t, err, ErrSignature)
	_, err = Verify(nil, "images", content, signature)
	require.ErrorIs(t, err, ErrSignature)
}

func TestPrivateKeysAreNeitherReplacedNorReadable(t *testing.T) {
	_, path := newKey(t)
	before, err := os.ReadFile(path)
	require.NoError(t, err)
	_, err = NewKey(path)
	require.ErrorIs(t, err, os.ErrExist)
	after, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, before, after)
	if runtime.GOOS != "windows" {
		info, err := os.Stat(path)
		require.NoError(t, err)
		require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
		require.NoError(t, os.Chmod(path, 0o640))
		_, err = ReadPrivateKey(path)
		require.ErrorIs(t, err, ErrKey)
	}
	for name, text := range map[string]string{
		"empty": "", "text": "no key", "public": "-----BEGIN PUBLIC KEY-----\nMCowBQYDK2VwAyEA\n-----END PUBLIC KEY-----\n",
		"broken": "-----BEGIN PRIVATE KEY-----\nMC4CAQAwBQYDK2Vw\n-----END PRIVATE KEY-----\n",
	} {
		path := filepath.Join(privateFolder(t), name)
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		_, err := ReadPrivateKey(path)
		require.ErrorIs(t, err, ErrKey, name)
	}
}

func TestKeysOfOpenSSLAreRead(t *testing.T) {
	openssl, err := exec.LookPath("openssl")
	if err != nil {
		t.Skip("no openssl")
	}
	dir := privateFolder(t)
	for algorithm, want := range map[string]error{"ed25519": nil, "x25519": ErrKey} {
		path := filepath.Join(dir, algorithm)
		out, err := exec.CommandContext(t.Context(), openssl, "genpkey", "-algorithm", algorithm, "-out", path).CombinedOutput()
		require.NoError(t, err, "%s", out)
		require.NoError(t, os.Chmod(path, 0o600))
		_, err = ReadPrivateKey(path)
		require.ErrorIs(t, err, want)
	}
}

func TestListsOfKeysAreRead(t *testing.T) {
	key, _ := newKey(t)
	other, _ := newKey(t)
	file := filepath.Join(privateFolder(t), "keys")
	require.NoError(t, os.WriteFile(file, fmt.Appendf(nil, "# a colleague\n\n  %s  \n", other.Public()), 0o600))
	keys, err := ReadKeys([]string{"", string(key.Public()), file})
	require.NoError(t, err)
	require.Equal(t, []PublicKey{key.Public(), other.Public()}, keys)
	for _, bad := range []string{"ed25519-", string(key.Public()) + "00", "ed25519-" + string(key.Public()[9:]) + "x", filepath.Join(file, "none"), filepath.Dir(file)} {
		_, err := ReadKeys([]string{bad})
		require.ErrorIs(t, err, ErrKey, bad)
	}
	require.NoError(t, os.WriteFile(file, []byte("not a key\n"), 0o600))
	_, err = ReadKeys([]string{file})
	require.ErrorIs(t, err, ErrKey)
	if runtime.GOOS != "windows" {
		require.NoError(t, os.WriteFile(file, []byte(key.Public()), 0o600))
		require.NoError(t, os.Chmod(file, 0o666))
		_, err = ReadKeys([]string{file})
		require.ErrorIs(t, err, ErrKey, "other users could add keys")
	}
}

// FuzzVerify requires that Verify accepts no signature that the key did not make.
func FuzzVerify(f *testing.F) {
	key, _ := newKey(f)
	content := []byte("content")
	f.Add(key.Sign("images", []byte("other content")))
	f.Add(key.Sign("other", content))
	f.Add([]byte("sdnpu-signature-1\n" + string(key.Public()) + "\n\n"))
	f.Fuzz(func(t *testing.T, signature []byte) {
		_, err := Verify([]PublicKey{key.Public()}, "images", content, signature)
		require.ErrorIs(t, err, ErrSignature)
	})
}

func ExampleVerify() {
	dir, err := os.MkdirTemp("", "key")
	if err != nil {
		return
	}
	defer os.RemoveAll(dir)
	public, err := NewKey(filepath.Join(dir, "key.pem"))
	if err != nil {
		return
	}
	key, err := ReadPrivateKey(filepath.Join(dir, "key.pem"))
	if err != nil {
		fmt.Println(err)
		return
	}
	signature := key.Sign("images", []byte("content"))
	by, err := Verify([]PublicKey{public}, "images", []byte("content"), signature)
	fmt.Println(by == public, err)
	// Output: true <nil>
}

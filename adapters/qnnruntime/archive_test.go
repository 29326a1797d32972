package qnnruntime

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func open(data []byte, all bool) (*Archive, error) {
	return OpenArchive(bytes.NewReader(data), int64(len(data)), all)
}

// files lists everything below a folder with its contents.
func files(t *testing.T, folder string) map[string]string {
	t.Helper()
	found := make(map[string]string)
	require.NoError(t, filepath.WalkDir(folder, func(p string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(p)
		rel, _ := filepath.Rel(folder, p)
		found[filepath.ToSlash(rel)] = string(text)
		return err
	}))
	return found
}

func TestUnpackedWheelIsFound(t *testing.T) {
	a, err := open(wheel(t, good()), false)
	require.NoError(t, err)
	require.Equal(t, "2.7.0", a.Version)
	require.Equal(t, Target{"linux", "arm64"}, a.Target)
	licence, err := a.Licence()
	require.NoError(t, err)
	require.Equal(t, "%PDF terms", string(licence))

	folder := filepath.Join(t.TempDir(), "new", "runtime")
	var last, total int64
	installed, err := a.Unpack(folder, func(d, n int64) { last, total = d, n })
	require.NoError(t, err)
	require.Equal(t, a.SizeBytes(), last)
	require.Equal(t, last, total)
	got := files(t, folder)
	delete(got, stampFile)
	want := make(map[string]string)
	for _, e := range good() {
		if !strings.HasSuffix(e.name, ".py") && !strings.Contains(e.name, "Saver") {
			want[e.name] = e.text
		}
	}
	require.Equal(t, want, got)

	found, err := Find(folder)
	require.NoError(t, err)
	require.Equal(t, installed, found)
	require.Equal(t, []string{"v75", "v79"}, found.Arches())
	require.FileExists(t, found.Library())
	require.FileExists(t, found.Licence())
	require.Empty(t, found.Missing())
	require.True(t, SkelFolder(filepath.Dir(found.Library())))
	require.False(t, SkelFolder(folder))
	require.NoError(t, os.Remove(found.Library()))
	require.Equal(t, []string{"onnxruntime_qnn/libQnnHtp.so"}, found.Missing())
}

func TestInstallReplacesEarlierInstall(t *testing.T) {
	folder := t.TempDir()
	first, err := open(wheel(t, good()), true)
	require.NoError(t, err)
	_, err = first.Unpack(folder, nil)
	require.NoError(t, err)
	require.Contains(t, files(t, folder), "onnxruntime_qnn/libQnnSaver.so")

	windows := []entry{
		{name: "onnxruntime_qnn/QnnHtp.dll", text: pe(peARM64)},
		{name: "onnxruntime_qnn/libqnnhtpv73.cat", text: "catalogue"},
		{name: "onnxruntime_qnn/Qualcomm_LICENSE.pdf", text: "%PDF terms"},
	}
	second, err := open(wheel(t, windows), false)
	require.NoError(t, err)
	require.Equal(t, Target{"windows", "arm64"}, second.Target)
	_, err = second.Unpack(folder, nil)
	require.NoError(t, err)
	got := files(t, folder)
	require.Len(t, got, len(windows)+1, "the new files and the stamp: %q", got)

	spoilt := append(windows[:2:2], entry{name: "onnxruntime_qnn/Qualcomm_LICENSE.pdf", text: "other", sum: "sha256=AAAA"})
	third, err := open(wheel(t, spoilt), false)
	require.NoError(t, err)
	_, err = third.Unpack(folder, nil)
	require.ErrorIs(t, err, ErrChecksum)
	require.Equal(t, got, files(t, folder), "a failed install changes nothing")
}

// The wheel for Windows on x86-64 has one folder for each kind of program.
func TestWindowsAMD64LibrariesAreMovedUpOneFolder(t *testing.T) {
	a, err := open(wheel(t, []entry{
		{name: "onnxruntime_qnn/libs/amd64/QnnHtp.dll", text: pe(peAMD64)},
		{name: "onnxruntime_qnn/libs/amd64/QnnSystem.dll", text: "system"},
		{name: "onnxruntime_qnn/libs/arm64ec/QnnHtp.dll", text: pe(peARM64)},
		{name: "onnxruntime_qnn/libs/arm64ec/libQnnHtpV73Skel.so", text: "image"},
		{name: "onnxruntime_qnn/Qualcomm_LICENSE.pdf", text: "%PDF terms"},
	}), false)
	require.NoError(t, err)
	require.Equal(t, Target{"windows", "amd64"}, a.Target)
	i, err := a.Unpack(t.TempDir(), nil)
	require.NoError(t, err)
	require.Equal(t, []string{"onnxruntime_qnn/QnnHtp.dll", "onnxruntime_qnn/QnnSystem.dll", "onnxruntime_qnn/Qualcomm_LICENSE.pdf"}, i.Files)
	require.FileExists(t, i.Library())
	require.Empty(t, i.Missing())

	_, err = open(wheel(t, []entry{
		{name: "onnxruntime_qnn/libs/amd64/QnnHtp.dll", text: pe(peAMD64)},
		{name: "onnxruntime_qnn/QnnHtp.dll", text: pe(peAMD64)},
	}), false)
	require.ErrorContains(t, err, "twice", "one would take the other's place")
}

func TestInvalidWheelsAreRejected(t *testing.T) {
	with := func(e ...entry) []entry { return append(good(), e...) }
	for _, tt := range []struct {
		name    string
		entries []entry
		want    error
		says    string
	}{
		{"no library", good()[3:], ErrWheel, "no library"},
		{"a library of another machine", []entry{{name: "onnxruntime_qnn/libQnnHtp.so", text: elf(0x28)}}, ErrWheel, "no library"},
		{"a library of three bytes", []entry{{name: "onnxruntime_qnn/libQnnHtp.so", text: "MZ\x01"}}, ErrWheel, "no library"},
		{"a file twice", with(good()[0]), ErrWheel, "twice"},
		{"a link", with(entry{name: "onnxruntime_qnn/ThirdPartyNotices.txt", text: "/etc/passwd", link: true}), ErrWheel, "not a regular file"},
		{"a file without a sum", with(entry{name: "onnxruntime_qnn/LICENSE", text: "terms", sum: "-"}), ErrWheel, "RECORD"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := open(wheel(t, tt.entries), true)
			require.ErrorIs(t, err, tt.want)
			require.ErrorContains(t, err, tt.says)
		})
	}
	sound := wheel(t, good())
	for _, n := range []int{0, 10, len(sound) / 2, len(sound) - 1} {
		_, err := open(sound[:n], false)
		require.ErrorIs(t, err, ErrWheel, "cut at %d", n)
	}
}

// TestPathsCannotLeaveTheFolder checks that files whose names are not known are not unpacked,
// whatever their paths are.
func TestPathsCannotLeaveTheFolder(t *testing.T) {
	outside := []entry{
		{name: "../escaped.so", text: "x"},
		{name: "onnxruntime_qnn/../../libQnnHtp.so", text: "x"},
		{name: "onnxruntime_qnn.libs/../../escaped", text: "x"},
		{name: "onnxruntime_qnn.libs/sub/escaped", text: "x"},
		{name: "/onnxruntime_qnn/libQnnHtp.so", text: "x"},
		{name: `onnxruntime_qnn.libs\..\..\escaped`, text: "x"},
		{name: "onnxruntime_qnn/evil/libQnnHtp.so", text: "x"},
		{name: "onnxruntime_qnn/libQnnHtp.so/", text: ""},
	}
	a, err := open(wheel(t, append(good(), outside...)), false)
	require.NoError(t, err)
	parent := t.TempDir()
	folder := filepath.Join(parent, "a", "b")
	_, err = a.Unpack(folder, nil)
	require.NoError(t, err)
	for name := range files(t, parent) {
		require.True(t, strings.HasPrefix(name, "a/b/onnxruntime_qnn") || name == "a/b/"+stampFile, name)
	}
	require.Equal(t, good()[0].text, files(t, folder)["onnxruntime_qnn/libQnnHtp.so"])
}

// TestWrongSizeIsRejected patches the sizes in the zip's directory.
func TestWrongSizeIsRejected(t *testing.T) {
	data := wheel(t, good())
	// at is the offset of the library's name in the zip's directory
	at := bytes.LastIndex(data, []byte("onnxruntime_qnn/libQnnHtpV79Skel.so"))
	// sizeBefore is the distance from a file's size to its name in a directory entry
	const sizeBefore = 46 - 24
	data[at-sizeBefore+3] = 0x7f
	_, err := open(data, false)
	require.ErrorIs(t, err, ErrWheel)
	require.ErrorContains(t, err, "too large")
}

func FuzzWheel(f *testing.F) {
	f.Add([]byte("PK"))
	f.Fuzz(func(t *testing.T, data []byte) {
		a, err := open(data, true)
		if err != nil {
			return
		}
		_, _ = a.Unpack(t.TempDir(), nil) // Unpack must neither panic nor write outside its folder
	})
}

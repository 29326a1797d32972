package qnnruntime

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// entry is a file in a test wheel.
type entry struct {
	name, text string
	// sum is the checksum that RECORD gives for the file: "" stands for the correct checksum,
	// and "-" for no checksum.
	sum string
	// If link is set, the entry is a symbolic link.
	link bool
}

// elf returns the beginning of an ELF library for a machine.
func elf(machine byte) string {
	front := make([]byte, 64)
	copy(front, "\x7fELF\x02\x01\x01")
	front[18] = machine
	return string(front)
}

// pe returns the beginning of a Windows library for a machine.
func pe(machine string) string {
	front := make([]byte, 256)
	copy(front, "MZ")
	front[0x3c] = 0x80
	copy(front[0x80:], "PE\x00\x00"+machine)
	return string(front)
}

const (
	amd64 = 0x3e
	arm64 = 0xb7

	peAMD64 = "\x64\x86"
	peARM64 = "\x64\xaa"
)

// good returns the entries of a valid wheel for Linux on arm64.
func good() []entry {
	return []entry{
		{name: "onnxruntime_qnn/libQnnHtp.so", text: elf(arm64) + "library"},
		{name: "onnxruntime_qnn/libQnnHtpPrepare.so", text: elf(arm64) + "compiler"},
		{name: "onnxruntime_qnn/libQnnHtpV75Stub.so", text: elf(arm64) + "stub"},
		{name: "onnxruntime_qnn/libQnnHtpV75Skel.so", text: "image 75"},
		{name: "onnxruntime_qnn/libQnnHtpV79Skel.so", text: "image 79"},
		{name: "onnxruntime_qnn/libQnnSystem.so", text: elf(arm64)},
		{name: "onnxruntime_qnn/libQnnSaver.so", text: elf(arm64) + "saver"},
		{name: "onnxruntime_qnn/__init__.py", text: "import os"},
		{name: "onnxruntime_qnn/Qualcomm_LICENSE.pdf", text: "%PDF terms"},
		{name: "onnxruntime_qnn.libs/libc++-71bc.so.1.0", text: elf(arm64)},
	}
}

// wheel returns a zip archive of entries and their RECORD.
func wheel(t *testing.T, entries []entry) []byte {
	t.Helper()
	var out bytes.Buffer
	z := zip.NewWriter(&out)
	record := ""
	for _, e := range entries {
		h := &zip.FileHeader{Name: e.name, Method: zip.Deflate}
		h.SetMode(0o644)
		if e.link {
			h.SetMode(0o777 | 1<<27) // fs.ModeSymlink
		}
		w, err := z.CreateHeader(h)
		require.NoError(t, err)
		_, err = w.Write([]byte(e.text))
		require.NoError(t, err)
		sum := sha256.Sum256([]byte(e.text))
		said := e.sum
		if said == "" {
			said = "sha256=" + base64.RawURLEncoding.EncodeToString(sum[:])
		}
		if said != "-" {
			record += fmt.Sprintf("%s,%s,%d\n", e.name, said, len(e.text))
		}
	}
	w, err := z.Create("onnxruntime_qnn-2.7.0.dist-info/RECORD")
	require.NoError(t, err)
	_, err = w.Write([]byte(record))
	require.NoError(t, err)
	require.NoError(t, z.Close())
	return out.Bytes()
}

func sumOf(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

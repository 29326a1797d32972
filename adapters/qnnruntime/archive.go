package qnnruntime

import (
	"archive/zip"
	"crypto/sha256"
	"encoding/base64"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"
)

// Bounds of what a wheel may hold; the largest known has 260 MB in 40 files.
const (
	entryLimit    = 4096
	fileLimit     = 512 << 20
	unpackedLimit = 1 << 30
	recordLimit   = 4 << 20
)

// licenceFile is the vendor's licence, among the wheel's files.
const licenceFile = distribution + "/Qualcomm_LICENSE.pdf"

// wanted are the files that leave the wheel: the runtime, what it needs, and its
// terms. Extra are libraries that only tests and tools load.
var (
	wanted = regexp.MustCompile(`^onnxruntime_qnn/(libs/amd64/)?((lib)?QnnHtp(Prepare|V[0-9]+Stub|V[0-9]+Skel)?\.(so|dll)|(lib)?QnnSystem\.(so|dll)` +
		`|lib[a-z0-9]+v[0-9]+\.cat|LICENSE|Qualcomm_LICENSE\.pdf|ThirdPartyNotices\.txt)$|^onnxruntime_qnn\.libs/[A-Za-z0-9_+.-]+$`)
	extra = regexp.MustCompile(`^onnxruntime_qnn/(libs/amd64/)?(lib)?Qnn(Saver|Ir|Cpu)\.(so|dll)$`)
)

// place is where a file of the wheel goes. The wheel of Windows on x86-64 keeps
// its libraries in a folder below, beside those for such programs on an Arm
// machine, which runs our own Arm program instead; elsewhere names stay.
func place(name string) string { return strings.Replace(name, "/libs/amd64/", "/", 1) }

// Archive is an open wheel whose entries have been looked at. It does not own
// what it reads from.
type Archive struct {
	// Version and Target are what the wheel is.
	Version string
	Target  Target
	files   []*zip.File
	sums    map[string]string // of each file, as RECORD writes them
}

// OpenArchive reads the list of a wheel's files and refuses what is no runtime,
// or too large. With all, libraries for tests and tools are unpacked too.
func OpenArchive(r io.ReaderAt, size int64, all bool) (*Archive, error) {
	z, err := zip.NewReader(r, size)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrWheel, err)
	}
	if len(z.File) > entryLimit {
		return nil, fmt.Errorf("%w: %d files, %d at most", ErrWheel, len(z.File), entryLimit)
	}
	a := &Archive{}
	if err := a.readRecord(z); err != nil {
		return nil, err
	}
	if err := a.choose(z, all); err != nil {
		return nil, err
	}
	return a, a.recognise()
}

// readRecord reads the sums of all files, and the version out of its own path.
func (a *Archive) readRecord(z *zip.Reader) error {
	i := slices.IndexFunc(z.File, func(f *zip.File) bool {
		return strings.HasPrefix(f.Name, distribution+"-") && path.Base(f.Name) == "RECORD"
	})
	if i < 0 {
		return fmt.Errorf("%w: it has no RECORD of %s", ErrWheel, project)
	}
	text, err := contents(z.File[i], recordLimit)
	if err != nil {
		return err
	}
	rows, err := csv.NewReader(strings.NewReader(string(text))).ReadAll()
	if err != nil {
		return fmt.Errorf("%w: its RECORD: %w", ErrWheel, err)
	}
	a.sums = make(map[string]string, len(rows))
	for _, row := range rows {
		if len(row) >= 2 {
			a.sums[row[0]] = row[1]
		}
	}
	folder, _, _ := strings.Cut(z.File[i].Name, "/")
	a.Version, _ = strings.CutSuffix(strings.TrimPrefix(folder, distribution+"-"), ".dist-info")
	return nil
}

// choose picks the files to unpack.
func (a *Archive) choose(z *zip.Reader, all bool) error {
	var total uint64
	names := make(map[string]bool)
	for _, f := range z.File {
		if !wanted.MatchString(f.Name) && !(all && extra.MatchString(f.Name)) {
			continue
		}
		total += min(f.UncompressedSize64, fileLimit+1)
		switch {
		case names[place(f.Name)]:
			return fmt.Errorf("%w: %s stands in it twice", ErrWheel, f.Name)
		case !f.Mode().IsRegular():
			return fmt.Errorf("%w: %s is no plain file", ErrWheel, f.Name)
		case f.UncompressedSize64 > fileLimit || total > unpackedLimit:
			return fmt.Errorf("%w: %s has %d bytes: too large", ErrWheel, f.Name, f.UncompressedSize64)
		case a.sums[f.Name] == "":
			return fmt.Errorf("%w: %s is not in its RECORD", ErrWheel, f.Name)
		}
		names[place(f.Name)] = true
		a.files = append(a.files, f)
	}
	return nil
}

// recognise finds out which system the runtime is for: by the main library's
// name and machine.
func (a *Archive) recognise() error {
	for _, f := range a.files {
		for t, what := range targets {
			if path.Base(f.Name) != what.library {
				continue
			}
			front, err := head(f, 4096)
			if err != nil {
				return err
			}
			if machine(front) == t.Arch {
				a.Target = t
				return nil
			}
		}
	}
	return fmt.Errorf("%w: it holds no library of Linux or Windows for amd64 or arm64", ErrWheel)
}

// machine is the architecture that an ELF or PE file is for, in Go's words.
func machine(front []byte) string {
	at := func(i int) int {
		if i < 0 || i+1 >= len(front) {
			return -1
		}
		return int(front[i]) | int(front[i+1])<<8
	}
	names := map[int]string{0x3e: "amd64", 0xb7: "arm64"}
	code := at(18)
	if string(front[:min(2, len(front))]) == "MZ" {
		names = map[int]string{0x8664: "amd64", 0xaa64: "arm64"}
		code = at(at(0x3c) + 4)
	}
	return names[code]
}

// Licence is the vendor's licence, a PDF.
func (a *Archive) Licence() ([]byte, error) {
	i := slices.IndexFunc(a.files, func(f *zip.File) bool { return f.Name == licenceFile })
	if i < 0 {
		return nil, fmt.Errorf("%w: %s is missing", ErrWheel, licenceFile)
	}
	text, err := contents(a.files[i], recordLimit)
	if err != nil {
		return nil, err
	}
	return text, a.compare(licenceFile, sha256.Sum256(text))
}

// compare checks the sum of a file against the record.
func (a *Archive) compare(name string, sum [sha256.Size]byte) error {
	if got := "sha256=" + base64.RawURLEncoding.EncodeToString(sum[:]); got != a.sums[name] {
		return fmt.Errorf("%s: %w: the wheel records %s, its file has %s", name, ErrChecksum, a.sums[name], got)
	}
	return nil
}

// SizeBytes is how much is unpacked.
func (a *Archive) SizeBytes() (n int64) {
	for _, f := range a.files {
		n += int64(f.UncompressedSize64)
	}
	return n
}

// contents reads a small file whole.
func contents(f *zip.File, limit int64) ([]byte, error) {
	if f.UncompressedSize64 > uint64(limit) {
		return nil, fmt.Errorf("%w: %s has %d bytes: too large", ErrWheel, f.Name, f.UncompressedSize64)
	}
	text, err := head(f, limit+1)
	if err == nil && int64(len(text)) > limit {
		err = fmt.Errorf("%w: %s is larger than it says", ErrWheel, f.Name)
	}
	return text, err
}

// head reads the first n bytes of a file, or all.
func head(f *zip.File, n int64) (_ []byte, err error) {
	r, err := f.Open()
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrWheel, f.Name, err)
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	text, err := io.ReadAll(io.LimitReader(r, n))
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrWheel, f.Name, err)
	}
	return text, nil
}

// mode is how unpacked files can be used.
const mode fs.FileMode = 0o644

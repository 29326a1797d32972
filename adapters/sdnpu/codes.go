package main

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"strings"

	"github.com/sdnpu/sdnpu/backend/mapped"
	"github.com/sdnpu/sdnpu/backend/model"
)

// A file of codes holds the matrices that calibration rounded: the integers of
// one after the other, an index of JSON, and the length of that in 8 bytes, the
// lowest first. It lies beside its file of ranges, which names its content.

// codesSuffix takes the place of [keptFileSuffix] in the name of ranges.
const codesSuffix = ".codes"

// codesBeside is where the codes of a file of ranges are.
func codesBeside(ranges string) string {
	return strings.TrimSuffix(ranges, keptFileSuffix) + codesSuffix
}

// errCodes is returned for a file of codes that is not what its ranges name.
var errCodes = errors.New("no rounded weights of these ranges")

// codesEntry is a matrix in the index.
type codesEntry struct {
	Name   string `json:"name"`
	Offset int64  `json:"offset"`
	Size   int64  `json:"size"`
	CRC    uint32 `json:"crc32c"`
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// codesWriter writes a file of codes.
type codesWriter struct {
	w     io.Writer
	index []codesEntry
	at    int64
}

// keep appends a matrix.
func (c *codesWriter) keep(name string, codes []byte) error {
	n, err := c.w.Write(codes)
	c.index = append(c.index, codesEntry{name, c.at, int64(len(codes)), crc32.Checksum(codes, castagnoli)})
	c.at += int64(n)
	return err
}

// finish writes the index and returns what names the content.
func (c *codesWriter) finish() (id string, err error) {
	index, err := json.Marshal(c.index)
	if err != nil {
		return "", err
	}
	if _, err := c.w.Write(binary.LittleEndian.AppendUint64(index, uint64(len(index)))); err != nil {
		return "", err
	}
	return digestOf(index), nil
}

// openCodes maps a file of codes that id names. It stays mapped: images are
// compiled from it as long as the process runs.
func openCodes(path, id string) (*model.Rounded, error) {
	f, err := mapped.Open(path)
	if err != nil {
		return nil, err
	}
	r, err := readCodes(f.Bytes(), id)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", path, err), f.Close())
	}
	r.File = path
	return r, nil
}

// restoreCodes gives matrices that another process sent their codes again.
func restoreCodes(r *model.Rounded) (err error) {
	var again *model.Rounded
	if r.File == "" {
		again, err = readCodes(r.Content, r.ID)
	} else {
		again, err = openCodes(r.File, r.ID)
	}
	if err == nil {
		again.Block = r.Block
		*r = *again
	}
	return err
}

// readCodes reads the content of a file of codes.
func readCodes(data []byte, id string) (*model.Rounded, error) {
	const tail = 8
	if len(data) < tail {
		return nil, fmt.Errorf("%w: %d bytes", errCodes, len(data))
	}
	end := uint64(len(data) - tail)
	size := binary.LittleEndian.Uint64(data[end:])
	if size > end || digestOf(data[end-size:end]) != id {
		return nil, fmt.Errorf("%w: another index", errCodes)
	}
	var index []codesEntry
	if err := json.Unmarshal(data[end-size:end], &index); err != nil {
		return nil, fmt.Errorf("%w: %w", errCodes, err)
	}
	entries := make(map[string]codesEntry, len(index))
	for _, e := range index {
		if e.Offset < 0 || e.Size < 0 || e.Size > int64(end-size) || e.Offset > int64(end-size)-e.Size {
			return nil, fmt.Errorf("%w: %s lies at %d, %d bytes of %d", errCodes, e.Name, e.Offset, e.Size, len(data))
		}
		entries[e.Name] = e
	}
	codes := func(constant string) (found []byte, err error) {
		e, known := entries[constant]
		if !known {
			return nil, fmt.Errorf("%w: %s is not among them", errCodes, constant)
		}
		found = data[e.Offset:][:e.Size]
		err = mapped.Guard(func() error {
			if crc32.Checksum(found, castagnoli) != e.CRC {
				return fmt.Errorf("%w: %s is damaged: calibrate the model again", errCodes, constant)
			}
			return nil
		})
		return found, err
	}
	names := make([]string, len(index))
	for i, e := range index {
		names[i] = e.Name
	}
	return &model.Rounded{ID: id, Constants: names, Codes: codes}, nil
}

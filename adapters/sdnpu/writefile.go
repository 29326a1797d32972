package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// writeFile writes a whole file of some permissions, or none: under another name
// first, then renamed.
// It replaces regular files only: a rename would do away with a device or pipe.
func writeFile(ctx context.Context, path string, mode os.FileMode, write func(io.Writer) error) (err error) {
	f, err := createBeside(path)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, f.Close(), os.Remove(f.Name()))
		}
	}()
	if err := write(untilDone{ctx, f}); err != nil {
		return err
	}
	if err := f.Chmod(mode); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return err
	}
	return f.Close()
}

// createBeside makes the file that is to take a path's place; its errors name
// the path, which is the name that the user knows.
func createBeside(path string) (*os.File, error) {
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is no regular file (%s): name another", path, info.Mode().Type())
	}
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*")
	if reason := (*os.PathError)(nil); errors.As(err, &reason) {
		return nil, fmt.Errorf("%s cannot be written: %w", path, reason.Err)
	}
	return f, err
}

// checkWritable reports whether [writeFile] could write a path, before there is
// something to write: work of minutes would be lost. An empty path is no file.
func checkWritable(path string) error {
	if path == "" {
		return nil
	}
	f, err := createBeside(path)
	if err != nil {
		return err
	}
	return errors.Join(f.Close(), os.Remove(f.Name()))
}

// untilDone writes until its context is done: copies of models take long.
type untilDone struct {
	ctx context.Context
	w   io.Writer
}

func (u untilDone) Write(p []byte) (int, error) {
	if err := u.ctx.Err(); err != nil {
		return 0, err
	}
	return u.w.Write(p)
}

// same reports whether two paths lead to one file.
func same(a, b string) bool {
	x, errX := os.Stat(a)
	y, errY := os.Stat(b)
	return errX == nil && errY == nil && os.SameFile(x, y)
}

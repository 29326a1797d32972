package qnnruntime

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/url"
	"strings"
)

// wheelLimit bounds a wheel in bytes; the largest known has 200 MB.
const wheelLimit = 1 << 30

// Fetch writes the wheel and compares it with its sum. Progress, when set, is
// told the bytes written and the size, -1 where the server does not say it.
func (x Index) Fetch(ctx context.Context, w Wheel, to io.Writer, progress func(done, total int64)) error {
	from, err := url.Parse(w.URL)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrIndex, err)
	}
	response, err := x.get(ctx, from, "*/*")
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }() // the sum says whether it came whole
	if response.ContentLength > wheelLimit {
		return fmt.Errorf("%s: %w: %d bytes, %d at most", w.Name, ErrWheel, response.ContentLength, wheelLimit)
	}
	sum := sha256.New()
	meter := &meter{total: response.ContentLength, tell: progress}
	n, err := io.Copy(io.MultiWriter(to, sum, meter), io.LimitReader(response.Body, wheelLimit+1))
	if err != nil {
		return fmt.Errorf("fetch %s: %w", w.Name, err)
	}
	if n > wheelLimit {
		return fmt.Errorf("%s: %w: more than %d bytes", w.Name, ErrWheel, wheelLimit)
	}
	if got := hex.EncodeToString(sum.Sum(nil)); !strings.EqualFold(got, w.SHA256) {
		return fmt.Errorf("%s: %w: the index lists %s, %d bytes came with %s", w.Name, ErrChecksum, w.SHA256, n, got)
	}
	return nil
}

// meter tells how much has passed.
type meter struct {
	done, total int64
	tell        func(done, total int64)
}

func (m *meter) Write(p []byte) (int, error) {
	m.done += int64(len(p))
	if m.tell != nil {
		m.tell(m.done, m.total)
	}
	return len(p), nil
}

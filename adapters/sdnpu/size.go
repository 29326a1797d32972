package main

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/sdnpu/sdnpu/backend/imagecache"
)

// The image cache keeps this much unless SDNPU_CACHE_SIZE says otherwise: the
// smaller one counts.
const (
	defaultCacheShare = 20 // per cent of the disk
	defaultCacheSize  = 16 << 30
)

// sizeUnits are what sizes end with, the longest first.
var sizeUnits = []struct {
	name  string
	bytes float64
}{
	{"GiB", 1 << 30},
	{"MiB", 1 << 20},
	{"KiB", 1 << 10},
	{"GB", 1e9},
	{"MB", 1e6},
	{"KB", 1e3},
	{"G", 1 << 30},
	{"M", 1 << 20},
	{"K", 1 << 10},
	{"B", 1},
	{"", 1},
}

// parseSize reads "8GiB", "500 MB", "20%" of total, or "unlimited", which is 0.
func parseSize(text string, total int64) (int64, error) {
	wrong := fmt.Errorf("%q is no size such as 8GiB, 20%% or unlimited", text)
	if strings.EqualFold(text, "unlimited") {
		return 0, nil
	}
	number, share := strings.CutSuffix(text, "%")
	scale := float64(total) / 100
	if !share {
		for _, u := range sizeUnits {
			if n := len(text) - len(u.name); n >= 0 && strings.EqualFold(text[n:], u.name) {
				number, scale = text[:n], u.bytes
				break
			}
		}
	}
	v, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
	if err != nil || !(v > 0) || v*scale > math.MaxInt64/2 || share && v > 100 {
		return 0, wrong
	}
	return max(1, int64(v*scale)), nil
}

// cacheLimit is how many bytes the image cache keeps; 0 is no limit. The folder
// is there.
func (s settings) cacheLimit() (int64, error) {
	_, total, err := imagecache.Space(s.cache)
	if err != nil || total <= 0 {
		total = 100 * defaultCacheSize // a disk that does not tell its size
	}
	if s.cacheSize == "" {
		return min(total/100*defaultCacheShare, defaultCacheSize), nil
	}
	limit, err := parseSize(s.cacheSize, total)
	if err != nil {
		return 0, fmt.Errorf("SDNPU_CACHE_SIZE: %w", err)
	}
	return limit, nil
}

// bytesText is a size for people.
func bytesText(n int64) string {
	switch {
	case n >= 10<<30:
		return fmt.Sprintf("%.0f GiB", float64(n)/(1<<30))
	case n >= 1<<30:
		return fmt.Sprintf("%.1f GiB", float64(n)/(1<<30))
	case n >= 10<<20:
		return fmt.Sprintf("%.0f MiB", float64(n)/(1<<20))
	case n >= 1<<20:
		return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
	}
	return fmt.Sprintf("%.0f KiB", math.Ceil(float64(n)/(1<<10)))
}

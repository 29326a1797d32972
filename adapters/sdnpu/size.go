package main

import (
	"fmt"
	"math"

	"github.com/sdnpu/sdnpu/adapters/config"
	"github.com/sdnpu/sdnpu/backend/imagecache"
)

// The image cache keeps this much unless SDNPU_CACHE_SIZE says otherwise: the
// smaller one counts.
const (
	defaultCacheShare = 20 // per cent of the disk
	defaultCacheSize  = 16 << 30
)

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
	limit, err := config.ParseSize(s.cacheSize, total)
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

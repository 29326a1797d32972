package config

import (
	"fmt"
	"math"
	"strconv"
	"strings"
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

// leastDatabase is the smallest token database, in bytes: below it one long
// answer would not fit, and all that comes in would go again.
const leastDatabase = 1 << 20

// ParseDatabaseSize reads what a token database keeps: a size of 1MiB and more,
// or "unlimited", which is 0.
func ParseDatabaseSize(text string) (int64, error) {
	size, err := ParseSize(text, 0)
	if err == nil && size > 0 && size < leastDatabase {
		return 0, fmt.Errorf("%s is too little to keep answers: 1MiB or more wanted, or unlimited", Short(text))
	}
	return size, err
}

// ParseSize reads "8GiB", "500 MB", "20%" of total where that is known, or
// "unlimited", which is 0.
func ParseSize(text string, total int64) (int64, error) {
	wrong := fmt.Errorf("%q is no size such as 8GiB, 20%% or unlimited", Short(text))
	if total <= 0 {
		wrong = fmt.Errorf("%q is no size such as 256MiB, 8GiB or unlimited", Short(text))
	}
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
	if err != nil || !(v > 0) || v*scale > math.MaxInt64/2 || share && (v > 100 || total <= 0) {
		return 0, wrong
	}
	return max(1, int64(v*scale)), nil
}

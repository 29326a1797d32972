package config

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// shortRunes is the largest number of characters of a value that errors show in full.
const shortRunes = 80

// Short shortens a long value for an error message. The value of a key can be long
// because users sometimes pass a file's content instead of its name.
func Short(value string) string {
	n := 0
	for i := range value {
		if n++; n > shortRunes {
			return value[:i] + "…"
		}
	}
	return value
}

// Bool parses the value of a key of type "bool", which must have been checked.
func Bool(checked string) bool {
	on, _ := parseBool(checked)
	return on
}

func parseBool(v string) (bool, error) {
	switch strings.ToLower(v) {
	case "true", "1", "yes", "on":
		return true, nil
	case "false", "0", "no", "off":
		return false, nil
	}
	return false, errors.New("not a truth value: want true or false")
}

// choice returns a function that sets a field of the config to one of the allowed
// values.
func choice(field func(*Config) *string, values ...string) func(*Config, string) error {
	return func(c *Config, v string) error {
		if !slices.Contains(values, v) {
			return fmt.Errorf("want one of %s%s", strings.Join(values, ", "), suggest(v, values))
		}
		*field(c) = v
		return nil
	}
}

// parseRows parses one to four widths in strictly descending order, such as
// "128,32".
func parseRows(v string) ([]int, error) {
	var rows []int
	for part := range strings.SplitSeq(v, ",") {
		n, err := strconv.Atoi(strings.TrimSpace(part))
		if err != nil || n < 1 || n > 1024 || len(rows) == 4 || len(rows) > 0 && n >= rows[len(rows)-1] {
			return nil, errors.New("want one to four widths from 1024 to 1, widest first, such as 128,1")
		}
		rows = append(rows, n)
	}
	return rows, nil
}

func parseCount(v string) (int, error) {
	n, err := strconv.Atoi(v)
	if err != nil || n < 0 || n > 1024 {
		return 0, errors.New("want a number from 0 to 1024")
	}
	return n, nil
}

// parseKeep parses the number of tokens that a pass attends to.
func parseKeep(v string) (int, error) {
	n, err := strconv.Atoi(v)
	if err != nil || n < leastKeep || n > mostKeep || n%16 != 0 {
		return 0, fmt.Errorf("want a multiple of 16 from %d to %d", leastKeep, mostKeep)
	}
	return n, nil
}

// leastKeep and mostKeep bound the number of tokens that a pass attends to.
const leastKeep, mostKeep = 64, 1 << 20

// Dense, Shadow and Auto are the values of sdnpu.attention.
const (
	Dense  = "dense"
	Shadow = "shadow"
	Auto   = auto
)

// Ratio says how many keys the rows of a prompt attend to. A Ratio whose field Ratio is zero keeps all
// keys with [Shadow], and the published share with [Auto].
type Ratio struct {
	// Ratio is the share of the keys.
	Ratio float64
	// Floor is the least number of keys, and Sinks the number of first keys that each row keeps.
	Floor, Sinks int
}

// defaultFloor and defaultSinks are the numbers of keys that rows keep in addition to a ratio.
const defaultFloor, defaultSinks = 64, 16

// parseRatio parses a ratio such as 0.2 or 0.2,64,16.
func parseRatio(v string) (Ratio, error) {
	r, wanted := Ratio{Floor: defaultFloor, Sinks: defaultSinks}, errors.New("want auto, or a share from 0.01 to 1 that may be followed by the least number of keys and the number of first keys, such as 0.2 or 0.2,64,16")
	if v == auto {
		return r, nil
	}
	parts := strings.Split(v, ",")
	share, err := strconv.ParseFloat(parts[0], 64)
	if err != nil || !(share >= 0.01 && share <= 1) || len(parts) > 3 {
		return Ratio{}, wanted
	}
	r.Ratio = share
	for i, to := range []*int{&r.Floor, &r.Sinks} {
		if i+1 >= len(parts) {
			break
		}
		n, err := strconv.ParseUint(parts[i+1], 10, 16)
		if err != nil {
			return Ratio{}, wanted
		}
		*to = int(n)
	}
	return r, nil
}

// parseContext parses the first context tier. For "grow" parseContext returns 0,
// and for "fixed" a number that is larger than any context.
func parseContext(v string) (int, error) {
	switch v {
	case "grow":
		return 0, nil
	case "fixed":
		return math.MaxInt, nil
	}
	n, err := strconv.Atoi(v)
	if err != nil || n < 1 {
		return 0, errors.New("want grow, fixed or a number of tokens")
	}
	return n, nil
}

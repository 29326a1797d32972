package config

import (
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/sdnpu/sdnpu/backend/engine"
	"github.com/sdnpu/sdnpu/backend/engine/draft"
)

// The values of keys that switch a part of another key's choice.
const auto, on, off = "auto", "on", "off"

// Prefix is what all keys in a GGUF's metadata begin with.
const Prefix = "sdnpu."

// Key is one row of the table.
type Key struct {
	// Name is the key in a GGUF's metadata.
	Name string
	// Type is how the value is stored there: "bool", "string" or "int".
	Type string
	// Default is the value when no source sets the key.
	Default string
	// Doc is one line for people.
	Doc string
	set func(c *Config, value string) error
}

// Variable is the environment variable that overrides the key.
func (k Key) Variable() string {
	return strings.ToUpper(strings.ReplaceAll(k.Name, ".", "_"))
}

// Check reports whether the key takes the value.
func (k Key) Check(value string) error { return k.set(&Config{}, value) }

// Keys is the table of all settings that a model's config can carry; the first
// one selects the model.
var Keys = []Key{
	{
		"sdnpu.enabled", "bool", "false", "run this model on the NPU; select writes true",
		func(c *Config, v string) (err error) { c.Enabled, err = parseBool(v); return err },
	},
	{
		"sdnpu.recipe", "string", "f16", "precision recipe: weights of 16 bits (f16), of 8 (w8; w8a16 and w8a8 also multiply activations as integers of 16 and 8 bits, which sdnpu calibrate finds ranges for) or of 4 (w4a16; w4a16-lpbq also multiplies activations as integers of 16 bits); +kv8 behind one of these keeps keys and values in 8 bits; f32 for comparison",
		choice(func(c *Config) *string { return &c.Recipe }, "f16", "f32", "w8", "w8a16", "w4a16", "w4a16-lpbq", "w8a8",
			"f16+kv8", "w8+kv8", "w8a16+kv8", "w4a16+kv8", "w4a16-lpbq+kv8", "w8a8+kv8"),
	},
	{
		"sdnpu.draft", "string", "off", "sources of speculative drafts: off, default, paper, or pld, sam, cal, ext, rec, db joined by +",
		func(c *Config, v string) (err error) { c.Draft, err = draft.Parse(v); return err },
	},
	{
		"sdnpu.calibration", "string", auto, "drafts from the model's own probabilities: on (every prompt's, whatever it costs), off, or auto (if sdnpu.draft says so; prompts where it pays)",
		choice(func(c *Config) *string { return &c.Calibration }, auto, on, off),
	},
	{
		"sdnpu.extension", "string", auto, "rejected drafts that the model agreed with are drafted again: on, off, or auto (if sdnpu.draft says so)",
		choice(func(c *Config) *string { return &c.Extension }, auto, on, off),
	},
	{
		"sdnpu.db", "string", "", "folder that keeps answers for later drafts (needs db or default in sdnpu.draft); left out, they are kept in memory and end with the process",
		func(c *Config, v string) (err error) { c.Database, err = parseFolder(v); return err },
	},
	{
		"sdnpu.db_size", "string", "256MiB", "what that folder keeps: 1MiB or more, as 256MiB, 1GiB, or unlimited; the oldest answers go first",
		func(c *Config, v string) (err error) { c.DatabaseSize, err = ParseDatabaseSize(v); return err },
	},
	{
		"sdnpu.plan", "string", "both_resident", "which graphs are in the device when: both_resident (all, weights stored once where the device can), auto (what the device and the widths allow, chosen for each prompt), or " +
			strings.Join(slices.DeleteFunc(slices.Clone(engine.Plans), func(p string) bool { return p == "both_resident" || p == engine.PlanAuto }), ", ") + "; +spare or -spare behind those that exchange graphs",
		func(c *Config, v string) error { c.Plan = v; return engine.CheckPlan(v) },
	},
	{
		"sdnpu.exact", "bool", "false", "compute each token of an answer on one width, the narrowest of sdnpu.rows (32 where that is left out), whatever drafts and other requests there are, and not on the fastest; needs a sdnpu.plan that exchanges no graphs, and auto becomes one",
		func(c *Config, v string) (err error) { c.Exact, err = parseBool(v); return err },
	},
	{
		"sdnpu.rows", "string", "128,1", "widths of the graphs in rows, widest first; left out, several requests at once add their number, drafts 32 and 8",
		func(c *Config, v string) (err error) { c.Rows, err = parseRows(v); return err },
	},
	{
		"sdnpu.context", "string", "grow", "past that graphs begin with: grow (512 tokens) or a number, doubled on demand up to num_ctx; fixed (num_ctx at once)",
		func(c *Config, v string) (err error) { c.FirstContext, err = parseContext(v); return err },
	},
	{
		"sdnpu.blocks", "int", "0", "runs of layers that are compiled apart; 0 chooses",
		func(c *Config, v string) (err error) { c.Blocks, err = parseCount(v); return err },
	},
}

func find(name string) (Key, bool) {
	i := slices.IndexFunc(Keys, func(k Key) bool { return k.Name == name })
	if i < 0 {
		return Key{}, false
	}
	return Keys[i], true
}

// Find returns the key of a name, with or without the prefix.
func Find(name string) (Key, error) {
	for _, n := range []string{name, Prefix + name} {
		if k, ok := find(n); ok {
			return k, nil
		}
	}
	return Key{}, fmt.Errorf("config: %w: no key %s: known are %s", ErrSetting, Short(name), strings.Join(names(), ", "))
}

func names() []string {
	list := make([]string, len(Keys))
	for i, k := range Keys {
		list[i] = k.Name
	}
	return list
}

// Bool reads a value that a key of type "bool" has checked.
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
	return false, errors.New("true or false wanted")
}

func choice(field func(*Config) *string, values ...string) func(*Config, string) error {
	return func(c *Config, v string) error {
		if !slices.Contains(values, v) {
			return fmt.Errorf("one of %s wanted", strings.Join(values, ", "))
		}
		*field(c) = v
		return nil
	}
}

// parseRows reads "128,32": one to four widths, strictly descending.
func parseRows(v string) ([]int, error) {
	var rows []int
	for part := range strings.SplitSeq(v, ",") {
		n, err := strconv.Atoi(strings.TrimSpace(part))
		if err != nil || n < 1 || n > 1024 || len(rows) == 4 || len(rows) > 0 && n >= rows[len(rows)-1] {
			return nil, errors.New("one to four widths from 1024 to 1 wanted, widest first, as in 128,1")
		}
		rows = append(rows, n)
	}
	return rows, nil
}

func parseCount(v string) (int, error) {
	n, err := strconv.Atoi(v)
	if err != nil || n < 0 || n > 1024 {
		return 0, errors.New("a number from 0 to 1024 wanted")
	}
	return n, nil
}

// parseFolder reads a path that means the same whoever starts the program; "~/"
// stands for the user's home.
func parseFolder(v string) (string, error) {
	if v != "" && !filepath.IsAbs(v) && !strings.HasPrefix(v, "~/") || strings.ContainsRune(v, 0) {
		return "", errors.New("an absolute path wanted, or one that begins with ~/")
	}
	return v, nil
}

// parseContext reads the past that graphs begin with: zero stands for "grow",
// more than any context for "fixed".
func parseContext(v string) (int, error) {
	switch v {
	case "grow":
		return 0, nil
	case "fixed":
		return math.MaxInt, nil
	}
	n, err := strconv.Atoi(v)
	if err != nil || n < 1 {
		return 0, errors.New("grow, fixed or a number of tokens wanted")
	}
	return n, nil
}

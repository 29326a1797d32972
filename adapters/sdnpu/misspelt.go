package main

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/sdnpu/sdnpu/adapters/config"
)

// testVariables are those of our tests and builds.
var testVariables = []string{"SDNPU_BUILD", "SDNPU_DATA", "SDNPU_FULL", "SDNPU_MODELS", "SDNPU_REQUIRE", "SDNPU_SOAK", "SDNPU_UPDATE", "SDNPU_VENDOR"}

// lookAtVariables finds variables that look like ours and are none: they would
// be ignored, and their setting missed.
func lookAtVariables(names []string) []finding {
	var known []string
	for _, v := range machineVariables {
		known = append(known, v.name)
	}
	for _, k := range config.Keys {
		known = append(known, k.Variable())
	}
	var findings []finding
	for _, name := range names {
		upper := strings.ToUpper(name) // sdnpu_rows is a slip too
		if !strings.HasPrefix(upper, "SDNPU_") || slices.Contains(known, name) || slices.Contains(testVariables, name) {
			continue
		}
		remedy := "known are " + strings.Join(known, ", ")
		if near := nearest(upper, known); near != "" {
			remedy = near + " is meant? " + remedy
		}
		findings = append(findings, finding{what: "environment", remedy: name + " is not a setting and is ignored: " + remedy})
	}
	return append(findings, lookAtValues()...)
}

// lookAtValues finds variables of a model's config with values that their key
// does not take: every start would refuse them.
func lookAtValues() (findings []finding) {
	for _, k := range config.Keys {
		value := os.Getenv(k.Variable())
		if value == "" {
			continue
		}
		if err := k.Check(value); err != nil {
			findings = append(findings, finding{what: "environment", remedy: fmt.Sprintf("%s=%q: %v", k.Variable(), config.Short(value), err)})
		}
	}
	if len(findings) > 0 {
		return findings
	}
	if _, err := config.Resolve(config.Environment(os.LookupEnv)); err != nil { // what does not go together
		findings = append(findings, finding{what: "environment", remedy: err.Error()})
	}
	return findings
}

// nearest is the name that takes the fewest slips to become the given one, or
// "" when it takes more than one in three letters.
func nearest(name string, known []string) string {
	best, slips := "", len(name)/3+1
	for _, k := range known {
		if d := distance(name, k); d < slips {
			best, slips = k, d
		}
	}
	return best
}

// distance counts the letters to insert, remove, change or swap with their
// neighbour to make b of a.
func distance(a, b string) int {
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		before, last, row = last, row, before
		row[0] = i
		for j := 1; j <= len(b); j++ {
			change := 1
			if a[i-1] == b[j-1] {
				change = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+change)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
	}
	return row[len(b)]
}

// environmentNames are the names of the process's variables.
func environmentNames() []string {
	var names []string
	for _, entry := range os.Environ() {
		name, _, _ := strings.Cut(entry, "=")
		names = append(names, name)
	}
	return names
}

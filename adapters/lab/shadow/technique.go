package shadow

import (
	"fmt"
	"strings"

	"github.com/sdnpu/sdnpu/backend/model"
)

// Technique is a way to compute a whole model that a table compares with float32.
type Technique struct {
	Name, Recipe string
	// If PlainForms is set, all projections have 8 bits and no hot channels ([Plain]).
	PlainForms bool
	// If HostShadow is set, the host multiplies all outliers in float, as published.
	HostShadow bool
}

// Techniques lists the compared techniques. The first one is the reference.
var Techniques = []Technique{
	{Name: "float32", Recipe: "f32"},
	{Name: "plain W8A8", Recipe: "w8a8-shadow", PlainForms: true},
	{Name: "w8a8", Recipe: "w8a8"},
	{Name: "w8a8-shadow", Recipe: "w8a8-shadow"},
	{Name: "w8a8-shadow-f16", Recipe: "w8a8-shadow-f16"},
	{Name: "shadows on the CPU", Recipe: "w8a8-shadow", HostShadow: true},
	{Name: "w8a16", Recipe: "w8a16"},
}

// FindTechniques returns the techniques with the given names, separated by commas. The
// reference is always the first one. An empty text selects all techniques.
func FindTechniques(names string) ([]Technique, error) {
	if names == "" {
		return Techniques, nil
	}
	chosen := Techniques[:1:1]
	for name := range strings.SplitSeq(names, ",") {
		found := false
		for _, t := range Techniques {
			if t.Name != strings.TrimSpace(name) {
				continue
			}
			if found = true; t != Techniques[0] {
				chosen = append(chosen, t)
			}
		}
		if !found {
			var known []string
			for _, t := range Techniques {
				known = append(known, t.Name)
			}
			return nil, fmt.Errorf("unknown technique %.80q: want %s", name, strings.Join(known, ", "))
		}
	}
	return chosen, nil
}

// Apply changes a calibrated recipe to that of the technique.
func (t Technique) Apply(m *model.Model, r model.Recipe) (model.Recipe, error) {
	r.HostShadow = t.HostShadow
	if !t.PlainForms {
		return r, nil
	}
	var err error
	r.Ranges, err = Plain(m, r.Ranges)
	return r, err
}

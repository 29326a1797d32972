package model

import (
	"errors"
	"fmt"
	"strings"

	"github.com/sdnpu/sdnpu/backend"
)

// Recipe says in which types a graph computes.
type Recipe struct {
	// Name is how a user selects the recipe.
	Name string
	// Weights are constants, Activations everything that flows between the
	// operators, Cache the keys and values that leave and enter a block.
	Weights, Activations, Cache backend.DataType
}

// Recipes lists the known recipes, the usual one first.
var Recipes = []Recipe{
	{"f16", backend.Float16, backend.Float16, backend.Float16},
	{"f32", backend.Float32, backend.Float32, backend.Float32},
}

// FindRecipe returns the recipe of that name. An unknown name is [ErrRecipe].
func FindRecipe(name string) (Recipe, error) {
	names := make([]string, len(Recipes))
	for i, r := range Recipes {
		if names[i] = r.Name; r.Name == name {
			return r, nil
		}
	}
	return Recipe{}, fmt.Errorf("model: %w %q: known are %s", ErrRecipe, name, strings.Join(names, ", "))
}

// check refuses what the graphs of this package cannot express: they hold no
// casts, so one floating-point type runs through them.
func (r Recipe) check() error {
	if !r.Activations.Float() || r.Weights != r.Activations || r.Cache != r.Activations {
		return fmt.Errorf("model: recipe %q: weights %v, activations %v, cache %v: one floating-point type wanted: %w",
			r.Name, r.Weights, r.Activations, r.Cache, errors.ErrUnsupported)
	}
	return nil
}

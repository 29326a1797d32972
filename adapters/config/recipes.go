package config

import (
	"strings"

	"github.com/sdnpu/sdnpu/backend/model"
)

// RecipeUsage returns the help text of flags that name a recipe.
func RecipeUsage() string {
	names := make([]string, len(model.Recipes))
	for i, r := range model.Recipes {
		names[i] = r.Name
	}
	return "precision recipe: " + strings.Join(names, ", ") + "; the suffix " + model.SmallCache +
		" stores keys and values in 8 bits; sdnpu select --help explains them (default: the model's config)"
}

package config

import (
	"strings"

	"github.com/sdnpu/sdnpu/backend/model"
)

// AutoRecipe is the value of sdnpu.recipe that lets sdnpu choose the recipe.
const AutoRecipe = auto

// RecipeUsage returns the help text of flags that name a recipe.
func RecipeUsage() string {
	names := []string{AutoRecipe}
	for _, r := range model.Recipes {
		names = append(names, r.Name)
	}
	return "precision recipe: " + strings.Join(names, ", ") + "; the suffix " + model.SmallCache +
		" keeps the KV cache in 8 bits; sdnpu select --help explains the recipes (default: the model's config)"
}

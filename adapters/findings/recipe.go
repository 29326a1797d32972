package findings

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/sdnpu/sdnpu/backend/engine"
	"github.com/sdnpu/sdnpu/backend/model"
)

// RecipeRequest names a recipe to make ready for a model.
type RecipeRequest struct {
	// Name is the recipe's, such as "w8a16".
	Name  string
	Model Model
	// Logger receives warnings. Progress, if set, is called while the model is
	// calibrated.
	Logger   *slog.Logger
	Progress func(engine.Progress)
}

// Recipe returns a recipe that is ready for the model. It calibrates the model
// if necessary. A recipe that failed its gate is [ErrGate]. A recipe that was
// never checked is returned with a warning in the log.
func (s Store) Recipe(ctx context.Context, r RecipeRequest) (model.Recipe, error) {
	recipe, err := s.Calibrated(ctx, r)
	if err != nil {
		return recipe, err
	}
	if err := s.checkGate(r.Model.Digest(), recipe); err != nil {
		return model.Recipe{}, err
	}
	s.warnUnchecked(r.Logger, r.Model.Digest(), recipe)
	return recipe, nil
}

// Calibrated returns a recipe with the ranges that it needs. It reads stored
// ranges; if there are none, it calibrates the model with the default text.
func (s Store) Calibrated(ctx context.Context, r RecipeRequest) (model.Recipe, error) {
	recipe, err := model.FindRecipe(r.Name)
	if err != nil || !recipe.NeedsRanges() {
		return recipe, err
	}
	digest := r.Model.Digest()
	path := s.RangesPath(digest, recipe)
	for _, stored := range append(s.preparedRangesPaths(digest, recipe), path) {
		recipe.Ranges, err = ReadRanges(stored, digest)
		if err == nil {
			return recipe, nil
		}
		if !errors.Is(err, os.ErrNotExist) {
			r.Logger.Warn("calibrating again", "reason", err)
		}
	}
	c := Calibration{Model: r.Model, Text: CalibrationText(), Block: recipe.Multiples(), Progress: r.Progress}
	if path != "" {
		_, err := c.WriteTo(ctx, path)
		if err == nil {
			recipe.Ranges, err = ReadRanges(path, digest)
		}
		if err == nil || ctx.Err() != nil {
			return recipe, err
		}
		r.Logger.Warn("cannot keep ranges: every start calibrates", "reason", err)
	}
	recipe.Ranges, err = c.inMemory(ctx)
	return recipe, err
}

// preparedRangesPaths returns the ranges files that the prepared folders may hold.
func (s Store) preparedRangesPaths(digest string, r model.Recipe) (paths []string) {
	for _, folder := range s.Prepared {
		paths = append(paths, filepath.Join(folder, preparedRangesName(digest, r)))
	}
	return paths
}

// inMemory calibrates without a file.
func (c Calibration) inMemory(ctx context.Context) (*model.Ranges, error) {
	var codes bytes.Buffer
	f, err := c.run(ctx, &codes)
	if err != nil {
		return nil, err
	}
	ranges := &model.Ranges{Tensors: f.Tensors, Channels: f.Channels}
	if ranges.Rounded, err = readCodes(codes.Bytes(), f.Rounded); err == nil {
		ranges.Rounded.Content, ranges.Rounded.Block = codes.Bytes(), f.Block
	}
	return ranges, err
}

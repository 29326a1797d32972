package launch

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/sdnpu/sdnpu/adapters/config"
	"github.com/sdnpu/sdnpu/adapters/findings"
	"github.com/sdnpu/sdnpu/adapters/profile"
	"github.com/sdnpu/sdnpu/backend"
	"github.com/sdnpu/sdnpu/backend/engine"
	"github.com/sdnpu/sdnpu/backend/imagecache"
	"github.com/sdnpu/sdnpu/backend/model"
	"github.com/sdnpu/sdnpu/graphswap"
)

// The image cache keeps the smaller of these two unless SDNPU_CACHE_SIZE is set.
const (
	defaultCacheShare = 20 // per cent of the disk
	defaultCacheSize  = 16 << 30
)

// OpenStore opens the folder of the image cache and makes it if it is missing.
func (s Settings) OpenStore(logger *slog.Logger) (*imagecache.Store, error) {
	if err := os.MkdirAll(s.Cache, 0o700); err != nil {
		return nil, err
	}
	limit, err := s.CacheLimit()
	if err != nil {
		return nil, err
	}
	return imagecache.Open(s.Cache, imagecache.Options{Limit: limit, Prepared: s.Findings().ImageFolders(), Logger: logger})
}

// OpenCache opens the image cache for a model. It returns nil if there is none or
// if it does not open, which it logs: every start then compiles.
func (s Settings) OpenCache(logger *slog.Logger) *imagecache.Store {
	if s.Cache == "" {
		return nil
	}
	store, err := s.OpenStore(logger)
	if err != nil {
		logger.Warn("no image cache: every start compiles again", "detail", err, "remedy", "set SDNPU_CACHE to a folder that can be written, or to off")
		return nil
	}
	return store
}

// CacheLimit returns how many bytes the image cache keeps; zero means no limit.
// The folder must exist.
func (s Settings) CacheLimit() (int64, error) {
	_, total, err := imagecache.Space(s.Cache)
	if err != nil || total <= 0 {
		total = 100 * defaultCacheSize // the disk does not report its size
	}
	if s.CacheSize == "" {
		return min(total/100*defaultCacheShare, defaultCacheSize), nil
	}
	limit, err := config.ParseSize(s.CacheSize, total)
	if err != nil {
		return 0, fmt.Errorf("SDNPU_CACHE_SIZE: %w", err)
	}
	return limit, nil
}

// Profiles returns the folder of measured profiles in the image cache.
func (s Settings) Profiles() profile.Folder {
	return profile.Folder(filepath.Join(s.Cache, findings.ProfilesFolder))
}

// profileKey names the profile of a model's recipe on a device.
func (s Settings) profileKey(c backend.Capabilities, m *model.Model, recipe string, blocks, slots int) profile.Key {
	return profile.Key{
		Fingerprint: c.Fingerprint,
		Clock:       s.EmulatorPace,
		Digest:      m.Digest(),
		Recipe:      recipe,
		Blocks:      blocks,
		Slots:       slots,
	}
}

// KeepProfile stores a measured profile in the image cache, where plans look for
// it, and returns its file. c and m are the measured device and model.
func (s Settings) KeepProfile(p *graphswap.Profile, measured *engine.Measurements, c backend.Capabilities, m *model.Model, recipe string) (file string, err error) {
	key := s.profileKey(c, m, recipe, len(profile.Model(p).Blocks), measured.Slots)
	return s.Profiles().Path(key), s.Profiles().Put(key, p)
}

// useProfile gives plans the measured profile of this device and model if one is
// kept that has all widths. Without it, plans use the times of the graphs' loads
// at the start.
func (s Settings) useProfile(c backend.Capabilities, m *model.Model, o *engine.Options, logger *slog.Logger) {
	if o.Plan == "" || s.Cache == "" {
		return
	}
	rows, blocks, slots, err := o.Shape(m.Config())
	if err != nil { // the engine returns the error
		return
	}
	p, err := s.Profiles().Get(s.profileKey(c, m, o.Recipe.Name, blocks, slots))
	switch {
	case errors.Is(err, os.ErrNotExist):
		return
	case err != nil:
		logger.Warn("the measured profile cannot be read: plans use the load times of this start", "detail", err, "remedy", "measure again with sdnpu profile")
		return
	}
	for name, one := range p.Models {
		for _, b := range one.Blocks {
			for _, n := range rows {
				if _, ok := b.Widths[n]; !ok {
					logger.Info("the measured profile has no graphs of this width: plans use the load times of this start", "rows", n)
					return
				}
			}
		}
		o.Costs = &graphswap.Cost{Profile: p, Name: name, Model: one}
	}
}

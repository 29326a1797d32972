package launch

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"

	"github.com/sdnpu/sdnpu/adapters/config"
	"github.com/sdnpu/sdnpu/backend"
	"github.com/sdnpu/sdnpu/backend/cpu"
	"github.com/sdnpu/sdnpu/hexagon"
	"github.com/sdnpu/sdnpu/hexagon/emulator"
)

// OpenDevice opens the device that the settings select. It never falls back to
// another device: the float device and the emulator run only if the user names
// them. program is the name that this program was called by.
func (s Settings) OpenDevice(ctx context.Context, program string, logger *slog.Logger) (backend.Device, error) {
	if s.Library == "float" {
		return cpu.New(cpu.Options{}), nil
	}
	o := hexagon.Options{
		SoC:             s.SoC,
		ConstantSharing: s.ConstantSharing,
		Costs:           s.RecordCosts,
		Logger:          logger,
	}
	var err error
	switch s.Library {
	case "emulator":
		o.Name = s.Library
		o.Library, err = BuildEmulator(ctx, logger, s.OnEmulatorBuild)
	case "":
		o.Library, err = s.FindLibrary(program)
	default:
		o.Library = InCurrentFolder(s.Library)
	}
	if err != nil {
		return nil, err
	}
	if err := AddToDriverPath(filepath.Dir(o.Library)); err != nil {
		return nil, err
	}
	// A library of the vendor may crash when it is asked; our emulator does not.
	if o.ConstantSharing == hexagon.ConstantsAuto && s.Library != "emulator" && !s.CompileInline {
		if o.ConstantSharing, err = s.probeConstantSharing(ctx, o); err != nil {
			return nil, err
		}
	}
	d, err := hexagon.Open(o)
	if err != nil { // never return a nil *Device as a Device
		return nil, s.explainLibrary(err)
	}
	return d, nil
}

// explainLibrary adds what a library may be called, unless the user named the
// emulator.
func (s Settings) explainLibrary(err error) error {
	if s.Library == "emulator" {
		return err
	}
	takes := fmt.Sprintf("SDNPU_LIBRARY or --library takes emulator, float or the path of a %s", LibraryName())
	if near := config.Nearest(s.Library, []string{"emulator", "float"}); near != "" {
		takes = "did you mean " + near + "? " + takes
	}
	return fmt.Errorf("%w; %s", err, takes)
}

// BuildEmulator returns the path of the emulator's library. It compiles the
// emulator unless that was done before, and calls begin, if set, before it does.
func BuildEmulator(ctx context.Context, logger *slog.Logger, begin func()) (string, error) {
	folder, err := CacheFolder("emulator")
	if err != nil {
		return "", fmt.Errorf("%w: set XDG_CACHE_HOME to a folder of your own", err)
	}
	return emulator.Build(ctx, emulator.Options{Dir: folder, Logger: logger, Begin: begin})
}

package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/sdnpu/sdnpu/adapters/compile"
	"github.com/sdnpu/sdnpu/adapters/config"
	"github.com/sdnpu/sdnpu/backend"
	"github.com/sdnpu/sdnpu/backend/engine"
	"github.com/sdnpu/sdnpu/backend/gguf"
	"github.com/sdnpu/sdnpu/hexagon"
)

// compileCommand is how this program calls itself.
const compileCommand = "compile-child"

// newCompileCommand compiles one image for the process that started it.
func newCompileCommand() *cobra.Command {
	return &cobra.Command{
		Use:    compileCommand,
		Short:  "Compile one image for a server (not for people)",
		Hidden: true,
		Args:   noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			out, err := takeStdout()
			if err != nil {
				return err
			}
			return compile.Serve(cmd.Context(), os.Stdin, out, compile.Child{Open: openForCompile, Restore: restoreCodes, Orphaned: func() { os.Exit(1) }})
		},
	}
}

// openForCompile opens a library of which nothing is known but that the parent
// could open it.
func openForCompile(d compile.Device, trace func(graph, step string)) (backend.Device, error) {
	device, err := hexagon.Open(hexagon.Options{
		Library: d.Library, Name: d.Name, SoC: d.SoC, Sharing: hexagon.Sharing(d.Sharing), Trace: trace, TryLoad: true,
		Logger: newLogger(os.Stderr, true),
	})
	if err != nil {
		return nil, err // never a nil *Device as a Device
	}
	return device, nil
}

// askSharing has a child find out whether the library stores equal weights once,
// which it does by compiling and loading a tiny image. A library that does not
// survive that is an error; what else it answers is found again by whoever opens
// it here.
func (s settings) askSharing(ctx context.Context, o hexagon.Options) (hexagon.Sharing, error) {
	self, err := os.Executable()
	if err != nil {
		return o.Sharing, fmt.Errorf("this program's own file: %w", err)
	}
	shares, err := compile.Compiler{
		Program: self, Args: []string{compileCommand}, Patience: s.compilePatience, Logger: o.Logger,
		Device: compile.Device{Library: o.Library, Name: o.Name, SoC: o.SoC, Sharing: int(o.Sharing)},
	}.Shares(ctx)
	switch {
	case errors.Is(err, compile.ErrCrashed) || errors.Is(err, compile.ErrSilent) || ctx.Err() != nil:
		return o.Sharing, err
	case err != nil:
		o.Logger.Debug("a process of its own cannot ask the library", "reason", err)
		return o.Sharing, nil
	case shares:
		return hexagon.AlwaysShare, nil
	}
	return hexagon.NeverShare, nil
}

// compileElsewhere is how the engine compiles: in children, or nil for here. The
// float device is our own code and needs none.
func (s settings) compileElsewhere(device backend.Device, file *gguf.File, logger *slog.Logger, o *engine.Options) error {
	d, ok := device.(*hexagon.Device)
	if !ok || s.compileInline {
		return nil
	}
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("this program's own file: %w", err)
	}
	info, err := os.Stat(file.Path())
	if err != nil {
		return err
	}
	library := d.Options()
	o.Compile = compile.Compiler{
		Program: self, Args: []string{compileCommand},
		Device:   compile.Device{Library: library.Library, Name: library.Name, SoC: library.SoC, Sharing: int(library.Sharing)},
		Model:    compile.Model{Path: file.Path(), Digest: file.Digest(), Size: info.Size(), Modified: info.ModTime()},
		Patience: s.compilePatience, Logger: logger,
	}.Compile
	return nil
}

// readCompile reads SDNPU_COMPILE: empty, inline, or how long a library may say
// nothing while it compiles.
func (s *settings) readCompile(value string) error {
	switch value {
	case "":
		return nil
	case "inline":
		s.compileInline = true
		return nil
	}
	d, err := time.ParseDuration(value)
	if err != nil || d <= 0 {
		return fmt.Errorf("SDNPU_COMPILE=%q: inline, or a time such as 10m wanted", config.Short(value))
	}
	s.compilePatience = d
	return nil
}

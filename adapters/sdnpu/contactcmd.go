package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/sdnpu/sdnpu/adapters/contact"
	"github.com/sdnpu/sdnpu/backend"
	"github.com/sdnpu/sdnpu/backend/cpu"
	"github.com/sdnpu/sdnpu/backend/engine"
	"github.com/sdnpu/sdnpu/backend/gguf"
	"github.com/sdnpu/sdnpu/backend/model"
	"github.com/sdnpu/sdnpu/backend/tokenizer"
	"github.com/sdnpu/sdnpu/graphswap"
)

// contactRows are the widths of a first contact: those that drafts and plans
// choose among.
var contactRows = []int{128, 64, 32, 16, 8, 1}

// contactTokens bounds each text of a first contact.
const contactTokens = 200

// meet is a first contact: what fails stands in the report, and is the error.
func (f *profileFlags) meet(cmd *cobra.Command, path string) (err error) {
	ctx, stderr := cmd.Context(), cmd.ErrOrStderr()
	if f.out == "" && !f.json {
		return errors.New("--first-contact: -o names the report's file, or --json prints it")
	}
	s, err := readSettings()
	if err != nil {
		return err
	}
	if s.costs = true; f.library != "" {
		s.library = f.library
	}
	c, err := resolveConfig(path, map[string]string{"sdnpu.recipe": f.recipe, "sdnpu.rows": f.rows, "sdnpu.blocks": countText(f.blocks)})
	if err != nil {
		return err
	}
	file, err := gguf.Open(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	m, err := model.Load(file)
	if err != nil {
		return err
	}
	tok, err := tokenizer.New(file)
	if err != nil {
		return err
	}
	bar := newBar(stderr)
	defer bar.close()
	setup, err := s.contactSetup(ctx, stderr, f, job{path: path, config: c, context: f.context, sequences: 1, logger: newLogger(stderr, false), progress: bar.step}, m, tok, file)
	if err != nil {
		return err
	}
	r, failed := contact.Run(ctx, setup)
	if f.json {
		return errors.Join(failed, r.Write(cmd.OutOrStdout()))
	}
	return errors.Join(failed, r.Print(cmd.OutOrStdout()))
}

// contactSetup is what a first contact needs to know.
func (s settings) contactSetup(ctx context.Context, stderr io.Writer, f *profileFlags, j job, m *model.Model, tok *tokenizer.Tokenizer, file *gguf.File) (contact.Setup, error) {
	options, err := s.engineOptions(ctx, j, m, tok, modelName(file))
	if err != nil {
		return contact.Setup{}, err
	}
	rows := j.config.Rows
	if f.rows == "" {
		rows = contactRows
	}
	setup := contact.Setup{
		Open:    func(ctx context.Context) (backend.Device, error) { return s.openDevice(ctx, os.Args[0], j.logger) },
		Float:   func() backend.Device { return cpu.New(cpu.Options{}) },
		Prepare: func(dev backend.Device, o *engine.Options) error { return s.compileElsewhere(dev, file, j.logger, o) },
		Program: version(), Model: m, Tokenizer: tok, Options: options, About: aboutModel(j.path, m.Config(), options.Recipe.Name),
		Rows: rows, Tokens: contactTokens, Repeats: f.repeats,
		Say: func(text string) { fmt.Fprintln(stderr, text) },
		Save: func(r *contact.Report) error {
			if f.out == "" {
				return nil
			}
			return writeFile(context.WithoutCancel(ctx), f.out, 0o644, r.Write)
		},
	}
	if s.cache != "" {
		setup.Keep = func(p *graphswap.Profile, measured *engine.Measurements, c backend.Capabilities) (string, error) {
			return s.keepProfile(p, measured, c, m, options.Recipe.Name)
		}
	}
	return setup, nil
}

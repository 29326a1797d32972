package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"

	"github.com/spf13/cobra"

	"github.com/sdnpu/sdnpu/adapters/config"
	"github.com/sdnpu/sdnpu/backend"
	"github.com/sdnpu/sdnpu/backend/engine"
	"github.com/sdnpu/sdnpu/backend/gguf"
	"github.com/sdnpu/sdnpu/backend/imagecache"
	"github.com/sdnpu/sdnpu/backend/model"
	"github.com/sdnpu/sdnpu/backend/tokenizer"
	"github.com/sdnpu/sdnpu/hexagon"
	"github.com/sdnpu/sdnpu/hexagon/qnn"
)

// errNotShared is returned where an image should hold weights once and does not.
var errNotShared = errors.New("the library did not share the weights")

type prepareFlags struct {
	compileFlags
	out               string
	blocks, sequences int
	share, twin       bool
}

func newPrepareCommand() *cobra.Command {
	var f prepareFlags
	cmd := &cobra.Command{
		Use:   "prepare MODEL.gguf --soc CHIP -o DIR",
		Short: "Compile a model on a PC for a phone",
		Long: "Prepare compiles, with the vendor's library of this machine, every image that the\n" +
			"runner on the chip will ask for, and writes them with a manifest of all that decides\n" +
			"whether they are valid. A folder can hold several models, chips and recipes: prepare\n" +
			"adds to it. Copy the folder to the device and name it in SDNPU_PREPARED:\n" +
			"the runner takes what matches its library, chip, model and settings, and compiles\n" +
			"the rest.\n\n" +
			"With --share graphs of different widths hold their weights once. The x86-64 library\n" +
			"compiles such images and cannot load them; --twin adds the ones it can.",
		Example: "  sdnpu prepare model.gguf --soc sm8650 --recipe f16 --context 2048 -o prepared",
		Args:    oneArgument("MODEL.gguf"),
		RunE:    func(cmd *cobra.Command, args []string) error { return f.prepare(cmd, args[0]) },
	}
	f.register(cmd, "", rowsUsage, 0, contextUsage)
	flags := cmd.Flags()
	flags.StringVarP(&f.out, "output", "o", "", "folder to write to (required)")
	flags.IntVar(&f.blocks, "blocks", 0, blocksUsage)
	flags.IntVar(&f.sequences, "parallel", 1, "requests at once that the runner will be started with")
	flags.BoolVar(&f.share, "share", false, "hold the weights of a block's widths once")
	flags.BoolVar(&f.twin, "twin", false, "with --share: also the images that hold them apart")
	_ = cmd.MarkFlagRequired("output") // the flag is there
	return cmd
}

func (f *prepareFlags) prepare(cmd *cobra.Command, path string) error {
	chip, s, err := f.target()
	if err != nil {
		return err
	}
	s.prepared = nil
	c, err := resolveConfig(path, map[string]string{"sdnpu.recipe": f.recipe, "sdnpu.rows": f.rows, "sdnpu.blocks": countText(f.blocks)})
	if err != nil {
		return err
	}
	if f.twin && !f.share {
		return errors.New("--twin goes with --share: without it images hold their weights apart anyway")
	}
	if _, err := readEarlier(f.out); err != nil { // known before the work
		return fmt.Errorf("-o: %w", err)
	}
	p := &preparation{cmd: cmd, settings: s, flags: f, config: c, path: path}
	p.manifest.Written = "sdnpu " + version()
	p.manifest.Chip = preparedChip{chip.Name, chip.SoC, chip.Arch}
	kinds := []bool{f.share}
	if f.twin {
		kinds = append(kinds, false)
	}
	for _, share := range kinds {
		if err := p.compile(cmd.Context(), share); err != nil {
			return err
		}
	}
	if err := p.manifest.keep(cmd.Context(), f.out, p.store); err != nil {
		return err
	}
	p.say(cmd.OutOrStdout())
	return nil
}

// preparation is one run of the command.
type preparation struct {
	cmd      *cobra.Command
	settings settings
	flags    *prepareFlags
	config   config.Config
	path     string
	manifest preparedManifest
	store    *imagecache.Store // the folder
}

// compile makes the images, with weights shared or not, and looks at each.
func (p *preparation) compile(ctx context.Context, share bool) (err error) {
	logger := newLogger(p.cmd.ErrOrStderr(), false)
	s := p.settings
	s.sharing = hexagon.NeverShare
	if share {
		s.sharing = hexagon.AlwaysShare
	}
	opened, err := s.openDevice(ctx, os.Args[0], logger)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, opened.Close()) }()
	device, ok := opened.(*hexagon.Device)
	if !ok {
		return errors.New("the float device has nothing to prepare: name a QNN library")
	}
	file, err := openGGUF(p.path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	m, err := model.Load(file)
	if err != nil {
		return withModelRemedy(err)
	}
	bar := newBar(p.cmd.ErrOrStderr())
	defer bar.close()
	j := job{path: p.path, config: p.config, context: p.flags.context, sequences: p.flags.sequences, logger: logger, progress: bar.step}
	o, err := p.options(ctx, j, file, m)
	if err != nil {
		return err
	}
	if err := s.compileElsewhere(device, file, logger, &o); err != nil {
		return err
	}
	p.store = o.Cache
	list, err := engine.Prepare(ctx, device, m, o)
	if err != nil {
		return err
	}
	look, err := engine.Look(device, m, o)
	if err != nil {
		return err
	}
	p.describe(device.Capabilities(), look, preparedModel{modelName(file), filepath.Base(p.path), m.Digest()})
	return p.inspect(device, o.Cache, list, share)
}

// options are the engine's, with the folder as its cache; the ranges that the
// recipe was given go there, too.
func (p *preparation) options(ctx context.Context, j job, file *gguf.File, m *model.Model) (o engine.Options, err error) {
	tok, err := tokenizer.New(file)
	if err != nil {
		return o, err
	}
	if o, err = p.settings.engineOptions(ctx, j, m, tok, modelName(file)); err != nil {
		return o, err
	}
	if o.Cache, err = imagecache.Open(p.flags.out, imagecache.Options{Keep: true, Logger: j.logger}); err != nil {
		return o, err
	}
	if r := o.Recipe.Ranges; r != nil {
		f := rangesFile{Version: rangesVersion, Model: modelName(file), Digest: m.Digest(), Source: "sdnpu prepare", Tensors: r.Tensors, Channels: r.Channels}
		path := filepath.Join(p.flags.out, rangesName(m.Digest()+formSuffix(o.Recipe)))
		if r.Rounded != nil { // for shapes that are compiled on the device
			f.Rounded, f.Block = r.Rounded.ID, r.Rounded.Block
			if err := copyCodes(ctx, codesBeside(path), r.Rounded); err != nil {
				return o, err
			}
		}
		err = f.write(ctx, path)
	}
	return o, err
}

// describe fills the manifest but for the images.
func (p *preparation) describe(c backend.Capabilities, look engine.Preview, m preparedModel) {
	man := &p.manifest
	man.Model = m
	man.Library.Provider, man.Library.BuildID, man.Library.Fingerprint = c.Provider, c.BuildID, c.Fingerprint
	man.Recipe, man.Rows, man.Blocks, man.Contexts, man.Sequences = p.config.Recipe, look.Rows, look.Blocks, look.Contexts, p.flags.sequences
}

// inspect adds the images to the manifest.
func (p *preparation) inspect(d *hexagon.Device, store *imagecache.Store, list []engine.Prepared, share bool) error {
	man := &p.manifest
	for _, i := range list {
		image, err := inspect(d, store, i, share)
		if err != nil {
			return fmt.Errorf("%s: %w", i.Graphs, err)
		}
		man.add(image) // the twin has the same head
	}
	return nil
}

// systemLibrary is the library beside another that reads images; the emulator
// answers for it itself.
func systemLibrary(o hexagon.Options) string {
	name := "libQnnSystem.so"
	if runtime.GOOS == "windows" {
		name = "QnnSystem.dll"
	}
	if path := filepath.Join(filepath.Dir(o.Library), name); exists(path) {
		return path
	}
	return o.Library
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// inspect checks an image through the vendor's own description of it.
func inspect(d *hexagon.Device, store *imagecache.Store, i engine.Prepared, share bool) (_ preparedImage, err error) {
	entry, err := store.Get(i.Key)
	if err != nil {
		return preparedImage{}, err
	}
	defer func() { err = errors.Join(err, entry.Close()) }()
	info, err := d.Inspect(entry.Bytes(), systemLibrary(d.Options()))
	if err != nil {
		return preparedImage{}, err
	}
	p := preparedImage{
		Key: i.Key, Graphs: i.Names, Context: i.Context, Bytes: int64(len(entry.Bytes())),
		Shared: share && len(i.Names) > 1, Format: info.Blob.String(),
	}
	for _, g := range info.Graphs {
		p.SpillBytes, p.VTCMBytes = max(p.SpillBytes, g.SpillBytes), max(p.VTCMBytes, g.VTCMBytes)
		p.ConstantBytes += g.ConstantBytes
		p.SharedBytes = max(p.SharedBytes, g.SharedBytes) // the same ones in each
	}
	if p.Shared && p.SharedBytes == 0 && hasSections(info) {
		return p, fmt.Errorf("%w: %d bytes of constants in each graph", errNotShared, p.ConstantBytes)
	}
	return p, nil
}

// hasSections reports whether the description tells constants at all.
func hasSections(info *qnn.BinaryInfo) bool {
	for _, g := range info.Graphs {
		if g.ConstantBytes+g.SharedBytes > 0 {
			return true
		}
	}
	return false
}

// say sums up.
func (p *preparation) say(w io.Writer) {
	m := &p.manifest
	fmt.Fprintf(w, "%s for %s (SoC %d), %s, build %s\n", m.Model.Name, m.Chip.Name, m.Chip.SoC, m.Library.Provider, m.Library.BuildID)
	fmt.Fprintf(w, "recipe %s, rows %s, contexts %s, %d blocks: %d images, %s\n", m.Recipe, commas(m.Rows), commas(m.Contexts), m.Blocks, len(m.Images), bytesText(m.bytes()))
	for _, i := range m.Images {
		if i.SpillBytes > 0 {
			fmt.Fprintf(w, "spills: %v keeps %s outside the fast memory\n", i.Graphs, bytesText(int64(i.SpillBytes)))
		}
	}
	if p.settings.library == "emulator" {
		fmt.Fprintf(w, "written to %s; for the emulator alone, with SDNPU_PREPARED=%s: no phone loads such images\n", p.flags.out, p.flags.out)
		return
	}
	fmt.Fprintf(w, "written to %s; on the device: SDNPU_PREPARED=%s\n", p.flags.out, p.flags.out)
}

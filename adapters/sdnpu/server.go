package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/sdnpu/sdnpu/adapters/config"
	"github.com/sdnpu/sdnpu/adapters/llamaserver"
	"github.com/sdnpu/sdnpu/backend"
	"github.com/sdnpu/sdnpu/backend/engine"
	"github.com/sdnpu/sdnpu/backend/gguf"
	"github.com/sdnpu/sdnpu/backend/tokenizer"
)

// errNoOriginal is returned when a model is not ours to run and there is nobody
// to hand it to.
var errNoOriginal = errors.New("there is no original llama-server to hand it to: keep Ollama's as llama-server.orig beside this program, or set SDNPU_ORIGINAL")

// errHostEnded is why a runner ends whose host was killed hard.
var errHostEnded = errors.New("the host has ended")

// errDeviceGone is why a runner ends by itself.
var errDeviceGone = errors.New("the NPU is out of reach for this process, which ends: the next request starts another")

// serveRunner is the program under the name llama-server.
func serveRunner(ctx context.Context, argv []string) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	// First of all: a host that ends before the watch begins is not missed.
	watched := llamaserver.WatchParent(ctx, func() { cancel(errHostEnded) })

	// What is wrong with our settings is no concern of models that are not ours.
	s, unsettled := readSettings()
	args, warnings, err := llamaserver.ParseArgs(argv[1:])
	mode := llamaserver.ModeServe
	if err == nil {
		mode = args.Mode()
	}
	original, findErr := s.findOriginal(argv[0])
	if findErr != nil {
		return findErr
	}
	become := func() error {
		cancel(nil) // the original is not ours to end: its signal is taken back
		watched()
		return handOver(original, argv[1:])
	}
	switch {
	case mode != llamaserver.ModeServe && original != "":
		return become()
	case mode == llamaserver.ModeDiscover:
		return llamaserver.AnswerDiscover(ctx, os.Stderr)
	case mode == llamaserver.ModeListDevices:
		return llamaserver.AnswerListDevices(os.Stdout)
	case mode == llamaserver.ModeHelp:
		return llamaserver.AnswerHelp(os.Stdout)
	case mode == llamaserver.ModeVersion:
		return llamaserver.AnswerVersion(os.Stdout, version())
	case err != nil:
		return err
	}
	c, reason, err := selection(args)
	if err != nil {
		return err
	}
	if reason != "" {
		if original == "" {
			return fmt.Errorf("%s: %s, and %w", args.Model, reason, errNoOriginal)
		}
		return become()
	}
	if unsettled != nil {
		return unsettled
	}
	for _, slip := range lookAtVariables(environmentNames()) {
		warnings = append(warnings, slip.remedy)
	}
	return s.serve(ctx, argv[0], args, c, warnings)
}

const notSelected = "the model is not selected for the NPU (sdnpu.enabled)"

// selection reads the config of the model, its adapters and the environment.
// The reason says why the model is not ours to run; it is empty when it is.
func selection(args llamaserver.Args) (c config.Config, reason string, err error) {
	var sources []config.Source
	for i, path := range append([]string{args.Model}, args.Lora...) {
		name := "the model"
		if i > 0 {
			name = "the adapter"
		}
		source, err := fileSource(name, path)
		if err != nil {
			if !errors.Is(err, config.ErrSetting) {
				// Whether it is selected cannot be known: the original tells what
				// is wrong with the file, or can read what we cannot.
				return c, err.Error(), nil
			}
			return c, "", err
		}
		sources = append(sources, source)
	}
	sources = append(sources, config.Environment(os.LookupEnv))
	if selected, err := config.Enabled(sources...); err == nil && !selected {
		return c, notSelected, nil // whatever else is wrong
	}
	c, err = config.Resolve(sources...)
	switch {
	case err != nil:
		return c, "", err
	case !c.Enabled:
		return c, notSelected, nil
	case args.GPULayers == 0:
		return c, "num_gpu 0 asks for the CPU", nil
	}
	for _, path := range args.Lora {
		if reason = weights(path); reason != "" {
			return c, reason, nil
		}
	}
	return c, "", nil
}

// weights says that an adapter changes the model's weights, which we would
// silently leave out; it is empty for one that carries settings alone.
func weights(path string) (reason string) {
	f, err := gguf.Open(path)
	if err != nil {
		return err.Error()
	}
	defer f.Close()
	for t := range f.Tensors() {
		if !strings.HasPrefix(t.Name, config.Prefix) {
			return "the adapter " + path + " changes weights (LoRA), which the NPU path does not apply"
		}
	}
	return ""
}

func fileSource(name, path string) (config.Source, error) {
	f, err := gguf.OpenKeys(path)
	if err != nil {
		return config.Source{}, err
	}
	source, err := config.GGUF(name, f)
	return source, errors.Join(err, f.Close())
}

// serve listens at once, loads, and answers until it is killed.
func (s settings) serve(ctx context.Context, arg0 string, args llamaserver.Args, c config.Config, warnings []string) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	lines := llamaserver.NewLines(os.Stderr)
	logger := newRecordLogger(lines, hostDebugs())
	server, err := llamaserver.New(llamaserver.Options{
		Addr: net.JoinHostPort(args.Host, strconv.Itoa(args.Port)), Slots: args.Parallel, Lines: lines, Logger: logger,
		ContextShift: args.ContextShift, Keep: args.Keep,
	})
	if err != nil {
		return err
	}
	for _, w := range warnings {
		lines.Warn(w)
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(ctx) }()

	l, err := s.loadTelling(ctx, arg0, args, c, lines, logger)
	if err != nil {
		// The process ends with the reason, which Ollama shows; requests that
		// wait get it too.
		server.SetFailed(err)
		cancel(err)
		return errors.Join(err, <-served)
	}
	server.SetModel(answers{l, llamaserver.Limits{
		Context: l.engine.ContextLength(), Vocab: l.tokenizer.VocabSize(), LongestPiece: l.tokenizer.LongestPiece(),
	}, lines, cancel})
	err = <-served
	if errors.Is(context.Cause(ctx), backend.ErrGone) {
		return errDeviceGone // what is loaded went with the device
	}
	return errors.Join(err, l.Close())
}

// idleSwitch is after how long without a request graphs for the next prompt are
// loaded: longer than a program takes from an answer to its next question.
const idleSwitch = 2 * time.Second

// loadTelling loads with progress lines, so that Ollama's stall timer sees life.
func (s settings) loadTelling(ctx context.Context, arg0 string, args llamaserver.Args, c config.Config, lines *llamaserver.Lines, logger *slog.Logger) (*loaded, error) {
	loading := lines.Loading()
	defer loading.Close()
	s.building = func() { loading.Step("building the emulator, once", 0, 0) }
	l, err := s.load(ctx, arg0, job{
		path: args.Model, config: c, context: args.ContextPerSlot(), sequences: args.Parallel, logger: logger, idleSwitch: idleSwitch,
		progress: func(p engine.Progress) { loading.Step(progressText(p), p.Done, p.Total) },
	})
	if err != nil {
		return nil, err
	}
	device := l.buffers(lines)
	if device != "CPU" {
		lines.Offloaded(l.layers+1, l.layers+1)
	}
	lines.Device(l.device.Capabilities())
	return l, nil
}

// buffers tells the host what is held where, and the device's name in its words.
func (l *loaded) buffers(lines *llamaserver.Lines) (device string) {
	device, m := "HTP0", l.engine.Memory()
	if l.device.Capabilities().Lane == backend.CPU {
		device = "CPU"
	}
	lines.Buffer(device, llamaserver.ModelBuffer, m.Programs)
	lines.Buffer(device, llamaserver.KVBuffer, m.Cache)
	lines.Buffer(device, llamaserver.ComputeBuffer, m.IO)
	return device
}

func progressText(p engine.Progress) string {
	switch {
	case p.Graph == calibrating:
		return "calibrating " + p.Graph
	case p.Graph == comparing:
		return "comparing " + p.Graph
	case p.Waiting:
		return "waiting for another process that compiles " + p.Graph
	case p.Cached:
		return "loading " + p.Graph
	case p.Elapsed == 0: // whether the cache has it is not known yet
		return "preparing " + p.Graph
	}
	return "compiling " + p.Graph
}

// answers answers the server's questions with a loaded model.
type answers struct {
	*loaded
	limits llamaserver.Limits
	lines  *llamaserver.Lines
	end    context.CancelCauseFunc
}

func (m answers) Generate(ctx context.Context, r engine.Request, emit func(engine.Piece) error) (engine.Report, error) {
	report, err := m.engine.Generate(ctx, r, emit)
	if len(report.Growths) > 0 {
		m.buffers(m.lines) // the host's sums follow
	}
	if errors.Is(err, backend.ErrGone) {
		m.lines.Failure(err) // before the connection breaks: the host joins it to its message
		m.end(err)
	}
	return report, err
}

func (m answers) Encode(text string, addSpecial, parseSpecial bool) ([]int32, error) {
	return m.tokenizer.Encode(text, tokenizer.EncodeOptions{AddSpecial: addSpecial, ParseSpecial: parseSpecial})
}

func (m answers) Decode(ids []int32) string { return m.tokenizer.DecodeSpecial(ids) }

func (m answers) Limits() llamaserver.Limits { return m.limits }

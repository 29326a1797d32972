package main

import (
	"context"
	"debug/buildinfo"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/sdnpu/sdnpu/adapters/ollama"
	"github.com/sdnpu/sdnpu/backend"
)

// finding is one line of the doctor's report.
type finding struct {
	what string
	// found says what is there, empty when nothing is.
	found string
	// remedy says what to do; with found set it is a remark.
	remedy string
}

func newDoctorCommand() *cobra.Command {
	var executable string
	var f modelFlags
	var library, code string
	cmd := &cobra.Command{
		Use:   "doctor [MODEL.gguf]",
		Short: "Say what was found on this machine, what is missing and what to do; what a model costs",
		Long: "Doctor opens the device that models would run on and looks for a C compiler, the\n" +
			"cache of compiled images and Ollama, and says of each what was found or what to do.\n\n" +
			"With a model it says what the file holds and what it will take of disk and memory,\n" +
			"compiles it, loads it again out of the cache, generates a token and prints what all\n" +
			"that took, beside the budget that the emulator must keep.",
		Example: "  sdnpu doctor\n  SDNPU_LIBRARY=emulator sdnpu doctor --ollama ~/npu-ollama/bin/ollama\n  sdnpu doctor model.gguf --context 2048 --library emulator\n  sdnpu doctor --code 1007",
		Args:    upToOneArgument("MODEL.gguf"),
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := readSettings()
			if err != nil {
				return err
			}
			if library != "" {
				s.library = library
			}
			if code != "" {
				return tellCode(cmd.OutOrStdout(), code, f.json)
			}
			if len(args) == 1 {
				return s.examine(cmd, args[0], f)
			}
			if err := withoutModel(cmd); err != nil {
				return err
			}
			return s.lookAround(cmd, executable, f.json)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&executable, "ollama", "", "Ollama's executable, such as DIR/bin/ollama of a layout (default: the installed one)")
	flags.StringVar(&library, "library", "", libraryUsage)
	flags.StringVar(&code, "code", "", "say what a number of the NPU's library or driver means, such as 1007 or 0x72, and what to do")
	flags.StringVar(&f.recipe, "recipe", "", "with a model: "+recipeUsage())
	flags.StringVar(&f.rows, "rows", "", "with a model: "+rowsUsage)
	flags.IntVar(&f.context, "context", 0, "with a model: "+contextUsage)
	flags.IntVar(&f.blocks, "blocks", 0, "with a model: "+blocksUsage)
	flags.IntVar(&f.flips, "flips", 0, "with a model: tokens that are computed in passes of each width and compared (default: up to 64, fewer where they would take over 20 s)")
	flags.BoolVar(&f.json, "json", false, "print one JSON object")
	flags.BoolVar(&f.fresh, "fresh", false, "with a model: compile anew into a folder that is removed again")
	flags.BoolVar(&f.anyway, "anyway", false, "with a model: go on where disk or memory seem too small")
	return cmd
}

// modelOnly are the flags that say something of a model.
var modelOnly = []string{"recipe", "rows", "context", "blocks", "flips", "fresh", "anyway"}

// withoutModel refuses flags that would say nothing where no model is named.
func withoutModel(cmd *cobra.Command) error {
	for _, name := range modelOnly {
		if cmd.Flags().Changed(name) {
			return fmt.Errorf("--%s is about a model: sdnpu doctor MODEL.gguf --%s", name, name)
		}
	}
	return nil
}

// examine is the doctor with a model.
func (s settings) examine(cmd *cobra.Command, path string, f modelFlags) error {
	c, err := resolveConfig(path, map[string]string{"sdnpu.recipe": f.recipe, "sdnpu.rows": f.rows, "sdnpu.blocks": countText(f.blocks)})
	if err != nil {
		return err
	}
	if f.context < 0 {
		return fmt.Errorf("--context %d: 1 or more wanted, or 0 for the default", f.context)
	}
	if f.flips < 0 {
		return fmt.Errorf("--flips %d: 1 or more wanted, or 0 for the default", f.flips)
	}
	d := &checkup{flags: f, settings: s, config: c, path: path, logger: newLogger(cmd.ErrOrStderr(), false)}
	return d.run(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr())
}

// lookAround is the doctor without a model.
func (s settings) lookAround(cmd *cobra.Command, executable string, asJSON bool) error {
	findings := []finding{
		{what: "program", found: fmt.Sprintf("sdnpu %s, %s/%s", version(), runtime.GOOS, runtime.GOARCH)},
	}
	device, capabilities := s.lookAtDevice(cmd.Context())
	findings = append(findings, device)
	findings = append(findings, s.lookAtDSP(capabilities, os.Args[0])...)
	findings = append(findings, lookAtCompiler(), s.lookAtCache())
	findings = append(findings, s.lookAtPrepared(capabilities)...)
	findings = append(findings, s.lookAtOllama(cmd.Context(), executable)...)
	findings = append(findings, lookAtVariables(environmentNames())...)
	missing := 0
	if asJSON {
		var err error
		if missing, err = reportJSON(cmd.OutOrStdout(), findings); err != nil {
			return err
		}
	} else {
		missing = report(cmd.OutOrStdout(), findings)
	}
	if missing > 0 {
		return fmt.Errorf("doctor: %d of %d things are missing", missing, len(findings))
	}
	return nil
}

// report prints the findings and counts what is missing.
func report(w io.Writer, findings []finding) (missing int) {
	for _, f := range findings {
		mark, text := "ok     ", f.found
		if f.found == "" {
			mark, text = "missing", "to do: "+f.remedy
			missing++
		} else if f.remedy != "" {
			text += " (" + f.remedy + ")"
		}
		fmt.Fprintf(w, "%s  %-14s %s\n", mark, f.what, text)
	}
	return missing
}

// lookAtDevice opens the device that a model would run on; what it says of
// itself is nil where there is none.
func (s settings) lookAtDevice(ctx context.Context) (f finding, c *backend.Capabilities) {
	f.what = "device"
	d, err := s.openDevice(ctx, os.Args[0], slog.New(slog.DiscardHandler))
	if err != nil {
		f.remedy = err.Error()
		return f, nil
	}
	said := d.Capabilities()
	f.found = describe(said) + granted(said)
	if err := d.Close(); err != nil {
		f.remedy = err.Error()
	}
	return f, &said
}

// granted says what the library answered when it was tried, which its claims do
// not tell.
func granted(c backend.Capabilities) string {
	word := map[bool]string{true: "yes", false: "no"}
	return fmt.Sprintf("; graphs share weights: %s; the library exchanges graphs itself: %s", word[c.SharesConstants], word[c.SwapsGraphs])
}

func lookAtCompiler() finding {
	f := finding{what: "C compiler"}
	for _, name := range []string{"cc", "gcc", "clang"} { // as the emulator is built
		if path, err := exec.LookPath(name); err == nil {
			f.found, f.remedy = path, "only the emulator needs it"
			return f
		}
	}
	f.remedy = "apt-get install gcc libc6-dev, if you want the emulator"
	return f
}

func (s settings) lookAtCache() finding {
	f := finding{what: "image cache"}
	if s.cache == "" {
		f.found, f.remedy = "off", "SDNPU_CACHE=off: every start compiles anew"
		return f
	}
	if err := os.MkdirAll(s.cache, 0o700); err != nil {
		f.remedy = fmt.Sprintf("%v: set SDNPU_CACHE to a folder that can be written", err)
		return f
	}
	probe, err := os.CreateTemp(s.cache, "probe-*")
	if err != nil {
		f.remedy = fmt.Sprintf("%v: set SDNPU_CACHE to a folder that can be written", err)
		return f
	}
	if err := errors.Join(probe.Close(), os.Remove(probe.Name())); err != nil {
		f.remedy = err.Error()
	}
	limit, err := s.cacheLimit()
	if err != nil {
		f.remedy = err.Error()
		return f
	}
	f.found = fmt.Sprintf("%s, %s", s.cache, bytesText(folderSize(s.cache)))
	if limit > 0 {
		f.found += " of at most " + bytesText(limit)
	}
	return f
}

func folderSize(dir string) (size int64) {
	entries, _ := os.ReadDir(dir) // an unreadable folder was reported before
	for _, e := range entries {
		if info, err := e.Info(); err == nil && info.Mode().IsRegular() {
			size += info.Size()
		}
	}
	return size
}

// lookAtOllama looks at the Ollama that is named, or at all that are installed.
func (s settings) lookAtOllama(ctx context.Context, executable string) (findings []finding) {
	if executable == "" {
		for _, h := range ollama.All() {
			findings = append(findings, s.lookAtHost(ctx, h)...)
		}
		if len(findings) > 0 {
			return findings
		}
	}
	h, err := findOllama(executable)
	if err != nil {
		return []finding{{what: "Ollama", remedy: err.Error()}}
	}
	return s.lookAtHost(ctx, h)
}

// lookAtHost says which runner an Ollama starts, and for what; of a program that
// is none, that alone.
func (s settings) lookAtHost(ctx context.Context, h ollama.Host) []finding {
	if _, err := askOllama(ctx, h); err != nil {
		return []finding{{what: "Ollama", remedy: err.Error()}}
	}
	host := finding{what: "Ollama", found: h.Executable}
	runner := finding{what: "its runner", found: h.Runner}
	switch {
	case h.Runner == "":
		runner.remedy = "lib/ollama beside Ollama holds no llama-server: reinstall Ollama, or `sdnpu install DIR` for NPU models alone"
	case sameProgram(h.Runner):
		runner.remedy = "this program"
	case ours(h.Runner):
		runner.remedy = "another build of this program: `sdnpu install DIR` renews it"
	default:
		runner.remedy = "the original; `sdnpu install DIR` lays out an Ollama that starts this program"
	}
	original := finding{what: "original", remedy: "models that are not selected for the NPU would not run: keep Ollama's llama-server as llama-server.orig beside ours, or set SDNPU_ORIGINAL"}
	path, err := s.findOriginal(h.Runner)
	if err != nil {
		original.remedy = err.Error()
	}
	if original.found = path; path == "" && h.Runner != "" && !ours(h.Runner) {
		original.found = h.Runner
	}
	if original.found != "" {
		original.remedy = "runs the models that are not selected"
	}
	return []finding{host, runner, original}
}

// findOllama is [ollama.Find] for commands that have the flag.
func findOllama(executable string) (ollama.Host, error) {
	h, err := ollama.Find(executable)
	if errors.Is(err, ollama.ErrNotFound) {
		err = fmt.Errorf("%w with --ollama", err)
	}
	return h, err
}

// askOllama is [ollama.Host.Version] for commands that have the flag.
func askOllama(ctx context.Context, h ollama.Host) (version string, err error) {
	version, err = h.Version(ctx)
	if errors.Is(err, ollama.ErrNotOllama) {
		err = fmt.Errorf("%w; --ollama names Ollama's executable", err)
	}
	return version, err
}

// ours reports whether a file is this program, of this build or another.
func ours(path string) bool {
	self, ok := debug.ReadBuildInfo()
	info, err := buildinfo.ReadFile(path)
	return sameProgram(path) || ok && err == nil && info.Path == self.Path
}

// sameProgram reports whether a file is this program.
func sameProgram(path string) bool {
	self, err := os.Executable()
	return err == nil && same(path, self)
}

func newInstallCommand() *cobra.Command {
	var executable string
	cmd := &cobra.Command{
		Use:   "install DIR",
		Short: "Lay out an Ollama in DIR that starts this program for selected models",
		Long: "Install makes DIR/bin/ollama (your Ollama, by hard link or copy) and DIR/lib/ollama\n" +
			"with this program as llama-server; your Ollama itself is not changed. Run it again\n" +
			"after an update of either.",
		Example: "  sdnpu install ~/npu-ollama\n  sdnpu install ~/npu-ollama --ollama /opt/ollama/bin/ollama",
		Args:    oneArgument("DIR"),
		RunE: func(cmd *cobra.Command, args []string) error {
			h, err := findOllama(executable)
			if err != nil {
				return err
			}
			version, err := askOllama(cmd.Context(), h)
			if err != nil {
				return err
			}
			self, err := os.Executable()
			if err != nil {
				return err
			}
			dir, err := filepath.Abs(args[0])
			if err != nil {
				return err
			}
			laid, err := ollama.Lay(h, self, dir)
			if err != nil {
				return err
			}
			stdout := cmd.OutOrStdout()
			fmt.Fprintf(stdout, "laid out beside %s (Ollama %s)\nstart it with:\n  %s serve\n", h.Executable, version, laid)
			if h.Runner == "" {
				fmt.Fprintln(stdout, "this Ollama has no llama-server of its own: only models selected for the NPU will run")
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&executable, "ollama", "", "Ollama's executable (default: the installed one)")
	return cmd
}

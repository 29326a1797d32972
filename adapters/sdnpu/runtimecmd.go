package main

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/sdnpu/sdnpu/adapters/qnnruntime"
)

// errNoConsent is returned where the vendor's licence was not accepted.
var errNoConsent = errors.New("the licence was not accepted, so nothing was installed")

// runtimeFlags are those of sdnpu runtime install.
type runtimeFlags struct {
	from, to, index, version, system string
	accept, all                      bool
}

func newRuntimeCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "runtime",
		Short: "Install the vendor's QNN runtime, or say what is installed",
		Args:  noArguments,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newRuntimeInstallCommand(), newRuntimeShowCommand())
	return cmd
}

func newRuntimeInstallCommand() *cobra.Command {
	var f runtimeFlags
	cmd := &cobra.Command{
		Use:   "install",
		Short: "Fetch Qualcomm's libraries, stubs and DSP images and lay them where models look for them",
		Long: "Install fetches the Python wheel onnxruntime-qnn of this system (Linux or Windows, arm64\n" +
			"or x86-64) from the Python index, or takes a wheel that you have, checks its sums, shows\n" +
			"where its licence lies and asks for your consent, and unpacks it. No Python is needed.\n\n" +
			"The libraries are Qualcomm's, under Qualcomm's licence, and no part of this program.\n" +
			"Models then find them with no further setting.",
		Example: "  sdnpu runtime install\n  sdnpu runtime install --from onnxruntime_qnn-2.7.0-cp311-cp311-win_arm64.whl --accept-license",
		Args:    noArguments,
		RunE:    func(cmd *cobra.Command, _ []string) error { return f.install(cmd) },
	}
	flags := cmd.Flags()
	flags.StringVar(&f.from, "from", "", "a wheel that lies on this machine (default: fetched)")
	flags.StringVar(&f.to, "to", "", "folder to install into (default: this user's, where models look first)")
	flags.StringVar(&f.index, "index-url", "", "Python index to fetch from (default: PIP_INDEX_URL, else "+qnnruntime.DefaultIndex+")")
	flags.StringVar(&f.version, "release", qnnruntime.DefaultVersion, "release of the wheel")
	flags.StringVar(&f.system, "system", qnnruntime.Here().String(), "system that the runtime is for, to prepare another machine")
	flags.BoolVar(&f.accept, "accept-license", false, "accept Qualcomm's licence without being asked")
	flags.BoolVar(&f.all, "all", false, "also unpack the libraries that only tests and tools load")
	return cmd
}

func (f *runtimeFlags) install(cmd *cobra.Command) (err error) {
	target, err := qnnruntime.ParseTarget(f.system)
	if err != nil {
		return err
	}
	folder, err := f.folder()
	if err != nil {
		return err
	}
	file, err := f.open(cmd.Context(), cmd.ErrOrStderr(), target, folder)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	info, err := file.Stat()
	if err != nil {
		return err
	}
	archive, err := qnnruntime.OpenArchive(file, info.Size(), f.all)
	if err != nil {
		return fmt.Errorf("%s: %w", file.Name(), err)
	}
	if archive.Target != target {
		return fmt.Errorf("%s is for %v, wanted is %v: --system %v installs it all the same", file.Name(), archive.Target, target, archive.Target)
	}
	if err := f.consent(cmd, archive, file, folder); err != nil {
		return err
	}
	progress, done := byteBar(cmd.ErrOrStderr(), "unpacking")
	installed, err := archive.Unpack(folder, progress)
	done()
	if err != nil {
		return err
	}
	return sayInstalled(cmd.OutOrStdout(), installed)
}

// folder is where to install.
func (f *runtimeFlags) folder() (string, error) {
	if f.to != "" {
		return filepath.Abs(f.to)
	}
	folder := userRuntimeFolder()
	if folder == "" {
		return "", errors.New("this user has no folder of its own: name one with --to")
	}
	return folder, nil
}

// userRuntimeFolder is where this user's runtime lies, or "". It is no cache:
// nobody would fetch it again.
func userRuntimeFolder() string {
	base := cmp.Or(os.Getenv("XDG_DATA_HOME"), os.Getenv("LOCALAPPDATA"))
	if base == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			return ""
		}
		base = filepath.Join(home, ".local", "share")
	}
	return filepath.Join(base, "sdnpu", "runtime")
}

// consent shows the licence, as a file since it is a PDF, and asks. Where nobody
// can be asked, the wheel is kept for the call that accepts.
func (f *runtimeFlags) consent(cmd *cobra.Command, archive *qnnruntime.Archive, wheel *wheelFile, folder string) error {
	stderr := cmd.ErrOrStderr()
	fmt.Fprintf(stderr, "Qualcomm's QNN runtime, release %s for %v, %s: it is Qualcomm's and no part of this program.\n",
		archive.Version, archive.Target, bytesText(archive.SizeBytes()))
	if f.accept {
		fmt.Fprintln(stderr, "Its licence is accepted by --accept-license and lies beside the libraries.")
		return nil
	}
	text, err := archive.Licence()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	licence := filepath.Join(folder, "Qualcomm_LICENSE.pdf")
	if err := os.WriteFile(licence, text, 0o644); err != nil {
		return err
	}
	fmt.Fprintf(stderr, "Its licence is %s. ", licence)
	in := cmd.InOrStdin()
	if file, ok := in.(*os.File); ok && !term.IsTerminal(int(file.Fd())) {
		fmt.Fprintln(stderr, "Read it, and run this again with --accept-license: what was fetched is kept for that.")
		return errors.Join(errNoConsent, wheel.keep(folder))
	}
	fmt.Fprint(stderr, "Read it. Do you accept it? [y/N] ")
	answer, _ := bufio.NewReader(in).ReadString('\n') // nothing read is no consent
	if a := strings.ToLower(strings.TrimSpace(answer)); a != "y" && a != "yes" {
		return errNoConsent
	}
	return os.Remove(licence) // it comes again beside the libraries
}

// byteBar shows bytes on a terminal, and one line elsewhere.
func byteBar(w io.Writer, what string) (progress func(done, total int64), end func()) {
	file, ok := w.(*os.File)
	if !ok || !term.IsTerminal(int(file.Fd())) {
		fmt.Fprintln(w, what)
		return nil, func() {}
	}
	var bar *progressbar.ProgressBar
	progress = func(done, total int64) {
		if bar == nil {
			bar = progressbar.NewOptions64(total, progressbar.OptionSetWriter(w), progressbar.OptionSetDescription(what),
				progressbar.OptionShowBytes(true), progressbar.OptionSetWidth(30), progressbar.OptionClearOnFinish(), progressbar.OptionThrottle(barEvery))
		}
		_ = bar.Set64(done) // a terminal that cannot be written to shows nothing
	}
	return progress, func() {
		if bar != nil {
			_ = bar.Finish()
		}
	}
}

// sayInstalled says what is there and what is left to do.
func sayInstalled(w io.Writer, i *qnnruntime.Installed) error {
	fmt.Fprintf(w, "QNN runtime %s for %s in %s\n", i.Version, i.System, i.Folder)
	fmt.Fprintf(w, "library:   %s\nlicence:   %s\n", i.Library(), i.Licence())
	if arches := i.Arches(); len(arches) > 0 {
		fmt.Fprintf(w, "NPUs:      Hexagon %s\n", strings.Join(arches, ", "))
		fmt.Fprintf(w, "DSP path:  set by this program; other programs want ADSP_LIBRARY_PATH=%s\n", filepath.Dir(i.Library()))
	}
	switch {
	case i.System != qnnruntime.Here().String():
		fmt.Fprintf(w, "it is for another system: copy the folder there and set SDNPU_LIBRARY to its %s\n", filepath.Base(i.Library()))
	case i.Folder == userRuntimeFolder():
		fmt.Fprintln(w, "models find it with no further setting")
	default:
		fmt.Fprintf(w, "SDNPU_LIBRARY=%s selects it; a folder named %s beside this program needs no setting\n", i.Library(), runtimeFolderName)
	}
	if missing := i.Missing(); len(missing) > 0 {
		return fmt.Errorf("%d of its files are gone (%s …): install it again", len(missing), missing[0])
	}
	return nil
}

func newRuntimeShowCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "show",
		Short: "Say which runtimes are installed where models look for them",
		Args:  noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			found := false
			var errs []error
			for _, folder := range runtimeFolders(os.Args[0]) {
				if i, err := qnnruntime.Find(folder); err == nil {
					found = true
					errs = append(errs, sayInstalled(cmd.OutOrStdout(), i))
				} else if !errors.Is(err, qnnruntime.ErrNotInstalled) {
					errs = append(errs, err)
				}
			}
			if !found && len(errs) == 0 {
				return fmt.Errorf("%w: %s; `sdnpu runtime install` does it", qnnruntime.ErrNotInstalled, strings.Join(runtimeFolders(os.Args[0]), ", "))
			}
			return errors.Join(errs...)
		},
	}
}

// runtimeFolderName is a folder beside this program that holds a runtime, for
// hosts that run as a user of their own.
const runtimeFolderName = "sdnpu-runtime"

// runtimeFolders are where installed runtimes are looked for.
func runtimeFolders(arg0 string) (folders []string) {
	for _, f := range programFolders(arg0) {
		folders = append(folders, filepath.Join(f, runtimeFolderName))
	}
	if f := userRuntimeFolder(); f != "" {
		folders = append(folders, f)
	}
	return foldersOnce(folders)
}

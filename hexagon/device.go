package hexagon

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/sdnpu/sdnpu/backend"
	"github.com/sdnpu/sdnpu/hexagon/qnn"
)

// loweringVersion changes whenever equal graphs give other QNN graphs.
const loweringVersion = 1

// Options tunes a Device.
type Options struct {
	// Library is the path of the library, or its bare name for the system's
	// search.
	Library string
	// Name is what messages and reports call the device. Empty means Library.
	Name string
	// SoC is the vendor's number of the chip to compile for (57 is SM8650). Zero
	// leaves it to the library, which on a phone finds its own.
	SoC uint32
	// Sharing is whether graphs compiled together hold equal constants once. The
	// usual is to try; the others compile for another machine.
	Sharing Sharing
	// Logger receives our warnings and, at debug level, what the library itself
	// logs. Nil means silence.
	Logger *slog.Logger
	// Costs makes programs account for their calls, see [backend.Timed], by the
	// library's profile events. It takes some tens of microseconds a run.
	Costs bool
	// FastRPC is the library that shares memory with the DSP. Empty means the
	// system's.
	FastRPC string
	// Trace, when set, is told by Compile what it is about to ask of the library,
	// so that somebody who watches can name what never came back: a graph and a
	// step of its making, such as node "q0" (FullyConnected).
	Trace func(graph, step string)
	// TryLoad has Compile load each image that it made, and free it again: a
	// library that does not survive that ends the process that compiles and not
	// the one that serves. What it answers is left to the load that counts.
	TryLoad bool
	// provider is another number that a library may have and be taken for the
	// NPU's: tests give that of the vendor's library that writes down its calls.
	provider uint32
}

// Sharing is a choice in [Options].
type Sharing int

// The choices.
const (
	TrySharing  Sharing = iota // share if this library can load what it makes then
	AlwaysShare                // share, loadable or not
	NeverShare
)

// Device is an open NPU. Make it with [Open].
type Device struct {
	options Options
	library *qnn.Library
	log     *qnn.Log
	backend *qnn.Backend
	device  *qnn.Device
	buildID string
	// optimization is the effort of the library's compiler, 0 where it takes no
	// such option.
	optimization int
	// chip is the SoC that graphs are compiled for, 0 where nobody says.
	chip uint32
	// shares asks, once, whether equal constants are stored once, and swaps
	// whether the library exchanges graphs by itself.
	shares, swaps func() bool
	// sharing makes buffers that contexts register; nil where the library takes
	// none. addresses is set once it has refused one all the same.
	sharing   *qnn.Sharing
	addresses atomic.Bool
	// copies is set once the library has refused to use images in place.
	copies atomic.Bool
	closed atomic.Bool
	// power is the vote that stands, nil for none.
	voting sync.Mutex
	power  *qnn.PowerConfig
	// estimating is held by an estimate, which reads what the library logs.
	estimating sync.Mutex
	listener   atomic.Pointer[func(line string)]
}

// Open loads the library and opens its device.
func Open(o Options) (_ *Device, err error) {
	if o.Name == "" {
		o.Name = o.Library
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Trace == nil {
		o.Trace = func(string, string) {}
	}
	d := &Device{options: o}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("hexagon: open %s: %w", o.Library, explain(err)), d.Close())
		}
	}()
	if d.library, err = qnn.Open(o.Library, qnn.Options{Backend: qnn.AnyBackend}); err != nil {
		return nil, err
	}
	if warning := d.library.Warning(); warning != "" {
		o.Logger.Warn("library is newer than tested", "detail", warning)
	}
	if d.log, err = d.library.NewLog(qnn.LogWarn, d.logLine); err != nil {
		return nil, err
	}
	if d.buildID, err = d.library.BuildID(); err != nil {
		return nil, err
	}
	if d.backend, err = d.library.NewBackend(d.log); err != nil {
		return nil, err
	}
	if err := d.openChip(); err != nil {
		return nil, err
	}
	d.openSharing()
	d.shares, d.swaps = d.answer("share constants", d.sharesConstants), d.answer("swap graphs", d.swapsGraphs)
	if o.Sharing != TrySharing {
		d.shares = func() bool { return o.Sharing == AlwaysShare }
	}
	return d, nil
}

// openChip opens the NPU. The vendor's plain float library for the processor,
// libQnnCpu, has no device, chip or options of a compiler; any other backend is
// refused.
func (d *Device) openChip() (err error) {
	switch p := d.library.Provider(); p.Backend {
	case qnn.BackendHTP, d.options.provider:
		d.optimization = 3
	case qnn.BackendCPU:
		return nil
	default:
		return fmt.Errorf("%w: %s is backend %d, wanted is %d, the Hexagon NPU (libQnnHtp), or %d, the processor (libQnnCpu)",
			qnn.ErrVersion, p.Name, p.Backend, qnn.BackendHTP, qnn.BackendCPU)
	}
	if d.device, err = d.library.NewDevice(d.log, qnn.DeviceOptions{SoC: d.options.SoC}); err != nil {
		return err
	}
	if d.chip = d.options.SoC; d.chip == 0 {
		d.chip = d.ownChip()
	}
	return nil
}

// Options are those that the device was opened with, with its name filled in.
func (d *Device) Options() Options { return d.options }

// logLine passes on what the library logs, as details: errors come back through
// the failed call too, and of warnings the vendor's compiler writes hundreds for
// the smallest model, about choices of its own that no caller can change.
func (d *Device) logLine(level qnn.LogLevel, text string) {
	if listen := d.listener.Load(); listen != nil {
		(*listen)(text)
	}
	if level > qnn.LogWarn { // wanted by an estimate alone
		return
	}
	severity := "warning"
	if level == qnn.LogError {
		severity = "error"
	}
	d.options.Logger.Debug("library", "severity", severity, "text", strings.TrimSpace(text))
}

// Capabilities describes library and chip. The first call compiles and loads a
// tiny image for each question: whether constants are shared, and whether the
// library exchanges graphs by itself.
func (d *Device) Capabilities() backend.Capabilities {
	lane := backend.NPU
	if d.plain() { // nothing runs there under the NPU's name
		lane = backend.CPU
	}
	return backend.Capabilities{
		Lane:            lane,
		Name:            d.options.Name,
		Provider:        d.library.Provider().Name,
		BuildID:         d.buildID,
		SoC:             d.soc(),
		SharesConstants: d.shares(),
		SwapsGraphs:     d.swaps(),
		Fingerprint:     d.fingerprint(),
	}
}

// ownChip is the number of the chip that the library runs on, or 0: images that
// were prepared elsewhere for that number fit here.
func (d *Device) ownChip() uint32 {
	devices, err := d.device.PlatformInfo()
	if err != nil || len(devices) == 0 {
		d.options.Logger.Debug("the library does not name its chip", "error", err)
		return 0
	}
	return devices[0].SoC
}

func (d *Device) soc() string {
	if d.chip == 0 {
		return "library's default"
	}
	return fmt.Sprint(d.chip)
}

func (d *Device) fingerprint() string {
	p := d.library.Provider()
	return fmt.Sprintf("hexagon lowering %d, %s, core %s, backend %s, build %s, soc %s",
		loweringVersion, p.Name, p.Core, p.BackendAPI, d.buildID, d.soc())
}

// Close closes device, backend, log and library. Programs must be closed before.
func (d *Device) Close() error {
	if d.closed.Swap(true) {
		return nil
	}
	var errs []error
	d.voting.Lock()
	errs = append(errs, d.withdraw())
	d.voting.Unlock()
	if d.device != nil {
		errs = append(errs, d.device.Close())
	}
	if d.backend != nil {
		errs = append(errs, d.backend.Close())
	}
	if d.log != nil {
		errs = append(errs, d.log.Close())
	}
	if d.library != nil {
		errs = append(errs, d.library.Close())
	}
	if d.sharing != nil {
		errs = append(errs, d.sharing.Close())
	}
	return errors.Join(errs...)
}

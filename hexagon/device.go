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

// loweringVersion is part of the fingerprint. Increase it when lowering gives
// other QNN graphs for equal input.
const loweringVersion = 1

// Options configures a Device.
type Options struct {
	// Library is the path of the library, or a bare name that the system's loader
	// searches for.
	Library string
	// SystemLibrary is the path of the vendor's library that describes images. Empty means the
	// one in the folder of Library, or Library itself if it describes images, as the emulator does.
	SystemLibrary string
	// Name names the device in messages and reports. Empty means Library.
	Name string
	// SoC is the vendor's number of the chip to compile for (57 is SM8650). If it
	// is zero the library chooses; on a phone it finds the phone's own.
	SoC uint32
	// ConstantSharing chooses whether graphs that are compiled together store equal
	// constants once. ConstantsAuto suits images for this machine, the other
	// choices images for another machine.
	ConstantSharing ConstantSharing
	// Logger receives our warnings and, at debug level, the library's own lines.
	// Nil means silence.
	Logger *slog.Logger
	// Costs makes programs measure their calls with the library's profile events,
	// see [backend.Timed]. It adds tens of microseconds to an execute.
	Costs bool
	// FastRPC is the path of the library that allocates memory shared with the
	// DSP. Empty means the system's.
	FastRPC string
	// Trace, if set, is called by Compile before each call into the library with
	// the graph and the step, such as node "q0" (FullyConnected). A parent process
	// can then name the call that crashed or hung.
	Trace func(graph, step string)
	// TryLoad makes Compile load each new image once and free it. If the library
	// crashes on the image, it ends the compiling process and not the serving
	// one. A failed load is not an error here: the serving load reports it.
	TryLoad bool
	// provider is a further provider number that is accepted as the NPU's. Tests set it to the
	// number of libQnnSaver, the vendor's library that records its calls.
	provider uint32
}

// ConstantSharing chooses whether equal constants are stored once.
type ConstantSharing int

// The choices.
const (
	ConstantsAuto     ConstantSharing = iota // share if this library can load the result
	ConstantsShared                          // always share
	ConstantsSeparate                        // never share
)

// Device is an open NPU. Make it with [Open].
type Device struct {
	options Options
	library *qnn.Library
	log     *qnn.Log
	backend *qnn.Backend
	device  *qnn.Device
	buildID string
	// optimization is the effort of the library's compiler, 0 if the library has
	// no such option.
	optimization int
	// chip is the SoC that graphs are compiled for, 0 if it is unknown.
	chip uint32
	// sharesConstants and swapsGraphs probe the library at the first call and
	// return the remembered answer afterwards.
	sharesConstants, swapsGraphs func() bool
	// system is the library that describes images, or systemErr is the reason why there is none.
	// Both are set at the first use.
	systemOnce sync.Once
	system     *qnn.System
	systemErr  error
	// fastRPC allocates buffers that contexts register; nil if the library takes
	// no registered memory.
	fastRPC *qnn.FastRPC
	// memoryRefused is set once the library has refused registered memory although
	// it claims the capability.
	memoryRefused atomic.Bool
	// inPlaceRefused is set once the library has refused to use an image in place.
	inPlaceRefused atomic.Bool
	closed         atomic.Bool

	powerMu sync.Mutex
	power   *qnn.PowerConfig // the current vote, nil if there is none; guarded by powerMu

	// buildMu is held by BuildAndDiscard, whose listener receives all log lines.
	buildMu  sync.Mutex
	listener atomic.Pointer[func(line string)]
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
	d.openSharedMemory()
	d.sharesConstants, d.swapsGraphs = d.probeOnce("share constants", d.probeConstantSharing), d.probeOnce("swap graphs", d.probeGraphSwapping)
	if o.ConstantSharing != ConstantsAuto {
		d.sharesConstants = func() bool { return o.ConstantSharing == ConstantsShared }
	}
	return d, nil
}

// openChip opens the NPU. libQnnCpu, the vendor's float library for the CPU, has
// no device, no chip and no compiler options. Any other backend is an error.
func (d *Device) openChip() (err error) {
	switch p := d.library.Provider(); p.Backend {
	case qnn.BackendHTP, d.options.provider:
		d.optimization = 3
	case qnn.BackendCPU:
		return nil
	default:
		return fmt.Errorf("%w: %s is backend %d: want %d, the Hexagon NPU (libQnnHtp), or %d, the CPU (libQnnCpu)",
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

// Options returns the options of [Open], with Name filled in.
func (d *Device) Options() Options { return d.options }

// logLine logs the library's lines at debug level. The failed call returns errors
// too, and the vendor's compiler warns hundreds of times per model about choices
// that no caller can change.
func (d *Device) logLine(level qnn.LogLevel, text string) {
	if listen := d.listener.Load(); listen != nil {
		(*listen)(text)
	}
	if level > qnn.LogWarn { // only BuildAndDiscard lowers the level
		return
	}
	severity := "warning"
	if level == qnn.LogError {
		severity = "error"
	}
	d.options.Logger.Debug("library", "severity", severity, "text", strings.TrimSpace(text))
}

// Capabilities describes library and chip. The first call compiles and loads two
// tiny images: one probes constant sharing, the other whether the library swaps
// graphs by itself.
func (d *Device) Capabilities() backend.Capabilities {
	lane := backend.NPU
	if d.isCPULibrary() { // it must not be reported as the NPU
		lane = backend.CPU
	}
	return backend.Capabilities{
		Lane:            lane,
		Name:            d.options.Name,
		Provider:        d.library.Provider().Name,
		BuildID:         d.buildID,
		SoC:             d.soc(),
		SharesConstants: d.sharesConstants(),
		SwapsGraphs:     d.swapsGraphs(),
		Fingerprint:     d.fingerprint(),
	}
}

// ownChip returns the number of the chip that the library runs on, or 0. Images
// that were prepared elsewhere for that number fit this device.
func (d *Device) ownChip() uint32 {
	devices, err := d.device.PlatformInfo()
	if err != nil || len(devices) == 0 {
		d.options.Logger.Debug("the library does not report its chip", "error", err)
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

// Close withdraws the power vote and closes device, backend, log and library.
// Close programs and buffers first.
func (d *Device) Close() error {
	if d.closed.Swap(true) {
		return nil
	}
	var errs []error
	d.powerMu.Lock()
	errs = append(errs, d.withdrawVote())
	d.powerMu.Unlock()
	if d.device != nil {
		errs = append(errs, d.device.Close())
	}
	if d.backend != nil {
		errs = append(errs, d.backend.Close())
	}
	if d.log != nil {
		errs = append(errs, d.log.Close())
	}
	d.systemOnce.Do(func() { d.systemErr = backend.ErrClosed })
	if d.system != nil {
		errs = append(errs, d.system.Close())
	}
	if d.library != nil {
		errs = append(errs, d.library.Close())
	}
	if d.fastRPC != nil {
		errs = append(errs, d.fastRPC.Close())
	}
	return errors.Join(errs...)
}

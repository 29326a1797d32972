package qnn

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"unsafe"
)

// The core API versions this package speaks: older tables have another order;
// newer ones have kept it so far.
const (
	coreMajor       = 2
	coreMinorOldest = 32
	coreMinorTested = 40
)

// CoreAPI tells which versions of the core API this package speaks: the oldest, and
// the newest that it was tested with.
func CoreAPI() (oldest, tested Version) {
	return Version{Major: coreMajor, Minor: coreMinorOldest}, Version{Major: coreMajor, Minor: coreMinorTested}
}

// Options tunes [Open]. The zero value asks for a Hexagon library.
type Options struct {
	// Backend is the provider number that the library must have. Zero means
	// [BackendHTP]; [AnyBackend] leaves it to who reads [Library.Provider].
	Backend uint32
}

// Version is a version of one interface.
type Version struct{ Major, Minor, Patch uint32 }

// String returns "2.40.0".
func (v Version) String() string { return fmt.Sprintf("%d.%d.%d", v.Major, v.Minor, v.Patch) }

// Provider is what a library says about itself.
type Provider struct {
	Backend     uint32  // its number, [BackendHTP]
	Name        string  // "HTP_QTI_AISW"
	Core        Version // of the interface that all backends share
	BackendAPI  Version // of the backend's own additions
	LibraryPath string  // as given to Open
}

// Library is a loaded library. It must outlive everything made with it.
type Library struct {
	provider Provider
	warning  string
	handle   atomic.Uintptr // of the dynamic loader
	table    [functionCount]uintptr
	lines    errorLines
	messages sync.Map   // Code → string, as errorGetMessage gave it
	lane     sync.Mutex // held during a run where quirkOneRun asks for it
}

// Open loads a library, asks it for its interface and checks that this package
// can speak it. The path is given to the system's loader as it is, so a bare
// file name is searched for in the usual places.
func Open(path string, o Options) (*Library, error) {
	if err := checkName(path); err != nil {
		return nil, fmt.Errorf("qnn: open %q: %w", path, err)
	}
	want := o.Backend
	if want == 0 {
		want = BackendHTP
	}
	l := &Library{}
	var err error
	stdoutToStderr(func() { err = l.load(path, want) })
	if err != nil {
		if handle := l.handle.Swap(0); handle != 0 {
			unloadLibrary(handle)
		}
		return nil, fmt.Errorf("qnn: open %s: %w", path, err)
	}
	return l, nil
}

func (l *Library) load(path string, want uint32) error {
	handle, err := loadLibrary(path)
	if err != nil {
		return err
	}
	l.handle.Store(handle)
	getProviders, err := findSymbol(handle, "QnnInterface_getProviders")
	if err != nil {
		return fmt.Errorf("not a QNN backend library: %w", err)
	}
	var list **cInterface
	var n uint32
	if r := invoke(getProviders, uintptr(unsafe.Pointer(&list)), uintptr(unsafe.Pointer(&n))); r != 0 {
		return &Error{Call: "getProviders", Code: Code(r & 0xffff)}
	}
	if n == 0 || list == nil || *list == nil {
		return errors.New("the library offers no provider")
	}
	return l.adopt(path, *list, want)
}

// adopt checks a provider and copies its table. The version is looked at
// before anything behind it, because an older struct is shorter.
func (l *Library) adopt(path string, c *cInterface, want uint32) error {
	core := c.core.version()
	if core.Major != coreMajor || core.Minor < coreMinorOldest {
		return fmt.Errorf("%w: core API %v, needed is %d.%d or newer within %d: use the library of a QNN SDK from 2.%d on",
			ErrVersion, core, coreMajor, coreMinorOldest, coreMajor, coreMinorOldest+11)
	}
	if c.backendID != want && want != AnyBackend {
		return fmt.Errorf("%w: %s is backend %d, needed is %d (the Hexagon NPU is %d: libQnnHtp.so)",
			ErrVersion, goString(c.name), c.backendID, want, BackendHTP)
	}
	if core.Minor > coreMinorTested {
		l.warning = fmt.Sprintf("%s has core API %v; tested up to %d.%d", path, core, coreMajor, coreMinorTested)
	}
	l.provider = Provider{
		Backend: c.backendID, Name: goString(c.name), Core: core,
		BackendAPI: c.backend.version(), LibraryPath: path,
	}
	l.table = c.table
	return nil
}

// Provider returns what the library says about itself.
func (l *Library) Provider() Provider { return l.provider }

// Warning returns a sentence for the user when the library is newer than what
// this package was tested with, else "".
func (l *Library) Warning() string { return l.warning }

// Close unloads the library. Everything made with it must be closed before.
func (l *Library) Close() error {
	handle := l.handle.Swap(0)
	if handle == 0 {
		return nil
	}
	if err := unloadLibrary(handle); err != nil {
		return fmt.Errorf("qnn: close %s: %w", l.provider.LibraryPath, err)
	}
	return nil
}

// call invokes a function of the table. Pointers converted in the argument
// list stay alive until it returns; what they point to is kept by its type.
//
//go:uintptrescapes
func (l *Library) call(f function, args ...uintptr) error {
	entry := l.table[f]
	if l.handle.Load() == 0 {
		return fmt.Errorf("qnn: %v: library %w", f, ErrClosed)
	}
	if entry == 0 {
		return fmt.Errorf("qnn: %v: the library has no such function: %w", f, errors.ErrUnsupported)
	}
	before := l.lines.mark()
	if r := invoke(entry, args...); r != 0 {
		return l.failure(f.String(), r, before)
	}
	return nil
}

// quietly is call with stdout out of the way.
//
//go:uintptrescapes
func (l *Library) quietly(f function, args ...uintptr) (err error) {
	stdoutToStderr(func() { err = l.call(f, args...) })
	return err
}

// callByValue invokes a function whose second argument is an operator config
// by value. The System V convention of amd64 copies its ten words onto the
// stack, behind the six argument registers; all others pass the address of a
// copy, and op is one.
func (l *Library) callByValue(f function, handle uintptr, call *opCall) error {
	defer runtime.KeepAlive(call)
	op := &call.config
	if runtime.GOARCH != "amd64" || runtime.GOOS == "windows" {
		return l.call(f, handle, uintptr(unsafe.Pointer(op)))
	}
	w := (*[10]uintptr)(unsafe.Pointer(op))
	return l.call(f, handle, 0, 0, 0, 0, 0,
		w[0], w[1], w[2], w[3], w[4], w[5], w[6], w[7], w[8], w[9])
}

func (l *Library) failure(call string, result uintptr, before uint64) *Error {
	code := Code(result & 0xffff)
	return &Error{Call: call, Code: code, Message: l.ErrorMessage(code), Detail: l.lines.since(before)}
}

// ErrorMessage returns the library's own text for a code, "" where it has
// none. Codes outside 1000–14999 are not asked for: the vendor's library does
// not know them.
func (l *Library) ErrorMessage(code Code) string {
	entry := l.table[fnErrorGetMessage]
	if code < 1000 || code >= 15000 || entry == 0 || l.handle.Load() == 0 {
		return ""
	}
	if text, ok := l.messages.Load(code); ok {
		return text.(string)
	}
	var text *byte
	if r := invoke(entry, uintptr(code), uintptr(unsafe.Pointer(&text))); r != 0 {
		return ""
	}
	s := goString(text)
	l.messages.Store(code, s)
	return s
}

// VerboseMessage returns the library's long text for a code, which may tell of
// the last failure, "" where it has none.
func (l *Library) VerboseMessage(code Code) string {
	var text *byte
	if err := l.call(fnErrorGetVerboseMessage, uintptr(code), uintptr(unsafe.Pointer(&text))); err != nil || text == nil {
		return ""
	}
	s := goString(text)
	_ = l.call(fnErrorFreeVerboseMessage, uintptr(unsafe.Pointer(text))) // nothing follows from a failure
	return s
}

// HasCapability asks whether the library has a feature; see [Capability] for
// how much the answer is worth.
func (l *Library) HasCapability(c Capability) (bool, error) {
	err := l.call(fnPropertyHasCapability, uintptr(c))
	if errors.Is(err, ErrNotSupported) {
		return false, nil
	}
	return err == nil, err
}

// BuildID returns the library's build.
func (l *Library) BuildID() (string, error) {
	var id *byte
	if err := l.call(fnBackendGetBuildID, uintptr(unsafe.Pointer(&id))); err != nil {
		return "", err
	}
	return goString(id), nil
}

// APIVersion asks for the versions of the core interface and of the backend's
// additions; they equal those of [Library.Provider] in a sound library.
func (l *Library) APIVersion() (core, backend Version, err error) {
	var v cAPIVersion
	if err := l.call(fnBackendGetAPIVersion, uintptr(unsafe.Pointer(&v))); err != nil {
		return Version{}, Version{}, err
	}
	return v.core.version(), v.backend.version(), nil
}

func (v cVersion) version() Version { return Version{v.major, v.minor, v.patch} }

package qnn

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/sdnpu/sdnpu/hexagon/emulator"
	"github.com/sdnpu/sdnpu/internal/needs"
	"github.com/stretchr/testify/require"
)

// onEachLibrary runs a test on every available backend library: the emulator, the vendor's (in
// SDNPU_VENDOR, which `make vendor` fills) and the library SDNPU_TEST_LIBRARY. With
// SDNPU_REQUIRE=vendor the test fails without the vendor's library.
func onEachLibrary(t *testing.T, test func(t *testing.T, path string)) {
	t.Helper()
	t.Run("emulator", func(t *testing.T) {
		path, err := emulatorLibrary()
		if errors.Is(err, emulator.ErrNoCompiler) || errors.Is(err, errors.ErrUnsupported) {
			t.Skip(err)
		}
		require.NoError(t, err)
		test(t, path)
	})
	t.Run("vendor", func(t *testing.T) { test(t, vendorLibrary(t)) })
	if path := os.Getenv("SDNPU_TEST_LIBRARY"); path != "" {
		t.Run("named", func(t *testing.T) { test(t, path) })
	}
}

var emulatorFolder string

// emulatorLibrary builds the emulator once per test run.
var emulatorLibrary = sync.OnceValues(func() (string, error) {
	return emulator.Build(context.Background(), emulator.Options{Dir: emulatorFolder})
})

func TestMain(m *testing.M) {
	os.Exit(func() int {
		folder, err := os.MkdirTemp("", "qnn-test-")
		if err != nil {
			panic(err)
		}
		defer func() { _ = os.RemoveAll(folder) }()
		emulatorFolder = folder
		return m.Run()
	}())
}

func vendorLibrary(t *testing.T) string {
	t.Helper()
	folder := os.Getenv("SDNPU_VENDOR")
	path := filepath.Join(folder, "onnxruntime_qnn", "libQnnHtp.so")
	_, err := os.Stat(path)
	if folder != "" && err == nil {
		return path
	}
	needs.Missing(t, "vendor", "no vendor library: set SDNPU_VENDOR to the folder that `make vendor` filled")
	return ""
}

// session is an open library with log, backend and device.
type session struct {
	library *Library
	log     *Log
	backend *Backend
	device  *Device
	lines   *lineSink
}

func openSession(t testing.TB, path string) *session {
	t.Helper()
	s := &session{lines: &lineSink{}}
	var err error
	s.library, err = Open(path, Options{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.library.Close()) })
	s.log, err = s.library.NewLog(LogInfo, s.lines.add)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.log.Close()) })
	s.backend, err = s.library.NewBackend(s.log)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.backend.Close()) })
	s.device, err = s.library.NewDevice(s.log, DeviceOptions{SoC: 57})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.device.Close()) })
	return s
}

func (s *session) newContext(t testing.TB) *Context {
	t.Helper()
	c, err := s.backend.NewContext(s.device, ContextOptions{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	return c
}

func TestLibraryDescribesItself(t *testing.T) {
	onEachLibrary(t, func(t *testing.T, path string) {
		s := openSession(t, path)
		p := s.library.Provider()
		require.Equal(t, BackendHTP, p.Backend)
		require.Equal(t, path, p.LibraryPath)
		require.Contains(t, p.Name, "HTP")
		build, err := s.library.BuildID()
		require.NoError(t, err)
		require.NotEmpty(t, build)
		ok, err := s.library.HasCapability(CapabilityContextTensors)
		require.NoError(t, err)
		require.False(t, ok)
		_, err = s.library.HasCapability(9999)
		require.ErrorContains(t, err, "propertyHasCapability: code 2000")
		devices, err := s.device.PlatformInfo()
		require.NoError(t, err)
		require.NotEmpty(t, devices)
		require.NotZero(t, devices[0].SoC)
		require.NotZero(t, devices[0].Arch)
	})
}

func TestUnsupportedVersionsAreNamed(t *testing.T) {
	name := []byte("OTHER\x00")
	htp := func(major, minor uint32) cInterface {
		return cInterface{backendID: BackendHTP, name: &name[0], core: cVersion{major, minor, 1}}
	}
	cpu := htp(2, 36)
	cpu.backendID = BackendCPU
	tests := []struct {
		name     string
		provider cInterface
		want     uint32
		errors   []string // errors is empty if the library is accepted
		warning  string
	}{
		{name: "oldest", provider: htp(2, 32), want: BackendHTP},
		{name: "tested", provider: htp(2, 40), want: BackendHTP},
		{name: "newer", provider: htp(2, 41), want: BackendHTP, warning: "lib.so has core API 2.41.1; tested up to 2.40"},
		{name: "too old", provider: htp(2, 31), want: BackendHTP, errors: []string{"core API 2.31.1", "want 2.32 or a newer 2.x", "SDK from 2.43 on"}},
		{name: "other major", provider: htp(3, 40), want: BackendHTP, errors: []string{"core API 3.40.1"}},
		{name: "major one", provider: htp(1, 40), want: BackendHTP, errors: []string{"core API 1.40.1"}},
		{name: "other backend", provider: cpu, want: BackendHTP, errors: []string{"OTHER is backend 3", "want 6"}},
		{name: "CPU backend requested", provider: cpu, want: BackendCPU},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			l := &Library{}
			err := l.adopt("lib.so", &test.provider, test.want)
			if test.errors == nil {
				require.NoError(t, err)
				require.Equal(t, "OTHER", l.Provider().Name)
			} else {
				require.ErrorIs(t, err, ErrVersion)
			}
			for _, part := range test.errors {
				require.ErrorContains(t, err, part)
			}
			require.Equal(t, test.warning, l.Warning())
		})
	}
}

func TestOpenRejectsFilesThatAreNoLibrary(t *testing.T) {
	file := filepath.Join(t.TempDir(), "libQnnHtp.so")
	require.NoError(t, os.WriteFile(file, []byte("not a library"), 0o644))
	for _, path := range []string{file, file + ".missing", "", "lib\x00.so"} {
		_, err := Open(path, Options{})
		require.Error(t, err, path)
	}
	_, err := Open("lib\x00.so", Options{})
	require.ErrorIs(t, err, ErrName)
}

func TestMissingFunctionsAreUnsupported(t *testing.T) {
	l := &Library{}
	l.handle.Store(1)
	_, err := l.BuildID()
	require.ErrorIs(t, err, errors.ErrUnsupported)
	require.ErrorContains(t, err, "backendGetBuildId")
	_, err = l.NewPowerConfig(0, 0)
	require.ErrorIs(t, err, errors.ErrUnsupported)
}

func TestClosedHandlesReturnErrClosed(t *testing.T) {
	onEachLibrary(t, func(t *testing.T, path string) {
		s := openSession(t, path)
		c := s.newContext(t)
		g, err := c.NewGraph("g", GraphOptions{})
		require.NoError(t, err)
		p, err := s.backend.NewProfile(ProfileBasic)
		require.NoError(t, err)
		power, err := s.library.NewPowerConfig(0, 0)
		require.NoError(t, err)
		for _, close := range []func() error{power.Close, p.Close, c.Close, s.device.Close, s.backend.Close, s.log.Close} {
			require.NoError(t, close())
			require.NoError(t, close(), "a second time")
		}
		_, sized := c.BinarySize()
		_, named := c.Graph(GraphInfo{Name: "g"})
		_, made := s.backend.NewContext(s.device, ContextOptions{})
		_, profiled := s.backend.NewProfile(ProfileBasic)
		_, logged := s.library.NewBackend(s.log)
		_, read := p.Events()
		_, listed := s.device.PlatformInfo()
		for i, err := range []error{
			sized, named, made, profiled, logged, read, listed, power.Set(Burst()), s.log.SetLevel(LogWarn),
			g.Finalize(nil), g.CreateTensor(&Tensor{}), g.AddNode(&Op{}), g.Execute(nil, nil), s.backend.Validate(&Op{}),
		} {
			require.ErrorIs(t, err, ErrClosed, "call %d", i)
		}
		require.NoError(t, s.library.Close())
		_, err = s.library.BuildID()
		require.ErrorIs(t, err, ErrClosed)
	})
}

func TestWrongHandlesReturnTheirCodes(t *testing.T) {
	onEachLibrary(t, func(t *testing.T, path string) {
		s := openSession(t, path)
		wrong := handle{library: s.library}
		wrong.id.Store(4711)
		backend, context := &Backend{}, &Context{}
		backend.handle.library, context.handle.library = s.library, s.library
		backend.handle.id.Store(4711)
		context.handle.id.Store(4711)
		graph := &Graph{context: context, id: 4711, name: "wrong"}

		_, err := backend.NewContext(nil, ContextOptions{})
		require.ErrorIs(t, err, ErrInvalidContext)
		require.ErrorIs(t, context.Close(), ErrInvalidContext)
		context.handle.id.Store(4711)
		require.ErrorIs(t, graph.Finalize(nil), ErrInvalidGraph)
		require.ErrorIs(t, graph.CreateTensor(&Tensor{Name: "x", Kind: Native, Type: Float16, Dims: []uint32{1}}), ErrInvalidTensorGraph)

		var failed *Error
		require.ErrorAs(t, graph.Finalize(nil), &failed)
		require.Equal(t, "graphFinalize", failed.Call)
		require.NotEmpty(t, failed.Message, "the library has a text for its code")
	})
}

func TestInvalidImagesAreRejected(t *testing.T) {
	onEachLibrary(t, func(t *testing.T, path string) {
		s := openSession(t, path)
		for name, image := range map[string][]byte{"empty": nil, "zeros": make([]byte, 4096), "text": []byte(strings.Repeat("no image ", 500))} {
			_, err := s.backend.LoadContext(s.device, image, ContextOptions{}, nil)
			var failed *Error
			require.ErrorAs(t, err, &failed, name)
			require.Equal(t, "contextCreateFromBinary", failed.Call)
			require.NotEmpty(t, failed.Detail, "%s: the log names the reason", name)
		}
	})
}

func TestPowerVotesAreAccepted(t *testing.T) {
	onEachLibrary(t, func(t *testing.T, path string) {
		s := openSession(t, path)
		p, err := s.library.NewPowerConfig(0, 0)
		require.NoError(t, err)
		require.NoError(t, p.Set(Burst()))
		require.NoError(t, p.Set(Vote{Mode: PowerSaver, DCVS: true}))
		require.ErrorIs(t, p.Set(Vote{RPCPolling: maxPolling + 1000}), ErrPowerInput)
		require.NoError(t, p.Close())
		unknown := &PowerConfig{library: s.library, infra: p.infra, id: 4711}
		require.ErrorIs(t, unknown.Set(Burst()), ErrPowerInput)
	})
}

func TestFailedOpenHasTheLoadersReason(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the texts are those of Linux's loader")
	}
	// The loader keeps its error text per thread, and goroutines change threads at system calls.
	failures := make([]error, 400)
	var wait sync.WaitGroup
	for i := range failures {
		wait.Go(func() {
			_, failures[i] = Open("nowhere-"+strconv.Itoa(i)+".so", Options{})
		})
	}
	wait.Wait()
	for i, err := range failures {
		require.ErrorContains(t, err, "nowhere-"+strconv.Itoa(i)+".so: cannot open shared object file")
	}
}

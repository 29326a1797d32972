package qnn

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// isEmulator tells whether a library is ours: some answers differ from the
// vendor's, because ours can more.
func (s *session) isEmulator() bool { return s.library.Provider().Name == "HTP_EMULATOR_SDNPU" }

func requireCode(t *testing.T, want Code, err error, what any) {
	t.Helper()
	if want == 0 {
		require.NoError(t, err, "%+v", what)
		return
	}
	var failed *Error
	require.ErrorAs(t, err, &failed, "%+v", what)
	require.Equal(t, want, failed.Code, "%+v: %v", what, err)
}

// saved is a finalized graph and its image.
func (s *session) saved(t *testing.T) (*linear, *Context, *Graph, []byte) {
	l, c := newLinear(t, "l"), s.newContext(t)
	g := l.build(t, s.backend, c, "g", nil)
	size, err := c.BinarySize()
	require.NoError(t, err)
	image, err := c.Binary(make([]byte, size))
	require.NoError(t, err)
	return l, c, g, image
}

// TestContextOptionsAreAnsweredAsRecorded: codes of the x86-64 library 2.40 at
// creation, at load, and on a living context; the emulator's where it can more.
func TestContextOptionsAreAnsweredAsRecorded(t *testing.T) {
	rows := []struct {
		options                   ContextOptions
		create, load, set, ofOurs Code // ofOurs: of load on the emulator
	}{
		{ContextOptions{Priority: PriorityHigh}, 0, 0, 0, 0},
		{ContextOptions{AsyncDepth: 4}, 0, 0, 1000, 0},
		{ContextOptions{MemoryHintMB: 100}, 1000, 1000, 1000, 1000},
		{ContextOptions{RetentionOrder: []string{"unknown"}}, 0, 1000, 5010, 1000},
		{ContextOptions{Strict: true}, 1000, 1000, 1000, 0},
		{ContextOptions{DeferGraphs: true}, 1000, 0, 1000, 1000}, // the vendor's then finds no graph (6023)
		{ContextOptions{SpillFill: SpillFill{SizeBytes: 1 << 20}}, 5010, 5010, 5010, 5010},
		{ContextOptions{FileReadBudgetMB: 64}, 0, 0, 0, 0},
		{ContextOptions{EstimateIOMemory: true}, 5010, 5010, 5010, 5010},
		{ContextOptions{FastInit: true}, 5010, 5010, 5010, 5010},
		{ContextOptions{Persistent: true}, 1000, 1000, 1000, 0},
		{ContextOptions{WeightSharing: true}, 0, 0, 0, 0},
		{ContextOptions{EnableGraphs: []string{"g"}}, 1000, 0, 1000, 0},
	}
	onEachLibrary(t, func(t *testing.T, path string) {
		s := openSession(t, path)
		_, c, _, image := s.saved(t)
		for _, row := range rows {
			made, err := s.backend.NewContext(s.device, row.options)
			requireCode(t, row.create, err, row)
			if err == nil {
				require.NoError(t, made.Close())
			}
			requireCode(t, row.set, c.Configure(row.options), row)
			loaded, err := s.backend.LoadContext(s.device, image, row.options, nil)
			if s.isEmulator() {
				row.load = row.ofOurs
			}
			requireCode(t, row.load, err, row)
			if err == nil {
				require.NoError(t, loaded.Close())
			}
		}
		closed, err := s.backend.NewContext(s.device, ContextOptions{})
		require.NoError(t, err)
		require.NoError(t, closed.Close())
		_, err = s.backend.NewContext(s.device, ContextOptions{SpillFill: SpillFill{1, closed}})
		require.ErrorIs(t, err, ErrClosed)
		if err := s.backend.ValidateImage(s.device, image); !s.isEmulator() {
			require.ErrorIs(t, err, ErrNotSupported)
		} else {
			require.NoError(t, err)
			image[len(image)-1000] ^= 1
			require.ErrorIs(t, s.backend.ValidateImage(s.device, image), ErrCreateFromBinary)
		}
	})
}

func TestGraphOptionsAreAnsweredAsRecorded(t *testing.T) {
	rows := []struct {
		options   GraphOptions
		finalized Code // of Configure on a finalized graph
	}{
		{GraphOptions{Priority: PriorityHigh}, 0},
		{GraphOptions{Optimization: 2}, 6024},
		{GraphOptions{VTCMMegabytes: 4}, 6024},
		{GraphOptions{VTCMBytes: 4 << 20}, 0},
		{GraphOptions{HVXThreads: 2}, 0},
		{GraphOptions{Half: true}, 0},
		{GraphOptions{Cores: 1}, 0},
		{GraphOptions{Finalize: []FinalizeOption{{Key: "P", Value: ScalarUint32(0)}}}, 6024},
	}
	onEachLibrary(t, func(t *testing.T, path string) {
		s := openSession(t, path)
		_, _, finished, _ := s.saved(t)
		c := s.newContext(t)
		for i, row := range rows {
			g, err := c.NewGraph(string(rune('a'+i)), row.options)
			require.NoError(t, err, "%+v", row)
			require.NoError(t, g.Configure(row.options), "%+v", row)
			requireCode(t, row.finalized, finished.Configure(row.options), row)
		}
		unknown := GraphOptions{Finalize: []FinalizeOption{{Key: "unknown", Text: "text"}}}
		g, err := c.NewGraph("y", unknown)
		require.NoError(t, err)
		if err := g.Configure(unknown); !s.isEmulator() { // creation does not look at the name, this does
			requireCode(t, 6000, err, unknown)
		}
		_, err = c.NewGraph("z", GraphOptions{Finalize: []FinalizeOption{{Key: ""}}})
		require.ErrorIs(t, err, ErrName)
		_, err = c.BinarySize()
		require.Error(t, err, "graphs that are not finalized")
	})
}

func TestDeviceOptionsAreAnsweredAsRecorded(t *testing.T) {
	onEachLibrary(t, func(t *testing.T, path string) {
		s := openSession(t, path)
		for _, row := range []struct {
			options DeviceOptions
			want    Code
		}{
			{DeviceOptions{Arch: 75}, 0},
			{DeviceOptions{SoC: 57, SignedPD: true}, 0},
			{DeviceOptions{Cores: []uint32{0}}, 0},
			{DeviceOptions{SoC: 60, Cores: []uint32{0}}, 0},
			{DeviceOptions{Cores: []uint32{0, 1}}, 14001},
		} {
			d, err := s.library.NewDevice(s.log, row.options)
			requireCode(t, row.want, err, row)
			if err == nil {
				require.NoError(t, d.Close())
			}
		}
	})
}

func TestCapabilitiesAreThoseOfTheVendorsLibrary(t *testing.T) {
	onEachLibrary(t, func(t *testing.T, path string) {
		s := openSession(t, path)
		for capability, want := range map[Capability]bool{
			CapabilityComposition: true, CapabilityCaching: true, CapabilityContextConfig: true, CapabilityEnableGraphs: true,
			CapabilityMemoryLimitHint: true, CapabilityPersistentBinary: true, CapabilityCompatibility: true,
			CapabilityValidateBinary: true, CapabilityLoadWithSignal: true, CapabilityListAsync: s.isEmulator(),
			CapabilityIncremental: false, CapabilityDeferredInit: false, CapabilityRetentionOrder: false,
			CapabilityGraphConfig: true, CapabilityAsyncExecution: s.isEmulator(), CapabilityGraphPriority: true,
			CapabilityExecuteSignal: true, CapabilityExecution: true, CapabilityExecuteProfiling: true,
			CapabilityOnlinePrepare: true, CapabilityMemHandle: s.isEmulator(), CapabilityContextTensors: false,
			CapabilityDynamicShapes: false,
		} {
			got, err := s.library.HasCapability(capability)
			require.NoError(t, err)
			require.Equal(t, want, got, "capability %d", capability)
		}
	})
}

func TestThereAreNoSignalsOnThisMachine(t *testing.T) {
	onEachLibrary(t, func(t *testing.T, path string) {
		s := openSession(t, path)
		_, err := s.backend.NewSignal()
		require.ErrorIs(t, err, ErrNotSupported)
		wrong := &Signal{}
		wrong.handle.library = s.library
		require.ErrorIs(t, wrong.Trigger(), ErrClosed)
		require.NoError(t, wrong.Close())
		wrong.handle.id.Store(4711)
		require.ErrorIs(t, wrong.Trigger(), ErrNotSupported)
		l, _, g, _ := s.saved(t)
		b, err := g.Bind(l.bindings(make([]byte, 2*linearRows*linearOut)))
		require.NoError(t, err)
		if s.isEmulator() { // the vendor's may follow the number
			require.ErrorIs(t, b.ExecuteWith(nil, wrong), ErrNotSupported)
		}
		require.NoError(t, b.ExecuteWith(nil, nil))
	})
}

func TestPowerVotesOfEachKindAreAnswered(t *testing.T) {
	onEachLibrary(t, func(t *testing.T, path string) {
		s := openSession(t, path)
		p, err := s.library.NewPowerConfig(0, 0)
		require.NoError(t, err)
		for _, v := range []Vote{{HMXTimeout: time.Millisecond}, {AdaptivePolling: time.Millisecond}, {RPCLatency: time.Microsecond}} {
			require.NoError(t, p.Set(v), "%+v", v)
		}
		require.NoError(t, p.Set(Vote{HMX: HMXMax}), "v75 has it")
		old, err := s.library.NewDevice(s.log, DeviceOptions{SoC: 43})
		require.NoError(t, err)
		for _, v := range []Vote{{HMX: HMXMax}, {DDRMode: 1}} { // the vendor's looks at the last device opened, a v73
			if err := p.Set(v); !s.isEmulator() {
				require.ErrorIs(t, err, ErrPowerUnsupported)
				require.ErrorIs(t, err, errors.ErrUnsupported)
			} else {
				require.NoError(t, err)
			}
		}
		require.NoError(t, old.Close())
		require.ErrorIs(t, p.Set(Vote{AdaptivePolling: -1}), ErrPowerInput)
		require.NoError(t, p.SetGrowSize(0, 0, 1<<20))
		require.NoError(t, p.Close())
		require.ErrorIs(t, p.SetGrowSize(0, 0, 1<<20), ErrClosed)
		_, err = s.library.NewPowerConfig(7, 0)
		require.ErrorIs(t, err, ErrPowerInput)
	})
	hmx := (&Vote{HMX: HMXTurbo, DDRMode: 2, HMXTimeout: time.Millisecond, AdaptivePolling: 2 * time.Millisecond}).encode(3)
	var got [][]uint32
	for _, c := range hmx[1:] {
		got = append(got, append([]uint32{c.option}, c.value[:5]...))
	}
	require.Equal(t, [][]uint32{{4, 1000, 0, 0, 0, 0}, {6, 2000, 0, 0, 0, 0}, {7, 2, 0, 0, 0, 0}, {5, 0, 0x280, 0x280, 0x280, 1}}, got)
}

// flatten lists the types of events, parts behind their whole.
func flatten(events []Event) (types []EventType) {
	for _, e := range events {
		types = append(types, e.Type)
		types = append(types, flatten(e.Parts)...)
	}
	return types
}

func TestProfilesHaveTheEventsOfTheVendorsLibrary(t *testing.T) {
	onEachLibrary(t, func(t *testing.T, path string) {
		s := openSession(t, path)
		for level, execute := range map[ProfileLevel][]EventType{
			ProfileBasic:    {EventHVXThreads, EventExecuteNPU, EventExecute},
			ProfileDetailed: {EventHVXThreads, 3009, EventVTCMAcquire, EventPowerUp, EventExecuteCycles, EventNode, EventExecuteNPU, EventExecute},
		} {
			p, err := s.backend.NewProfile(level)
			require.NoError(t, err)
			l, c := newLinear(t, "l"), s.newContext(t)
			g := l.build(t, s.backend, c, "g", p)
			events, err := p.Events()
			require.NoError(t, err)
			require.Equal(t, EventFinalize, events[0].Type)
			require.Equal(t, "µs", events[0].Unit.String())
			b, err := g.Bind(l.bindings(make([]byte, 2*linearRows*linearOut)))
			require.NoError(t, err)
			require.NoError(t, b.Execute(p))
			events, err = p.Events()
			require.NoError(t, err)
			require.Equal(t, execute, slices.Compact(flatten(events)))
			whole, parts := Event{}, uint64(0)
			for _, e := range events {
				if e.Type == EventExecuteCycles {
					whole = e
				}
			}
			for _, e := range whole.Parts {
				require.Equal(t, UnitCycles, e.Unit)
				require.Contains(t, e.Name, ":OpId_"[1:])
				parts += e.Value
			}
			require.Equal(t, whole.Value, parts)
			require.ErrorIs(t, p.Configure(ProfileOptions{MaxEvents: 10}), ErrNotSupported)
			err = p.Configure(ProfileOptions{OpTrace: true})
			requireCode(t, map[ProfileLevel]Code{ProfileBasic: 1004}[level], err, level)

			size, err := c.BinarySize()
			require.NoError(t, err)
			image, err := c.Binary(make([]byte, size))
			require.NoError(t, err)
			loaded, err := s.backend.LoadContext(s.device, image, ContextOptions{}, p)
			require.NoError(t, err)
			events, err = p.Events()
			require.NoError(t, err)
			require.Equal(t, []EventType{EventLoadNPU, EventInit}, flatten(events))
			require.NoError(t, loaded.Close())
			require.NoError(t, p.Close())
		}
	})
	require.Equal(t, "unit 9", EventUnit(9).String())
}

func TestVerboseMessagesAreCopiedOrEmpty(t *testing.T) {
	onEachLibrary(t, func(t *testing.T, path string) {
		s := openSession(t, path)
		for _, code := range []Code{1000, 4011, 5003, 7004, 30010} {
			text := s.library.VerboseMessage(code)
			if s.isEmulator() && code < 15000 {
				require.Contains(t, text, s.library.ErrorMessage(code))
			} else {
				require.Empty(t, text, "the x86-64 library has none")
			}
			if code < 15000 {
				require.NotEmpty(t, s.library.ErrorMessage(code))
			}
		}
	})
}

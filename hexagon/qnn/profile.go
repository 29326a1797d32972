package qnn

import (
	"fmt"
	"unsafe"
)

// Bounds of what a library may report.
const (
	eventLimit = 1 << 16
	eventDepth = 4
)

// ProfileLevel is the detail of a [Profile].
type ProfileLevel uint32

// The profile levels.
const (
	ProfileBasic    ProfileLevel = 1    // times of whole calls
	ProfileDetailed ProfileLevel = 2    // and of each node
	ProfileLinting  ProfileLevel = 7001 // and what each node waits for; the Hexagon library's own
)

// EventType says what an event measures. Values above 1000 are HTP's own.
type EventType uint32

// Types of events. Those of 1000 and more are the Hexagon library's own.
const (
	EventInit           EventType = 100
	EventFinalize       EventType = 300
	EventExecute        EventType = 400
	EventNode           EventType = 404
	EventQueueWait      EventType = 405
	EventPreprocess     EventType = 406
	EventDevice         EventType = 407
	EventPostprocess    EventType = 408
	EventDeinit         EventType = 500
	EventTrace          EventType = 600
	EventLoadHostRPC    EventType = 1002
	EventLoadRPC        EventType = 1003
	EventLoadNPU        EventType = 1004
	EventEstimates      EventType = 2004 // simulated cycles and bytes, as parts
	EventExecuteHostRPC EventType = 3001
	EventExecuteRPC     EventType = 3002
	EventExecuteCycles  EventType = 3003 // of the accelerator
	EventExecuteNPU     EventType = 3004 // µs on the accelerator
	EventVTCMAcquire    EventType = 3010
	EventPowerUp        EventType = 3011
	EventFreeRPC        EventType = 4001
	EventHVXThreads     EventType = 8001
)

// EventUnit is the unit of an event's value.
type EventUnit uint32

// The units.
const (
	UnitMicroseconds EventUnit = 1
	UnitBytes        EventUnit = 2
	UnitCycles       EventUnit = 3
	UnitCount        EventUnit = 4
	UnitObject       EventUnit = 5
	UnitNone         EventUnit = 6
)

// String returns the unit's sign.
func (u EventUnit) String() string {
	if names := []string{"µs", "B", "cycles", "×", "object", ""}; u >= 1 && int(u) <= len(names) {
		return names[u-1]
	}
	return fmt.Sprintf("unit %d", uint32(u))
}

// Event is one measurement and its parts.
type Event struct {
	Type  EventType
	Unit  EventUnit
	Value uint64
	Name  string
	Parts []Event
	// Time is the library's clock when the event ended, in µs; 0 where the
	// library does not extend its events.
	Time uint64
}

// Profile collects measurements of the calls that it is given to. The x86-64
// library makes its cycles up from host time.
type Profile struct{ handle handle }

// NewProfile opens a profile.
func (b *Backend) NewProfile(level ProfileLevel) (*Profile, error) {
	backend, err := b.handle.live("backend")
	if err != nil {
		return nil, err
	}
	var id uintptr
	if err := b.handle.library.call(fnProfileCreate, backend, uintptr(level), uintptr(unsafe.Pointer(&id))); err != nil {
		return nil, err
	}
	p := &Profile{}
	p.handle.library = b.handle.library
	p.handle.id.Store(id)
	return p, nil
}

// ProfileOptions tunes a [Profile]. Zero fields leave the choice to the library.
type ProfileOptions struct {
	// MaxEvents bounds the events that are kept.
	MaxEvents uint64
	// OpTrace traces each operator on each thread.
	OpTrace bool
}

// Options of QnnProfile_Config_t.
const (
	profileMaxEvents = 1
	profileOpTrace   = 2
)

// Configure changes what the profile keeps from the next call on.
func (p *Profile) Configure(o ProfileOptions) error {
	id, err := p.handle.live("profile")
	if err != nil {
		return err
	}
	var c configs
	if o.MaxEvents != 0 {
		c.add(profileMaxEvents, o.MaxEvents)
	}
	if o.OpTrace {
		c.add(profileOpTrace, 1)
	}
	defer c.done()
	return p.handle.library.call(fnProfileSetConfig, id, uintptr(c.pointer()))
}

// Close frees the profile.
func (p *Profile) Close() error { return p.handle.free(fnProfileFree) }

func (p *Profile) optional() (uintptr, error) {
	if p == nil {
		return 0, nil
	}
	return optional(&p.handle, "profile")
}

// Events returns what the last call with this profile measured.
func (p *Profile) Events() ([]Event, error) {
	id, err := p.handle.live("profile")
	if err != nil {
		return nil, err
	}
	r := eventReader{source: libraryEvents{p.handle.library}, left: eventTotal}
	return r.events(id, 0)
}

// eventSource is where events come from: a library, or what a test makes up.
type eventSource interface {
	// numbers lists the events of a profile, at depth 0, or the parts of an event.
	numbers(owner uintptr, depth int) ([]uint64, error)
	// event is one without its parts.
	event(number uint64) (Event, error)
}

// eventTotal bounds the events of a profile: lists that are each within their
// bound, or an event that is part of itself, would otherwise have no end.
const eventTotal = 1 << 20

// eventReader reads events with their parts.
type eventReader struct {
	source eventSource
	left   int // events that may still come
}

func (r *eventReader) events(owner uintptr, depth int) ([]Event, error) {
	if depth > eventDepth {
		return nil, fmt.Errorf("qnn: profile events nest deeper than %d: %w", eventDepth, ErrSize)
	}
	numbers, err := r.source.numbers(owner, depth)
	if err != nil {
		return nil, err
	}
	if r.left -= len(numbers); r.left < 0 {
		return nil, fmt.Errorf("qnn: more than %d profile events: %w", eventTotal, ErrSize)
	}
	events := make([]Event, len(numbers))
	for i, number := range numbers {
		if events[i], err = r.source.event(number); err != nil {
			return nil, err
		}
		if events[i].Parts, err = r.events(uintptr(number), depth+1); err != nil {
			return nil, err
		}
	}
	return events, nil
}

// libraryEvents asks a library.
type libraryEvents struct{ library *Library }

func (l libraryEvents) numbers(owner uintptr, depth int) ([]uint64, error) {
	f := fnProfileGetSubEvents
	if depth == 0 {
		f = fnProfileGetEvents
	}
	var ids *uint64
	var n uint32
	if err := l.library.call(f, owner, uintptr(unsafe.Pointer(&ids)), uintptr(unsafe.Pointer(&n))); err != nil {
		return nil, err
	}
	return list(ids, n, eventLimit)
}

func (l libraryEvents) event(number uint64) (Event, error) {
	var c cEventData
	if err := l.library.call(fnProfileGetEventData, uintptr(number), uintptr(unsafe.Pointer(&c))); err != nil {
		return Event{}, err
	}
	e := Event{Type: EventType(c.kind), Unit: EventUnit(c.unit), Value: c.value, Name: goString(c.name)}
	var x cExtendedEventData
	if l.library.call(fnProfileGetExtendedEventData, uintptr(number), uintptr(unsafe.Pointer(&x))) == nil && x.version == 1 {
		e.Time = x.stamp
	}
	return e, nil
}

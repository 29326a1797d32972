package qnn

import (
	"strings"
	"sync"
	"sync/atomic"
	"unsafe"
)

const (
	lineLimit  = 4096 // bytes of one rendered line
	lineMemory = 8    // error lines kept for Error.Detail
)

// Log receives the library's log lines. Pass it to [Library.NewBackend] and
// [Library.NewDevice], and close it after both.
type Log struct {
	handle handle
	slot   *logSlot
}

// NewLog opens a log for lines up to a level and passes each line to sink. The sink
// is called from any thread, must return soon and must not call this package. A nil
// sink drops the lines. Error lines are also kept for [Error.Detail].
func (l *Library) NewLog(level LogLevel, sink func(level LogLevel, text string)) (*Log, error) {
	slot := takeSlot(&logTarget{library: l, sink: sink})
	var id uintptr
	if err := l.call(fnLogCreate, slot.callback, uintptr(level), uintptr(unsafe.Pointer(&id))); err != nil {
		slot.release()
		return nil, err
	}
	log := &Log{slot: slot}
	log.handle.library = l
	log.handle.id.Store(id)
	return log, nil
}

// SetLevel changes the level up to which lines are logged.
func (g *Log) SetLevel(level LogLevel) error {
	id, err := g.handle.live("log")
	if err != nil {
		return err
	}
	return g.handle.library.call(fnLogSetLogLevel, id, uintptr(level))
}

// Close closes the log.
func (g *Log) Close() error {
	if g.handle.id.Load() == 0 {
		return nil
	}
	err := g.handle.free(fnLogFree)
	g.slot.release()
	return err
}

func (g *Log) optional() (uintptr, error) {
	if g == nil {
		return 0, nil
	}
	return optional(&g.handle, "log")
}

// logTarget is the destination of one open log's lines.
type logTarget struct {
	library *Library
	sink    func(LogLevel, string)
}

// logSlot is one C callback and the log that currently uses it.
type logSlot struct {
	callback uintptr
	target   atomic.Pointer[logTarget]
}

// idleSlots holds the callbacks of closed logs for reuse.
var idleSlots struct {
	sync.Mutex
	list []*logSlot // guarded by Mutex
}

// takeSlot returns a callback for target: an idle one or a new one.

func takeSlot(target *logTarget) *logSlot {
	idleSlots.Lock()
	defer idleSlots.Unlock()
	var slot *logSlot
	if n := len(idleSlots.list); n > 0 {
		slot, idleSlots.list = idleSlots.list[n-1], idleSlots.list[:n-1]
	} else {
		slot = &logSlot{}
		slot.callback = newCallback(slot.line)
	}
	slot.target.Store(target)
	return slot
}

// release makes the callback idle. If the library is inside the callback, that line
// still goes to the old target.
func (s *logSlot) release() {
	s.target.Store(nil)
	idleSlots.Lock()
	defer idleSlots.Unlock()
	idleSlots.list = append(idleSlots.list, s)
}

// line is the C callback. It truncates a line that is longer than the buffer, because
// a va_list can be read only once.
func (s *logSlot) line(format *byte, level uint32, _ uint64, args uintptr) uintptr {
	target := s.target.Load()
	if target == nil || format == nil {
		return 0
	}
	text := goString(format)
	if print := vsnprintf(); print != 0 && args != 0 {
		buffer := make([]byte, lineLimit)
		invoke(print, uintptr(unsafe.Pointer(&buffer[0])), lineLimit,
			uintptr(unsafe.Pointer(format)), args)
		text = goString(&buffer[0])
	}
	text = trimLine(text)
	if text == "" || target.library.isNoise(text) {
		return 0
	}
	if LogLevel(level) == LogError {
		target.library.lines.add(text)
	}
	if target.sink != nil {
		target.sink(LogLevel(level), text)
	}
	return 0
}

// trimLine removes the vendor's level mark, such as "<E> ".
func trimLine(text string) string {
	text = strings.TrimSpace(text)
	if len(text) > 3 && text[0] == '<' && text[2] == '>' {
		text = strings.TrimSpace(text[3:])
	}
	return text
}

// errorLines keeps the last lines at error level.
type errorLines struct {
	mu    sync.Mutex
	count uint64             // guarded by mu
	ring  [lineMemory]string // guarded by mu
}

func (e *errorLines) add(text string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.ring[e.count%lineMemory] = text
	e.count++
}

// mark returns the number of lines so far. Pass it to since.
func (e *errorLines) mark() uint64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.count
}

// since returns the kept lines after a mark, the oldest first.
func (e *errorLines) since(mark uint64) []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	var lines []string
	for i := max(mark, e.count-min(e.count, lineMemory)); i < e.count; i++ {
		lines = append(lines, e.ring[i%lineMemory])
	}
	return lines
}

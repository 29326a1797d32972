package qnn

import (
	"runtime"
	"unsafe"
)

// ExecuteAsync puts a run in line and returns; done is called once, from any
// thread, with its error, and must not call this package. Where it returns an
// error, done is not called. The binding, what is bound and the graph's context
// must stay as they are until then. The vendor's x86-64 library has no such
// runs.
func (b *Binding) ExecuteAsync(p *Profile, s *Signal, done func(error)) error {
	id, signal, profile, err := b.handles(p, s)
	if err != nil {
		return err
	}
	library := b.graph.context.handle.library
	run := &run{library: library, binding: b, profile: p, done: done}
	run.number = await(run)
	err = library.call(fnGraphExecuteAsync, id,
		uintptr(unsafe.Pointer(unsafe.SliceData(b.inputs))), uintptr(len(b.inputs)),
		uintptr(unsafe.Pointer(unsafe.SliceData(b.outputs))), uintptr(len(b.outputs)),
		profile, signal, ranCallback(), run.number)
	if err != nil {
		forget(run.number)
	}
	runtime.KeepAlive(run)
	return err
}

// run is a run in line. It keeps what the library uses.
type run struct {
	library *Library
	number  uintptr
	binding *Binding
	profile *Profile
	done    func(error)
}

func (r *run) notified(_ uint32, _, status uintptr) {
	if _, first := waiting.LoadAndDelete(r.number); !first {
		return
	}
	if status != 0 {
		r.done(r.library.failure(fnGraphExecuteAsync.String(), status, r.library.lines.mark()))
		return
	}
	r.done(nil)
}

package qnn

import "unsafe"

// Signal ends or bounds a run that is given to [Binding.ExecuteWith]. The
// vendor's x86-64 library has none.
type Signal struct{ handle handle }

// NewSignal makes a signal.
func (b *Backend) NewSignal() (*Signal, error) {
	backend, err := b.handle.live("backend")
	if err != nil {
		return nil, err
	}
	var id uintptr
	if err := b.handle.library.call(fnSignalCreate, backend, 0, uintptr(unsafe.Pointer(&id))); err != nil {
		return nil, err
	}
	s := &Signal{}
	s.handle.library = b.handle.library
	s.handle.id.Store(id)
	return s, nil
}

// Trigger ends what runs with the signal.
func (s *Signal) Trigger() error {
	id, err := s.handle.live("signal")
	if err != nil {
		return err
	}
	return s.handle.library.call(fnSignalTrigger, id)
}

// Close frees the signal.
func (s *Signal) Close() error { return s.handle.free(fnSignalFree) }

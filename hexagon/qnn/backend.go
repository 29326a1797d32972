package qnn

import "unsafe"

// operationLimit bounds the list of operators that a library may report.
const operationLimit = 1 << 12

// Backend is an open backend of the library; several may be open at once.
type Backend struct{ handle handle }

// NewBackend opens a backend. The log may be nil; the library then writes its
// errors to stderr or stdout.
func (l *Library) NewBackend(log *Log) (*Backend, error) {
	logID, err := log.optional()
	if err != nil {
		return nil, err
	}
	var id uintptr
	if err := l.call(fnBackendCreate, logID, 0, uintptr(unsafe.Pointer(&id))); err != nil {
		return nil, err
	}
	b := &Backend{}
	b.handle.library = l
	b.handle.id.Store(id)
	return b, nil
}

// Close frees the backend.
func (b *Backend) Close() error { return b.handle.free(fnBackendFree) }

// Operation is an operator that the library knows.
type Operation struct{ Package, Name string }

// SupportedOperations lists the operators that the library knows.
func (b *Backend) SupportedOperations() ([]Operation, error) {
	id, err := b.handle.live("backend")
	if err != nil {
		return nil, err
	}
	var n uint32
	var names *cOperationName
	if err := b.handle.library.call(fnBackendGetSupportedOperations, id,
		uintptr(unsafe.Pointer(&n)), uintptr(unsafe.Pointer(&names))); err != nil {
		return nil, err
	}
	raw, err := list(names, n, operationLimit)
	if err != nil {
		return nil, err
	}
	operations := make([]Operation, len(raw))
	for i, o := range raw {
		operations[i] = Operation{Package: goString(o.pkg), Name: goString(o.name)}
	}
	return operations, nil
}

// Validate asks whether the library can run a node: [ErrOpUnknown] for an
// operator it does not have, [ErrOpInvalid] for inputs, outputs or parameters
// that do not fit. The vendor's [Graph.AddNode] and [Graph.Finalize] accept
// nodes that this refuses, so ask for every node. Its tensors need no IDs.
func (b *Backend) Validate(op *Op) error {
	id, err := b.handle.live("backend")
	if err != nil {
		return err
	}
	c, err := op.encode()
	if err != nil {
		return err
	}
	return b.handle.library.callByValue(fnBackendValidateOpConfig, id, c)
}

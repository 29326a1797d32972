package qnn

import "unsafe"

// ContextProperty is a question for [Context.Property]
// (QnnHtpContext_GetPropertyOption_t).
type ContextProperty uint32

// The properties of a context. The vendor's x86-64 library answers none.
const (
	// ContextAlignment is the alignment in bytes of buffers that the client lends.
	ContextAlignment ContextProperty = 1
	// ContextSpillBytes is what [SpillFill].SizeBytes must at least be.
	ContextSpillBytes ContextProperty = 2
	// ContextWeightBytes is the memory that the context's weights take.
	ContextWeightBytes ContextProperty = 3
)

// Property asks a context for a number.
func (c *Context) Property(p ContextProperty) (uint64, error) {
	id, err := c.handle.live("context")
	if err != nil {
		return 0, err
	}
	return c.handle.library.property(fnContextGetProperty, id, uint32(p))
}

// Property asks a graph for a number. Public headers name none for Hexagon.
func (g *Graph) Property(option uint32) (uint64, error) {
	id, err := g.live()
	if err != nil {
		return 0, err
	}
	return g.context.handle.library.property(fnGraphGetProperty, id, option)
}

// Property asks a backend for a number. Public headers name none for Hexagon.
func (b *Backend) Property(option uint32) (uint64, error) {
	id, err := b.handle.live("backend")
	if err != nil {
		return 0, err
	}
	return b.handle.library.property(fnBackendGetProperty, id, option)
}

func (l *Library) property(f function, id uintptr, option uint32) (uint64, error) {
	custom := &cCustomProperty{option: option}
	list := []*cProperty{{custom: custom}, nil}
	if err := l.call(f, id, uintptr(unsafe.Pointer(&list[0]))); err != nil {
		return 0, err
	}
	return custom.value, nil
}

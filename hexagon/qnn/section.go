package qnn

import (
	"fmt"
	"runtime"
	"unsafe"
)

// Section is a part of an image that can be exchanged by itself, adapters for
// example (QnnContext_SectionType_t).
type Section uint32

// The sections: everything that was updated, or the half of it.
const (
	SectionUpdated Section = 1
	SectionWeights Section = 2
	SectionScales  Section = 3
)

// SectionBytes is the size of a section of a graph; of all graphs where g is nil.
func (c *Context) SectionBytes(g *Graph, s Section) (uint64, error) {
	context, graph, err := c.sectionOf(g)
	if err != nil {
		return 0, err
	}
	var size uint64
	err = c.handle.library.call(fnContextGetBinarySectionSize, context, graph, uintptr(s), uintptr(unsafe.Pointer(&size)))
	return size, err
}

// Section writes a section into buffer, which has at least [Context.SectionBytes],
// and returns the part that was written.
func (c *Context) Section(g *Graph, s Section, buffer []byte) ([]byte, error) {
	context, graph, err := c.sectionOf(g)
	if err != nil {
		return nil, err
	}
	b := newContextBuffer(buffer)
	var written uint64
	if err := c.handle.library.call(fnContextGetBinarySection, context, graph, uintptr(s),
		uintptr(unsafe.Pointer(b)), uintptr(unsafe.Pointer(&written)), 0, 0); err != nil {
		return nil, err
	}
	if written > uint64(len(buffer)) {
		return nil, fmt.Errorf("qnn: contextGetBinarySection: %d bytes written into %d: %w", written, len(buffer), ErrSize)
	}
	return buffer[:written], nil
}

// ApplySection has a context loaded from an image use a section that
// [Context.Section] wrote.
func (c *Context) ApplySection(g *Graph, s Section, data []byte) error {
	context, graph, err := c.sectionOf(g)
	if err != nil {
		return err
	}
	b := newContextBuffer(data)
	defer runtime.KeepAlive(b)
	return c.handle.library.call(fnContextApplyBinarySection, context, graph, uintptr(s), uintptr(unsafe.Pointer(b)), 0, 0)
}

func (c *Context) sectionOf(g *Graph) (context, graph uintptr, err error) {
	if context, err = c.handle.live("context"); err == nil && g != nil {
		graph, err = g.live()
	}
	return context, graph, err
}

func newContextBuffer(data []byte) *cContextBuffer {
	return &cContextBuffer{version: 1, data: unsafe.Pointer(unsafe.SliceData(data)), size: uint64(len(data))}
}

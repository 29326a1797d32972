package qnn

import (
	"fmt"
	"runtime"
	"unsafe"
)

// Options of QnnContext_Config_t and QnnHtpContext_CustomConfig_t.
const (
	contextPriority     = 1
	contextEnableGraphs = 5
	contextPersistent   = 7
	htpWeightSharing    = 1
)

// ContextOptions tunes a [Context]. The zero value is ready to use; the
// x86-64 library refuses some fields with [ErrNotSupported].
type ContextOptions struct {
	// Priority orders contexts. Zero leaves it to the library.
	Priority Priority
	// Persistent promises that the image given to [Backend.LoadContext] stays
	// readable and unchanged until the context is closed, so that the library
	// need not copy it. Go memory is kept by the context; a mapped file must be
	// unmapped after its Close.
	Persistent bool
	// EnableGraphs names the graphs of the image that will be used. Empty means
	// all.
	EnableGraphs []string
	// WeightSharing stores equal weights of several graphs once.
	WeightSharing bool
}

func (o *ContextOptions) encode(c *configs) error {
	if o.Priority != DefaultPriority {
		c.add(contextPriority, uint64(o.Priority))
	}
	if o.Persistent {
		c.add(contextPersistent, 1)
	}
	if len(o.EnableGraphs) > 0 {
		if err := c.addNames(contextEnableGraphs, o.EnableGraphs); err != nil {
			return fmt.Errorf("qnn: enabled graph %w", err)
		}
	}
	if o.WeightSharing {
		c.addCustom(cCustomConfig{option: htpWeightSharing, value: [7]uint64{1}})
	}
	return nil
}

// Context holds graphs and their weights in the library's memory.
type Context struct {
	handle handle
	image  []byte // kept for a persistent context
}

// NewContext makes an empty context, whose graphs are then built. A nil device
// means the default one.
func (b *Backend) NewContext(d *Device, o ContextOptions) (*Context, error) {
	return b.newContext(d, o, func(backend, device uintptr, config unsafe.Pointer, id *uintptr) error {
		return b.handle.library.call(fnContextCreate, backend, device, uintptr(config), uintptr(unsafe.Pointer(id)))
	})
}

// LoadContext makes a context of an image that [Context.Binary] wrote. A nil
// device means the default one, a nil profile none. The vendor's library
// accepts images with flipped bytes: check a sum of your own before.
func (b *Backend) LoadContext(d *Device, image []byte, o ContextOptions, p *Profile) (*Context, error) {
	profile, err := p.optional()
	if err != nil {
		return nil, err
	}
	defer runtime.KeepAlive(image)
	context, err := b.newContext(d, o, func(backend, device uintptr, config unsafe.Pointer, id *uintptr) error {
		return b.handle.library.call(fnContextCreateFromBinary, backend, device, uintptr(config),
			uintptr(unsafe.Pointer(unsafe.SliceData(image))), uintptr(len(image)), uintptr(unsafe.Pointer(id)), profile)
	})
	if err == nil && o.Persistent {
		context.image = image
	}
	return context, err
}

func (b *Backend) newContext(d *Device, o ContextOptions, create func(backend, device uintptr, config unsafe.Pointer, id *uintptr) error) (*Context, error) {
	backend, err := b.handle.live("backend")
	if err != nil {
		return nil, err
	}
	var device uintptr
	if d != nil {
		if device, err = d.handle.live("device"); err != nil {
			return nil, err
		}
	}
	var c configs
	if err := o.encode(&c); err != nil {
		return nil, err
	}
	defer c.done()
	id := new(uintptr)
	if err := create(backend, device, c.pointer(), id); err != nil {
		return nil, err
	}
	context := &Context{}
	context.handle.library = b.handle.library
	context.handle.id.Store(*id)
	return context, nil
}

// Close frees the context, its graphs and their memory. It waits for a run of
// one of them to end.
func (c *Context) Close() error {
	err := c.handle.free(fnContextFree, 0)
	c.image = nil
	return err
}

// BinarySize returns the bytes that [Context.Binary] will want. All graphs
// must be finalized.
func (c *Context) BinarySize() (uint64, error) {
	id, err := c.handle.live("context")
	if err != nil {
		return 0, err
	}
	var size uint64
	err = c.handle.library.call(fnContextGetBinarySize, id, uintptr(unsafe.Pointer(&size)))
	return size, err
}

// Binary writes the context's image into buffer, which has at least the bytes
// of [Context.BinarySize], and returns the part that was written.
func (c *Context) Binary(buffer []byte) ([]byte, error) {
	id, err := c.handle.live("context")
	if err != nil {
		return nil, err
	}
	var written uint64
	if err := c.handle.library.call(fnContextGetBinary, id, uintptr(unsafe.Pointer(unsafe.SliceData(buffer))),
		uintptr(len(buffer)), uintptr(unsafe.Pointer(&written))); err != nil {
		return nil, err
	}
	if written > uint64(len(buffer)) {
		return nil, fmt.Errorf("qnn: contextGetBinary: %d bytes written into %d: %w", written, len(buffer), ErrSize)
	}
	return buffer[:written], nil
}

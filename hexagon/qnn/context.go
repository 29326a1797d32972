package qnn

import (
	"fmt"
	"runtime"
	"unsafe"
)

// Options of QnnContext_Config_t and QnnHtpContext_CustomConfig_t.
const (
	contextPriority       = 1
	contextAsyncDepth     = 4
	contextEnableGraphs   = 5
	contextMemoryHint     = 6
	contextPersistent     = 7
	contextCompatibility  = 8
	contextDeferGraphs    = 9
	contextRetentionOrder = 10

	htpWeightSharing    = 1
	htpSpillFillGroup   = 2
	htpFileReadBudget   = 3
	htpEstimateIOMemory = 6
	htpFastInit         = 8
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
	// AsyncDepth is how many runs may wait in line.
	AsyncDepth uint32
	// MemoryHintMB together with Persistent makes the library swap graphs in and
	// out by itself; the number is only a hint.
	MemoryHintMB uint64
	// RetentionOrder names the graphs that the library swaps out last, the most
	// important first.
	RetentionOrder []string
	// Strict refuses an image that is not optimal for this library and chip.
	Strict bool
	// DeferGraphs leaves loading a graph to [Context.Graph].
	DeferGraphs bool
	// SpillFill lets contexts use one memory for intermediate results.
	SpillFill SpillFill
	// FileReadBudgetMB bounds the memory for reading an image.
	FileReadBudgetMB uint64
	// EstimateIOMemory keeps room for buffers in the session that is chosen.
	EstimateIOMemory bool
	// FastInit loads with several threads.
	FastInit bool
}

// SpillFill describes a group of contexts that share spill memory. They must
// not run at the same time.
type SpillFill struct {
	// SizeBytes is the most that any of them needs. Zero means no group.
	SizeBytes uint64
	// First is the group's first context; nil makes this one the first.
	First *Context
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
	if o.MemoryHintMB != 0 {
		c.add(contextMemoryHint, o.MemoryHintMB)
	}
	if len(o.RetentionOrder) > 0 {
		if err := c.addNames(contextRetentionOrder, o.RetentionOrder); err != nil {
			return fmt.Errorf("qnn: retained graph %w", err)
		}
	}
	if o.AsyncDepth != 0 {
		const numeric = 0 // the depth is given as a number
		c.add(contextAsyncDepth, numeric|uint64(o.AsyncDepth)<<32)
	}
	for _, flag := range []struct {
		on     bool
		option uint32
	}{{o.Strict, contextCompatibility}, {o.DeferGraphs, contextDeferGraphs}} {
		if flag.on {
			c.add(flag.option, 1)
		}
	}
	return o.encodeCustom(c)
}

func (o *ContextOptions) encodeCustom(c *configs) error {
	for _, flag := range []struct {
		on     bool
		option uint32
	}{{o.WeightSharing, htpWeightSharing}, {o.EstimateIOMemory, htpEstimateIOMemory}, {o.FastInit, htpFastInit}} {
		if flag.on {
			c.addCustom(cCustomConfig{option: flag.option, value: [7]uint64{1}})
		}
	}
	if o.FileReadBudgetMB != 0 {
		c.addCustom(cCustomConfig{option: htpFileReadBudget, value: [7]uint64{o.FileReadBudgetMB}})
	}
	if o.SpillFill.SizeBytes != 0 {
		var first uintptr
		if o.SpillFill.First != nil {
			var err error
			if first, err = o.SpillFill.First.handle.live("first context of the spill group"); err != nil {
				return err
			}
		}
		c.addCustom(cCustomConfig{option: htpSpillFillGroup, value: [7]uint64{uint64(first), o.SpillFill.SizeBytes}})
	}
	return nil
}

// Configure changes options of a living context: its priority, the memory hint
// and the retention order.
func (c *Context) Configure(o ContextOptions) error {
	id, err := c.handle.live("context")
	if err != nil {
		return err
	}
	var options configs
	if err := o.encode(&options); err != nil {
		return err
	}
	defer options.done()
	return c.handle.library.call(fnContextSetConfig, id, uintptr(options.pointer()))
}

// ValidateImage asks whether an image fits device and library, without loading
// it. A nil device means the default one.
func (b *Backend) ValidateImage(d *Device, image []byte) error {
	_, err := b.newContext(d, ContextOptions{}, func(backend, device uintptr, config unsafe.Pointer, _ *uintptr) error {
		return b.handle.library.call(fnContextValidateBinary, backend, device, uintptr(config),
			uintptr(unsafe.Pointer(unsafe.SliceData(image))), uintptr(len(image)))
	})
	return err
}

// Context holds graphs and their weights in the library's memory.
type Context struct {
	handle handle
	image  []byte // kept for a persistent context
	lent   *lending
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
	_ = c.lent.end() // why a part was not provided, the load has told
	c.lent = nil
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

package qnn

import (
	"errors"
	"fmt"
	"runtime"
	"unsafe"
)

// Listed is one image of [Backend.LoadContexts].
type Listed struct {
	Image   []byte
	Options ContextOptions
	Profile *Profile
}

// LoadContexts loads several images in one call, in which the library may read
// them side by side. With shared their contexts use one memory for intermediate
// results and must not run at once. Either all are loaded or none. The vendor's
// x86-64 library cannot.
func (b *Backend) LoadContexts(d *Device, images []Listed, shared bool) ([]*Context, error) {
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
	load := &listLoad{library: b.handle.library, ended: make(chan loaded, len(images)), images: images}
	defer runtime.KeepAlive(load)
	defer load.forget()
	params, err := load.encode()
	if err != nil {
		return nil, err
	}
	if shared {
		load.list.addCustom(cCustomConfig{option: htpShareResources, value: [7]uint64{1}})
	}
	if err := load.library.call(fnContextCreateFromBinaryListAsync, backend, device,
		uintptr(unsafe.Pointer(unsafe.SliceData(params))), uintptr(load.list.pointer()), 0); err != nil {
		return nil, err
	}
	return load.collect()
}

// htpShareResources is the list's option for one memory of intermediate results.
const htpShareResources = 5

// contextLoaded is the kind of notification that tells of a whole context; 0
// tells of a graph.
const contextLoaded = 1

// loaded is how the load of one image ended.
type loaded struct {
	index  int
	id     uintptr
	status uintptr
}

// listLoad is a call of [Backend.LoadContexts] with all that the library uses.
type listLoad struct {
	library *Library
	images  []Listed
	params  []*cContextParams
	configs []configs
	list    configs
	numbers []uintptr
	ended   chan loaded
}

// listWaiter is told of one image.
type listWaiter struct {
	load  *listLoad
	index int
}

func (w *listWaiter) notified(kind uint32, context, status uintptr) {
	if kind != contextLoaded && status == 0 {
		return
	}
	select { // one end of each image, however often it is told
	case w.load.ended <- loaded{w.index, context, status}:
	default:
	}
}

func (l *listLoad) encode() ([]*cContextParams, error) {
	l.configs = make([]configs, len(l.images))
	for i, image := range l.images {
		if err := image.Options.encode(&l.configs[i]); err != nil {
			return nil, fmt.Errorf("image %d: %w", i, err)
		}
		profile, err := image.Profile.optional()
		if err != nil {
			return nil, fmt.Errorf("image %d: %w", i, err)
		}
		number := await(&listWaiter{l, i})
		l.numbers = append(l.numbers, number)
		l.params = append(l.params, &cContextParams{
			version: 1, config: uintptr(l.configs[i].pointer()), image: uintptr(unsafe.Pointer(unsafe.SliceData(image.Image))),
			size: uint64(len(image.Image)), profile: profile, notify: loadedCallback(), param: number,
		})
	}
	return append(l.params, nil), nil
}

func (l *listLoad) forget() {
	for _, number := range l.numbers {
		forget(number)
	}
}

// collect waits until each image has ended. Those that were loaded are closed
// again where one was not.
func (l *listLoad) collect() ([]*Context, error) {
	contexts := make([]*Context, len(l.images))
	var failed error
	for range l.images {
		end := <-l.ended
		if end.status != 0 {
			failed = errors.Join(failed, fmt.Errorf("image %d: %w", end.index,
				l.library.failure(fnContextCreateFromBinaryListAsync.String(), end.status, l.library.lines.mark())))
			continue
		}
		c := &Context{}
		c.handle.library = l.library
		c.handle.id.Store(end.id)
		if l.images[end.index].Options.Persistent {
			c.image = l.images[end.index].Image
		}
		contexts[end.index] = c
	}
	if failed == nil {
		return contexts, nil
	}
	for _, c := range contexts {
		if c != nil {
			failed = errors.Join(failed, c.Close())
		}
	}
	return nil, failed
}

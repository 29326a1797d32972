package engine

import (
	"context"
	"fmt"
)

// recreate loads all programs anew, after a restart of the device or a block
// that was left without a graph. Keys and values are the host's: no text is
// lost. The caller holds the lane; what fails is tried again by the next one.
func (e *Engine) recreate(ctx context.Context) error {
	if e.lanes != nil {
		e.lanes.stop()
	}
	f := e.family.Load()
	err := f.recreate(ctx)
	if err == nil {
		err = e.head.recreate(ctx, f.loader)
	}
	if err != nil {
		return fmt.Errorf("engine: load the graphs again: %w", err)
	}
	e.lost = false
	e.options.Logger.Warn("the graphs were lost and are loaded again", "blocks", len(f.blocks))
	return nil
}

// recreate makes a family's programs again. Of a block's graphs that are
// exchanged those that were there come back, or the wide one.
func (f *family) recreate(ctx context.Context) error {
	loaded, err := reopen(ctx, f.loader.quiet(), f.images)
	if err != nil {
		return err
	}
	for _, b := range f.blocks {
		for i, form := range b.forms {
			if form.image != nil {
				err = f.reopenForm(ctx, form, form.step != nil || i == len(b.forms)-1 && b.fitting(1) == nil)
			} else {
				form.step, err = bindStep(loaded[0], form.ports)
				loaded = loaded[1:]
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// reopenForm loads a form that has an image of its own, if it is wanted.
func (f *family) reopenForm(ctx context.Context, form *form, wanted bool) (err error) {
	f.programBytes.Add(-form.sizeBytes())
	if freed := form.free(); freed != nil { // it went with the device
		f.loader.options.Logger.Debug("a lost graph is not given back", "reason", freed)
	}
	if !wanted {
		return nil
	}
	form.step, err = form.open(ctx, f.loader.quiet())
	f.programBytes.Add(form.sizeBytes())
	return err
}

func (h *head) recreate(ctx context.Context, l *loader) error {
	loaded, err := reopen(ctx, l.quiet(), h.images)
	if err != nil {
		return err
	}
	return h.bind(loaded)
}

// reopen loads images anew and returns their graphs in the order of the first
// time.
func reopen(ctx context.Context, l *loader, images []*image) (graphs []*loaded, err error) {
	for _, i := range images {
		if i.program != nil {
			if freed := i.program.Close(); freed != nil {
				l.options.Logger.Debug("a lost graph is not given back", "reason", freed)
			}
			i.program = nil
		}
		if err := i.reopen(ctx, l); err != nil {
			return nil, err
		}
		graphs = append(graphs, i.graphs...)
	}
	return graphs, nil
}

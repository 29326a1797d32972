package enable

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"
)

// unfinishedSuffix ends the name of an NPU variant until the variant has answered its first
// request.
const unfinishedSuffix = "-unfinished"

// undoTime limits the time for removing an unfinished variant after the user has
// interrupted Enable.
const undoTime = 30 * time.Second

// lineEvery is the time between two lines about a load that takes long.
const lineEvery = 10 * time.Second

// Ollama describes a running Ollama server: its address and what the caller knows of it.
type Ollama struct {
	URL *url.URL
	// Journal is a folder for notes about unfinished work. All calls of a user must name
	// the same folder in Journal.
	Journal string
	// RunnerKnown is set if the caller knows that this Ollama starts sdnpu.
	RunnerKnown bool
	// Say, if set, is a function that is called with each line that tells the user
	// about the progress.
	Say func(format string, args ...any)
}

// Request describes an NPU variant to make.
type Request struct {
	// Model is the name of the base model.
	Model string
	// Name is the name of the variant; if it is empty, [VariantName] chooses.
	Name string
	// Adapter checks that the model at path can run on the NPU and returns the
	// content of the adapter.
	Adapter func(path string) ([]byte, error)
	// Prepare, if set, compiles, calibrates and checks the model with the keys of
	// the adapter, which is stored at the path adapter.
	Prepare func(ctx context.Context, m Model, adapter string) error
}

func (o Ollama) client() client { return client{o.URL} }

func (o Ollama) say(format string, args ...any) {
	if o.Say != nil {
		o.Say(format, args...)
	}
}

// Enable makes an NPU variant of a model and returns its name. If Ollama already has a
// variant of the same weights with the name of the new variant, Enable replaces the old
// variant.
func (o Ollama) Enable(ctx context.Context, r Request) (name string, err error) {
	c := o.client()
	m, err := c.show(ctx, r.Model)
	if err != nil {
		return "", err
	}
	if name = r.Name; name == "" {
		name = VariantName(m.Name)
	}
	name = fullName(name)
	if err := m.checkBase(); err != nil {
		return "", err
	}
	if err := c.checkName(ctx, name, m); err != nil {
		return "", err
	}
	content, err := r.Adapter(m.Path)
	if err != nil {
		return "", fmt.Errorf("%s: %w", line(m.Name), err)
	}
	j, err := o.begin(ctx)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, j.close()) }()
	if r.Prepare != nil {
		if err := j.withAdapter(content, func(path string) error { return r.Prepare(ctx, m, path) }); err != nil {
			return "", err
		}
	}
	return name, o.build(ctx, j, m.Name, name, content)
}

// checkName returns [ErrNameTaken] if the name belongs to a model that is not a
// variant of the base.
func (c client) checkName(ctx context.Context, name string, base Model) error {
	other, err := c.show(ctx, name)
	if errors.Is(err, ErrNoModel) {
		return nil
	}
	if err != nil {
		return err
	}
	selected, _, err := other.variantOf()
	if err != nil {
		return err
	}
	if !selected || other.Path != base.Path {
		return fmt.Errorf("%s: %w: choose another name with --name", line(name), ErrNameTaken)
	}
	return nil
}

// begin locks the journal and removes the variant and the blob that an interrupted
// call of Enable has left.
func (o Ollama) begin(ctx context.Context) (*journal, error) {
	j, err := openJournal(o.Journal, o.URL.String())
	if err != nil {
		return nil, err
	}
	if err := o.recover(ctx, j); err != nil {
		return nil, errors.Join(err, j.close())
	}
	return j, nil
}

// recover removes the variant and the blob that an interrupted call of Enable has
// left.
func (o Ollama) recover(ctx context.Context, j *journal) error {
	e, err := j.read()
	if err != nil || e == nil {
		return err
	}
	o.say("removing %s, which an interrupted call has left", line(e.Unfinished))
	return o.undo(ctx, j, *e)
}

// undo removes an unfinished variant and the blob of its adapter. Ollama removes a
// blob only together with a model that uses the blob.
func (o Ollama) undo(ctx context.Context, j *journal, e entry) error {
	c := o.client()
	if err := c.remove(ctx, e.Unfinished); err != nil {
		return err
	}
	stored, err := c.hasBlob(ctx, e.Digest)
	if err != nil {
		return err
	}
	// Ollama removes a blob only with a model that uses it, so undo makes the variant
	// again and removes it. Without the base model, undo leaves the blob.
	if _, err := c.show(ctx, e.Base); stored && err == nil {
		if err := errors.Join(c.create(ctx, e.Unfinished, e.Base, e.Digest), c.remove(ctx, e.Unfinished)); err != nil {
			return err
		}
	}
	return j.clear()
}

// build makes the variant under an unfinished name, lets the variant answer a
// request, and then gives the variant its final name. If a step of build fails,
// Ollama's store is as it was before.
func (o Ollama) build(ctx context.Context, j *journal, base, name string, content []byte) (err error) {
	c := o.client()
	e := entry{URL: o.URL.String(), Unfinished: name + unfinishedSuffix, Base: base, Digest: digestOf(content)}
	if err := j.write(ctx, e); err != nil {
		return err
	}
	finished := false
	defer func() {
		if finished {
			return
		}
		undoing, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoTime)
		defer cancel()
		if failed := o.undo(undoing, j, e); failed != nil {
			err = errors.Join(err, fmt.Errorf("%s could not be removed: the next call of this command removes it: %w", e.Unfinished, failed))
		}
	}()
	if err := c.upload(ctx, content); err != nil {
		return err
	}
	if err := c.create(ctx, e.Unfinished, base, e.Digest); err != nil {
		return err
	}
	if err := o.warm(ctx, e.Unfinished); err != nil {
		return err
	}
	// Ollama replaces a model at once and removes the adapter of the replaced model.
	if err := c.create(ctx, name, base, e.Digest); err != nil {
		return err
	}
	finished = true
	if err := c.remove(ctx, e.Unfinished); err != nil {
		return fmt.Errorf("%s is ready, but %s could not be removed: the next call of this command removes it: %w", name, e.Unfinished, err)
	}
	return j.clear()
}

// warm sends a first short request, and says every few seconds that Ollama still
// loads the model.
func (o Ollama) warm(ctx context.Context, name string) error {
	begin := time.Now()
	o.say("sending a first short request, for which Ollama loads the model")
	answered := make(chan error, 1)
	go func() { answered <- o.client().ask(ctx, name) }()
	tick := time.NewTicker(lineEvery)
	defer tick.Stop()
	for {
		select {
		case err := <-answered:
			if err != nil {
				return o.explain(err)
			}
			o.say("it answered after %v", time.Since(begin).Round(100*time.Millisecond))
			return nil
		case <-tick.C:
			o.say("Ollama still loads the model: %v so far; the log of `ollama serve` says more", time.Since(begin).Round(time.Second))
		}
	}
}

// explain adds a remedy to the error of the first request to a new variant.
func (o Ollama) explain(err error) error {
	switch {
	case hasStatus(err, http.StatusNotImplemented):
		return fmt.Errorf("%w: create a model FROM it with a TEMPLATE line, and enable the new model: %w", ErrUnsuitable, err)
	case o.RunnerKnown:
		return fmt.Errorf("the first request failed: %w", err)
	}
	return fmt.Errorf("the first request failed: %w; if this Ollama does not start sdnpu: %s", err, InstallRemedy)
}

// InstallRemedy says how to get an Ollama that starts sdnpu.
const InstallRemedy = "run `sdnpu install DIR`, stop this Ollama and start `DIR/bin/ollama serve`, which uses the same models"

// Package closing lets the Close of an engine cancel a compilation.
package closing

import "sync"

// Closing lets Close cancel a compilation that runs for a longer context. A compilation
// that is not cancelled can take minutes. A Closing is safe for concurrent use.
type Closing struct {
	mu     sync.Mutex
	closed bool   // closed, guarded by mu, is set once Begin has been called
	cancel func() // cancel, guarded by mu, cancels the compilation that runs, or is nil
}

// SetCancel registers the function that cancels the compilation that starts now. After
// the compilation, SetCancel(nil) removes the cancel function. SetCancel returns false
// if the engine is closed; no compilation may start then.
func (c *Closing) SetCancel(cancel func()) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cancel = cancel
	return !c.closed
}

// Begin cancels the current compilation and prevents later compilations.
func (c *Closing) Begin() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	if c.cancel != nil {
		c.cancel()
	}
}

// Begun reports whether the engine is closing or closed.
func (c *Closing) Begun() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.closed
}

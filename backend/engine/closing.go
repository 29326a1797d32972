package engine

import "sync"

// closing lets Close cancel a compilation that runs for a longer context. A compilation
// that is not cancelled can take minutes.
type closing struct {
	mu     sync.Mutex
	closed bool   // closed, guarded by mu, is set once Close has been called
	cancel func() // cancel, guarded by mu, cancels the compilation that runs, or is nil
}

// setCancel registers the function that cancels the compilation that starts now. After
// the compilation, setCancel(nil) removes the cancel function. setCancel returns false
// if the engine is closed; no compilation may start then.
func (c *closing) setCancel(cancel func()) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cancel = cancel
	return !c.closed
}

// begin cancels the current compilation and prevents later compilations.
func (c *closing) begin() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	if c.cancel != nil {
		c.cancel()
	}
}

// begun reports whether the engine is closing or closed.
func (c *closing) begun() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.closed
}

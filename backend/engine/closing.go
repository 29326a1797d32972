package engine

import "sync"

// closing lets Close end the compilation of a longer context, for which it would have to
// wait for minutes.
type closing struct {
	mu     sync.Mutex
	closed bool   // guarded by mu
	cancel func() // guarded by mu; ends the work under way, or is nil
}

// setCancel registers the function that cancels the work that begins now, or nil after the work. It
// returns false if the engine is closed, so that no work may begin.
func (c *closing) setCancel(cancel func()) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cancel = cancel
	return !c.closed
}

// begin ends the work under way and lets no other work begin.
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

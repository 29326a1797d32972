package engine

import "sync"

// closing lets Close cut short what would keep it waiting for minutes: the
// compilation of a longer context.
type closing struct {
	mu     sync.Mutex
	closed bool
	cancel func()
}

// during says what ends the work that begins now; nil that there is none any
// more. It reports whether work may begin.
func (c *closing) during(cancel func()) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cancel = cancel
	return !c.closed
}

func (c *closing) begin() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	if c.cancel != nil {
		c.cancel()
	}
}

func (c *closing) begun() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.closed
}

package llamaserver

import (
	"net"
	"net/http"
	"sync"
	"time"
)

// connections limits the number of open connections. For a new one, the connection
// that has had no request for the longest time is closed. If all of them have one, the
// new connection is closed. So idle connections never keep the host out.
type connections struct {
	most int
	mu   sync.Mutex
	open map[net.Conn]quiet
}

// quiet says since when a connection has had no request. It is zero for a connection
// that has one.
type quiet struct{ since time.Time }

// newConnections returns a limit for a server with a number of slots. The process
// needs half of its file descriptors for other things.
func newConnections(slots int) *connections {
	return &connections{most: max(16, min(max(512, (queuePerSlot+4)*slots), descriptors()/2)), open: map[net.Conn]quiet{}}
}

// changed is the hook [http.Server.ConnState]. The server calls it before it serves a
// new connection.
func (c *connections) changed(conn net.Conn, state http.ConnState) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch state {
	case http.StateNew:
		c.open[conn] = quiet{time.Now()}
		if len(c.open) > c.most {
			c.closeOne(conn)
		}
	case http.StateIdle:
		c.open[conn] = quiet{time.Now()}
	case http.StateActive:
		c.open[conn] = quiet{}
	case http.StateClosed, http.StateHijacked:
		delete(c.open, conn)
	}
}

// closeOne closes the connection that is quiet for the longest time, or newest if
// there is no other. The caller holds mu.
func (c *connections) closeOne(newest net.Conn) {
	victim := newest
	for conn, q := range c.open {
		if !q.since.IsZero() && conn != newest && (victim == newest || q.since.Before(c.open[victim].since)) {
			victim = conn
		}
	}
	delete(c.open, victim)
	_ = victim.Close() // its goroutine ends; the state it then reports changes nothing
}

package llamaserver

import (
	"crypto/tls"
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

// youngest is the time that a connection has for its first request, before it may be
// closed for another one. The server accepts no other connection meanwhile.
const youngest = 100 * time.Millisecond

// changed is the hook [http.Server.ConnState]. The server calls it for a new connection
// before it accepts the next.
func (c *connections) changed(conn net.Conn, state http.ConnState) {
	switch state {
	case http.StateNew:
		c.set(conn, quiet{time.Now()})
		if pause := c.makeRoom(conn, youngest); pause > 0 {
			time.Sleep(pause)
			c.makeRoom(conn, 0)
		}
	case http.StateIdle:
		c.set(conn, quiet{time.Now()})
	case http.StateActive:
		c.set(conn, quiet{})
	case http.StateClosed, http.StateHijacked:
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.open, conn)
	}
}

func (c *connections) set(conn net.Conn, q quiet) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.open[conn] = q
}

// makeRoom closes a connection if there are too many: the one that is quiet for the
// longest time, or newest if there is no other. If that is less than age, it returns
// the time to wait instead.
func (c *connections) makeRoom(newest net.Conn, age time.Duration) (pause time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.open) <= c.most {
		return 0
	}
	victim, since := newest, time.Now()
	for conn, q := range c.open {
		if !q.since.IsZero() && conn != newest && q.since.Before(since) {
			victim, since = conn, q.since
		}
	}
	if pause = age - time.Since(since); pause > 0 {
		return pause
	}
	delete(c.open, victim)
	if encrypted, ok := victim.(*tls.Conn); ok {
		victim = encrypted.NetConn() // closing an encrypted one may wait for its client
	}
	_ = victim.Close() // its goroutine ends; the state that it then reports changes nothing
	return 0
}

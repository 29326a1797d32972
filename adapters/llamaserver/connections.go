package llamaserver

import (
	"crypto/tls"
	"net"
	"net/http"
	"sync"
	"time"
)

// connections limits the number of open connections. If a new connection exceeds the
// limit, the connection that has had no request for the longest time is closed. If all
// connections have a request, the new connection is closed. Idle connections therefore
// never keep the host out.
type connections struct {
	most int
	mu   sync.Mutex
	open map[net.Conn]quiet
}

// quiet says since when a connection has had no request. quiet is zero for a
// connection that has one.
type quiet struct {
	since  time.Time
	served bool // served is set if it had a request before
}

// newConnections returns a limit for a server with a number of slots. The process
// needs half of its file descriptors for other things.
func newConnections(slots int) *connections {
	return &connections{most: max(16, min(max(512, (queuePerSlot+4)*slots), descriptors()/2)), open: map[net.Conn]quiet{}}
}

// youngest is the time that a connection has for its first request, before it may be
// closed for another one. If all quiet connections still wait for their first
// request, the server accepts no others meanwhile.
const youngest = 500 * time.Millisecond

// changed is the hook [http.Server.ConnState]. The server calls it for a new connection
// before it accepts the next.
func (c *connections) changed(conn net.Conn, state http.ConnState) {
	switch state {
	case http.StateNew:
		c.set(conn, quiet{since: time.Now()})
		for pause := c.makeRoom(conn); pause > 0; pause = c.makeRoom(conn) {
			time.Sleep(pause) // in total at most youngest, because conn is the youngest
		}
	case http.StateIdle:
		c.set(conn, quiet{since: time.Now(), served: true})
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
// longest time after a request, else the one that waits for its first request for the
// longest time. If that connection is too young, makeRoom returns the time to wait
// instead.
func (c *connections) makeRoom(newest net.Conn) (pause time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.open) <= c.most {
		return 0
	}
	victim, best := newest, c.open[newest]
	for conn, q := range c.open {
		better := q.served && !best.served || q.served == best.served && (q.since.Before(best.since) || victim == newest && q.since.Equal(best.since))
		if !q.since.IsZero() && conn != newest && better {
			victim, best = conn, q
		}
	}
	if pause = youngest - time.Since(best.since); pause > 0 && !best.served {
		return pause
	}
	delete(c.open, victim)
	if encrypted, ok := victim.(*tls.Conn); ok {
		victim = encrypted.NetConn() // closing an encrypted connection may wait for its client
	}
	_ = victim.Close() // the connection's goroutine ends; the state that it then reports changes nothing
	return 0
}

package llamaserver

import (
	"container/list"
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"sync"
	"time"
)

// connections limits the number of open connections. A connection is safe only while
// the server works on a request that has arrived completely. All others may be closed
// for a new connection, the oldest first: connections without a request, connections
// that still send one, and connections whose request was refused. So clients that send
// nothing, or parts of requests, never keep the host out.
//
// The server accepts each connection at once and never waits for room. Over the limit,
// it first uses a reserve, so that new connections get patience to send their request.
type connections struct {
	most    int // most is the limit
	reserve int // reserve is the number of connections over the limit
	mu      sync.Mutex
	open    map[net.Conn]*connection
	// idle holds the connections between two requests, sending those that send a request
	// or have not begun, and working the safe ones. Each is sorted by age.
	idle, sending, working *list.List
}

// connection is an open connection. Its fields are guarded by the lock of connections.
type connection struct {
	all   *connections
	conn  net.Conn
	since time.Time // since is the time of the last change of state
	in    *list.List
	place *list.Element // place is nil when the connection is closed
}

// patience is the time that a new connection has to send its request, while the
// reserve has room.
const patience = 250 * time.Millisecond

// newConnections returns a limit for a server with a number of slots. The process
// needs a quarter of its file descriptors for other things.
func newConnections(slots int) *connections {
	most := max(16, min(max(512, (queuePerSlot+4)*slots), descriptors()/2))
	return &connections{
		most: most, reserve: max(8, min(most, descriptors()/4)), open: map[net.Conn]*connection{},
		idle: list.New(), sending: list.New(), working: list.New(),
	}
}

// changed is the hook [http.Server.ConnState]. The server calls it for a new connection
// before it accepts the next.
func (c *connections) changed(conn net.Conn, state http.ConnState) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch state {
	case http.StateNew:
		c.find(conn).move(c.sending)
		for victim := c.victim(); victim != nil; victim = c.victim() {
			victim.forget()
			c.mu.Unlock()
			closeNow(victim.conn)
			c.mu.Lock()
		}
	case http.StateActive:
		c.open[conn].move(c.sending)
	case http.StateIdle:
		c.open[conn].move(c.idle)
	case http.StateClosed, http.StateHijacked:
		c.open[conn].forget()
	}
}

// find returns the entry of an open connection, and makes one for a new connection. The
// caller holds the lock.
func (c *connections) find(conn net.Conn) *connection {
	if c.open[conn] == nil {
		c.open[conn] = &connection{all: c, conn: conn}
	}
	return c.open[conn]
}

// victim returns the connection to close, or nil. The caller holds the lock.
func (c *connections) victim() *connection {
	over := len(c.open) - c.most
	if over <= 0 {
		return nil
	}
	if oldest := c.idle.Front(); oldest != nil {
		return oldest.Value.(*connection)
	}
	oldest := c.sending.Front()
	if oldest == nil {
		return nil
	}
	if q := oldest.Value.(*connection); over > c.reserve || time.Since(q.since) >= patience {
		return q
	}
	return nil
}

// move puts an open connection at the end of a list. The caller holds the lock.
func (q *connection) move(to *list.List) {
	if q == nil || q.in != nil && q.place == nil {
		return // it is closed, and reports late
	}
	if q.place != nil {
		q.in.Remove(q.place)
	}
	q.in, q.since = to, time.Now()
	q.place = to.PushBack(q)
}

// forget removes a connection. The caller holds the lock.
func (q *connection) forget() {
	if q == nil || q.place == nil {
		return
	}
	q.in.Remove(q.place)
	q.place = nil
	delete(q.all.open, q.conn)
}

// closeNow closes a connection. The connection's goroutine then ends.
func closeNow(conn net.Conn) {
	if encrypted, ok := conn.(*tls.Conn); ok {
		conn = encrypted.NetConn() // closing an encrypted connection may wait for its client
	}
	_ = conn.Close()
}

// connectionKey is the key of a request's connection in its context.
type connectionKey struct{}

// remember is the hook [http.Server.ConnContext]. The server calls it for a new
// connection before changed.
func (c *connections) remember(ctx context.Context, conn net.Conn) context.Context {
	c.mu.Lock()
	defer c.mu.Unlock()
	return context.WithValue(ctx, connectionKey{}, c.find(conn))
}

// connectionOf returns the connection of a request, or nil. Methods of a nil connection
// do nothing.
func connectionOf(ctx context.Context) *connection {
	q, _ := ctx.Value(connectionKey{}).(*connection)
	return q
}

// keep makes a connection safe, because its request has arrived completely. keep reports
// whether there is room: the reserve stays free for connections that ask for /health.
func (q *connection) keep() bool {
	if q == nil {
		return true
	}
	q.all.mu.Lock()
	defer q.all.mu.Unlock()
	if q.all.working.Len() >= q.all.most {
		return false
	}
	q.move(q.all.working)
	return true
}

// release ends keep: the server only waits for the client to read its answer.
func (q *connection) release() {
	if q == nil {
		return
	}
	q.all.mu.Lock()
	defer q.all.mu.Unlock()
	q.move(q.all.sending)
}

// drainTime is the time in which the rest of a refused request may arrive. Closing a
// connection with unread data could remove the answer before the client reads it.
const drainTime = 50 * time.Millisecond

// unread ends connections whose requests were answered before their body was read.
// Without unread, the server would wait for the body after its answer. [intake.read]
// calls [arrived] for a body that it has read.
func unread(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ContentLength == 0 { // -1 means an unknown length
			next.ServeHTTP(w, r)
			return
		}
		w.Header().Set("Connection", "close")
		next.ServeHTTP(w, r)
		if w.Header().Get("Connection") == "close" {
			// Ignore the error of a connection that has no deadlines.
			_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(drainTime))
		}
	})
}

// arrived keeps the connection of a request whose body has been read.
func arrived(w http.ResponseWriter, r *http.Request) error {
	if !connectionOf(r.Context()).keep() {
		return busy("no slot available: too many requests are answered already. Ask again later.")
	}
	w.Header().Del("Connection")
	return nil
}

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

// connections limits the number of open connections. An open connection is never closed
// for a new one while the server works on a complete request from it. All other
// connections may be closed for a new one, the oldest first: connections without a
// request, connections that still send one, and connections whose request was refused.
// So clients that send nothing, or parts of requests, never block the host.
//
// The server accepts each new connection at once and never waits until an old one ends.
// Over its limit of connections, the server first uses a reserve, so that new
// connections have time to send their request.
type connections struct {
	most    int // most is the limit on open connections
	reserve int // reserve is the number of connections that may be open over the limit
	mu      sync.Mutex
	open    map[net.Conn]*connection
	// idle lists the connections between two requests, sending those that send a
	// request or have not begun, and working those whose request is being answered.
	// Each list of connections is sorted by age.
	idle, sending, working *list.List
}

// connection is the server's record of an open connection. The fields of a connection
// are guarded by the lock of connections.
type connection struct {
	all   *connections
	conn  net.Conn
	since time.Time // since is the time at which the connection last changed its state
	in    *list.List
	place *list.Element // place is the connection's position in its list, and nil when the connection is closed
}

// patience is the time that a new connection has to send its request, while the
// reserve has room.
const patience = 250 * time.Millisecond

// newConnections returns the limit on connections for a server with a number of request
// slots. The process needs a quarter of its file descriptors for purposes other than
// connections.
func newConnections(slots int) *connections {
	most := max(16, min(max(512, (queuePerSlot+4)*slots), descriptors()/2))
	return &connections{
		most: most, reserve: max(8, min(most, descriptors()/4)), open: map[net.Conn]*connection{},
		idle: list.New(), sending: list.New(), working: list.New(),
	}
}

// changed is the hook [http.Server.ConnState]. The HTTP server calls changed for a new
// connection before it accepts the next.
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

// find returns the record of an open connection, and makes one for a new connection.
// The caller of find holds the lock.
func (c *connections) find(conn net.Conn) *connection {
	if c.open[conn] == nil {
		c.open[conn] = &connection{all: c, conn: conn}
	}
	return c.open[conn]
}

// victim returns the connection that is closed to make room for a new one, or nil. The
// caller of victim holds the lock.
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

// move puts an open connection at the end of a list of connections. The caller of move
// holds the lock.
func (q *connection) move(to *list.List) {
	if q == nil || q.in != nil && q.place == nil {
		return // the connection is already closed, and its last report comes late
	}
	if q.place != nil {
		q.in.Remove(q.place)
	}
	q.in, q.since = to, time.Now()
	q.place = to.PushBack(q)
}

// forget removes a connection. The caller of forget holds the lock.
func (q *connection) forget() {
	if q == nil || q.place == nil {
		return
	}
	q.in.Remove(q.place)
	q.place = nil
	delete(q.all.open, q.conn)
}

// closeNow closes a connection. When a connection is closed, its goroutine ends.
func closeNow(conn net.Conn) {
	if encrypted, ok := conn.(*tls.Conn); ok {
		conn = encrypted.NetConn() // closing an encrypted connection may wait for its client
	}
	_ = conn.Close()
}

// connectionKey is the key under which the context of a request holds its connection.
type connectionKey struct{}

// remember is the hook [http.Server.ConnContext]. The HTTP server calls remember for a
// new connection before it calls changed.
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

// keep protects a connection from being closed, because its request has arrived
// completely. keep reports whether there is room: the reserve stays free for
// connections that ask for /health.
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

// release ends the protection by keep, because the server only waits for the client to
// read its answer.
func (q *connection) release() {
	if q == nil {
		return
	}
	q.all.mu.Lock()
	defer q.all.mu.Unlock()
	q.move(q.all.sending)
}

// drainTime is the time in which the rest of a refused request's body may arrive.
// Closing a connection with unread data could remove the answer before the client reads
// it.
const drainTime = 50 * time.Millisecond

// unread ends connections whose requests were answered before their body was read.
// Without the handler unread, the server would wait for the body after its answer.
// [intake.read] calls [arrived] for a body that it has read.
func unread(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ContentLength == 0 { // a ContentLength of -1 means that the length is unknown
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

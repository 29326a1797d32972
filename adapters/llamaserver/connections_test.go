package llamaserver

import (
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// limited serves with a limit of connections until the test ends.
func limited(t *testing.T, most int, m *fakeModel) (address string) {
	s, err := New(Options{Addr: "127.0.0.1:0"})
	require.NoError(t, err)
	c := newConnections(1)
	c.most = most
	s.http.ConnState = c.changed
	s.SetModel(m)
	ctx, stop := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- s.Serve(ctx) }()
	t.Cleanup(func() { stop(); require.NoError(t, <-served) })
	return s.Addr().String()
}

func dial(t *testing.T, address, send string) net.Conn {
	connection, err := net.Dial("tcp", address)
	require.NoError(t, err)
	t.Cleanup(func() { connection.Close() })
	_, err = io.WriteString(connection, send)
	require.NoError(t, err)
	return connection
}

func healthy(t *testing.T, address string) {
	t.Helper()
	response, body, err := exchange(t, "GET", "http://"+address+"/health", nil)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, response.StatusCode)
	require.JSONEq(t, `{"status":"ok"}`, string(body))
}

func TestIdleConnectionsDoNotKeepTheHostOut(t *testing.T) {
	address := limited(t, 20, &fakeModel{})
	var idle []net.Conn
	for i := range 100 {
		send := ""
		if i%2 == 0 { // one request each, and then silence
			send = "GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"
		}
		connection := dial(t, address, send)
		if send != "" {
			_, err := io.ReadAtLeast(connection, make([]byte, 100), 20)
			require.NoError(t, err)
		}
		idle = append(idle, connection)
		if i%10 == 0 {
			healthy(t, address)
		}
	}
	open := 0
	for _, connection := range idle {
		require.NoError(t, connection.SetReadDeadline(time.Now().Add(200*time.Millisecond)))
		if _, err := io.Copy(io.Discard, connection); err != nil { // the deadline: it is open
			open++
		}
	}
	require.LessOrEqual(t, open, 20)
	require.Positive(t, open)
	healthy(t, address)
}

// Requests are not closed for new connections.
func TestConnectionsWithRequestsStayOpen(t *testing.T) {
	ended := make(chan struct{})
	address := limited(t, 3, endless(ended))
	body, cancel := open(t, "http://"+address)
	defer body.Close()
	for range 30 {
		dial(t, address, "")
		healthy(t, address)
	}
	select {
	case <-ended:
		t.Fatal("the stream was closed")
	default:
	}
	cancel()
	<-ended
}

func TestLimitFollowsTheDescriptors(t *testing.T) {
	require.Equal(t, min(512, max(16, descriptors()/2)), newConnections(1).most)
	require.Equal(t, min(20*100, max(16, descriptors()/2)), newConnections(100).most)
}

func TestLargeHeadersAreRejected(t *testing.T) {
	address := limited(t, 3, &fakeModel{})
	connection := dial(t, address, "GET /health HTTP/1.1\r\nHost: localhost\r\nX: "+strings.Repeat("x", maxHeader)+"\r\n")
	_, _ = io.WriteString(connection, strings.Repeat("y", 8<<10)+"\r\n\r\n") // it may be closed already
	answer, _ := io.ReadAll(connection)
	require.Contains(t, string(answer), "431")
}

func TestServerHasTimeouts(t *testing.T) {
	s, err := New(Options{Addr: "127.0.0.1:0"})
	require.NoError(t, err)
	defer s.Close()
	require.Equal(t, [3]time.Duration{headerTimeout, idleTimeout, idleTimeout}, [3]time.Duration{s.http.ReadHeaderTimeout, s.http.ReadTimeout, s.http.IdleTimeout})
}

// A new connection gets time for its request, also when many others come.
func TestYoungConnectionsAreNotClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &connections{most: 2, open: map[net.Conn]quiet{}}
		pipe := func() (server net.Conn) {
			server, client := net.Pipe()
			t.Cleanup(func() { server.Close(); client.Close() })
			return server
		}
		closed := func(conn net.Conn) bool { return conn.SetDeadline(time.Time{}) != nil }
		first, second, third := pipe(), pipe(), pipe()
		c.changed(first, http.StateNew)
		c.changed(second, http.StateNew)
		go func() { // the first request comes late, but in time
			time.Sleep(youngest / 2)
			c.changed(first, http.StateActive)
		}()
		began := time.Now()
		c.changed(third, http.StateNew)
		require.Equal(t, youngest, time.Since(began))
		require.Equal(t, []bool{false, true, false}, []bool{closed(first), closed(second), closed(third)})
		c.changed(third, http.StateActive)
		fourth := pipe()
		c.changed(fourth, http.StateNew)
		require.True(t, closed(fourth), "all others have requests")
		c.changed(first, http.StateIdle)
		time.Sleep(youngest)
		fifth := pipe()
		began = time.Now()
		c.changed(fifth, http.StateNew)
		require.Zero(t, time.Since(began))
		require.Equal(t, []bool{true, false}, []bool{closed(first), closed(fifth)})
		for _, conn := range []net.Conn{second, third, fourth, fifth} {
			c.changed(conn, http.StateClosed)
		}
		require.Empty(t, c.open)
	})
}

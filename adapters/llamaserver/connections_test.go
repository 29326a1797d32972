package llamaserver

import (
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// limited starts a server with the given limit on open connections, which serves until
// the test ends.
func limited(t *testing.T, most int, m *fakeModel) (address string) {
	s, err := New(Options{Addr: "127.0.0.1:0"})
	require.NoError(t, err)
	s.connections.Most, s.connections.Reserve = most, 2
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
		if i%2 == 0 { // each connection sends one request and nothing more
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
		// reading from a closed connection ends without an error, and reading from an
		// open connection ends with the error of the deadline
		if _, err := io.Copy(io.Discard, connection); err != nil {
			open++
		}
	}
	require.LessOrEqual(t, open, 22) // the limit and its reserve together allow 22 connections
	require.Positive(t, open)
	healthy(t, address)
}

// Connections with requests are not closed to make room for new connections.
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

func TestLargeHeadersAreRejected(t *testing.T) {
	address := limited(t, 3, &fakeModel{})
	connection := dial(t, address, "GET /health HTTP/1.1\r\nHost: localhost\r\nX: "+strings.Repeat("x", maxHeader)+"\r\n")
	// the server may have closed the connection already
	_, _ = io.WriteString(connection, strings.Repeat("y", 8<<10)+"\r\n\r\n")
	answer, _ := io.ReadAll(connection)
	require.Contains(t, string(answer), "431")
}

func TestServerHasTimeouts(t *testing.T) {
	s, err := New(Options{Addr: "127.0.0.1:0"})
	require.NoError(t, err)
	defer s.Close()
	require.Equal(t, [3]time.Duration{headerTimeout, idleTimeout, idleTimeout}, [3]time.Duration{s.http.ReadHeaderTimeout, s.http.ReadTimeout, s.http.IdleTimeout})
}

// If a handler answers without reading the request body, the server sends the answer at
// once and closes the connection.
func TestAnswersDoNotWaitForTheBody(t *testing.T) {
	address := limited(t, 20, &fakeModel{})
	for name, request := range map[string]string{
		"200": "GET /health HTTP/1.1\r\nHost: localhost\r\n",
		"403": "POST /completion HTTP/1.1\r\nHost: evil.example\r\n",
		"404": "POST /nothing HTTP/1.1\r\nHost: localhost\r\n",
		"405": "DELETE /completion HTTP/1.1\r\nHost: localhost\r\n",
		"413": "POST /completion HTTP/1.1\r\nHost: localhost\r\nX: 0\r\n",
		"501": "POST /v1/embeddings HTTP/1.1\r\nHost: localhost\r\n",
	} {
		for _, length := range []string{"Content-Length: 100", "Transfer-Encoding: chunked"} {
			if name == "413" {
				length = "Content-Length: 99999999999"
			}
			began := time.Now()
			connection := dial(t, address, request+length+"\r\n\r\n1")
			require.NoError(t, connection.SetReadDeadline(began.Add(20*time.Second)))
			answer, err := io.ReadAll(connection)
			require.NoError(t, err, "%s %s: the connection stays open", name, length)
			require.True(t, strings.HasPrefix(string(answer), "HTTP/1.1 "+name), "%s", answer)
			require.Contains(t, string(answer), "Connection: close")
		}
	}
}

// Connections that send only half of a body do not keep others out, even if there are
// many more of them than the limit allows.
func TestHalfBodiesDoNotKeepTheHostOut(t *testing.T) {
	address := limited(t, 20, &fakeModel{})
	for i := range 200 {
		dial(t, address, "POST /completion HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{")
		if i%20 == 0 {
			healthy(t, address)
		}
	}
	healthy(t, address)
}

func TestOptionsOfTheServerAreGuarded(t *testing.T) {
	address := limited(t, 20, &fakeModel{})
	for host, status := range map[string]string{"evil.example": "403", "localhost": "400"} {
		connection := dial(t, address, "OPTIONS * HTTP/1.1\r\nHost: "+host+"\r\nConnection: close\r\n\r\n")
		answer, err := io.ReadAll(connection)
		require.NoError(t, err)
		require.True(t, strings.HasPrefix(string(answer), "HTTP/1.1 "+status), "%s", answer)
	}
}

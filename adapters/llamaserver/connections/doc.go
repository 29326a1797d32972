// Package connections limits the open connections of an HTTP server, so that clients that
// send nothing, or parts of requests, never block other clients.
//
// A server passes the hooks of a [Limit] to package http, wraps its handler in [Unread],
// and calls [Arrived] when it has read the body of a request.
//
// # Invariants
//
//   - A connection whose request has arrived completely is never closed for a new
//     connection.
//   - All other connections may be closed for a new one: first those between two
//     requests, then those that still send a request or whose request was refused. In
//     both groups, the connection that has been in its state for the longest time is
//     closed first.
//   - The server accepts each new connection at once and never waits until an old one
//     ends. If more connections are open than the limit allows, the server first uses a
//     reserve, so that new connections have time to send their request.
//
// Each change of a connection costs one lock and constant time.
package connections

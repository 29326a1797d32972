package spec

// Account compares the time that work took with the time that the same tokens take
// without drafts. All times of an account have one unit. The zero value is an empty
// account.
type Account struct {
	// Plain is the time without drafts.
	Plain float64
	// Loss is the time taken beyond Plain. Loss is negative if drafts saved time.
	Loss float64
}

// Add adds work that took some time and would have taken plain without drafts.
func (a *Account) Add(plain, took float64) {
	a.Plain += plain
	a.Loss += took - plain
}

// room returns the time that may still be lost if the loss is limited to a share of
// the plain time.
func (a *Account) room(limit float64) float64 { return limit*a.Plain - a.Loss }

// Exceeded reports whether the request has lost more than its limit.
func (a *Account) Exceeded() bool { return a.room(RequestLimit) < 0 }

const (
	// TotalLimit bounds the loss of all requests together, and RequestLimit the loss of one
	// request, as shares of the time without drafts.
	TotalLimit, RequestLimit = 0.005, 0.02
	// saved bounds the time that earlier passes saved and later ones may lose, as a share
	// of the time without drafts.
	saved = 0.05
	// fade is the decay of earlier passes: the last thousand count.
	fade = 0.999
)

// Guard bounds the time that drafts can lose. The guard counts nothing in advance: a
// pass may only risk a share of the time that was spent before it, or what earlier
// passes saved.
//
// If every pass that Guard allows takes its expected time, the following holds at any moment
//
//   - the loss of all passes is at most [TotalLimit] of their time without drafts;
//   - the loss of each request is at most [RequestLimit] of its time without drafts;
//
// The bound holds even if no draft is ever right. The zero value has counted
// nothing. A Guard is not safe for concurrent use.
type Guard struct{ total Account }

// Room returns the time that the next pass of a request may lose if all its drafts are
// wrong. Room is negative if the request has lost too much already.
func (g *Guard) Room(request *Account) float64 {
	return min(g.total.room(TotalLimit), request.room(RequestLimit))
}

// Exceeded reports whether all requests together have lost more than their limit. Only
// costs that no pass asks for, such as the work of drafting itself, can exceed the
// limit of all requests.
func (g *Guard) Exceeded() bool { return g.total.room(TotalLimit) < 0 }

// Add counts a pass.
func (g *Guard) Add(plain, took float64) {
	// Fading keeps the bound of the guard: the sum of the losses without fading is
	// a sum of faded losses with positive weights, and the same is true of the
	// times.
	g.total.Plain *= fade
	g.total.Loss *= fade
	g.total.Add(plain, took)
	g.total.Loss = max(g.total.Loss, -saved*g.total.Plain)
}

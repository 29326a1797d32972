package spec

// Account compares the time that passes took with the time that the same tokens would take
// without drafts. All times of an account have the same unit. The zero Account has no
// passes and is ready to use.
type Account struct {
	// Plain is the time that the tokens of all recorded passes would take without drafts.
	Plain float64
	// Loss is the time that the passes took, minus Plain. Loss is negative if drafts saved
	// time.
	Loss float64
}

// Add adds work to the account: the time `took` is that of the work, and the time `plain`
// is that of the same work without drafts.
func (a *Account) Add(plain, took float64) {
	a.Plain += plain
	a.Loss += took - plain
}

// room returns the time that drafts may still lose, if their loss is limited to the
// share `limit` of the time without drafts.
func (a *Account) room(limit float64) float64 { return limit*a.Plain - a.Loss }

// Exceeded reports whether the request has lost more time than its limit.
func (a *Account) Exceeded() bool { return a.room(RequestLimit) < 0 }

const (
	// TotalLimit limits the loss of all requests together, and RequestLimit limits the loss
	// of one request. TotalLimit and RequestLimit are fractions of the time without drafts.
	TotalLimit, RequestLimit = 0.005, 0.02
	// saved limits how much of the time that earlier passes saved may be lost again by
	// later passes, as a fraction of the time without drafts.
	saved = 0.05
	// fade is the factor by which a pass counts less than the pass after it, so that
	// about the last thousand passes matter.
	fade = 0.999
)

// Guard limits the time that drafts can lose. A Guard allows no loss in advance: a pass may
// risk only a fraction of the time that earlier passes would take without drafts, and time
// that earlier passes saved.
//
// If every pass that Guard allows takes its expected time, these two limits hold at any
// moment:
//
//   - the loss of all passes is at most [TotalLimit] of their time without drafts;
//   - the loss of each request is at most [RequestLimit] of its time without drafts;
//
// Both limits of a Guard hold even if no draft is ever accepted. The zero Guard has counted
// no pass and is ready to use. A Guard is not safe for concurrent use.
type Guard struct{ total Account }

// Room returns the time that the next pass of a request may lose if all its drafts are
// wrong. The argument `requests` is the number of requests that have rows in the pass; if
// the drafts of one request make the pass longer, all these requests lose time. If the
// request has lost too much already, Room is negative.
func (g *Guard) Room(request *Account, requests int) float64 {
	return min(g.total.room(TotalLimit)/float64(requests), request.room(RequestLimit))
}

// Exceeded reports whether all requests together have lost more time than their limit. Room
// limits what drafts may lose; only costs that Room does not limit, such as the time of
// drafting itself, can bring the total loss above the limit of all requests.
func (g *Guard) Exceeded() bool { return g.total.room(TotalLimit) < 0 }

// Add records a pass: the time `took` of the pass, and the time `plain` that the pass's
// tokens would take without drafts.
func (g *Guard) Add(plain, took float64) {
	// Fading does not weaken the bound of the guard. The total loss without fading is a sum
	// of faded losses with positive weights, and the total time without fading is the sum
	// of the faded times with the same weights.
	g.total.Plain *= fade
	g.total.Loss *= fade
	g.total.Add(plain, took)
	g.total.Loss = max(g.total.Loss, -saved*g.total.Plain)
}

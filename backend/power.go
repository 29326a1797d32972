package backend

// Phase is what a device is about to be used for.
type Phase string

// The phases: wide passes bound by arithmetic, passes that check drafts, passes
// of a token or two bound by the memory, and nothing to do.
const (
	Prefill Phase = "prefill"
	Verify  Phase = "verify"
	Decode  Phase = "decode"
	Idle    Phase = "idle"
)

// Powered is a [Device] whose clocks can be asked for. Vote is called when the
// phase changes, from one goroutine at a time; a device that does not know such
// requests returns [errors.ErrUnsupported]. Idle takes the request back.
type Powered interface {
	Vote(p Phase) error
}

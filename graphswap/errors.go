package graphswap

import "errors"

var (
	// ErrDevice is returned when no profile has the requested name.
	ErrDevice = errors.New("unknown device")
	// ErrModel is returned when a profile does not list the requested model.
	ErrModel = errors.New("unknown model")
	// ErrProfile is returned when a profile cannot be parsed or has an impossible
	// value.
	ErrProfile = errors.New("bad profile")
	// ErrRequest is returned when a prompt, a partition, a pair of widths or a plan's
	// name is not possible.
	ErrRequest = errors.New("bad request")
	// ErrMemory is returned when a plan needs more memory than the session has.
	ErrMemory = errors.New("does not fit into the session's memory window")
	// ErrPlan is returned when a plan contradicts itself: a step before its input, a
	// load that frees a graph with steps left, or a deadlock.
	ErrPlan = errors.New("bad plan")
	// ErrTimeline is returned when a timeline breaks an invariant.
	ErrTimeline = errors.New("bad timeline")
)

package graphswap

import "errors"

var (
	// ErrDevice is returned when no profile has the requested device name.
	ErrDevice = errors.New("unknown device")
	// ErrModel is returned when a profile does not list the requested model.
	ErrModel = errors.New("unknown model")
	// ErrProfile is returned when a profile cannot be parsed or has an impossible
	// value.
	ErrProfile = errors.New("bad profile")
	// ErrRequest is returned for an impossible prompt, partition, pair of widths or
	// plan name.
	ErrRequest = errors.New("bad request")
	// ErrMemory is returned when a plan needs more memory than the session has.
	ErrMemory = errors.New("the plan does not fit into the session's memory")
	// ErrNoSpare is returned by a [Runner] when the device has no memory for the spare
	// graph slot of a plan.
	ErrNoSpare = errors.New("no memory for a spare graph slot")
	// ErrPlan is returned when a plan contradicts itself: a step comes before its
	// input, a load frees a graph that later steps need, or steps and loads wait
	// for each other.
	ErrPlan = errors.New("bad plan")
	// ErrTimeline is returned when a timeline breaks a rule of [Timeline.Check].
	ErrTimeline = errors.New("bad timeline")
)

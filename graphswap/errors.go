package graphswap

import "errors"

var (
	// ErrDevice is returned when no profile has the wanted name.
	ErrDevice = errors.New("unknown device")
	// ErrModel is returned when a profile does not list the wanted model.
	ErrModel = errors.New("unknown model")
	// ErrProfile is returned when a profile cannot be read or makes no sense.
	ErrProfile = errors.New("bad profile")
	// ErrRequest is returned for a prompt, a partition or widths that no plan
	// can be made for.
	ErrRequest = errors.New("bad request")
	// ErrMemory is returned when a plan would hold more than the session may.
	ErrMemory = errors.New("does not fit into the session's memory window")
	// ErrPlan is returned when a plan contradicts itself: a step before what it
	// needs, a load that would free a graph that is still to run, a deadlock.
	ErrPlan = errors.New("bad plan")
	// ErrTimeline is returned when a timeline breaks an invariant.
	ErrTimeline = errors.New("bad timeline")
)

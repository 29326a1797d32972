package outoforder

import "errors"

var (
	// ErrProblem is returned for stages that cannot be scheduled, and for problems that
	// are too large.
	ErrProblem = errors.New("bad problem")
	// ErrPolicy is returned when no policy has the requested name.
	ErrPolicy = errors.New("unknown policy")
	// ErrSchedule is returned when a schedule breaks a rule of [Problem.Check].
	ErrSchedule = errors.New("bad schedule")
)

//go:build race

package engine_test

// raceDetector reports that this build has the race detector, which makes it fifty times
// slower.
const raceDetector = true

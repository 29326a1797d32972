//go:build race

package engine_test

// raceDetector is set in builds that have it: they are fifty times slower.
const raceDetector = true

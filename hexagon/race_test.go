//go:build race

package hexagon

// raceDetector is set in builds that have it: they are many times slower.
const raceDetector = true

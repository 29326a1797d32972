//go:build race

package hexagon

// raceDetector is set in builds with Go's race detector, which makes them many times
// slower.
const raceDetector = true

//go:build !race

package hexagon

const raceDetector = false

//go:build race

package engine_test

// raceDetector reports that this build has the race detector, with which programs run fifty
// times slower.
const raceDetector = true

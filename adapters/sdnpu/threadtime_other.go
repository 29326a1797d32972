//go:build !linux

package main

import "time"

// threadTime is nil: processor time of a thread is read on Linux alone.
var threadTime func() time.Duration

//go:build !linux

package main

import "time"

// threadTime is nil here, because only Linux reports the processor time of a
// thread.
var threadTime func() time.Duration

//go:build !linux

package main

// ownMemory is not known here.
func ownMemory() int64 { return 0 }

// freeMemory is not known here.
func freeMemory() (size int64, known bool) { return 0, false }

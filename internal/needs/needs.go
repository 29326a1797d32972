// Package needs lets a test skip if something that it needs is not installed. If the
// variable SDNPU_REQUIRE, a list separated by commas, names the missing thing, the test
// fails and is not skipped.
package needs

import (
	"os"
	"slices"
	"strings"
	"testing"
)

// Required reports whether the list in SDNPU_REQUIRE contains the argument `what`.
func Required(what string) bool {
	return slices.Contains(strings.Split(os.Getenv("SDNPU_REQUIRE"), ","), what)
}

// Missing skips a test, or fails it if the list in SDNPU_REQUIRE contains the argument
// `what`.
func Missing(t testing.TB, what, format string, args ...any) {
	t.Helper()
	if Required(what) {
		t.Fatalf("SDNPU_REQUIRE names "+what+": "+format, args...)
	}
	t.Skipf(format, args...)
}

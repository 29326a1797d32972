package backendtest

import (
	"slices"
	"strings"
	"testing"

	"github.com/sdnpu/sdnpu/backend"
)

// Options describes what a device promises. The zero value describes a device that computes in
// float16 and promises nothing about rows.
type Options struct {
	// Tolerance returns the largest error that is allowed relative to the reference.
	// A nil Tolerance means [Half].
	Tolerance Tolerance
	// RowExact requires that a row has the same bits in graphs of any width and
	// with any padding.
	RowExact bool
	// Refuses describes the part of a graph that the device cannot compute, or returns "".
	// Compiling such a graph must fail with [errors.ErrUnsupported], and any other must run. A
	// nil Refuses means that the device computes everything.
	Refuses func(g *backend.Graph) string
	// Type is the element type of test cases that do not check arithmetic. A zero
	// Type means float16.
	Type backend.DataType
	// Known maps the name of each case that the device is known to fail to the reason.
	// A name covers itself and all names that continue it after a slash:
	// "operator/RmsNorm" covers all types and shapes.
	Known map[string]string
}

// testCase is one subtest. testCase's name must not change, because
// Options.Known uses it.
type testCase struct {
	name string
	run  func(t *testing.T, s *suite)
}

// suite holds the device and the options that all cases share.
type suite struct {
	device  backend.Device
	options Options
}

// Run tests the device that open returns against the contract of package backend, and
// closes the device at the end.
func Run(t *testing.T, open func(t *testing.T) backend.Device, options Options) {
	t.Helper()
	if options.Tolerance == nil {
		options.Tolerance = Half
	}
	if options.Type == 0 {
		options.Type = backend.Float16
	}
	s := &suite{device: open(t), options: options}
	cases := slices.Concat(deviceCases(), operatorCases(), fixedCases(), graphCases(), imageCases(),
		bindingCases(), concurrencyCases(), blockCases(), independenceCases())
	unused := make(map[string]bool)
	for name := range options.Known {
		unused[name] = true
	}
	for _, c := range cases {
		known, reason := s.known(c.name)
		delete(unused, known)
		t.Run(c.name, func(t *testing.T) {
			if known != "" {
				t.Skipf("known: %s: %s", known, reason)
			}
			c.run(t, s)
		})
	}
	for name := range unused {
		t.Errorf("backendtest: Options.Known names %q: no such case", name)
	}
	if err := s.device.Close(); err != nil {
		t.Errorf("close the device: %v", err)
	}
	if err := s.device.Close(); err != nil {
		t.Errorf("close the device again: %v", err)
	}
}

// known returns the longest name in Options.Known that covers a case.
func (s *suite) known(name string) (known, reason string) {
	for k, r := range s.options.Known {
		if (k == name || strings.HasPrefix(name, k+"/")) && len(k) > len(known) {
			known, reason = k, r
		}
	}
	return known, reason
}

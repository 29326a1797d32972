package backendtest

import (
	"slices"
	"strings"
	"testing"

	"github.com/sdnpu/sdnpu/backend"
)

// Options says what a device promises. The zero value is a device that
// computes in float16 and promises nothing about rows.
type Options struct {
	// Tolerance limits errors against the reference. Nil means [Half].
	Tolerance Tolerance
	// RowExact demands that a row is bit-equal in graphs of any width and with
	// any padding.
	RowExact bool
	// Refuses names what the device does not compute in a graph, "" for nothing.
	// Such a graph must be [errors.ErrUnsupported], every other one must run. Nil
	// means that it computes everything.
	Refuses func(g *backend.Graph) string
	// Type is that of the elements where a case is not about numbers. Zero means
	// float16.
	Type backend.DataType
	// Known maps the names of cases that the device fails to the reason. A
	// name stands for itself and for what follows it after a slash:
	// "operator/RmsNorm" for all its types and shapes.
	Known map[string]string
}

// testCase is one subtest; its name is stable, because Options.Known uses it.
type testCase struct {
	name string
	run  func(t *testing.T, s *suite)
}

// suite is what the cases share.
type suite struct {
	device  backend.Device
	options Options
}

// Run holds the device that open returns to the contract. The device is closed
// at the end.
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
		t.Errorf("backendtest: Options.Known names %q, which is no case", name)
	}
	if err := s.device.Close(); err != nil {
		t.Errorf("close the device: %v", err)
	}
	if err := s.device.Close(); err != nil {
		t.Errorf("close the device again: %v", err)
	}
}

// known returns the longest listed name that covers a case.
func (s *suite) known(name string) (known, reason string) {
	for k, r := range s.options.Known {
		if (k == name || strings.HasPrefix(name, k+"/")) && len(k) > len(known) {
			known, reason = k, r
		}
	}
	return known, reason
}

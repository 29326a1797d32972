// Package forms tests every form of an operator that the project relies on:
// operator × element types × encodings × shape × chip. It runs each form on a
// float64 reference, the emulator, the vendor's library on request, and the float
// device if the contract has the operator. It contains only tests.
//
// A form is a small graph with its inputs ([form], built by the table_*_test.go
// files), the expected outcome (it runs, or a call refuses it with a code) and the
// allowed error against the reference. Each library runs in a child process,
// because some forms crash the vendor's library. The child returns bytes and
// codes, and the parent judges them.
//
//	go test ./hexagon/forms -v                      # prints the table of the emulator
//	SDNPU_REQUIRE=vendor go test ./hexagon/forms -v # and of the vendor's library: minutes
//	go test ./hexagon/forms -v -forms 'Softmax/u8'  # some forms, one line each
//	go test ./hexagon/forms -keep /some/folder      # keeps the built emulator
//	go test ./hexagon/forms -update                 # rewrites testdata/forms.md
//	SDNPU_FULL=1 go test -v ./hexagon/forms -timeout 2h # more seeds and chips, large shapes on one chip; -v shows progress
//
// # Checks of each form
//
//   - emulator and vendor's library end alike, with the same call and code, unless
//     the form states a known difference with its reason;
//   - a second execute, and an execute after saving and loading, give the same bits;
//   - float results are within a relative rms error, quantized results within a
//     number of units of the output's scale (LSB), and integers are equal.
//
// The reference computes on the inputs after encoding, so only arithmetic and the
// rounding of the output count as error.
package forms

// Package forms holds no code of the product. Its tests run every form of an
// operator that the project relies on — operator × element types × encodings ×
// shape × chip — on a float64 reference, the emulator, the vendor's library
// where it is asked for, and the float device where the contract has the operator.
//
// A form is a small graph with its inputs ([form], built by the table_*_test.go
// files), the outcome that is expected of a library (it runs, or which call
// refuses it with which code) and the error that is allowed against the
// reference. Each library runs in a child process, because some forms crash the
// vendor's; what the child sends back is bytes and codes, judged by the parent.
//
//	go test ./hexagon/forms -v                      # prints the table, of the emulator
//	SDNPU_REQUIRE=vendor go test ./hexagon/forms -v # and of the vendor's library: minutes
//	go test ./hexagon/forms -v -forms 'Softmax/u8'  # some forms, one line each
//	go test ./hexagon/forms -keep /some/folder      # saves building the emulator again
//	go test ./hexagon/forms -update                 # rewrites testdata/forms.md
//	SDNPU_FULL=1 go test -v ./hexagon/forms -timeout 2h # more seeds and chips, large shapes on one chip; -v shows progress
//
// # What is checked of each form
//
//   - emulator and vendor's library end alike: same call, same code;
//   - a second run and a run after saving and loading give the same bits;
//   - float results are within the stated relative rms error, quantized ones
//     within the stated number of output steps (LSB), integers equal.
//
// The reference computes on what the inputs mean after encoding, so that only
// the arithmetic and the rounding of the output count as error.
package forms

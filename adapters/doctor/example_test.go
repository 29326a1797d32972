package doctor_test

import (
	"fmt"

	"github.com/sdnpu/sdnpu/adapters/doctor"
	"github.com/sdnpu/sdnpu/adapters/findings"
)

// A folder without a manifest holds no prepared images.
func ExampleCheckPrepared() {
	for _, f := range doctor.CheckPrepared(findings.Store{Prepared: []string{"/no/such/folder"}}, nil) {
		fmt.Println(f.What, f.Found == "", f.Remedy != "")
	}
	// Output: prepared true true
}

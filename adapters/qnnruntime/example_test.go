package qnnruntime_test

import (
	"fmt"

	"github.com/sdnpu/sdnpu/adapters/qnnruntime"
)

func ExampleParseTarget() {
	t, err := qnnruntime.ParseTarget("linux/arm64")
	fmt.Println(t, t.Library(), err)
	_, err = qnnruntime.ParseTarget("android/arm64")
	fmt.Println(err)
	// Output:
	// linux/arm64 libQnnHtp.so <nil>
	// android/arm64: no wheel for this system: on Android the libraries come with the vendor's SDK: put them into the folder of the program, or name them in SDNPU_LIBRARY
}

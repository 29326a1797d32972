package hexagon_test

import (
	"fmt"

	"github.com/sdnpu/sdnpu/hexagon"
)

// A chip is found by its part number or by its number in QNN.
func ExampleFindChip() {
	byName, _ := hexagon.FindChip("sm8650")
	byNumber, _ := hexagon.FindChip("57")
	fmt.Println(byName == byNumber, byName.Market)
	_, err := hexagon.FindChip("sm1")
	fmt.Println(err)
	// Output:
	// true Snapdragon 8 Gen 3
	// hexagon: unknown chip "sm1": want one of sm8350 (30), sm8450 (36), sm8475 (42), sm8550 (43), sm8650 (57), sc8380xp (60), sm8750 (69), sm8850 (87), or the SoC number of another chip
}

// The full result of a QNN call has the error code in its low 16 bits.
func ExampleFindFault() {
	fault, err := hexagon.FindFault("0x803ef")
	fmt.Println(fault.Code, fault.Name, err)
	fmt.Println(fault.Cause)
	// Output:
	// 1007 system communication <nil>
	// the DSP crashed and restarted; everything that was loaded is lost
}

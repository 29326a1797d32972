package arguments_test

import (
	"fmt"

	"github.com/sdnpu/sdnpu/adapters/llamaserver/arguments"
)

func ExampleParse() {
	args, warnings, err := arguments.Parse([]string{"--model", "m.gguf", "-c", "4096", "-np", "2", "--newer-flag", "7"})
	if err != nil {
		panic(err)
	}
	fmt.Println(args.Mode() == arguments.ModeServe, args.Model, args.ContextPerSlot())
	fmt.Println(warnings)
	// Output:
	// true m.gguf 2048
	// [unknown argument --newer-flag is ignored]
}

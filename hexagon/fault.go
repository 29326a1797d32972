package hexagon

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/sdnpu/sdnpu/hexagon/qnn"
)

// Fault is a failure that people meet, in plain words.
type Fault struct {
	// Code is as it is shown: QNN's number, or that of the DSP's driver.
	Code string `json:"code"`
	// Name is what the vendor calls it.
	Name   string `json:"name"`
	Cause  string `json:"cause"`
	Remedy string `json:"remedy"`
}

// faults are those that QNN or the driver beneath it is known for. The numbers
// of the driver stand in lines that the library logs.
var faults = []Fault{
	{"1002", "out of memory", "the graphs with their inputs and outputs do not fit into a session of the DSP, which holds 3.75 GB", "cut the model into more blocks (sdnpu.blocks), take a shorter context (sdnpu.context) or a smaller recipe, or end other programs that use the NPU"},
	{"1007", "system communication", "the DSP crashed and has started again; what was loaded into it is gone", "nothing: graphs are loaded and clocks are asked for again. Where it comes back with every request, update the system's NPU driver"},
	{"1008", "incompatible binaries", "an image was made for another chip, or by another version of the library", "`sdnpu cache clear`, or prepare the model again with this runtime; check with `sdnpu doctor` that library, stubs and DSP images are of one version"},
	{"1009", "loading binaries", "the DSP could not load an image, or a second copy of the library is in this process", "name one library only (SDNPU_LIBRARY), keep library, stubs and DSP images of one version in one folder, and `sdnpu cache clear`"},
	{"1011", "fatal communication", "the DSP does not come back for this process", "start the program again; Ollama does so with the next request. Where that fails, restart the machine"},
	{"5004", "binary version", "an image is newer than the library can read", "`sdnpu runtime install` for a newer library, or `sdnpu cache clear` to compile with this one"},
	{"5005", "create from binary", "an image is damaged, or the library refuses it", "`sdnpu cache verify`, then `sdnpu cache clear`"},
	{"8003", "memory mapping", "memory for inputs and outputs cannot be mapped into the session that holds the graphs", "cut the model into more blocks (sdnpu.blocks) or take a shorter context, and start again"},
	{"14001", "device configuration", "there is no access to the NPU, or the chip's number is unknown to the library", "see the lines `NPU access` and `DSP driver` of `sdnpu doctor`; in a container give it the devices (--privileged, or --device for /dev/fastrpc* and /dev/dma_heap) and the driver's packages; leave SDNPU_SOC unset on a phone"},
	{"14002", "hardware unavailable", "this machine has no NPU, or its driver is not loaded", "install the system's NPU driver (fastrpc)"},
	{"0x72", "driver version", "the driver of the DSP has another version than the library wants", "update the system, or install an older runtime: `sdnpu runtime install --release 2.6.0` (2.3.0 is the oldest)"},
	{"0x43", "unsigned image refused", "the system lets only signed DSP images run", "use the DSP images that the system brings (ADSP_LIBRARY_PATH), or a system that allows unsigned sessions"},
	{"0x80000414", "unsupported part", "the DSP has no such session: the chip is older than the images", "`sdnpu doctor` names the chip; the runtime has images for Hexagon v68 and newer"},
	{"0xe", "queue failure", "a queue or a session of the DSP failed, mostly with large models or two sessions", "cut the model into more blocks, and end other programs that use the NPU"},
	{"0x2e", "session failure", "a session of the DSP failed, mostly with large models or two sessions", "cut the model into more blocks, and end other programs that use the NPU"},
	{"0x1", "fastrpc map failed", "memory of the machine is short or in pieces", "end other programs, or cut the model into more blocks: smaller pieces are found sooner"},
}

// Faults lists the failures whose cause and remedy are known.
func Faults() []Fault { return faults }

// FindFault reads "1007" or "0x72", however it is written: numbers of the vendor's
// functions may stand in their full width.
func FindFault(text string) (Fault, error) {
	n, err := strconv.ParseUint(strings.ToLower(text), 0, 64)
	var known []string
	for _, f := range faults {
		own, _ := strconv.ParseUint(f.Code, 0, 64) // the table is ours
		if err == nil && (n == own || n&0xffff == own && own >= 1000 && own < 0xffff) {
			return f, nil
		}
		known = append(known, f.Code)
	}
	return Fault{}, fmt.Errorf("hexagon: nothing is known of code %.80q: known are %s", text, strings.Join(known, ", "))
}

// explain adds cause and remedy to a failed call whose code is known.
func explain(err error) error {
	var call *qnn.Error
	if !errors.As(err, &call) {
		return err
	}
	f, unknown := FindFault(strconv.Itoa(int(call.Code)))
	if unknown != nil {
		return err
	}
	return fmt.Errorf("%w (%s; to do: %s)", err, f.Cause, f.Remedy)
}

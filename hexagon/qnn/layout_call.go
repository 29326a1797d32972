package qnn

import "unsafe"

// The structs of calls that ask, load from callbacks or exchange parts of an
// image; the conventions of layout.go.

// cProperty is QnnBackend_Property_t, QnnContext_Property_t and
// QnnGraph_Property_t: option 0 asks for what custom says.
type cProperty struct {
	_      uint32 `c:"option"`
	_      [4]byte
	custom *cCustomProperty `c:"customProperty"`
}

// cCustomProperty is QnnHtpContext_CustomProperty_t.
type cCustomProperty struct {
	option uint32 `c:"option"`
	_      [4]byte
	value  uint64 `c:"value"`
}

// cContextParams is QnnContext_Params_t, version 1. Its addresses are numbers: a
// keeper holds what they point to.
type cContextParams struct {
	version uint32 `c:"version"`
	_       [4]byte
	config  uintptr `c:"config"`
	image   uintptr `c:"binaryBuffer"`
	size    uint64  `c:"binaryBufferSize"`
	profile uintptr `c:"profile"`
	notify  uintptr `c:"notifyFunc"`
	param   uintptr `c:"notifyParam"`
}

// cImageCallback is Qnn_ContextBinaryCallback_t with either kind of callback.
type cImageCallback struct {
	kind    uint32 `c:"type"`
	_       [4]byte
	version uint32 `c:"version"`
	_       [4]byte
	provide uintptr `c:"dataProvide"`
	release uintptr `c:"dataRelease"`
	param   uintptr `c:"notifyParam"`
}

// cDataRequest is Qnn_ContextBinaryDataRequest_t, which C passes by value.
type cDataRequest struct {
	offset uint64 `c:"offset"`
	size   uint64 `c:"size"`
	_      uint8  `c:"isBackendMappingNeeded"`
	_      [7]byte
}

// cRawResponse is Qnn_ContextBinaryRawDataResponse_t.
type cRawResponse struct {
	data    uintptr `c:"memPtr"`
	start   uint64  `c:"dataStartOffset"`
	aligned uint64  `c:"alignedSize"`
}

// cSharedResponse is Qnn_ContextBinaryDmaDataResponse_t.
type cSharedResponse struct {
	fd      int32 `c:"fd"`
	_       [4]byte
	data    uintptr `c:"data"`
	start   uint64  `c:"dataStartOffset"`
	aligned uint64  `c:"alignedSize"`
}

// cSharedMemory is Qnn_ContextBinaryDmaDataMem_t, which C passes by value.
type cSharedMemory struct {
	_    int32 `c:"fd"`
	_    [4]byte
	data uintptr `c:"data"`
	_    uint64  `c:"memSize"`
}

// cContextBuffer is QnnContext_Buffer_t for plain memory.
type cContextBuffer struct {
	version uint32 `c:"version"`
	_       [4]byte
	_       uint32 `c:"memType"` // 0: an address
	_       [4]byte
	data    unsafe.Pointer `c:"data"`
	size    uint64         `c:"dataSize"`
}

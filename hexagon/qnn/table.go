package qnn

import "fmt"

// function is an index into the library's table of functions. The order is
// that of core API 2.32 to 2.40; older versions have another.
type function int

// functionCount is the number of entries whose meaning is known.
const functionCount = 71

const (
	fnPropertyHasCapability               function = 0
	fnBackendCreate                       function = 1
	fnBackendSetConfig                    function = 2
	fnBackendGetAPIVersion                function = 3
	fnBackendGetBuildID                   function = 4
	fnBackendGetSupportedOperations       function = 6
	fnBackendValidateOpConfig             function = 7
	fnBackendFree                         function = 8
	fnContextCreate                       function = 9
	fnContextSetConfig                    function = 10
	fnContextGetBinarySize                function = 11
	fnContextGetBinary                    function = 12
	fnContextCreateFromBinary             function = 13
	fnContextFree                         function = 14
	fnGraphCreate                         function = 15
	fnGraphSetConfig                      function = 17
	fnGraphAddNode                        function = 18
	fnGraphFinalize                       function = 19
	fnGraphRetrieve                       function = 20
	fnGraphExecute                        function = 21
	fnGraphExecuteAsync                   function = 22
	fnTensorCreateGraphTensor             function = 24
	fnLogCreate                           function = 25
	fnLogSetLogLevel                      function = 26
	fnLogFree                             function = 27
	fnProfileCreate                       function = 28
	fnProfileSetConfig                    function = 29
	fnProfileGetEvents                    function = 30
	fnProfileGetSubEvents                 function = 31
	fnProfileGetEventData                 function = 32
	fnProfileGetExtendedEventData         function = 33
	fnProfileFree                         function = 34
	fnMemRegister                         function = 35
	fnMemDeRegister                       function = 36
	fnDeviceGetPlatformInfo               function = 37
	fnDeviceFreePlatformInfo              function = 38
	fnDeviceGetInfrastructure             function = 39
	fnDeviceCreate                        function = 40
	fnDeviceGetInfo                       function = 42
	fnDeviceFree                          function = 43
	fnSignalCreate                        function = 44
	fnSignalTrigger                       function = 46
	fnSignalFree                          function = 47
	fnErrorGetMessage                     function = 48
	fnErrorGetVerboseMessage              function = 49
	fnErrorFreeVerboseMessage             function = 50
	fnGraphGetProperty                    function = 53
	fnContextValidateBinary               function = 54
	fnContextCreateFromBinaryListAsync    function = 56
	fnContextGetBinarySectionSize         function = 59
	fnContextGetBinarySection             function = 60
	fnContextApplyBinarySection           function = 61
	fnBackendGetProperty                  function = 62
	fnContextGetProperty                  function = 63
	fnContextCreateFromBinaryWithCallback function = 68
)

var functionNames = [functionCount]string{
	fnPropertyHasCapability:               "propertyHasCapability",
	fnBackendCreate:                       "backendCreate",
	fnBackendSetConfig:                    "backendSetConfig",
	fnBackendGetAPIVersion:                "backendGetApiVersion",
	fnBackendGetBuildID:                   "backendGetBuildId",
	fnBackendGetSupportedOperations:       "backendGetSupportedOperations",
	fnBackendValidateOpConfig:             "backendValidateOpConfig",
	fnBackendFree:                         "backendFree",
	fnContextCreate:                       "contextCreate",
	fnContextSetConfig:                    "contextSetConfig",
	fnContextGetBinarySize:                "contextGetBinarySize",
	fnContextGetBinary:                    "contextGetBinary",
	fnContextCreateFromBinary:             "contextCreateFromBinary",
	fnContextFree:                         "contextFree",
	fnGraphCreate:                         "graphCreate",
	fnGraphSetConfig:                      "graphSetConfig",
	fnGraphAddNode:                        "graphAddNode",
	fnGraphFinalize:                       "graphFinalize",
	fnGraphRetrieve:                       "graphRetrieve",
	fnGraphExecute:                        "graphExecute",
	fnGraphExecuteAsync:                   "graphExecuteAsync",
	fnTensorCreateGraphTensor:             "tensorCreateGraphTensor",
	fnLogCreate:                           "logCreate",
	fnLogSetLogLevel:                      "logSetLogLevel",
	fnLogFree:                             "logFree",
	fnProfileCreate:                       "profileCreate",
	fnProfileSetConfig:                    "profileSetConfig",
	fnProfileGetEvents:                    "profileGetEvents",
	fnProfileGetSubEvents:                 "profileGetSubEvents",
	fnProfileGetEventData:                 "profileGetEventData",
	fnProfileGetExtendedEventData:         "profileGetExtendedEventData",
	fnProfileFree:                         "profileFree",
	fnMemRegister:                         "memRegister",
	fnMemDeRegister:                       "memDeRegister",
	fnDeviceGetPlatformInfo:               "deviceGetPlatformInfo",
	fnDeviceFreePlatformInfo:              "deviceFreePlatformInfo",
	fnDeviceGetInfrastructure:             "deviceGetInfrastructure",
	fnDeviceCreate:                        "deviceCreate",
	fnDeviceGetInfo:                       "deviceGetInfo",
	fnDeviceFree:                          "deviceFree",
	fnSignalCreate:                        "signalCreate",
	fnSignalTrigger:                       "signalTrigger",
	fnSignalFree:                          "signalFree",
	fnErrorGetMessage:                     "errorGetMessage",
	fnErrorGetVerboseMessage:              "errorGetVerboseMessage",
	fnErrorFreeVerboseMessage:             "errorFreeVerboseMessage",
	fnGraphGetProperty:                    "graphGetProperty",
	fnContextValidateBinary:               "contextValidateBinary",
	fnContextCreateFromBinaryListAsync:    "contextCreateFromBinaryListAsync",
	fnContextGetBinarySectionSize:         "contextGetBinarySectionSize",
	fnContextGetBinarySection:             "contextGetBinarySection",
	fnContextApplyBinarySection:           "contextApplyBinarySection",
	fnBackendGetProperty:                  "backendGetProperty",
	fnContextGetProperty:                  "contextGetProperty",
	fnContextCreateFromBinaryWithCallback: "contextCreateFromBinaryWithCallback",
}

// String returns the C name without its library prefix.
func (f function) String() string {
	if f >= 0 && f < functionCount && functionNames[f] != "" {
		return functionNames[f]
	}
	return fmt.Sprintf("function %d", int(f))
}

/* abi.c prints the layout of QNN's structs as a C compiler sees it, one line per struct ("struct
 * NAME size") and per field ("field NAME FIELD offset size kind"). The structs in abi.c were
 * written by hand from tables of offsets and types that were found by calling the library, not from
 * its headers. TestLayoutsEqualTheirCStructs compares the lines that abi.c prints with the Go
 * structs. All pointers are declared as void *, so that the program can recognise their kind.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

typedef uint32_t u32;
typedef uint64_t u64;
typedef uint8_t u8;
typedef void (*function)(void);

typedef struct { u32 major, minor, patch; } Qnn_Version_t;
typedef struct {
  u32 backendId;
  void *providerName;
  Qnn_Version_t coreApiVersion, backendApiVersion;
  function table[71];
} QnnInterface_t;
typedef struct { void *data; u32 dataSize; } Qnn_ClientBuffer_t;

typedef struct { float scale; int32_t offset; } Qnn_ScaleOffset_t;
typedef struct { int32_t axis; u32 numScaleOffsets; void *scaleOffset; } Qnn_AxisScaleOffset_t;
typedef struct { u32 bitwidth; float scale; int32_t offset; } Qnn_BwScaleOffset_t;
typedef struct { u32 bitwidth; int32_t axis; u32 numElements; void *scales, *offsets; } Qnn_BwAxisScaleOffset_t;
typedef struct { float scale, offset; } Qnn_FloatScaleOffset_t;
typedef struct { void *blockSize, *scaleOffset; } Qnn_BlockEncoding_t;
typedef struct { void *blockSize, *scaleOffset; } Qnn_FloatBlockEncoding_t;
typedef struct { u32 bitwidth; void *blockSize, *scaleOffset; } Qnn_BwFloatBlockEncoding_t;
typedef struct {
  int32_t axis;
  void *scaleOffsets;
  u32 numBlocksPerAxis, blockScaleBitwidth, blockScaleStorageType;
  void *blocksScale;
} Qnn_BlockwiseExpansion_t;
typedef struct {
  Qnn_BwAxisScaleOffset_t bwAxisScaleOffset;
  u32 rowsPerBlock, columnsPerBlock;
  u8 vectorDimension, vectorStride, indexBitwidth;
} Qnn_VectorEncoding_t;
typedef struct {
  u32 encodingDefinition, quantizationEncoding;
  union {
    Qnn_ScaleOffset_t scaleOffset;
    Qnn_AxisScaleOffset_t axis;
    Qnn_BwScaleOffset_t bw;
    Qnn_BwAxisScaleOffset_t bwAxis;
    Qnn_BlockEncoding_t block;
    Qnn_FloatBlockEncoding_t floatBlock;
    Qnn_BwFloatBlockEncoding_t bwFloatBlock;
    void *vector;
    void *blockwiseExpansion;
  } encodingUnion;
} Qnn_QuantizeParams_t;

typedef struct { u32 type, numSpecified, numSparse; } Qnn_SparseParams_t;
typedef struct {
  u32 id;
  void *name;
  u32 type, dataFormat, dataType;
  Qnn_QuantizeParams_t quantizeParams;
  u32 rank;
  void *dimensions;
  u32 memType;
  union { Qnn_ClientBuffer_t clientBuf; void *memHandle; } mem;
} Qnn_TensorV1_t;
typedef struct {
  u32 id;
  void *name;
  u32 type, dataFormat, dataType;
  Qnn_QuantizeParams_t quantizeParams;
  u32 rank;
  void *dimensions;
  u32 memType;
  union { Qnn_ClientBuffer_t clientBuf; void *memHandle; } mem;
  void *isDynamicDimensions;
  Qnn_SparseParams_t sparseParams;
  u8 isProduced;
} Qnn_TensorV2_t;
typedef struct { u32 version; union { Qnn_TensorV1_t v1; Qnn_TensorV2_t v2; } body; } Qnn_Tensor_t;

typedef Qnn_Tensor_t TensorImage;

typedef struct { u32 dataType; union { u64 u; float f; u8 b; } value; } Qnn_Scalar_t;
typedef struct { u32 paramType; void *name; union { Qnn_Scalar_t scalar; Qnn_Tensor_t tensor; } value; } Qnn_Param_t;
typedef struct {
  u32 version;
  struct {
    void *name, *packageName, *typeName;
    u32 numOfParams;
    void *params;
    u32 numOfInputs;
    void *inputTensors;
    u32 numOfOutputs;
    void *outputTensors;
  } v1;
} Qnn_OpConfig_t;

typedef struct { u32 option; union { void *custom; u32 word; u64 u; u8 flag; struct { u32 level, limit; } pair; } value; } Config;
typedef Config QnnBackend_Config_t, QnnDevice_Config_t, QnnContext_Config_t, QnnGraph_Config_t, QnnProfile_Config_t;
typedef struct { u32 option; union { u64 hvx; u8 bytes[48]; void *pointer; } value; } QnnHtpGraph_CustomConfig_t;
typedef struct { u32 option; union { u8 flag; struct { void *handle; u64 size; } group; } value; } QnnHtpContext_CustomConfig_t;
typedef struct { u32 option; union { u32 soc; struct { u32 device, arch; } arch; void *extension; } value; } QnnHtpDevice_CustomConfig_t;
typedef struct { u32 option; union { u32 soc; struct { u32 device, arch; } arch; } value; } QnnHtpDevice_CustomConfig_2_32_t;

typedef struct { u32 type, unit; u64 value; void *identifier; } QnnProfile_EventData_t;
typedef struct { u32 type, unit; struct { u64 word[3]; } value; u64 timestamp; void *identifier; } QnnProfile_ExtendedEventDataV1_t;
typedef struct { u32 version; QnnProfile_ExtendedEventDataV1_t v1; } QnnProfile_ExtendedEventData_t;
typedef struct {
  u32 numDim;
  void *dimSize, *shapeConfig;
  u32 dataType, memType;
  union { u64 fd; void *custom; struct { int32_t fd; void *data; } dmaBuf; } info;
} Qnn_MemDescriptor_t;
typedef struct {
  u32 type;
  u64 size;
  union { u32 address; struct { int32_t fd; u64 offset; } shared; } config;
} QnnMemHtp_Descriptor_t;
typedef struct { u32 version; struct { u32 numHwDevices; void *hwDevices; } v1; } QnnDevice_PlatformInfo_t;
typedef struct {
  u32 version;
  struct { u32 deviceId, deviceType, numCores; void *cores, *extension; } v1;
} QnnDevice_HardwareDeviceInfo_t;
typedef struct { u32 version; struct { u32 coreId, coreType; void *extension; } v1; } QnnDevice_CoreInfo_t;
typedef struct {
  u32 devType;
  struct { u64 vtcmSize; u32 socModel; u8 signedPdSupport, dlbcSupport; u32 arch; } onChip;
} QnnHtpDevice_DeviceInfoExtension_t;
typedef struct {
  u32 infraType;
  struct { function createPowerConfigId, destroyPowerConfigId, setPowerConfig, setMemoryConfig; } perf;
} QnnDevice_Infrastructure_t;
typedef struct {
  u32 option;
  union { struct { u32 word[16]; } dcvs; u32 rpcControlLatency; } value;
} QnnHtpPerfInfrastructure_PowerConfig_t;

typedef struct { u32 backendId; void *providerName; Qnn_Version_t systemApiVersion; function table[4]; } QnnSystemInterface_t;
typedef struct { u32 backendId; void *buildId; Qnn_Version_t coreApiVersion, backendApiVersion; void *socVersion; } BinaryInfoHead;
typedef struct { u32 version; BinaryInfoHead head; } QnnSystemContext_BinaryInfo_t;
typedef struct {
  u32 version;
  struct {
    BinaryInfoHead head;
    Qnn_Version_t hwInfoBlobVersion, contextBlobVersion;
    u32 hwInfoBlobSize;
    void *hwInfoBlob;
    u64 contextBlobSize;
    u32 numContextTensors;
    void *contextTensors;
    u32 numGraphs;
    void *graphs;
  } v;
} QnnSystemContext_BinaryInfoV1_t;
typedef struct {
  u32 version;
  struct {
    BinaryInfoHead head;
    Qnn_Version_t contextBlobVersion;
    u64 contextBlobSize;
    u32 numContextTensors;
    void *contextTensors;
    u32 numGraphs;
    void *graphs, *hwInfo;
    u32 contextMetadataSize;
    void *contextMetadata;
    u32 socModel;
  } v;
} QnnSystemContext_BinaryInfoV3_t;
typedef struct {
  u32 version;
  struct {
    void *graphName;
    u32 numGraphInputs;
    void *graphInputs;
    u32 numGraphOutputs;
    void *graphOutputs;
    u32 numUpdateableTensors;
    void *updateableTensors;
    u32 graphBlobInfoSize;
    void *graphBlobInfo;
    u32 startOpIndex, endOpIndex;
  } v3;
} QnnSystemContext_GraphInfo_t;
typedef struct {
  struct { u32 version; u64 spillFillBufferSize; u32 vtcmSize, optimizationLevel; u8 htpDlbc; u64 numHvxThreads; } v1;
  struct {
    u32 version;
    u64 nativeKSize, nativeVSize;
    u32 safeShareIO;
    u64 ioTensorSize, opDataSize, constSize, ddrTensorSize, sharedWeightsSize;
  } v2;
} QnnHtpSystemContext_GraphBlobInfo_t;

#define KIND(x) _Generic(&(x), u32 *: "u32", u64 *: "u64", u8 *: "u8", int32_t *: "i32", float *: "f32", void **: "pointer", function *: "pointer", default: "other")
#define S(T) printf("struct %s %zu\n", #T, sizeof(T));
/* The macro F prints the field at PATH of type T under the name NAME. */
#define F(T, NAME, PATH) \
  printf("field %s %s %zu %zu %s\n", #T, #NAME, offsetof(T, PATH), sizeof(((T *)0)->PATH), KIND(((T *)0)->PATH));

int main(void) {
  S(Qnn_Version_t)
  F(Qnn_Version_t, major, major) F(Qnn_Version_t, minor, minor) F(Qnn_Version_t, patch, patch)
  S(QnnInterface_t)
  F(QnnInterface_t, backendId, backendId) F(QnnInterface_t, providerName, providerName)
  F(QnnInterface_t, coreApiVersion, coreApiVersion) F(QnnInterface_t, backendApiVersion, backendApiVersion)
  F(QnnInterface_t, table, table)
  S(Qnn_ClientBuffer_t)
  F(Qnn_ClientBuffer_t, data, data) F(Qnn_ClientBuffer_t, dataSize, dataSize)
  S(Qnn_QuantizeParams_t)
  F(Qnn_QuantizeParams_t, encodingDefinition, encodingDefinition)
  F(Qnn_QuantizeParams_t, quantizationEncoding, quantizationEncoding)
  F(Qnn_QuantizeParams_t, encodingUnion, encodingUnion)
  S(Qnn_ScaleOffset_t) F(Qnn_ScaleOffset_t, scale, scale) F(Qnn_ScaleOffset_t, offset, offset)
  S(Qnn_FloatScaleOffset_t) F(Qnn_FloatScaleOffset_t, scale, scale) F(Qnn_FloatScaleOffset_t, offset, offset)
  S(Qnn_AxisScaleOffset_t)
  F(Qnn_AxisScaleOffset_t, axis, axis) F(Qnn_AxisScaleOffset_t, numScaleOffsets, numScaleOffsets)
  F(Qnn_AxisScaleOffset_t, scaleOffset, scaleOffset)
  S(Qnn_BwScaleOffset_t)
  F(Qnn_BwScaleOffset_t, bitwidth, bitwidth) F(Qnn_BwScaleOffset_t, scale, scale) F(Qnn_BwScaleOffset_t, offset, offset)
  S(Qnn_BwAxisScaleOffset_t)
  F(Qnn_BwAxisScaleOffset_t, bitwidth, bitwidth) F(Qnn_BwAxisScaleOffset_t, axis, axis)
  F(Qnn_BwAxisScaleOffset_t, numElements, numElements) F(Qnn_BwAxisScaleOffset_t, scales, scales)
  F(Qnn_BwAxisScaleOffset_t, offsets, offsets)
#define BLOCKS(T) S(T) F(T, blockSize, blockSize) F(T, scaleOffset, scaleOffset)
  BLOCKS(Qnn_BlockEncoding_t) BLOCKS(Qnn_FloatBlockEncoding_t)
  BLOCKS(Qnn_BwFloatBlockEncoding_t) F(Qnn_BwFloatBlockEncoding_t, bitwidth, bitwidth)
  S(Qnn_BlockwiseExpansion_t)
  F(Qnn_BlockwiseExpansion_t, axis, axis) F(Qnn_BlockwiseExpansion_t, scaleOffsets, scaleOffsets)
  F(Qnn_BlockwiseExpansion_t, numBlocksPerAxis, numBlocksPerAxis)
  F(Qnn_BlockwiseExpansion_t, blockScaleBitwidth, blockScaleBitwidth)
  F(Qnn_BlockwiseExpansion_t, blockScaleStorageType, blockScaleStorageType)
  F(Qnn_BlockwiseExpansion_t, blocksScale, blocksScale)
  S(Qnn_VectorEncoding_t)
  F(Qnn_VectorEncoding_t, bwAxisScaleOffset, bwAxisScaleOffset)
  F(Qnn_VectorEncoding_t, rowsPerBlock, rowsPerBlock) F(Qnn_VectorEncoding_t, columnsPerBlock, columnsPerBlock)
  F(Qnn_VectorEncoding_t, vectorDimension, vectorDimension) F(Qnn_VectorEncoding_t, vectorStride, vectorStride)
  F(Qnn_VectorEncoding_t, indexBitwidth, indexBitwidth)
#define TENSOR(V) \
  F(Qnn_Tensor_t, id, body.V.id) F(Qnn_Tensor_t, name, body.V.name) F(Qnn_Tensor_t, type, body.V.type) \
  F(Qnn_Tensor_t, dataFormat, body.V.dataFormat) F(Qnn_Tensor_t, dataType, body.V.dataType) \
  F(Qnn_Tensor_t, quantizeParams, body.V.quantizeParams) F(Qnn_Tensor_t, rank, body.V.rank) \
  F(Qnn_Tensor_t, dimensions, body.V.dimensions) F(Qnn_Tensor_t, memType, body.V.memType) \
  F(Qnn_Tensor_t, clientBuf, body.V.mem)
  S(Qnn_Tensor_t)
  F(Qnn_Tensor_t, version, version)
  TENSOR(v1)
  TENSOR(v2)
  F(Qnn_Tensor_t, isDynamicDimensions, body.v2.isDynamicDimensions)
  F(Qnn_Tensor_t, sparseParams, body.v2.sparseParams) F(Qnn_Tensor_t, isProduced, body.v2.isProduced)
  S(Qnn_Scalar_t)
  F(Qnn_Scalar_t, dataType, dataType) F(Qnn_Scalar_t, value, value.u)
  S(Qnn_Param_t)
  F(Qnn_Param_t, paramType, paramType) F(Qnn_Param_t, name, name) F(Qnn_Param_t, value, value.tensor)
  S(Qnn_OpConfig_t)
  F(Qnn_OpConfig_t, version, version) F(Qnn_OpConfig_t, name, v1.name)
  F(Qnn_OpConfig_t, packageName, v1.packageName) F(Qnn_OpConfig_t, typeName, v1.typeName)
  F(Qnn_OpConfig_t, numOfParams, v1.numOfParams) F(Qnn_OpConfig_t, params, v1.params)
  F(Qnn_OpConfig_t, numOfInputs, v1.numOfInputs) F(Qnn_OpConfig_t, inputTensors, v1.inputTensors)
  F(Qnn_OpConfig_t, numOfOutputs, v1.numOfOutputs) F(Qnn_OpConfig_t, outputTensors, v1.outputTensors)
#define CONFIG(T) S(T) F(T, option, option) F(T, value, value.u)
  CONFIG(QnnBackend_Config_t) CONFIG(QnnDevice_Config_t) CONFIG(QnnContext_Config_t)
  CONFIG(QnnGraph_Config_t) CONFIG(QnnProfile_Config_t)
#define CUSTOM(T, NAME) S(T) F(T, option, option) F(T, NAME, value)
  CUSTOM(QnnHtpGraph_CustomConfig_t, value) CUSTOM(QnnHtpContext_CustomConfig_t, value)
  CUSTOM(QnnHtpDevice_CustomConfig_t, value) CUSTOM(QnnHtpDevice_CustomConfig_2_32_t, early)
  S(QnnProfile_EventData_t)
  F(QnnProfile_EventData_t, type, type) F(QnnProfile_EventData_t, unit, unit)
  F(QnnProfile_EventData_t, value, value) F(QnnProfile_EventData_t, identifier, identifier)
  S(QnnProfile_ExtendedEventData_t)
  F(QnnProfile_ExtendedEventData_t, version, version)
  F(QnnProfile_ExtendedEventData_t, type, v1.type) F(QnnProfile_ExtendedEventData_t, unit, v1.unit)
  F(QnnProfile_ExtendedEventData_t, value, v1.value) F(QnnProfile_ExtendedEventData_t, timestamp, v1.timestamp)
  F(QnnProfile_ExtendedEventData_t, identifier, v1.identifier)
  S(Qnn_MemDescriptor_t)
  F(Qnn_MemDescriptor_t, numDim, numDim) F(Qnn_MemDescriptor_t, dimSize, dimSize)
  F(Qnn_MemDescriptor_t, shapeConfig, shapeConfig) F(Qnn_MemDescriptor_t, dataType, dataType)
  F(Qnn_MemDescriptor_t, memType, memType) F(Qnn_MemDescriptor_t, fd, info.fd)
  S(QnnMemHtp_Descriptor_t)
  F(QnnMemHtp_Descriptor_t, type, type) F(QnnMemHtp_Descriptor_t, size, size)
  F(QnnMemHtp_Descriptor_t, fd, config.shared.fd) F(QnnMemHtp_Descriptor_t, offset, config.shared.offset)
  S(QnnDevice_PlatformInfo_t)
  F(QnnDevice_PlatformInfo_t, version, version) F(QnnDevice_PlatformInfo_t, numHwDevices, v1.numHwDevices)
  F(QnnDevice_PlatformInfo_t, hwDevices, v1.hwDevices)
  S(QnnDevice_HardwareDeviceInfo_t)
  F(QnnDevice_HardwareDeviceInfo_t, version, version) F(QnnDevice_HardwareDeviceInfo_t, deviceId, v1.deviceId)
  F(QnnDevice_HardwareDeviceInfo_t, deviceType, v1.deviceType)
  F(QnnDevice_HardwareDeviceInfo_t, numCores, v1.numCores) F(QnnDevice_HardwareDeviceInfo_t, cores, v1.cores)
  F(QnnDevice_HardwareDeviceInfo_t, extension, v1.extension)
  S(QnnDevice_CoreInfo_t)
  F(QnnDevice_CoreInfo_t, version, version) F(QnnDevice_CoreInfo_t, coreId, v1.coreId)
  F(QnnDevice_CoreInfo_t, coreType, v1.coreType) F(QnnDevice_CoreInfo_t, extension, v1.extension)
  S(QnnHtpDevice_DeviceInfoExtension_t)
  F(QnnHtpDevice_DeviceInfoExtension_t, devType, devType)
  F(QnnHtpDevice_DeviceInfoExtension_t, vtcmSize, onChip.vtcmSize)
  F(QnnHtpDevice_DeviceInfoExtension_t, socModel, onChip.socModel)
  F(QnnHtpDevice_DeviceInfoExtension_t, signedPdSupport, onChip.signedPdSupport)
  F(QnnHtpDevice_DeviceInfoExtension_t, dlbcSupport, onChip.dlbcSupport)
  F(QnnHtpDevice_DeviceInfoExtension_t, arch, onChip.arch)
  S(QnnDevice_Infrastructure_t)
  F(QnnDevice_Infrastructure_t, infraType, infraType)
  F(QnnDevice_Infrastructure_t, createPowerConfigId, perf.createPowerConfigId)
  F(QnnDevice_Infrastructure_t, destroyPowerConfigId, perf.destroyPowerConfigId)
  F(QnnDevice_Infrastructure_t, setPowerConfig, perf.setPowerConfig)
  F(QnnDevice_Infrastructure_t, setMemoryConfig, perf.setMemoryConfig)
  S(QnnHtpPerfInfrastructure_PowerConfig_t)
  F(QnnHtpPerfInfrastructure_PowerConfig_t, option, option)
  F(QnnHtpPerfInfrastructure_PowerConfig_t, value, value)
#define G(T, NAME) F(T, NAME, NAME)
  S(QnnSystemInterface_t) G(QnnSystemInterface_t, backendId) G(QnnSystemInterface_t, providerName)
  G(QnnSystemInterface_t, systemApiVersion) G(QnnSystemInterface_t, table)
  S(QnnSystemContext_BinaryInfo_t) G(QnnSystemContext_BinaryInfo_t, version)
#define H(NAME) F(QnnSystemContext_BinaryInfo_t, NAME, head.NAME)
  H(backendId) H(buildId) H(coreApiVersion) H(backendApiVersion) H(socVersion)
#define BODY(T, NAME) F(T, NAME, v.NAME)
#define SIZES(T) \
  S(T) BODY(T, contextBlobVersion) BODY(T, contextBlobSize) BODY(T, numContextTensors) \
  BODY(T, contextTensors) BODY(T, numGraphs) BODY(T, graphs)
  SIZES(QnnSystemContext_BinaryInfoV1_t) BODY(QnnSystemContext_BinaryInfoV1_t, hwInfoBlobVersion)
  BODY(QnnSystemContext_BinaryInfoV1_t, hwInfoBlobSize) BODY(QnnSystemContext_BinaryInfoV1_t, hwInfoBlob)
  SIZES(QnnSystemContext_BinaryInfoV3_t) BODY(QnnSystemContext_BinaryInfoV3_t, hwInfo)
  BODY(QnnSystemContext_BinaryInfoV3_t, contextMetadataSize)
  BODY(QnnSystemContext_BinaryInfoV3_t, contextMetadata) BODY(QnnSystemContext_BinaryInfoV3_t, socModel)
  S(QnnSystemContext_GraphInfo_t) G(QnnSystemContext_GraphInfo_t, version)
#define I(NAME) F(QnnSystemContext_GraphInfo_t, NAME, v3.NAME)
  I(graphName) I(numGraphInputs) I(graphInputs) I(numGraphOutputs) I(graphOutputs) I(numUpdateableTensors)
  I(updateableTensors) I(graphBlobInfoSize) I(graphBlobInfo) I(startOpIndex) I(endOpIndex)
  S(QnnHtpSystemContext_GraphBlobInfo_t)
#define B(NAME, PATH) F(QnnHtpSystemContext_GraphBlobInfo_t, NAME, PATH)
  B(version, v1.version) B(spillFillBufferSize, v1.spillFillBufferSize) B(vtcmSize, v1.vtcmSize)
  B(optimizationLevel, v1.optimizationLevel) B(htpDlbc, v1.htpDlbc) B(numHvxThreads, v1.numHvxThreads)
  B(version2, v2.version) B(nativeKSize, v2.nativeKSize) B(nativeVSize, v2.nativeVSize)
  B(safeShareIO, v2.safeShareIO) B(ioTensorSize, v2.ioTensorSize) B(opDataSize, v2.opDataSize)
  B(constSize, v2.constSize) B(ddrTensorSize, v2.ddrTensorSize) B(sharedWeightsSize, v2.sharedWeightsSize)
  S(TensorImage)
#define J(NAME, PATH) F(TensorImage, NAME, PATH)
  J(version, version) J(id, body.v1.id) J(name, body.v1.name) J(type, body.v1.type)
  J(dataFormat, body.v1.dataFormat) J(dataType, body.v1.dataType)
  J(quantizeParams, body.v1.quantizeParams) J(rank, body.v1.rank) J(dimensions, body.v1.dimensions)
  return 0;
}

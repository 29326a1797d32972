/* api_async.h: the structs of calls that notify, that load from a client's
 * callbacks or that ask for numbers. Offsets were compiled from public headers;
 * the vendor's x86-64 library refuses all of these calls.
 */
#ifndef SDNPU_API_ASYNC_H
#define SDNPU_API_ASYNC_H

#include "api.h"

/* Qnn_NotifyStatus_t travels in a register */
typedef struct {
  qnn_status error;
} qnn_notify_status;
typedef void (*qnn_notify)(void *param, qnn_notify_status status);

/* QnnContext_createFromBinaryNotifyFn_t: type 0 tells of a graph, 1 of the context */
typedef void (*qnn_notify_load)(qnn_handle context, qnn_handle graph, const char *name, uint32_t type,
                                void *param, qnn_status status);

/* QnnContext_Params_t, version 1 (56) */
typedef struct {
  uint32_t version;
  uint32_t hole4;
  const qnn_config *const *config;
  const void *binary;
  uint64_t size;
  qnn_handle profile;
  qnn_notify_load notify;
  void *param;
} qnn_context_params;

/* Qnn_ContextBinaryDataRequest_t (24), passed by value */
typedef struct {
  uint64_t offset, size;
  uint8_t mapping_needed;
  uint8_t hole17[7];
} qnn_data_request;

/* Qnn_MemDmaBufInfo_t (16) and the answers that carry an address or one of these */
typedef struct {
  int32_t fd;
  uint32_t hole4;
  void *data;
} qnn_dma_buffer;
typedef struct {
  void *data;
  uint64_t start, aligned_size;
} qnn_raw_response;
typedef struct {
  qnn_dma_buffer buffer;
  uint64_t start, aligned_size;
} qnn_dma_response;
typedef struct {
  void *data;
  uint64_t size;
} qnn_raw_memory;
typedef struct {
  qnn_dma_buffer buffer;
  uint64_t size;
} qnn_dma_memory;

/* Qnn_ContextBinaryCallback_t (40): type 1 provides plain memory, 2 DMA buffers */
typedef struct {
  uint32_t type;
  uint32_t hole4;
  uint32_t version;
  uint32_t hole12;
  union {
    qnn_status (*raw)(qnn_data_request request, qnn_raw_response *response, void *param);
    qnn_status (*dma)(qnn_data_request request, qnn_dma_response *response, void *param);
  } provide;
  union {
    qnn_status (*raw)(qnn_raw_memory memory, void *param);
    qnn_status (*dma)(qnn_dma_memory memory, void *param);
  } release;
  void *param;
} qnn_binary_callback;

/* QnnContext_Property_t (16) and QnnHtpContext_CustomProperty_t (16) */
typedef struct {
  uint32_t option;
  uint32_t hole4;
  uint64_t value;
} qnn_custom_property;
typedef struct {
  uint32_t option; /* 0 custom */
  uint32_t hole4;
  qnn_custom_property *custom;
} qnn_property;

_Static_assert(sizeof(qnn_context_params) == 56, "QnnContext_Params_t");
_Static_assert(offsetof(qnn_context_params, notify) == 40, "QnnContext_ParamsV1_t.notifyFunc");
_Static_assert(sizeof(qnn_binary_callback) == 40, "Qnn_ContextBinaryCallback_t");
_Static_assert(sizeof(qnn_data_request) == 24, "Qnn_ContextBinaryDataRequest_t");
_Static_assert(sizeof(qnn_dma_response) == 32, "Qnn_ContextBinaryDmaDataResponse_t");
_Static_assert(sizeof(qnn_dma_memory) == 24, "Qnn_ContextBinaryDmaDataMem_t");
_Static_assert(sizeof(qnn_property) == 16, "QnnContext_Property_t");

/* What backends answer instead of QNN_NOT_SUPPORTED. */
enum { QNN_BACKEND_UNSUPPORTED = 4003 };

/* Entries of the function table */
qnn_status api_graph_execute_async(qnn_handle graph, const qnn_tensor *inputs, uint32_t n_inputs,
                                   const qnn_tensor *outputs, uint32_t n_outputs, qnn_handle profile,
                                   qnn_handle signal, qnn_notify notify, void *param);
qnn_status api_context_from_list(qnn_handle backend, qnn_handle device,
                                 const qnn_context_params *const *params, const qnn_config *const *config,
                                 qnn_handle signal);
qnn_status api_context_from_callback(qnn_handle backend, qnn_handle device, const qnn_config *const *config,
                                     const qnn_binary_callback *callback, const void *blob, uint64_t size,
                                     qnn_handle *out, qnn_handle profile, qnn_handle signal);
qnn_status api_context_property(qnn_handle context, qnn_property *const *properties);
qnn_status api_backend_property(qnn_handle backend, qnn_property *const *properties);

#endif

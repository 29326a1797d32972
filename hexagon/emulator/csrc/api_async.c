/* api_async.c: runs and loads that notify, images that a client lends piece by
 * piece, and properties. An asynchronous run has a thread of its own, which the
 * lane puts in line as it does any other; a list is loaded by the caller.
 */
#define _POSIX_C_SOURCE 200809L
#include <stdlib.h>
#include <string.h>

#include "api_async.h"

/* A run in line, with copies of what the client may reuse. */
typedef struct {
  qnn_handle handle, profile;
  api_graph *graph; /* held, so that its context waits for the run */
  qnn_tensor *tensors; /* inputs, then outputs */
  uint32_t n_inputs, n_outputs;
  qnn_notify notify;
  void *param;
} async_run;

static void *run_async(void *argument) {
  async_run *run = argument;
  qnn_status status = api_graph_execute(run->handle, run->tensors, run->n_inputs, run->tensors + run->n_inputs,
                                        run->n_outputs, run->profile, NULL);
  api_release(run->graph);
  if (run->notify != NULL) {
    run->notify(run->param, (qnn_notify_status){status});
  }
  free(run->tensors);
  free(run);
  return NULL;
}

static qnn_status start(async_run *run) {
  pthread_t thread;
  pthread_attr_t detached;
  if (pthread_attr_init(&detached) != 0) {
    return QNN_MEMORY;
  }
  pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
  int failed = pthread_create(&thread, &detached, run_async, run);
  pthread_attr_destroy(&detached);
  return failed != 0 ? QNN_MEMORY : QNN_OK;
}

qnn_status api_graph_execute_async(qnn_handle handle, const qnn_tensor *inputs, uint32_t n_inputs,
                                   const qnn_tensor *outputs, uint32_t n_outputs, qnn_handle profile,
                                   qnn_handle signal, qnn_notify notify, void *param) {
  if (signal != NULL) {
    return QNN_NOT_SUPPORTED;
  }
  api_graph *graph = api_hold(API_GRAPH, handle);
  if (graph == NULL) {
    return api_fail(0, QNN_GRAPH_HANDLE, "graphExecuteAsync: no graph %p", handle);
  }
  size_t n = (size_t)n_inputs + n_outputs;
  qnn_status status = QNN_OK;
  if (n == 0 || n > graph->n_tensors || inputs == NULL || outputs == NULL) {
    status = api_fail(graph->context->log, QNN_GRAPH_ARGUMENT, "graph \"%s\": execute got %zu tensors",
                      graph->name, n);
    api_release(graph);
    return status;
  }
  async_run *run = malloc(sizeof *run);
  qnn_tensor *tensors = malloc(n * sizeof *tensors);
  if (run != NULL && tensors != NULL) {
    memcpy(tensors, inputs, n_inputs * sizeof *inputs);
    memcpy(tensors + n_inputs, outputs, n_outputs * sizeof *outputs);
    *run = (async_run){handle, profile, graph, tensors, n_inputs, n_outputs, notify, param};
    status = start(run);
  } else {
    status = QNN_MEMORY;
  }
  if (status != QNN_OK) {
    free(tensors);
    free(run);
    api_release(graph);
  }
  return status;
}

/* The list's own options share memory between contexts, which changes no result here. */
static qnn_status check_list_config(const qnn_config *const *config) {
  for (; config != NULL && *config != NULL; config++) {
    const qnn_htp_config *custom = (*config)->option == 0 ? (*config)->value.custom : NULL;
    if (custom == NULL || (custom->option != 5 && custom->option != 10)) {
      return api_fail(0, QNN_CONTEXT_CONFIG, "contextCreateFromBinaryListAsync: unknown option of the list");
    }
  }
  return QNN_OK;
}

static void load_one(qnn_handle backend, qnn_handle device, const qnn_context_params *p) {
  qnn_handle context = NULL;
  qnn_status status = api_context_from_binary(backend, device, p->config, p->binary, p->size, &context, p->profile);
  api_context *loaded = status == QNN_OK ? api_hold(API_CONTEXT, context) : NULL;
  for (api_graph *graph = loaded != NULL ? loaded->graphs : NULL; graph != NULL; graph = graph->next) {
    qnn_handle handle = NULL;
    qnn_status found = api_graph_retrieve(context, graph->name, &handle);
    p->notify(context, handle, graph->name, 0, p->param, found);
  }
  if (loaded != NULL) {
    api_release(loaded);
  }
  p->notify(context, NULL, NULL, 1, p->param, status);
}

qnn_status api_context_from_list(qnn_handle backend, qnn_handle device,
                                 const qnn_context_params *const *params, const qnn_config *const *config,
                                 qnn_handle signal) {
  if (signal != NULL) {
    return QNN_NOT_SUPPORTED;
  }
  qnn_status status = check_list_config(config);
  for (const qnn_context_params *const *p = params; status == QNN_OK && p != NULL && *p != NULL; p++) {
    if ((*p)->version != 1 || (*p)->notify == NULL) {
      status = api_fail(0, QNN_CONTEXT_ARGUMENT, "contextCreateFromBinaryListAsync: an entry is not of version 1, or nobody is to be told");
    }
  }
  if (status != QNN_OK || params == NULL) {
    return params == NULL ? QNN_CONTEXT_ARGUMENT : status;
  }
  for (; *params != NULL; params++) {
    load_one(backend, device, *params);
  }
  return QNN_OK;
}

/* The whole image is one part. It is given back as soon as it has been read, for nothing of it is
 * used in place: persistent binaries are refused here. */
static qnn_status borrow(const qnn_binary_callback *callback, uint64_t size, qnn_dma_buffer *out) {
  qnn_data_request request = {.size = size, .mapping_needed = callback->type == 2};
  uint64_t start = 0, aligned = 0;
  qnn_status status;
  if (callback->type == 1) {
    qnn_raw_response raw = {0};
    status = callback->provide.raw(request, &raw, callback->param);
    *out = (qnn_dma_buffer){.fd = -1, .data = raw.data};
    start = raw.start, aligned = raw.aligned_size;
  } else {
    qnn_dma_response dma = {.buffer.fd = -1};
    status = callback->provide.dma(request, &dma, callback->param);
    *out = dma.buffer;
    start = dma.start, aligned = dma.aligned_size;
  }
  if (status == QNN_OK && (out->data == NULL || start != 0 || aligned < size)) {
    status = api_fail(0, QNN_CONTEXT_ARGUMENT, "context: the memory that was lent does not hold the image");
  }
  return status;
}

static void give_back(const qnn_binary_callback *callback, uint64_t size, qnn_dma_buffer buffer) {
  if (callback->type == 1) {
    callback->release.raw((qnn_raw_memory){buffer.data, size}, callback->param);
  } else {
    callback->release.dma((qnn_dma_memory){buffer, size}, callback->param);
  }
}

static bool sound_callback(const qnn_binary_callback *callback) {
  return callback != NULL && callback->version == 1 && (callback->type == 1 || callback->type == 2) &&
         callback->provide.raw != NULL && callback->release.raw != NULL;
}

enum { OPTION_PERSISTENT = 7 };

qnn_status api_context_from_callback(qnn_handle backend, qnn_handle device, const qnn_config *const *config,
                                     const qnn_binary_callback *callback, const void *blob, uint64_t size,
                                     qnn_handle *out, qnn_handle profile, qnn_handle signal) {
  if (signal != NULL) {
    return QNN_NOT_SUPPORTED;
  }
  if (!sound_callback(callback) || blob == NULL || size == 0) {
    return api_fail(0, QNN_CONTEXT_ARGUMENT, "contextCreateFromBinaryWithCallback: no image, or no callbacks of version 1");
  }
  for (const qnn_config *const *c = config; c != NULL && *c != NULL; c++) {
    if ((*c)->option == OPTION_PERSISTENT && (*c)->value.u8 != 0) {
      return api_fail(0, QNN_NOT_SUPPORTED, "context: a persistent image cannot be lent in parts");
    }
  }
  qnn_dma_buffer buffer = {.fd = -1};
  qnn_status status = borrow(callback, size, &buffer);
  if (status == QNN_OK) {
    status = api_context_from_binary(backend, device, config, buffer.data, size, out, profile);
    give_back(callback, size, buffer);
  }
  return status;
}

/* The options of QnnHtpContext_GetPropertyOption_t. */
enum { PROPERTY_ALIGNMENT = 1, PROPERTY_SPILL = 2, PROPERTY_WEIGHTS = 3 };

static qnn_status answer(const api_context *context, qnn_custom_property *p) {
  switch (p->option) {
    case PROPERTY_ALIGNMENT:
      p->value = API_ALIGN;
      return QNN_OK;
    case PROPERTY_SPILL:
      p->value = 0;
      for (const api_graph *graph = context->graphs; graph != NULL; graph = graph->next) {
        p->value = graph->arena_size > p->value ? graph->arena_size : p->value;
      }
      return QNN_OK;
    case PROPERTY_WEIGHTS:
      p->value = 0;
      for (const api_chunk *chunk = context->store.first; chunk != NULL; chunk = chunk->next) {
        p->value += chunk->size;
      }
      return QNN_OK;
    default:
      return api_fail(context->log, QNN_NOT_SUPPORTED, "context: no property %u", p->option);
  }
}

qnn_status api_context_property(qnn_handle handle, qnn_property *const *properties) {
  api_context *context = api_hold(API_CONTEXT, handle);
  if (context == NULL) {
    return api_fail(0, QNN_CONTEXT_HANDLE, "contextGetProperty: no context %p", handle);
  }
  qnn_status status = properties == NULL ? QNN_CONTEXT_ARGUMENT : QNN_OK;
  pthread_mutex_lock(&context->build);
  for (; status == QNN_OK && *properties != NULL; properties++) {
    bool custom = (*properties)->option == 0 && (*properties)->custom != NULL;
    status = custom ? answer(context, (*properties)->custom) : QNN_NOT_SUPPORTED;
  }
  pthread_mutex_unlock(&context->build);
  api_release(context);
  return status;
}

qnn_status api_backend_property(qnn_handle backend, qnn_property *const *properties) {
  (void)backend, (void)properties;
  return QNN_BACKEND_UNSUPPORTED; /* as the vendor's, which has a code of its own for it */
}

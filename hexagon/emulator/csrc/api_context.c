/* api_context.c: contexts, new ones and those that come from a binary. */
#define _POSIX_C_SOURCE 200809L
#include <stdlib.h>
#include <string.h>

#include "api.h"

static atomic_uint live_contexts;

api_graph *api_context_find_graph(const api_context *context, const char *name, size_t length) {
  for (api_graph *graph = context->graphs; graph != NULL; graph = graph->next) {
    if (strlen(graph->name) == length && memcmp(graph->name, name, length) == 0) {
      return graph;
    }
  }
  return NULL;
}

static void destroy(api_context *context) {
  api_graph *graph = context->graphs;
  while (graph != NULL) {
    api_graph *next = graph->next;
    api_graph_destroy(graph);
    graph = next;
  }
  api_store_clear(&context->store);
  pthread_mutex_destroy(&context->build);
  free(context);
  if (atomic_fetch_sub(&live_contexts, 1) == 1) {
    api_lane_trim();
  }
}

/* The new context is not registered yet: nobody sees it half built. */
static qnn_status make(qnn_handle backend_handle, qnn_handle device_handle, api_context **out) {
  api_backend *backend = api_hold(API_BACKEND, backend_handle);
  if (backend == NULL) {
    return api_fail(0, QNN_CONTEXT_HANDLE, "context: no backend %p", backend_handle);
  }
  uint32_t log = backend->log, soc = API_DEFAULT_SOC;
  api_release(backend);
  if (device_handle != NULL) {
    api_device *device = api_hold(API_DEVICE, device_handle);
    if (device == NULL) {
      return api_fail(log, QNN_DEVICE_HANDLE, "context: no device %p", device_handle);
    }
    soc = device->soc;
    api_release(device);
  }
  api_context *context = calloc(1, sizeof *context);
  if (context == NULL || pthread_mutex_init(&context->build, NULL) != 0) {
    free(context);
    return QNN_MEMORY;
  }
  context->log = log;
  context->soc = soc;
  context->graphs_end = &context->graphs;
  context->next_id = 1;
  atomic_fetch_add(&live_contexts, 1);
  *out = context;
  return QNN_OK;
}

static qnn_status publish(api_context *context, qnn_handle *out) {
  qnn_handle handle = api_register(API_CONTEXT, &context->base);
  if (handle == NULL) {
    destroy(context);
    return QNN_MEMORY;
  }
  *out = handle;
  return QNN_OK;
}

enum {
  OPTION_CUSTOM = 0,
  OPTION_PRIORITY = 1,
  OPTION_ERROR_REPORTING = 2,
  OPTION_ASYNC_DEPTH = 4,
  OPTION_ENABLE_GRAPHS = 5,
  OPTION_PERSISTENT = 7,
  OPTION_COMPATIBILITY = 8,
};

/* HTP options whose meaning holds here without doing anything: weights are always shared (1),
 * there is no file-read budget (3), no DSP to profile (4), no I/O estimate (6), no slow
 * start to speed up (8). */
static bool known_custom(const qnn_htp_config *custom) {
  return custom != NULL && (custom->option == 1 || custom->option == 3 || custom->option == 4 ||
                            custom->option == 6 || custom->option == 8);
}

/* An option that would be ignored is refused: the caller asked for something. */
static qnn_status read_config(uint32_t log, const qnn_config *const *config, bool from_binary,
                              api_load_options *options) {
  for (; config != NULL && *config != NULL; config++) {
    const qnn_config *c = *config;
    switch (c->option) {
      case OPTION_PRIORITY:
      case OPTION_ERROR_REPORTING:
      case OPTION_ASYNC_DEPTH:
        continue;
      case OPTION_CUSTOM:
        if (known_custom(c->value.custom)) {
          continue;
        }
        break;
      case OPTION_ENABLE_GRAPHS:
        if (from_binary && c->value.names != NULL) {
          options->enabled = c->value.names;
          continue;
        }
        break;
      case OPTION_PERSISTENT:
        if (from_binary) {
          options->persistent = c->value.u8 != 0;
          continue;
        }
        break;
      case OPTION_COMPATIBILITY:
        if (from_binary) {
          continue; /* strict is the only way here */
        }
        break;
      default:
        break;
    }
    return api_fail(log, QNN_NOT_SUPPORTED, "context: option %u is not supported", c->option);
  }
  return QNN_OK;
}

qnn_status api_context_create(qnn_handle backend, qnn_handle device, const qnn_config *const *config,
                              qnn_handle *out) {
  api_context *context = NULL;
  api_load_options options = {0};
  if (out == NULL) {
    return api_fail(0, QNN_CONTEXT_ARGUMENT, "contextCreate: no place for the handle");
  }
  qnn_status status = make(backend, device, &context);
  if (status != QNN_OK) {
    return status;
  }
  status = read_config(context->log, config, false, &options);
  if (status != QNN_OK) {
    destroy(context);
    return status;
  }
  return publish(context, out);
}

static qnn_status publish_graphs(api_context *context) {
  for (api_graph *graph = context->graphs; graph != NULL; graph = graph->next) {
    if (api_register(API_GRAPH, &graph->base) == NULL) {
      return QNN_MEMORY;
    }
  }
  return QNN_OK;
}

qnn_status api_context_from_binary(qnn_handle backend, qnn_handle device,
                                   const qnn_config *const *config, const void *blob, uint64_t size,
                                   qnn_handle *out, qnn_handle profile_handle) {
  api_context *context = NULL;
  api_load_options options = {0};
  uint64_t start = api_now_us();
  if (out == NULL) {
    return api_fail(0, QNN_CONTEXT_ARGUMENT, "contextCreateFromBinary: no place for the handle");
  }
  qnn_status status = make(backend, device, &context);
  if (status != QNN_OK) {
    return status;
  }
  api_profile *profile = api_profile_begin(profile_handle, context->log, &status);
  if (status == QNN_OK) {
    status = read_config(context->log, config, true, &options);
  }
  if (status == QNN_OK) {
    status = api_binary_read(context, blob, size, &options);
  }
  if (status == QNN_OK) {
    api_profile_add(profile, 0, 100, 1, api_now_us() - start, "context create from binary (us)");
  }
  api_profile_end(profile);
  if (status != QNN_OK) {
    destroy(context);
    return status;
  }
  context->from_binary = true;
  status = publish(context, out);
  if (status == QNN_OK && publish_graphs(context) != QNN_OK) {
    status = QNN_MEMORY;
    api_context_free(*out, NULL);
    *out = NULL;
  }
  return status;
}

qnn_status api_context_free(qnn_handle handle, qnn_handle profile_handle) {
  uint64_t start = api_now_us();
  qnn_status status = QNN_OK;
  api_profile *profile = api_profile_begin(profile_handle, 0, &status);
  if (status != QNN_OK) {
    return status;
  }
  api_context *context = api_withdraw(API_CONTEXT, handle);
  if (context == NULL) {
    api_profile_end(profile);
    return api_fail(0, QNN_CONTEXT_HANDLE, "contextFree: no context %p", handle);
  }
  destroy(context);
  api_profile_add(profile, 0, 500, 1, api_now_us() - start, "context free (us)");
  api_profile_end(profile);
  return QNN_OK;
}

qnn_status api_context_binary_size(qnn_handle handle, uint64_t *size) {
  api_context *context = api_hold(API_CONTEXT, handle);
  if (context == NULL) {
    return api_fail(0, QNN_CONTEXT_HANDLE, "contextGetBinarySize: no context %p", handle);
  }
  qnn_status status = QNN_CONTEXT_ARGUMENT;
  if (size != NULL) {
    pthread_mutex_lock(&context->build);
    status = api_binary_size(context, size);
    pthread_mutex_unlock(&context->build);
  }
  api_release(context);
  return status;
}

qnn_status api_context_binary(qnn_handle handle, void *buffer, uint64_t size, uint64_t *written) {
  api_context *context = api_hold(API_CONTEXT, handle);
  if (context == NULL) {
    return api_fail(0, QNN_CONTEXT_HANDLE, "contextGetBinary: no context %p", handle);
  }
  qnn_status status = QNN_CONTEXT_ARGUMENT;
  if (buffer != NULL && written != NULL) {
    pthread_mutex_lock(&context->build);
    status = api_binary_write(context, buffer, size, written);
    pthread_mutex_unlock(&context->build);
  }
  api_release(context);
  return status;
}

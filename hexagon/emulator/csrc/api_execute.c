/* api_execute.c: the lane. One graph runs at a time in the process, so all
 * graphs share the memory of one arena and one scratch: a graph's plan gives
 * places, the lane gives bytes. The client's buffers are read and written in
 * place; they must fit exactly, because the vendor's library would run past
 * their ends without a word.
 */
#define _POSIX_C_SOURCE 200809L
#include <stdlib.h>

#include "api.h"

static pthread_mutex_t lane = PTHREAD_MUTEX_INITIALIZER;
static struct {
  uint8_t *arena, *scratch;
  uint64_t arena_size, scratch_size;
} memory; /* guarded by lane */

static int grow(uint8_t **block, uint64_t *size, uint64_t wanted) {
  if (wanted <= *size) {
    return 0;
  }
  free(*block);
  *size = 0;
  *block = api_aligned(wanted);
  if (*block == NULL) {
    return -1;
  }
  *size = wanted;
  return 0;
}

void api_lane_trim(void) {
  pthread_mutex_lock(&lane);
  free(memory.arena);
  free(memory.scratch);
  memory.arena = NULL;
  memory.scratch = NULL;
  memory.arena_size = 0;
  memory.scratch_size = 0;
  pthread_mutex_unlock(&lane);
}

static qnn_status refuse(const api_graph *graph, const api_tensor *tensor, const char *why) {
  return api_fail(graph->context->log, QNN_GRAPH_TENSOR, "graph \"%s\", tensor \"%s\": %s", graph->name,
                  tensor->t.name, why);
}

static bool same_shape(const qnn_tensor *given, const emu_tensor *own) {
  if (given->rank == 0 || given->dimensions == NULL) {
    return true; /* not given */
  }
  bool same = given->rank == own->rank;
  for (uint32_t i = 0; same && i < own->rank; i++) {
    same = given->dimensions[i] == own->dims[i];
  }
  return same;
}

static qnn_status bind(const api_graph *graph, const qnn_tensor *given, uint32_t kind) {
  api_tensor *tensor = api_graph_tensor(graph, given->id);
  if (tensor == NULL || (given->version != 1 && given->version != 2)) {
    return api_fail(graph->context->log, QNN_GRAPH_TENSOR,
                    "graph \"%s\": execute names tensor id %u (version %u)", graph->name, given->id,
                    given->version);
  }
  if (tensor->t.kind != kind) {
    return refuse(graph, tensor, kind == EMU_APP_WRITE ? "it is not an input" : "it is not an output");
  }
  if (tensor->bound) {
    return refuse(graph, tensor, "it is given twice");
  }
  if (given->mem_type != 0 || given->data == NULL) {
    return refuse(graph, tensor, "it has no raw buffer");
  }
  if (given->data_size != tensor->bytes) {
    return api_fail(graph->context->log, QNN_GRAPH_TENSOR,
                    "graph \"%s\", tensor \"%s\": the buffer has %u bytes, the graph needs %llu",
                    graph->name, tensor->t.name, given->data_size, (unsigned long long)tensor->bytes);
  }
  if (given->data_type != 0 && given->data_type != QNN_UNDEFINED && given->data_type != tensor->t.dtype) {
    return refuse(graph, tensor, "the data type is not the graph's");
  }
  if (!same_shape(given, &tensor->t)) {
    return refuse(graph, tensor, "the shape is not the graph's");
  }
  if ((uintptr_t)given->data % emu_dtype_size(tensor->t.dtype) != 0) {
    return refuse(graph, tensor, "the buffer is not aligned to its elements");
  }
  tensor->bound = true;
  tensor->t.data = given->data;
  return QNN_OK;
}

static bool overlap(const qnn_tensor *a, const qnn_tensor *b) {
  uintptr_t x = (uintptr_t)a->data, y = (uintptr_t)b->data;
  return x < y + b->data_size && y < x + a->data_size;
}

/* An output is written while inputs are still read: it must stand alone. */
static qnn_status check_overlap(const api_graph *graph, const qnn_tensor *inputs, uint32_t n_inputs,
                                const qnn_tensor *outputs, uint32_t n_outputs) {
  for (uint32_t i = 0; i < n_outputs; i++) {
    bool clash = false;
    for (uint32_t j = 0; j < n_inputs; j++) {
      clash |= overlap(&outputs[i], &inputs[j]);
    }
    for (uint32_t j = 0; j < i; j++) {
      clash |= overlap(&outputs[i], &outputs[j]);
    }
    if (clash) {
      return refuse(graph, api_graph_tensor(graph, outputs[i].id), "its buffer overlaps another");
    }
  }
  return QNN_OK;
}

static qnn_status bind_all(const api_graph *graph, const qnn_tensor *inputs, uint32_t n_inputs,
                           const qnn_tensor *outputs, uint32_t n_outputs) {
  if (n_inputs != graph->n_inputs || n_outputs != graph->n_outputs || n_inputs == 0 ||
      inputs == NULL || outputs == NULL) {
    return api_fail(graph->context->log, QNN_GRAPH_ARGUMENT,
                    "graph \"%s\": execute got %u inputs and %u outputs, the graph has %u and %u",
                    graph->name, n_inputs, n_outputs, graph->n_inputs, graph->n_outputs);
  }
  qnn_status status = QNN_OK;
  for (uint32_t i = 0; i < n_inputs && status == QNN_OK; i++) {
    status = bind(graph, &inputs[i], EMU_APP_WRITE);
  }
  for (uint32_t i = 0; i < n_outputs && status == QNN_OK; i++) {
    status = bind(graph, &outputs[i], EMU_APP_READ);
  }
  return status == QNN_OK ? check_overlap(graph, inputs, n_inputs, outputs, n_outputs) : status;
}

/* No client pointer outlives the call. */
static void unbind(const api_graph *graph) {
  for (uint32_t i = 0; i < graph->n_tensors; i++) {
    api_tensor *tensor = graph->tensors[i];
    if (tensor->t.kind == EMU_APP_WRITE || tensor->t.kind == EMU_APP_READ) {
      tensor->bound = false;
      tensor->t.data = NULL;
    }
  }
}

static qnn_status place_natives(const api_graph *graph) {
  if (grow(&memory.arena, &memory.arena_size, graph->arena_size) != 0 ||
      grow(&memory.scratch, &memory.scratch_size, graph->scratch_size) != 0) {
    return api_fail(graph->context->log, QNN_MEMORY, "graph \"%s\": no memory for its tensors",
                    graph->name);
  }
  for (uint32_t i = 0; i < graph->n_tensors; i++) {
    api_tensor *tensor = graph->tensors[i];
    if (tensor->t.kind == EMU_NATIVE) {
      tensor->t.data = memory.arena + tensor->offset;
    }
  }
  return QNN_OK;
}

static void run_nodes(const api_graph *graph, api_profile *profile) {
  uint64_t start = api_now_us();
  emu_pool_enter();
  if (!api_profile_detailed(profile)) {
    for (uint32_t i = 0; i < graph->n_nodes; i++) {
      const emu_node *node = &graph->nodes[i]->n;
      node->op->run(node, memory.scratch);
    }
    emu_pool_leave();
    api_profile_add(profile, 0, 400, 1, api_now_us() - start, "graph execute (us)");
    return;
  }
  uint32_t parent = api_profile_add(profile, 0, 400, 1, 0, "graph execute, one by one (us)");
  uint64_t before = start;
  for (uint32_t i = 0; i < graph->n_nodes; i++) {
    const emu_node *node = &graph->nodes[i]->n;
    node->op->run(node, memory.scratch);
    uint64_t now = api_now_us();
    api_profile_add(profile, parent, 404, 1, now - before, node->name);
    before = now;
  }
  emu_pool_leave();
  api_profile_set(profile, parent, before - start);
}

static qnn_status execute(api_graph *graph, const qnn_tensor *inputs, uint32_t n_inputs,
                          const qnn_tensor *outputs, uint32_t n_outputs, api_profile *profile) {
  uint64_t start = api_now_us();
  pthread_mutex_lock(&lane);
  uint64_t waited = api_now_us() - start;
  qnn_status status = bind_all(graph, inputs, n_inputs, outputs, n_outputs);
  if (status == QNN_OK) {
    status = place_natives(graph);
  }
  if (status == QNN_OK) {
    run_nodes(graph, profile);
    api_profile_add(profile, 0, 405, 1, waited, "wait for the lane (us)");
  }
  unbind(graph);
  pthread_mutex_unlock(&lane);
  return status;
}

qnn_status api_graph_execute(qnn_handle handle, const qnn_tensor *inputs, uint32_t n_inputs,
                             const qnn_tensor *outputs, uint32_t n_outputs, qnn_handle profile_handle,
                             qnn_handle signal) {
  api_graph *graph = api_hold(API_GRAPH, handle);
  if (graph == NULL) {
    return api_fail(0, QNN_GRAPH_HANDLE, "graphExecute: no graph %p", handle);
  }
  qnn_status status = QNN_OK;
  if (signal != NULL) {
    status = QNN_NOT_SUPPORTED;
  } else if (!atomic_load(&graph->finalized)) {
    status = api_fail(graph->context->log, QNN_GRAPH_NOT_FINALIZED, "graph \"%s\": it is not finalized",
                      graph->name);
  } else {
    api_profile *profile = api_profile_begin(profile_handle, graph->context->log, &status);
    if (status == QNN_OK) {
      status = execute(graph, inputs, n_inputs, outputs, n_outputs, profile);
    }
    api_profile_end(profile);
  }
  api_release(graph);
  return status;
}

/* finalize.c checks a graph as a whole, packs its constants and plans its arena.
 *
 * If the elements of a static tensor are needed only for packing, they are freed when the last node
 * has packed them.
 */
#define _POSIX_C_SOURCE 200809L
#include <stdlib.h>
#include <string.h>

#include "api/node.h"
#include "settings.h"

static bool is_used(const emu_node *node) {
  for (uint32_t i = 0; i < node->n_out; i++) {
    const api_tensor *tensor = (const api_tensor *)node->out[i];
    if (tensor->t.kind == EMU_APP_READ || tensor->readers > 0) {
      return true;
    }
  }
  return false;
}

/* An output of a node may stay unused if another output of the node is used. A node without any
 * used output, or a tensor that is never used, is an error of the client. */
qnn_status api_graph_connected(const api_graph *graph, qnn_status code) {
  uint32_t log = graph->context->log;
  for (uint32_t i = 0; i < graph->n_tensors; i++) {
    const api_tensor *tensor = graph->tensors[i];
    bool made = tensor->t.kind == EMU_NATIVE || tensor->t.kind == EMU_APP_READ;
    if (made && tensor->producer < 0) {
      return api_fail(log, code, "graph \"%s\", tensor \"%s\": no node writes it", graph->name,
                      tensor->t.name);
    }
    if (!made && tensor->readers == 0) {
      return api_fail(log, code, "graph \"%s\", tensor \"%s\": no node reads it", graph->name,
                      tensor->t.name);
    }
  }
  for (uint32_t i = 0; i < graph->n_nodes; i++) {
    if (!is_used(&graph->nodes[i]->n)) {
      return api_fail(log, code, "graph \"%s\", node \"%s\": nothing reads what it writes",
                      graph->name, graph->nodes[i]->n.name);
    }
  }
  return QNN_OK;
}

static bool is_packed_away(const emu_node *node, bool packs, uint32_t input) {
  return packs && (node->op->packs_input >> input & 1) != 0 && node->in[input]->kind == EMU_STATIC;
}

static void count_raw_uses(api_graph *graph) {
  for (uint32_t i = 0; i < graph->n_tensors; i++) {
    graph->tensors[i]->raw_uses = 0;
  }
  for (uint32_t i = 0; i < graph->n_nodes; i++) {
    const emu_node *node = &graph->nodes[i]->n;
    size_t size = 0;
    bool packs = api_node_packs(node, &size);
    for (uint32_t j = 0; j < node->n_in; j++) {
      /* the bit mask packs_input has bits for the first 32 inputs only */
      if (j >= 32 || !is_packed_away(node, packs, j)) {
        ((api_tensor *)node->in[j])->raw_uses++;
      }
    }
    for (uint32_t j = 0; j < node->n_params; j++) {
      if (node->params[j].kind == 1) {
        ((api_tensor *)node->params[j].tensor)->raw_uses++;
      }
    }
  }
}

/* drop_packed_constants frees elements of static tensors that no node needs any more.
 * pending[id] is the number of nodes that have not packed the tensor yet. */
static void drop_packed_constants(api_graph *graph, const emu_node *node, uint32_t *pending) {
  for (uint32_t j = 0; j < node->n_in && j < 32; j++) {
    api_tensor *tensor = (api_tensor *)node->in[j];
    if (!is_packed_away(node, true, j) || --pending[tensor->t.id] > 0 || tensor->raw_uses > 0) {
      continue;
    }
    api_store_drop(&graph->context->store, tensor->chunk);
    tensor->chunk = NULL;
    tensor->t.data = NULL;
  }
}

/* count_pending counts, for each static tensor, the nodes that have yet to pack it. If an earlier
 * finalize failed, the nodes that it packed are not counted. */
static void count_pending(const api_graph *graph, uint32_t *pending) {
  for (uint32_t i = 0; i < graph->n_nodes; i++) {
    const api_node *node = graph->nodes[i];
    size_t size = 0;
    bool packs = api_node_packs(&node->n, &size) && node->packed == NULL;
    for (uint32_t j = 0; j < node->n.n_in && j < 32; j++) {
      if (is_packed_away(&node->n, packs, j)) {
        pending[((const api_tensor *)node->n.in[j])->t.id]++;
      }
    }
  }
}

static qnn_status pack(api_graph *graph) {
  uint32_t last_id = graph->tensors[graph->n_tensors - 1]->t.id;
  uint32_t *pending = calloc((size_t)last_id + 1, sizeof *pending);
  if (pending == NULL) {
    return QNN_MEMORY;
  }
  count_pending(graph, pending);
  for (uint32_t i = 0; i < graph->n_nodes; i++) {
    api_node *node = graph->nodes[i];
    size_t size = 0;
    if (!api_node_packs(&node->n, &size) || node->packed != NULL) {
      continue;
    }
    void *memory = api_aligned(size);
    if (memory == NULL) {
      free(pending);
      return QNN_MEMORY;
    }
    memset(memory, 0, size); /* the gaps between constants are zeroed, so that equal graphs give
                                equal binaries */
    node->n.op->pack(&node->n, memory);
    node->packed = api_store_adopt(&graph->context->store, memory, size);
    if (node->packed == NULL) {
      free(pending);
      return QNN_MEMORY;
    }
    node->n.packed = node->packed->data;
    drop_packed_constants(graph, &node->n, pending);
  }
  free(pending);
  return QNN_OK;
}

qnn_status api_graph_ready(api_graph *graph) {
  graph->scratch_size = 0;
  for (uint32_t i = 0; i < graph->n_nodes; i++) {
    const emu_node *node = &graph->nodes[i]->n;
    size_t size = node->op->scratch_size != NULL ? node->op->scratch_size(node) : 0;
    if (size > graph->scratch_size) {
      graph->scratch_size = size;
    }
  }
  if (api_plan_arena(graph) != 0) {
    return QNN_MEMORY;
  }
  atomic_store(&graph->finalized, true);
  return QNN_OK;
}

static qnn_status finalize(api_graph *graph) {
  uint32_t log = graph->context->log;
  emu_fault("finalize", graph->name);
  if (atomic_load(&graph->finalized)) {
    return api_fail(log, QNN_NOT_SUPPORTED, "graph \"%s\": already finalized", graph->name);
  }
  if (graph->n_nodes == 0) {
    return api_fail(log, QNN_GRAPH_FINALIZE, "graph \"%s\": it has no nodes", graph->name);
  }
  qnn_status status = api_graph_connected(graph, QNN_GRAPH_UNCONNECTED);
  for (uint32_t i = 0; i < graph->n_nodes && status == QNN_OK; i++) {
    status = api_check_prepared(graph, &graph->nodes[i]->n);
  }
  if (status != QNN_OK) {
    return status;
  }
  count_raw_uses(graph);
  status = pack(graph);
  if (status == QNN_OK) {
    status = api_graph_ready(graph);
  }
  if (status != QNN_OK) {
    return api_fail(log, status, "graph \"%s\": out of memory while finalizing", graph->name);
  }
  api_log(log, QNN_LOG_INFO, "graph \"%s\": %u nodes, arena %llu bytes, scratch %zu bytes",
          graph->name, graph->n_nodes, (unsigned long long)graph->arena_size, graph->scratch_size);
  return QNN_OK;
}

qnn_status api_graph_finalize(qnn_handle handle, qnn_handle profile_handle, qnn_handle signal) {
  uint64_t start = api_now_us();
  api_graph *graph = api_acquire(API_GRAPH, handle);
  if (graph == NULL) {
    return api_fail(0, QNN_GRAPH_HANDLE, "graphFinalize: unknown graph handle %p", handle);
  }
  qnn_status status = QNN_NOT_SUPPORTED;
  if (signal == NULL) {
    api_profile *profile = api_profile_begin(profile_handle, graph->context->log, &status);
    if (status == QNN_OK) {
      pthread_mutex_lock(&graph->context->build);
      status = finalize(graph);
      pthread_mutex_unlock(&graph->context->build);
    }
    if (status == QNN_OK) {
      api_profile_add(profile, 0, 300, 1, api_now_us() - start, "QNN (finalize) time");
    }
    api_profile_end(profile);
  }
  api_release(graph);
  return status;
}

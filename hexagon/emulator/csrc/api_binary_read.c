/* api_binary_read.c: a context from bytes that nobody vouches for. Numbers are
 * read through one bounds-checked cursor; tensors and nodes then pass the same
 * checks as if a client had just created them.
 */
#define _POSIX_C_SOURCE 200809L
#include <stdlib.h>
#include <string.h>

#include "api_binary.h"
#include "api_node.h"

typedef struct {
  const uint8_t *at, *end;
  bool bad;
} cursor;

typedef struct {
  uint64_t offset, size, hash;
  api_chunk *chunk; /* once something uses it */
} entry;

typedef struct {
  api_context *context;
  const uint8_t *blob;
  const api_load_options *options;
  bool borrow;
  api_binary_header header;
  entry *entries;
} loader;

static void get(cursor *c, void *out, size_t size) {
  if (c->bad || (size_t)(c->end - c->at) < size) {
    c->bad = true;
    memset(out, 0, size);
    return;
  }
  memcpy(out, c->at, size);
  c->at += size;
}

static uint32_t get_u32(cursor *c) {
  uint32_t value;
  get(c, &value, sizeof value);
  return value;
}

static uint64_t get_u64(cursor *c) {
  uint64_t value;
  get(c, &value, sizeof value);
  return value;
}

/* The string stays in the blob: its NUL is part of it. Empty when something is wrong. */
static const char *get_string(cursor *c) {
  uint32_t length = get_u32(c);
  if (c->bad || (size_t)(c->end - c->at) <= length || c->at[length] != 0 ||
      memchr(c->at, 0, length) != NULL || length == 0) {
    c->bad = true;
    return "";
  }
  const char *text = (const char *)c->at;
  c->at += (size_t)length + 1;
  return text;
}

static qnn_status damaged(const loader *l, const char *what) {
  return api_fail(l->context->log, QNN_CONTEXT_FROM_BINARY, "binary: %s", what);
}

static uint64_t padded(uint64_t size) { return (size + API_ALIGN - 1) / API_ALIGN * API_ALIGN; }

/* Every chunk has the one place the writer would give it, so none overlap. */
static qnn_status read_chunks(loader *l, cursor *c) {
  uint64_t offset = padded(API_BINARY_HEADER + l->header.meta_size);
  if (l->header.n_chunks > l->header.meta_size / API_CHUNK_ENTRY) {
    return damaged(l, "more chunks than the metadata can name");
  }
  l->entries = calloc((size_t)l->header.n_chunks + 1, sizeof *l->entries);
  if (l->entries == NULL) {
    return QNN_MEMORY;
  }
  for (uint32_t i = 0; i < l->header.n_chunks; i++) {
    entry *e = &l->entries[i];
    e->offset = get_u64(c);
    e->size = get_u64(c);
    e->hash = get_u64(c);
    if (c->bad || e->offset != offset || e->size == 0 || e->offset > l->header.total_size ||
        e->size > l->header.total_size - e->offset) {
      return damaged(l, "a chunk lies outside");
    }
    offset += padded(e->size);
  }
  return offset == l->header.total_size ? QNN_OK : damaged(l, "the chunks do not fill it");
}

/* Elements up to this size may be parameters, which checks look at while loading. */
enum { SMALL_CONSTANT = 4096 };

/* use gives the chunk's bytes to one more user; NULL in *out where there is none. */
static qnn_status use(loader *l, uint32_t index, uint64_t size, bool is_read_now, api_chunk **out) {
  *out = NULL;
  if (index == API_NO_CHUNK) {
    return QNN_OK;
  }
  if (index >= l->header.n_chunks || l->entries[index].size != size) {
    return damaged(l, "a chunk is missing or has another size than its user");
  }
  entry *e = &l->entries[index];
  if (e->chunk == NULL) {
    const uint8_t *at = l->blob + e->offset;
    /* a binary that is only looked at may lie anywhere */
    bool borrow = l->borrow && !(is_read_now && (uintptr_t)at % API_ALIGN != 0);
    e->chunk = api_store_load(&l->context->store, at, e->size, e->hash, borrow);
    if (e->chunk == NULL) {
      return QNN_MEMORY;
    }
    /* quantizations are looked at while loading: their arrays are small */
    if ((!l->borrow || is_read_now) && !api_store_check(e->chunk)) {
      return damaged(l, "the elements of a constant are not those that were saved");
    }
  } else {
    e->chunk->refs++;
  }
  *out = e->chunk;
  return QNN_OK;
}

/* read_form reads all but the arrays; pointers tell which arrays there are. */
static void read_form(cursor *c, emu_quant *q) {
  q->encoding = get_u32(c);
  q->bitwidth = get_u32(c);
  q->axis = get_u32(c);
  get(c, q->block, sizeof q->block);
  q->blocks_per_axis = get_u32(c);
  q->block_scale_bits = get_u32(c);
  uint32_t arrays = get_u32(c);
  static const int32_t offset;
  static const float zero;
  q->offsets = (arrays & API_HAS_OFFSETS) != 0 ? &offset : NULL;
  q->zeros = (arrays & API_HAS_ZEROS) != 0 ? &zero : NULL;
}

/* Small arrays are copied to `small`, which is aligned. */
static qnn_status read_quant(loader *l, cursor *c, emu_tensor *spec, void *small, api_chunk **chunk) {
  emu_quant *q = &spec->quant;
  *q = (emu_quant){.encoding = EMU_Q_NONE, .count = get_u32(c)};
  if (q->count > 0) {
    read_form(c, q);
    uint32_t index = get_u32(c);
    uint64_t most = emu_elements(spec);
    if (c->bad || q->count > most || (uint64_t)q->count * q->blocks_per_axis > most) {
      return damaged(l, "a quantization");
    }
    size_t size = api_quant_size(q);
    if ((index == API_NO_CHUNK) != (size <= API_QUANT_SMALL)) {
      return damaged(l, "a quantization lies in the wrong place");
    }
    qnn_status status = use(l, index, size, true, chunk);
    if (status != QNN_OK) {
      return status;
    }
    if (*chunk == NULL) {
      get(c, small, size);
    }
    api_quant_point(q, *chunk != NULL ? (*chunk)->data : small);
  }
  const char *why = c->bad ? "a quantization" : api_quant_check(spec);
  return why == NULL ? QNN_OK : damaged(l, why);
}

static qnn_status read_tensor(loader *l, cursor *c, api_graph *graph, uint32_t *last_id) {
  emu_tensor spec = {0};
  uint64_t bytes = 0, small[API_QUANT_SMALL / 8];
  api_chunk *chunk = NULL, *quant = NULL;
  spec.id = get_u32(c);
  spec.name = (char *)(uintptr_t)get_string(c);
  spec.kind = get_u32(c);
  spec.dtype = get_u32(c);
  spec.rank = get_u32(c);
  for (uint32_t i = 0; i < spec.rank && i < EMU_MAX_RANK; i++) {
    spec.dims[i] = get_u32(c);
  }
  if (c->bad || spec.rank > EMU_MAX_RANK || spec.id <= *last_id || spec.id == UINT32_MAX) {
    return damaged(l, "a tensor");
  }
  *last_id = spec.id;
  qnn_status status = api_check_shape(l->context->log, graph->name, &spec, &bytes);
  if (status == QNN_OK) {
    status = read_quant(l, c, &spec, small, &quant);
  }
  if (status == QNN_OK) {
    status = use(l, get_u32(c), bytes, spec.kind == EMU_STATIC && bytes <= SMALL_CONSTANT, &chunk);
  }
  if (status == QNN_OK && chunk != NULL && spec.kind != EMU_STATIC) {
    return damaged(l, "a tensor that is not static has data");
  }
  return status == QNN_OK ? api_graph_add_tensor(graph, &spec, chunk, quant) : status;
}

static qnn_status read_ports(loader *l, cursor *c, const api_graph *graph, uint32_t *n,
                             emu_tensor **ports) {
  *n = get_u32(c);
  if (*n > EMU_MAX_PORTS) {
    return damaged(l, "a node has too many ports");
  }
  for (uint32_t i = 0; i < *n; i++) {
    api_tensor *tensor = api_graph_tensor(graph, get_u32(c));
    if (tensor == NULL) {
      return damaged(l, "a node names no tensor");
    }
    ports[i] = &tensor->t;
  }
  return QNN_OK;
}

static qnn_status read_params(loader *l, cursor *c, const api_graph *graph, api_parsed_node *parsed) {
  uint32_t n = get_u32(c);
  if (n > EMU_MAX_PARAMS) {
    return damaged(l, "a node has too many parameters");
  }
  for (uint32_t i = 0; i < n; i++) {
    emu_param *param = &parsed->params[i];
    param->name = (char *)(uintptr_t)get_string(c);
    param->kind = get_u32(c);
    if (param->kind == 1) {
      api_tensor *tensor = api_graph_tensor(graph, get_u32(c));
      param->tensor = tensor != NULL ? &tensor->t : NULL;
    } else {
      param->dtype = get_u32(c);
      param->scalar.u32 = get_u32(c);
    }
    bool scalar = param->kind == 0 && (param->dtype == EMU_BOOL8 || param->dtype == EMU_I32 ||
                                       param->dtype == EMU_U32 || param->dtype == EMU_F32);
    if (c->bad || !(scalar || (param->kind == 1 && param->tensor != NULL))) {
      return damaged(l, "a parameter");
    }
    if (scalar && param->dtype == EMU_BOOL8) {
      param->scalar.b8 = (uint8_t)param->scalar.u32;
    }
  }
  parsed->node.n_params = n;
  return QNN_OK;
}

/* Elements that run will read must be there: raw ones in the tensor, packed ones in the node. */
static qnn_status attach_packed(loader *l, api_node *node, uint32_t index) {
  size_t size = 0;
  bool packs = api_node_packs(&node->n, &size);
  if (packs != (index != API_NO_CHUNK)) {
    return damaged(l, "a node has packed constants and should not, or the other way round");
  }
  qnn_status status = use(l, index, size, false, &node->packed);
  if (status != QNN_OK) {
    return status;
  }
  node->n.packed = node->packed != NULL ? node->packed->data : NULL;
  for (uint32_t i = 0; i < node->n.n_in; i++) {
    bool packed = packs && i < 32 && (node->n.op->packs_input >> i & 1) != 0;
    if (node->n.in[i]->kind == EMU_STATIC && !packed && node->n.in[i]->data == NULL) {
      return damaged(l, "a static tensor has no data");
    }
  }
  return QNN_OK;
}

static qnn_status read_node(loader *l, cursor *c, api_graph *graph, api_parsed_node *parsed) {
  memset(parsed, 0, sizeof *parsed);
  parsed->node.in = parsed->in;
  parsed->node.out = parsed->out;
  parsed->node.params = parsed->params;
  parsed->node.name = (char *)(uintptr_t)get_string(c);
  parsed->node.op = emu_find_op(get_string(c));
  qnn_status status = parsed->node.op != NULL ? QNN_OK : damaged(l, "an unknown operator");
  if (status == QNN_OK) {
    status = read_ports(l, c, graph, &parsed->node.n_in, parsed->in);
  }
  if (status == QNN_OK) {
    status = read_ports(l, c, graph, &parsed->node.n_out, parsed->out);
  }
  if (status == QNN_OK) {
    status = read_params(l, c, graph, parsed);
  }
  uint32_t packed = get_u32(c);
  if (status == QNN_OK && c->bad) {
    status = damaged(l, "a node ends early");
  }
  if (status == QNN_OK) {
    status = api_graph_add_node(graph, &parsed->node);
  }
  return status == QNN_OK ? attach_packed(l, graph->nodes[graph->n_nodes - 1], packed) : status;
}

static qnn_status read_body(loader *l, cursor *c, api_graph *graph) {
  uint32_t n_tensors = get_u32(c), n_nodes = get_u32(c), last_id = 0;
  qnn_status status = QNN_OK;
  for (uint32_t i = 0; i < n_tensors && status == QNN_OK; i++) {
    status = read_tensor(l, c, graph, &last_id);
  }
  api_parsed_node *parsed = malloc(sizeof *parsed);
  if (parsed == NULL) {
    return QNN_MEMORY;
  }
  for (uint32_t i = 0; i < n_nodes && status == QNN_OK; i++) {
    status = read_node(l, c, graph, parsed);
  }
  free(parsed);
  if (status == QNN_OK && (c->bad || c->at != c->end || n_nodes == 0)) {
    status = damaged(l, "a graph does not fill its place");
  }
  if (last_id >= l->context->next_id) {
    l->context->next_id = last_id + 1;
  }
  if (status == QNN_OK) {
    status = api_graph_connected(graph, QNN_CONTEXT_FROM_BINARY);
  }
  return status == QNN_OK ? api_graph_ready(graph) : status;
}

static bool wanted(const loader *l, const char *name) {
  const char *const *enabled = l->options->enabled;
  for (; enabled != NULL && *enabled != NULL; enabled++) {
    if (strcmp(*enabled, name) == 0) {
      return true;
    }
  }
  return l->options->enabled == NULL;
}

static qnn_status read_graph(loader *l, cursor *c) {
  uint32_t length = get_u32(c);
  if (c->bad || (size_t)(c->end - c->at) < length) {
    return damaged(l, "a graph lies outside");
  }
  cursor body = {.at = c->at, .end = c->at + length};
  c->at += length;
  const char *name = get_string(&body);
  if (body.bad) {
    return damaged(l, "a graph has no name");
  }
  if (!wanted(l, name)) {
    return QNN_OK;
  }
  if (api_context_find_graph(l->context, name, strlen(name)) != NULL) {
    return damaged(l, "two graphs have one name");
  }
  api_graph *graph = api_graph_new(l->context, name, strlen(name));
  if (graph == NULL) {
    return QNN_MEMORY;
  }
  *l->context->graphs_end = graph;
  l->context->graphs_end = &graph->next;
  return read_body(l, &body, graph);
}

static qnn_status check_enabled(const loader *l) {
  const char *const *enabled = l->options->enabled;
  for (; enabled != NULL && *enabled != NULL; enabled++) {
    if (api_context_find_graph(l->context, *enabled, strlen(*enabled)) == NULL) {
      return api_fail(l->context->log, QNN_CONTEXT_CONFIG,
                      "binary: graph \"%s\" is to be enabled and is not in it", *enabled);
    }
  }
  return QNN_OK;
}

static qnn_status check_header(loader *l, uint64_t size) {
  uint32_t log = l->context->log;
  api_binary_header *h = &l->header;
  uint64_t have = size < sizeof *h ? size : sizeof *h;
  memcpy(h, l->blob, have);
  if (memcmp(h->magic, API_BINARY_MAGIC, sizeof h->magic) != 0) {
    return api_fail(log, QNN_BLOB_FOREIGN, "binary: it was not written by this emulator");
  }
  if (have < sizeof *h || h->total_size > size) {
    return api_fail(log, QNN_BLOB_TRUNCATED, "binary: it is truncated to %llu bytes",
                    (unsigned long long)size);
  }
  if (h->format != API_BINARY_FORMAT || h->packing != EMU_PACKING_VERSION ||
      h->core_minor != QNN_CORE_MINOR) {
    return api_fail(log, QNN_CONTEXT_VERSION,
                    "binary: format %u, packing %u, core API 2.%u; this library has %d, %d, 2.%d",
                    h->format, h->packing, h->core_minor, API_BINARY_FORMAT, EMU_PACKING_VERSION,
                    QNN_CORE_MINOR);
  }
  if (h->total_size != size || h->meta_size > size - sizeof *h) {
    return damaged(l, "its sizes do not agree");
  }
  api_binary_header zeroed = *h;
  zeroed.checksum = 0;
  uint64_t seed = api_hash(&zeroed, sizeof zeroed, 0);
  if (api_hash(l->blob + sizeof *h, h->meta_size, seed) != h->checksum) {
    return damaged(l, "the checksum is wrong");
  }
  if (l->options->inspect) {
    l->context->soc = h->soc;
  }
  if (h->soc != l->context->soc) {
    return api_fail(log, QNN_CONTEXT_FROM_BINARY, "binary: it is for SoC %u, the device is SoC %u",
                    h->soc, l->context->soc);
  }
  return QNN_OK;
}

static qnn_status read_all(loader *l, uint64_t size) {
  qnn_status status = check_header(l, size);
  if (status != QNN_OK) {
    return status;
  }
  cursor c = {.at = l->blob + API_BINARY_HEADER};
  c.end = c.at + l->header.meta_size;
  status = read_chunks(l, &c);
  for (uint32_t i = 0; i < l->header.n_graphs && status == QNN_OK; i++) {
    status = read_graph(l, &c);
  }
  if (status == QNN_OK && (c.at != c.end || l->header.n_graphs == 0)) {
    status = damaged(l, "the graphs do not fill the metadata");
  }
  if (status == QNN_OK) {
    status = check_enabled(l);
  }
  bool coded = status == QNN_OK || status == QNN_MEMORY || status == QNN_CONTEXT_CONFIG;
  return coded ? status : QNN_CONTEXT_FROM_BINARY;
}

qnn_status api_binary_read(api_context *context, const void *blob, uint64_t size,
                           const api_load_options *options) {
  if (blob == NULL || size == 0) {
    return api_fail(context->log, QNN_CONTEXT_ARGUMENT, "binary: it is empty");
  }
  loader l = {.context = context, .blob = blob, .options = options, .borrow = options->persistent || options->inspect};
  if (l.borrow && !options->inspect && (uintptr_t)blob % API_ALIGN != 0) {
    api_log(context->log, QNN_LOG_WARN, "binary: its address is not a multiple of %d, so it is copied",
            API_ALIGN);
    l.borrow = false;
  }
  qnn_status status = read_all(&l, size);
  free(l.entries);
  return status;
}

/* The test arena.c compares random graphs with the same graphs evaluated with a separate buffer for
 * each tensor. Sharing bytes of the arena between tensors must not change a result.
 */
#include "drive.h"

enum { MAX_NODES = 40, MAX_FAMILY = 3 };

/* In a random graph, tensors of a family have the same length. The families of a random graph
 * interleave, so lifetimes of all lengths overlap. */
typedef struct {
  qnn_tensor t;
  float *value; /* value is the memory of the tensor in the reference graph */
  uint32_t family;
  bool read;
} value;

typedef struct {
  value values[2 * MAX_NODES + MAX_FAMILY];
  uint32_t n;
  uint32_t dims[MAX_FAMILY][2];
  char names[2 * MAX_NODES + MAX_FAMILY][16];
} world;

static uint32_t length_of(const world *w, const value *v) { return w->dims[v->family][1]; }

static value *make(world *w, qnn_handle graph, uint32_t kind, uint32_t family) {
  value *v = &w->values[w->n];
  snprintf(w->names[w->n], sizeof w->names[w->n], "v%u", w->n);
  v->t = tensor(w->names[w->n], kind, EMU_F32, 2, w->dims[family]);
  v->family = family;
  v->read = false;
  v->value = calloc(length_of(w, v), sizeof(float));
  REQUIRE(v->value != NULL);
  REQUIRE_CODE(0, new_tensor(graph, &v->t));
  w->n++;
  return v;
}

static value *pick(world *w, uint32_t family) {
  for (;;) {
    value *v = &w->values[random_word() % w->n];
    if (v->family == family) {
      return v;
    }
  }
}

static void add_random_node(world *w, qnn_handle graph, uint32_t number, uint32_t kind, uint32_t family) {
  static const char *const types[] = {"ElementWiseAdd", "ElementWiseMultiply", "ElementWiseSubtract"};
  uint32_t type = random_word() % 3;
  value *a = pick(w, family), *b = pick(w, family);
  qnn_tensor in[] = {a->t, b->t};
  char name[16];
  snprintf(name, sizeof name, "n%u", number);
  value *out = make(w, graph, kind, family);
  REQUIRE_CODE(0, add_node(graph, node(name, types[type], in, 2, &out->t, 1)));
  a->read = b->read = true;
  for (uint32_t i = 0; i < length_of(w, out); i++) {
    float x = a->value[i], y = b->value[i];
    out->value[i] = type == 0 ? x + y : type == 1 ? x * y : x - y;
  }
}

/* Tensors that no node has read become part of an output of the random graph. */
static void close_graph(world *w, qnn_handle graph) {
  for (uint32_t i = 0, end = w->n; i < end; i++) {
    value *v = &w->values[i];
    if (!v->read && v->t.type != EMU_APP_READ) {
      char name[16];
      snprintf(name, sizeof name, "last%u", i);
      value *out = make(w, graph, EMU_APP_READ, v->family);
      REQUIRE_CODE(0, add_node(graph, node(name, "ElementWiseNeg", &v->t, 1, &out->t, 1)));
      for (uint32_t j = 0; j < length_of(w, out); j++) {
        out->value[j] = -v->value[j];
      }
    }
  }
}

static void run_and_compare(world *w, qnn_handle graph) {
  qnn_tensor in[MAX_FAMILY], out[2 * MAX_NODES];
  const value *outs[2 * MAX_NODES];
  uint32_t n_in = 0, n_out = 0;
  for (uint32_t i = 0; i < w->n; i++) {
    value *v = &w->values[i];
    uint32_t size = length_of(w, v) * 4;
    if (v->t.type == EMU_APP_WRITE) {
      in[n_in++] = binding(v->t.id, v->value, size);
    } else if (v->t.type == EMU_APP_READ) {
      outs[n_out] = v;
      out[n_out++] = binding(v->t.id, calloc(1, size), size);
    }
  }
  for (int twice = 0; twice < 2; twice++) {
    REQUIRE_CODE(0, execute(graph, in, n_in, out, n_out));
    for (uint32_t i = 0; i < n_out; i++) {
      REQUIRE(memcmp(out[i].data, outs[i]->value, out[i].data_size) == 0);
    }
  }
  for (uint32_t i = 0; i < n_out; i++) {
    free(out[i].data);
  }
}

/* check_places checks that no two tensors that live at the same time share a byte. check_places
 * returns the bytes that the graph would need without sharing. */
static uint64_t check_places(const api_graph *g) {
  uint64_t sum = 0;
  for (uint32_t i = 0; i < g->n_tensors; i++) {
    const api_tensor *a = g->tensors[i];
    if (a->t.kind != EMU_NATIVE) {
      continue;
    }
    sum += a->bytes;
    REQUIRE(a->offset % 64 == 0 && a->offset + a->bytes <= g->arena_size);
    for (uint32_t j = 0; j < i; j++) {
      const api_tensor *b = g->tensors[j];
      bool together = b->t.kind == EMU_NATIVE && a->producer <= b->last_use && b->producer <= a->last_use;
      REQUIRE(!together || a->offset + a->bytes <= b->offset || b->offset + b->bytes <= a->offset);
    }
  }
  return sum;
}

void test_arena(void) {
  uint64_t planned = 0, unshared = 0;
  for (uint32_t round = 0; round < 200; round++) {
    qnn_handle context = NULL, graph = NULL;
    world *w = calloc(1, sizeof *w);
    REQUIRE(w != NULL);
    seed_random(round + 1);
    REQUIRE_CODE(0, new_context(&context));
    REQUIRE_CODE(0, new_graph(context, "random", &graph));
    for (uint32_t f = 0; f < MAX_FAMILY; f++) {
      w->dims[f][0] = 1;
      w->dims[f][1] = 1 + random_word() % 200;
      value *input = make(w, graph, EMU_APP_WRITE, f);
      for (uint32_t i = 0; i < length_of(w, input); i++) {
        input->value[i] = random_float();
      }
    }
    for (uint32_t i = 0, n = 1 + random_word() % MAX_NODES; i < n; i++) {
      uint32_t kind = random_word() % 8 == 0 ? EMU_APP_READ : EMU_NATIVE; /* the outputs count as
                                                                             read too */
      add_random_node(w, graph, i, kind, random_word() % MAX_FAMILY);
    }
    close_graph(w, graph);
    REQUIRE_CODE(0, finalize(graph));
    api_graph *held = api_acquire(API_GRAPH, graph);
    unshared += check_places(held);
    planned += held->arena_size;
    api_release(held);
    run_and_compare(w, graph);
    REQUIRE_CODE(0, free_context(context));
    for (uint32_t i = 0; i < w->n; i++) {
      free(w->values[i].value);
    }
    free(w);
  }
  REQUIRE(planned * 3 < unshared * 2); /* sharing saves memory even on random graphs */
}

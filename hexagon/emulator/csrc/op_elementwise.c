/* op_elementwise.c: operators that treat each element alone: Add, Subtract, Multiply and
 * Divide with broadcasting, Neg, Sigmoid, Neuron 6 (also the sigmoid), Cast. */
#include "f16.h"
#include "kernels.h"
#include "ops.h"

/* ---- two operands ---- */

/* dim_of is dim i of t, counted as if t had leading ones up to rank. */
static uint32_t dim_of(const emu_tensor *t, uint32_t rank, uint32_t i) {
  return i + t->rank < rank ? 1 : t->dims[i + t->rank - rank];
}

static int check_binary(const emu_node *node, char *text, size_t size) {
  emu_why why = {text, size};
  if (emu_check_ports(node, 2, 2, 1, 1, why) || emu_check_params(node, NULL, 0, why) ||
      emu_check_float(node, why)) {
    return 1;
  }
  const emu_tensor *a = node->in[0], *b = node->in[1];
  uint32_t dims[EMU_MAX_RANK], rank = a->rank > b->rank ? a->rank : b->rank;
  for (uint32_t i = 0; i < rank; i++) {
    uint32_t x = dim_of(a, rank, i), y = dim_of(b, rank, i);
    if (x != y && x != 1 && y != 1) {
      return emu_refuse(why, "dimension %u of the operands is %u and %u", i, x, y);
    }
    dims[i] = x > y ? x : y;
  }
  return emu_check_dims(node->out[0], rank, dims, why);
}

typedef struct {
  const emu_node *node;
  enum emu_binary_op op;
} binary_job;

static void binary_piece(const void *arg, const emu_walk *walk, const uint64_t *at, uint64_t n) {
  const binary_job *job = arg;
  const emu_node *node = job->node;
  uint32_t inner = walk->rank - 1;
  size_t size = emu_dtype_size(node->out[0]->dtype);
  emu_kernel()->binary(job->op, (char *)node->out[0]->data + at[0] * size,
                       (const char *)node->in[0]->data + at[1] * size, walk->strides[1][inner],
                       (const char *)node->in[1]->data + at[2] * size, walk->strides[2][inner], n,
                       emu_half(node->out[0]));
}

static void run_binary(const emu_node *node, enum emu_binary_op op) {
  const emu_tensor *y = node->out[0];
  emu_walk walk = {.rank = y->rank, .operands = 3};
  emu_strides(y, walk.strides[0]);
  for (uint32_t o = 0; o < 2; o++) {
    uint64_t strides[EMU_MAX_RANK];
    const emu_tensor *t = node->in[o];
    emu_strides(t, strides);
    for (uint32_t i = 0; i < y->rank; i++) {
      bool repeats = dim_of(t, y->rank, i) == 1;
      walk.strides[o + 1][i] = repeats ? 0 : strides[i + t->rank - y->rank];
    }
  }
  for (uint32_t i = 0; i < y->rank; i++) {
    walk.dims[i] = y->dims[i];
  }
  emu_walk_collapse(&walk);
  binary_job job = {node, op};
  emu_walk_run(&walk, binary_piece, &job);
}

#define BINARY(NAME, OP)                                                                           \
  int emu_check_##NAME(const emu_node *node, char *why, size_t size) {                             \
    return check_binary(node, why, size);                                                          \
  }                                                                                                \
  void emu_run_##NAME(const emu_node *node, void *scratch) {                                       \
    (void)scratch;                                                                                 \
    run_binary(node, OP);                                                                          \
  }

BINARY(add, EMU_ADD)
BINARY(subtract, EMU_SUBTRACT)
BINARY(multiply, EMU_MULTIPLY)
BINARY(divide, EMU_DIVIDE)

/* ---- one operand ---- */

static emu_walk flat_walk(const emu_tensor *t) {
  emu_walk walk = {.rank = 1, .operands = 1, .dims = {emu_elements(t)}, .strides = {{1}}};
  return walk;
}

static int check_unary(const emu_node *node, const emu_param_rule *rules, size_t n, emu_why why) {
  return emu_check_ports(node, 1, 1, 1, 1, why) || emu_check_params(node, rules, n, why) ||
         emu_check_float(node, why) ||
         emu_check_dims(node->out[0], node->in[0]->rank, node->in[0]->dims, why);
}

typedef struct {
  const emu_node *node;
  enum emu_unary_op op;
} unary_job;

static void unary_piece(const void *arg, const emu_walk *walk, const uint64_t *at, uint64_t n) {
  (void)walk;
  const unary_job *job = arg;
  size_t offset = at[0] * emu_dtype_size(job->node->in[0]->dtype);
  emu_kernel()->unary(job->op, (char *)job->node->out[0]->data + offset,
                      (const char *)job->node->in[0]->data + offset, n,
                      emu_half(job->node->in[0]));
}

static void run_unary(const emu_node *node, enum emu_unary_op op) {
  emu_walk walk = flat_walk(node->in[0]);
  unary_job job = {node, op};
  emu_walk_run(&walk, unary_piece, &job);
}

int emu_check_neg(const emu_node *node, char *text, size_t size) {
  return check_unary(node, NULL, 0, (emu_why){text, size});
}

void emu_run_neg(const emu_node *node, void *scratch) {
  (void)scratch;
  run_unary(node, EMU_NEGATE);
}

int emu_check_sigmoid(const emu_node *node, char *text, size_t size) {
  return check_unary(node, NULL, 0, (emu_why){text, size});
}

void emu_run_sigmoid(const emu_node *node, void *scratch) {
  (void)scratch;
  run_unary(node, EMU_SIGMOID);
}

int emu_check_neuron(const emu_node *node, char *text, size_t size) {
  enum { SIGMOID = 6 };
  static const emu_param_rule rules[] = {{"operation", 0, EMU_U32, true}};
  emu_why why = {text, size};
  if (check_unary(node, rules, 1, why)) {
    return 1;
  }
  uint32_t operation = emu_u32(node, "operation", SIGMOID);
  return operation == SIGMOID
             ? 0
             : emu_refuse(why, "operation %u is not supported, only 6, the sigmoid", operation);
}

void emu_run_neuron(const emu_node *node, void *scratch) { emu_run_sigmoid(node, scratch); }

/* ---- Cast ---- */

int emu_check_cast(const emu_node *node, char *text, size_t size) {
  emu_why why = {text, size};
  if (emu_check_ports(node, 1, 1, 1, 1, why) || emu_check_params(node, NULL, 0, why)) {
    return 1;
  }
  uint32_t from = node->in[0]->dtype, to = node->out[0]->dtype;
  bool known = (from == EMU_F16 && to == EMU_F32) || (from == EMU_F32 && to == EMU_F16) ||
               (from == EMU_I32 && (to == EMU_F16 || to == EMU_F32));
  if (!known) {
    return emu_refuse(why, "cast from data type 0x%04x to 0x%04x is not supported", from, to);
  }
  return emu_check_dims(node->out[0], node->in[0]->rank, node->in[0]->dims, why);
}

static void cast_piece(const void *arg, const emu_walk *walk, const uint64_t *at, uint64_t n) {
  (void)walk;
  const emu_node *node = arg;
  const emu_tensor *x = node->in[0], *y = node->out[0];
  const char *from = (const char *)x->data + at[0] * emu_dtype_size(x->dtype);
  char *to = (char *)y->data + at[0] * emu_dtype_size(y->dtype);
  if (x->dtype == EMU_F16) {
    emu_kernel()->widen((float *)to, from, n, true);
  } else if (x->dtype == EMU_F32) {
    emu_kernel()->narrow(to, (const float *)from, n, true);
  } else {
    /* Above 2^24 an integer rounds to f32 first; f16 has overflowed long before. */
    for (uint64_t i = 0; i < n; i++) {
      emu_put(to, i, emu_half(y), (float)((const int32_t *)from)[i]);
    }
  }
}

void emu_run_cast(const emu_node *node, void *scratch) {
  (void)scratch;
  emu_walk walk = flat_walk(node->in[0]);
  emu_walk_run(&walk, cast_piece, node);
}

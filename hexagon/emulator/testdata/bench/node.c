/* node.c makes nodes with random contents for the benchmark, and prepares and runs them as the
 * library does. */
#define _POSIX_C_SOURCE 200809L
#include "bench.h"

void *aligned(size_t size) {
  void *p = NULL;
  if (posix_memalign(&p, 64, size + 64) != 0) {
    exit(2);
  }
  return p;
}

static uint32_t state = 7;

static uint32_t next(void) { return state = state * 1664525 + 1013904223; }

static void encode(emu_tensor *t) {
  bool weight = t->kind == EMU_STATIC;
  uint32_t n = weight ? t->dims[0] : 1;
  float *scales = calloc(n, sizeof *scales);
  int32_t *offsets = calloc(n, sizeof *offsets);
  for (uint32_t i = 0; i < n; i++) {
    scales[i] = t->dtype == EMU_QU16 ? 1e-4f : 0.01f;
  }
  if (!weight) {
    offsets[0] = t->dtype == EMU_QU16 ? -30000 : -120;
  }
  t->quant = (emu_quant){.encoding = weight ? EMU_Q_AXIS_SCALE_OFFSET : EMU_Q_SCALE_OFFSET,
                         .count = n, .scales = scales, .offsets = offsets};
}

/* In node.c, a dim of 0 is absent. In node.c, a static fixed-point tensor has a scale per row. */
emu_tensor *tensor(uint32_t kind, uint32_t dtype, uint32_t a, uint32_t b, uint32_t c, uint32_t d) {
  emu_tensor *t = calloc(1, sizeof *t);
  uint32_t dims[4] = {a, b, c, d};
  t->kind = kind;
  t->dtype = dtype;
  t->quant.encoding = EMU_Q_NONE;
  for (int i = 0; i < 4; i++) {
    if (dims[i] != 0) {
      t->dims[t->rank++] = dims[i];
    }
  }
  t->data = aligned(emu_elements(t) * emu_dtype_size(dtype));
  for (uint64_t i = 0; i < emu_elements(t); i++) {
    if (emu_is_fixed_point(dtype)) {
      memcpy((char *)t->data + i * emu_dtype_size(dtype), &(uint32_t){next() >> 8},
             emu_dtype_size(dtype));
    } else {
      emu_put(t->data, i, dtype == EMU_F16, (float)(int32_t)next() * 0x1p-31f);
    }
  }
  if (emu_is_fixed_point(dtype)) {
    encode(t);
  }
  return t;
}

bench *make(const char *type, emu_tensor *a, emu_tensor *b, emu_tensor *y) {
  bench *w = calloc(1, sizeof *w);
  w->in[0] = a;
  w->in[1] = b;
  w->out[0] = y;
  w->node = (emu_node){.op = emu_find_op(type), .n_in = b ? 2 : 1, .n_out = 1, .in = w->in,
                       .out = w->out, .params = w->params};
  return w;
}

void flag(bench *w, const char *name, bool value) {
  w->params[w->node.n_params++] =
      (emu_param){.name = (char *)name, .dtype = EMU_BOOL8, .scalar = {.b8 = value}};
}

void prepare(bench *w) {
  char reason[200];
  const emu_op *op = w->node.op;
  int verdict = op->check(&w->node, reason, sizeof reason);
  if (verdict != EMU_VALID && verdict != EMU_VALID_SINCE_V73) {
    printf("%s: %s\n", op->type, reason);
    exit(1);
  }
  size_t size = op->packed_size ? op->packed_size(&w->node) : 0;
  if (size > 0) {
    w->packed = aligned(size);
    op->pack(&w->node, w->packed);
    w->node.packed = w->packed;
  }
  w->scratch = aligned(op->scratch_size ? op->scratch_size(&w->node) : 0);
}

void once(void *arg) {
  bench *w = arg;
  emu_pool_enter();
  w->node.op->run(&w->node, w->scratch);
  emu_pool_leave();
}

void report(const char *name, bench *w) {
  prepare(w);
  printf("%s %.1f us\n", name, 1e6 * best(0.25, once, w));
}

/* drop frees the memory that prepare allocated, except for the few tensors. */
void drop(bench *w) {
  free(w->packed);
  free(w->scratch);
  free(w);
}

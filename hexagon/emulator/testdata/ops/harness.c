#define _POSIX_C_SOURCE 200809L
#include "harness.h"

int failures;

static uint64_t state, digested = 1469598103934665603u;

void seed(uint64_t value) { state = value * 2 + 1; }

static uint32_t next(void) {
  state = state * 6364136223846793005u + 1442695040888963407u;
  return (uint32_t)(state >> 33) ^ (uint32_t)(state >> 45);
}

uint32_t random_below(uint32_t n) { return next() % n; }
uint32_t random_between(uint32_t low, uint32_t high) { return low + random_below(high - low + 1); }
float random_float(float scale) { return scale * ((float)(next() % 65536) / 32768 - 1); }

enum { MAX_TAKEN = 4096 };
static void *taken[MAX_TAKEN];
static size_t n_taken;

void *take(size_t size) {
  if (n_taken == MAX_TAKEN) {
    printf("too many allocations in one case\n");
    exit(2);
  }
  void *p = malloc(size);
  memset(p, 0xa5, size);
  return taken[n_taken++] = p;
}

void begin(void) { n_taken = 0; }

void end(void) {
  while (n_taken > 0) {
    free(taken[--n_taken]);
  }
}

emu_tensor *tensor(uint32_t kind, uint32_t dtype, uint32_t rank, const uint32_t *dims) {
  static uint32_t id;
  emu_tensor *t = take(sizeof *t);
  memset(t, 0, sizeof *t);
  t->id = ++id;
  t->name = "t";
  t->kind = kind;
  t->dtype = dtype;
  t->rank = rank;
  memcpy(t->dims, dims, rank * sizeof *dims);
  t->data = take(emu_elements(t) * emu_dtype_size(dtype));
  t->quant.encoding = EMU_Q_NONE;
  if (emu_is_fixed_point(dtype)) {
    double low = -(double)random_below(1000) / 100, high = (double)random_between(1, 1000) / 100;
    span(t, low, high);
  }
  return t;
}

emu_tensor *reshaped(const emu_tensor *t, uint32_t kind, uint32_t rank, const uint32_t *dims) {
  emu_tensor *other = tensor(kind, t->dtype, rank, dims);
  other->quant = t->quant;
  return other;
}

emu_tensor *like(const emu_tensor *t, uint32_t kind) { return reshaped(t, kind, t->rank, t->dims); }

/* ---- The code below handles fixed point in double and without the emulator's code ---- */

void encode(emu_tensor *t, float scale, int32_t offset) {
  float *scales = take(sizeof *scales);
  int32_t *offsets = take(sizeof *offsets);
  *scales = scale;
  *offsets = offset;
  t->quant =
      (emu_quant){.encoding = EMU_Q_SCALE_OFFSET, .count = 1, .scales = scales, .offsets = offsets};
}

static double least(const emu_tensor *t) {
  return t->dtype >> 8 == 3 ? -ldexp(1, (int)emu_dtype_size(t->dtype) * 8 - 1) : 0;
}

static double steps(const emu_tensor *t) { return ldexp(1, (int)emu_dtype_size(t->dtype) * 8) - 1; }

emu_tensor *span(emu_tensor *t, double low, double high) {
  if (t->dtype == EMU_QS32) { /* a bias: symmetric */
    encode(t, (float)(fmax(fabs(low), fabs(high)) * 0x1p-31), 0);
  } else if (emu_is_fixed_point(t->dtype)) {
    float scale = (float)((high - low) / steps(t));
    encode(t, scale, (int32_t)floor(low / (double)scale - least(t) + 0.5));
  }
  return t;
}

int64_t integer(const emu_tensor *t, uint64_t i) {
  switch (t->dtype) {
  case EMU_QS8:
    return ((const int8_t *)t->data)[i];
  case EMU_QS16:
    return ((const int16_t *)t->data)[i];
  case EMU_QS32:
  case EMU_I32:
    return ((const int32_t *)t->data)[i];
  case EMU_QU16:
    return ((const uint16_t *)t->data)[i];
  case EMU_U32:
    return ((const uint32_t *)t->data)[i];
  default:
    return ((const uint8_t *)t->data)[i];
  }
}

double real(const emu_tensor *t, uint64_t i) {
  if (t->dtype == EMU_F16 || t->dtype == EMU_F32) {
    return (double)get(t, i);
  }
  double q = (double)integer(t, i);
  return emu_is_fixed_point(t->dtype) ? (q + t->quant.offsets[0]) * (double)t->quant.scales[0] : q;
}

uint64_t broadcast_index(const emu_tensor *t, const emu_tensor *y, uint64_t i) {
  uint64_t index = 0, stride = 1;
  for (uint32_t d = 1; d <= t->rank; d++) {
    uint32_t dim = t->dims[t->rank - d], whole = y->dims[y->rank - d];
    index += dim == 1 ? 0 : i % whole * stride;
    stride *= dim;
    i /= whole;
  }
  return index;
}

double step(const emu_tensor *t, double value) {
  int exponent, bits = t->dtype == EMU_F16 ? 11 : 24,
                least_exponent = t->dtype == EMU_F16 ? -24 : -149;
  if (emu_is_fixed_point(t->dtype)) {
    return (double)t->quant.scales[0];
  }
  frexp(value, &exponent);
  return ldexp(1, exponent - bits > least_exponent ? exponent - bits : least_exponent);
}

void expect_near(const emu_tensor *t, uint64_t i, double exact, double slack, const char *what) {
  double want = exact, got = real(t, i);
  if (emu_is_fixed_point(t->dtype)) {
    double low = (least(t) + t->quant.offsets[0]) * (double)t->quant.scales[0];
    want = fmax(low, fmin(exact, low + steps(t) * (double)t->quant.scales[0]));
  }
  double allowed = 0.5 * step(t, want) * (1 + 1e-9) + slack;
  CHECK(fabs(got - want) <= allowed, "%s: element %llu of type %04x is %.9g, not %.9g (+- %.3g)",
        what, (unsigned long long)i, t->dtype, got, want, allowed);
}

float get(const emu_tensor *t, uint64_t i) { return emu_get(t->data, i, t->dtype == EMU_F16); }

void put(emu_tensor *t, uint64_t i, float value) {
  emu_put(t->data, i, t->dtype == EMU_F16, value);
}

void fill(emu_tensor *t, float scale, uint32_t zeros) {
  bool is_float = t->dtype == EMU_F16 || t->dtype == EMU_F32;
  for (uint64_t i = 0; i < emu_elements(t); i++) {
    float value = zeros && random_below(zeros) == 0 ? 0 : random_float(scale);
    if (is_float) {
      put(t, i, value);
    } else {
      uint32_t bits = next();
      size_t size = emu_dtype_size(t->dtype);
      memcpy((char *)t->data + i * size, &bits, size);
    }
  }
}

emu_node *node(const char *type) {
  emu_node *n = take(sizeof *n);
  memset(n, 0, sizeof *n);
  n->name = (char *)type;
  n->op = emu_find_op(type);
  if (n->op == NULL) {
    printf("no operator %s\n", type);
    exit(2);
  }
  n->in = take(EMU_MAX_PORTS * sizeof *n->in);
  n->out = take(EMU_MAX_PORTS * sizeof *n->out);
  n->params = take(EMU_MAX_PARAMS * sizeof *n->params);
  return n;
}

void input(emu_node *n, emu_tensor *t) { n->in[n->n_in++] = t; }
void output(emu_node *n, emu_tensor *t) { n->out[n->n_out++] = t; }

static emu_param *parameter(emu_node *n, const char *name, uint32_t dtype) {
  emu_param *p = &n->params[n->n_params++];
  memset(p, 0, sizeof *p);
  p->name = (char *)name;
  p->dtype = dtype;
  return p;
}

void scalar_u32(emu_node *n, const char *name, uint32_t value) {
  parameter(n, name, EMU_U32)->scalar.u32 = value;
}

void scalar_i32(emu_node *n, const char *name, int32_t value) {
  parameter(n, name, EMU_I32)->scalar.i32 = value;
}

void scalar_f32(emu_node *n, const char *name, float value) {
  parameter(n, name, EMU_F32)->scalar.f32 = value;
}

void scalar_b8(emu_node *n, const char *name, bool value) {
  parameter(n, name, EMU_BOOL8)->scalar.b8 = value;
}

void values(emu_node *n, const char *name, uint32_t dtype, uint32_t rank, const uint32_t *dims,
            const void *data) {
  emu_param *p = parameter(n, name, 0);
  p->kind = 1;
  p->tensor = tensor(EMU_STATIC, dtype, rank, dims);
  memcpy(p->tensor->data, data, emu_elements(p->tensor) * emu_dtype_size(dtype));
}

const char *refusal(const emu_node *n) {
  static char reason[256];
  reason[0] = '\0';
  int verdict = n->op->check(n, reason, sizeof reason);
  return verdict == EMU_VALID || verdict == EMU_VALID_SINCE_V73 ? NULL : reason;
}

static void digest_output(const emu_tensor *t) {
  size_t size = emu_dtype_size(t->dtype), bytes = emu_elements(t) * size;
  bool is_float = t->dtype == EMU_F16 || t->dtype == EMU_F32;
  for (size_t i = 0; i < bytes; i++) {
    float v = is_float ? get(t, i / size) : 0;
    uint8_t byte = v != v ? 0x7f : ((const uint8_t *)t->data)[i]; /* the payload of a NaN is not compared */
    digested = (digested ^ byte) * 1099511628211u;
  }
}

uint64_t digest(void) { return digested; }

void run(emu_node *n) {
  const char *reason = refusal(n);
  if (reason != NULL) {
    FAIL("%s refused: %s", n->name, reason);
    return;
  }
  void *data[EMU_MAX_PORTS], *packed = NULL, *scratch = NULL;
  size_t size = n->op->packed_size ? n->op->packed_size(n) : 0;
  if (size > 0) {
    if (posix_memalign(&packed, 64, size) != 0) {
      abort();
    }
    memset(packed, 0xa5, size);
    n->op->pack(n, packed);
    n->packed = packed;
  }
  for (uint32_t i = 0; i < n->n_in; i++) {
    data[i] = n->in[i]->data;
    if (packed != NULL && (n->op->packs_input >> i & 1) && n->in[i]->kind == EMU_STATIC) {
      n->in[i]->data = NULL;
    }
  }
  size = n->op->scratch_size ? n->op->scratch_size(n) : 0;
  if (size > 0) {
    scratch = malloc(size);
    memset(scratch, 0xff, size); /* scratch is filled with NaN, so that reading it uninitialized
                                    shows in the result */
  }
  emu_pool_enter();
  n->op->run(n, scratch);
  emu_pool_leave();
  for (uint32_t i = 0; i < n->n_in; i++) {
    n->in[i]->data = data[i];
  }
  for (uint32_t i = 0; i < n->n_out; i++) {
    digest_output(n->out[i]);
  }
  free(scratch);
  free(packed);
  n->packed = NULL;
}

static bool same(float a, float b) {
  return (a != a && b != b) || emu_bits_of_f32(a) == emu_bits_of_f32(b);
}

void expect(const emu_tensor *t, uint64_t i, float value, const char *what) {
  float want = t->dtype == EMU_F16 ? emu_f16_to_f32(emu_f32_to_f16(value)) : value;
  CHECK(same(get(t, i), want), "%s: element %llu is %a, not %a", what, (unsigned long long)i,
        (double)get(t, i), (double)want);
}

void expect_equal(const emu_tensor *a, uint64_t a_at, const emu_tensor *b, uint64_t b_at,
                  uint64_t n, const char *what) {
  for (uint64_t i = 0; i < n; i++) {
    float x = get(a, a_at + i), y = get(b, b_at + i);
    if (!same(x, y)) {
      FAIL("%s: element %llu is %a, not %a", what, (unsigned long long)(a_at + i), (double)x,
           (double)y);
      return;
    }
  }
}

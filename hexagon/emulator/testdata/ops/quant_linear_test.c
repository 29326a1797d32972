/* Layers with quantized weights and products of quantized activations, against sums in whole
 * numbers (quantized activations: every output is decided but for ties) or in double. */
#include "harness.h"

static const uint32_t whole_types[] = {EMU_QU8, EMU_QS8, EMU_QU16, EMU_QS16};
enum form {
  TENSOR_S8, TENSOR_S8_OFFSET, TENSOR_U8, TENSOR_U8_128, CHANNEL_S8, CHANNEL_U8,
  TENSOR_4, TENSOR_U4, CHANNEL_4, LPBQ, LPBQ_WIDE, TENSOR_U16, CHANNEL_S16, FLOAT_BLOCK,
  FLOAT_BLOCK_ZEROS, FORMS
};
enum layer { FULLY_CONNECTED, MATMUL, MATMUL_TURNED, CONV2D, LAYERS };

/* One layer: its tensors, and what its weights mean: value[k * out + c] * scale[c]. */
typedef struct {
  enum layer layer;
  enum form form;
  emu_tensor *x, *w, *bias, *y;
  uint32_t rows, in, out, blocks;
  double *value, *scale;
} layer_case;

static void set_grid(emu_tensor *t, float scale, int32_t offset) {
  float *scales = take(sizeof *scales);
  int32_t *offsets = take(sizeof *offsets);
  *scales = scale;
  *offsets = offset;
  t->quant = (emu_quant){.encoding = EMU_Q_SCALE_OFFSET, .count = 1, .scales = scales, .offsets = offsets};
}

static void set_channels(emu_tensor *t, uint32_t axis, uint32_t count, int32_t offset) {
  float *scales = take(count * sizeof *scales);
  int32_t *offsets = take(count * sizeof *offsets);
  for (uint32_t i = 0; i < count; i++) {
    scales[i] = 0.01f + 0.01f * (random_float(1) + 1);
    offsets[i] = offset;
  }
  t->quant = (emu_quant){.encoding = EMU_Q_AXIS_SCALE_OFFSET, .count = count, .axis = axis,
                         .scales = scales, .offsets = offsets};
}

static bool is_signed(uint32_t type) { return type == EMU_QS8 || type == EMU_QS16; }

static int32_t stored(const emu_tensor *t, uint64_t i) {
  return t->dtype == EMU_QU8   ? ((const uint8_t *)t->data)[i]
         : t->dtype == EMU_QS8 ? ((const int8_t *)t->data)[i]
         : t->dtype == EMU_QU16 ? ((const uint16_t *)t->data)[i]
                                : ((const int16_t *)t->data)[i];
}

/* A full-range grid that is not symmetric. */
static void any_grid(emu_tensor *t) {
  bool wide = t->dtype == EMU_QU16 || t->dtype == EMU_QS16;
  int32_t middle = is_signed(t->dtype) ? 0 : wide ? -32768 : -128, most = wide ? 20000 : 100;
  set_grid(t, wide ? 1e-4f : 0.02f, middle + (int32_t)random_between(0, 2 * (uint32_t)most) - most);
}

static uint32_t weight_type(enum form form) {
  switch (form) {
  case TENSOR_U8: case TENSOR_U8_128: case CHANNEL_U8: case TENSOR_U4:
    return EMU_QU8;
  case TENSOR_U16:
    return EMU_QU16;
  case CHANNEL_S16:
    return EMU_QS16;
  default:
    return EMU_QS8;
  }
}

static void encode_blocks(layer_case *l, uint32_t axis, uint32_t in_axis) {
  uint32_t n = l->out * l->blocks;
  emu_quant *q = &l->w->quant;
  if (l->form == LPBQ || l->form == LPBQ_WIDE) {
    uint16_t *scales = take(n * sizeof *scales);
    for (uint32_t i = 0; i < n; i++) {
      scales[i] = (uint16_t)random_between(1, l->form == LPBQ ? 16 : 255);
    }
    set_channels(l->w, axis, l->out, 0);
    q->encoding = EMU_Q_LPBQ;
    q->blocks_per_axis = l->blocks;
    q->block_scales = scales;
    return;
  }
  float *scales = take(n * sizeof *scales), *zeros = take(n * sizeof *zeros);
  for (uint32_t i = 0; i < n; i++) {
    scales[i] = 0.01f + 0.05f * (random_float(1) + 1);
    zeros[i] = (float)random_between(0, 6) - 3;
  }
  *q = (emu_quant){.encoding = EMU_Q_BW_FLOAT_BLOCK, .count = n, .bitwidth = 4, .scales = scales,
                   .zeros = l->form == FLOAT_BLOCK_ZEROS ? zeros : NULL};
  for (uint32_t i = 0; i < l->w->rank; i++) {
    q->block[i] = i == in_axis ? l->in / l->blocks : 1;
  }
}

static void encode_weight(layer_case *l, uint32_t axis, uint32_t in_axis) {
  emu_tensor *w = l->w;
  switch (l->form) {
  case TENSOR_S8_OFFSET:
    set_grid(w, 0.01f, 5);
    break;
  case TENSOR_U8:
    set_grid(w, 0.01f, -113);
    break;
  case TENSOR_U8_128:
    set_grid(w, 0.01f, -128);
    break;
  case TENSOR_U16:
    set_grid(w, 1e-4f, -32768);
    break;
  case CHANNEL_S8: case CHANNEL_S16: case CHANNEL_4:
    set_channels(w, axis, l->out, 0);
    break;
  case CHANNEL_U8:
    set_channels(w, axis, l->out, -128);
    break;
  case LPBQ: case LPBQ_WIDE: case FLOAT_BLOCK: case FLOAT_BLOCK_ZEROS:
    encode_blocks(l, axis, in_axis);
    break;
  default:
    set_grid(w, 0.01f, l->form == TENSOR_U4 ? -8 : 0);
  }
  if (l->form == TENSOR_4 || l->form == TENSOR_U4 || l->form == CHANNEL_4) {
    w->quant.bitwidth = 4;
    w->quant.encoding = l->form == CHANNEL_4 ? EMU_Q_BW_AXIS_SCALE_OFFSET : EMU_Q_BW_SCALE_OFFSET;
  }
}

/* value_of is what weight (k, c) means before its column's scale, from the definition alone. */
static double value_of(const layer_case *l, uint64_t at, uint32_t k, uint32_t c) {
  const emu_quant *q = &l->w->quant;
  int32_t v = stored(l->w, at);
  uint32_t block = c * l->blocks + k / (l->in / l->blocks);
  if (q->bitwidth == 4 || q->encoding == EMU_Q_LPBQ) { /* the low nibble */
    v = l->w->dtype == EMU_QU8 ? v & 15 : (v & 15) - 2 * (v & 8);
  }
  if (q->encoding == EMU_Q_LPBQ) {
    return v * (double)q->block_scales[block];
  }
  if (q->encoding == EMU_Q_BW_FLOAT_BLOCK) {
    return (v + (q->zeros ? (double)q->zeros[block] : 0)) * (double)q->scales[block];
  }
  return v + (double)(q->offsets ? q->offsets[q->count > 1 ? c : 0] : 0);
}

static void make_weight(layer_case *l) {
  uint32_t dims[4] = {1, 1, l->in, l->out}, rank = l->layer == FULLY_CONNECTED ? 2 : 4;
  bool turned = l->layer == FULLY_CONNECTED || l->layer == MATMUL_TURNED;
  if (turned) {
    dims[2] = l->out;
    dims[3] = l->in;
  }
  l->w = tensor(EMU_STATIC, weight_type(l->form), rank, dims + 4 - rank);
  fill(l->w, 1, 0);
  uint32_t out_axis = rank - (turned ? 2 : 1), in_axis = rank - (turned ? 1 : 2);
  encode_weight(l, out_axis, in_axis);
  l->value = take((size_t)l->in * l->out * sizeof *l->value);
  l->scale = take(l->out * sizeof *l->scale);
  for (uint32_t c = 0; c < l->out; c++) {
    bool blocks = l->w->quant.encoding == EMU_Q_BW_FLOAT_BLOCK;
    l->scale[c] = blocks ? 1 : (double)l->w->quant.scales[l->w->quant.count > 1 ? c : 0];
    for (uint32_t k = 0; k < l->in; k++) {
      uint64_t at = turned ? (uint64_t)c * l->in + k : (uint64_t)k * l->out + c;
      l->value[(size_t)k * l->out + c] = value_of(l, at, k, c);
    }
  }
}

static layer_case make_layer(enum layer layer, enum form form, uint32_t type, uint32_t most) {
  layer_case l = {.layer = layer, .form = form};
  l.rows = random_between(1, 14);
  l.blocks = random_between(1, 4);
  l.in = random_between(1, most) * l.blocks;
  l.out = random_between(1, most);
  uint32_t x_dims[4] = {1, 1, l.rows, l.in}, y_dims[4] = {1, 1, l.rows, l.out};
  uint32_t skip = layer == FULLY_CONNECTED ? 2 : 0;
  l.x = tensor(EMU_NATIVE, type, 4 - skip, x_dims + skip);
  l.y = tensor(EMU_NATIVE, type, 4 - skip, y_dims + skip);
  fill(l.x, 1, 0);
  make_weight(&l);
  return l;
}

static emu_node *node_of(const layer_case *l) {
  static const uint32_t ones[] = {1, 1}, zeros[] = {0, 0, 0, 0};
  static const char *const types[] = {"FullyConnected", "MatMul", "MatMul", "Conv2d"};
  emu_node *n = node(types[l->layer]);
  input(n, l->x);
  input(n, l->w);
  if (l->bias != NULL) {
    input(n, l->bias);
  }
  output(n, l->y);
  if (l->layer == CONV2D) {
    values(n, "stride", EMU_U32, DIMS(2), ones);
    values(n, "pad_amount", EMU_U32, DIMS(2, 2), zeros);
  } else if (l->layer != FULLY_CONNECTED) {
    scalar_b8(n, "transpose_in0", false);
    scalar_b8(n, "transpose_in1", l->layer == MATMUL_TURNED);
  }
  return n;
}

/* ---- quantized activations ---- */

/* expect_whole demands the nearest q, halves up, saturated; near a tie both neighbours pass. */
static void expect_whole(const emu_tensor *y, uint64_t i, double real, const char *what) {
  double exact = real / (double)y->quant.scales[0] - y->quant.offsets[0], slack = 1e-9 * (1 + fabs(exact));
  double least = y->dtype == EMU_QS8 ? -128 : y->dtype == EMU_QS16 ? -32768 : 0;
  double most = least + (y->dtype == EMU_QS8 || y->dtype == EMU_QU8 ? 255 : 65535);
  double low = fmin(most, fmax(least, floor(exact - slack + 0.5)));
  double high = fmin(most, fmax(least, floor(exact + slack + 0.5)));
  int32_t got = stored(y, i);
  CHECK(got >= low && got <= high, "%s: element %llu is %d, not %.17g", what, (unsigned long long)i,
        got, exact);
}

static void add_bias(layer_case *l) {
  bool channels = l->w->quant.encoding == EMU_Q_LPBQ || l->w->quant.encoding == EMU_Q_AXIS_SCALE_OFFSET ||
                  l->w->quant.encoding == EMU_Q_BW_AXIS_SCALE_OFFSET;
  if (l->layer == MATMUL || l->layer == MATMUL_TURNED || random_below(2)) {
    return;
  }
  bool bytes = !channels && random_below(3) == 0;
  l->bias = tensor(EMU_STATIC, bytes ? EMU_QU8 : EMU_QS32, DIMS(l->out));
  fill(l->bias, 1, 0);
  for (uint32_t c = 0; !bytes && c < l->out; c++) {
    ((int32_t *)l->bias->data)[c] = (int32_t)random_below(200001) - 100000;
  }
  if (!channels) {
    set_grid(l->bias, bytes ? 0.1f : 2e-5f, bytes ? -100 : 0);
    return;
  }
  set_channels(l->bias, 0, l->out, 0);
  for (uint32_t c = 0; c < l->out; c++) {
    ((float *)l->bias->quant.scales)[c] = l->x->quant.scales[0] * l->w->quant.scales[c];
  }
}

static double bias_of(const layer_case *l, uint32_t c) {
  if (l->bias == NULL) {
    return 0;
  }
  const emu_quant *q = &l->bias->quant;
  double v = l->bias->dtype == EMU_QS32 ? ((const int32_t *)l->bias->data)[c]
                                        : ((const uint8_t *)l->bias->data)[c];
  return (v + q->offsets[0]) * (double)q->scales[q->count > 1 ? c : 0];
}

/* The output's grid covers about what the sums reach, so that some saturate. */
static void fit_output(layer_case *l, double most) {
  bool wide = l->y->dtype == EMU_QU16 || l->y->dtype == EMU_QS16;
  any_grid(l->y);
  ((float *)l->y->quant.scales)[0] = (float)(most * 1.5 / (wide ? 65535 : 255) + 1e-12);
}

static void check_whole_layer(layer_case *l) {
  double *sums = take((size_t)l->rows * l->out * sizeof *sums), most = 0;
  for (uint32_t r = 0; r < l->rows; r++) {
    for (uint32_t c = 0; c < l->out; c++) {
      int64_t sum = 0;
      for (uint32_t k = 0; k < l->in; k++) {
        sum += (int64_t)(stored(l->x, (uint64_t)r * l->in + k) + l->x->quant.offsets[0]) *
               (int64_t)l->value[(size_t)k * l->out + c];
      }
      double real = (double)sum * (double)l->x->quant.scales[0] * l->scale[c] + bias_of(l, c);
      sums[(size_t)r * l->out + c] = real;
      most = fmax(most, fabs(real));
    }
  }
  fit_output(l, most);
  run(node_of(l));
  for (uint64_t i = 0; i < (uint64_t)l->rows * l->out; i++) {
    expect_whole(l->y, i, sums[i], "layer");
  }
}

static bool whole_form(enum layer layer, enum form form, uint32_t type) {
  bool turned = layer == FULLY_CONNECTED || layer == MATMUL_TURNED;
  bool unsigned_8 = weight_type(form) == EMU_QU8;
  if (form == FLOAT_BLOCK || form == FLOAT_BLOCK_ZEROS) {
    return false;
  }
  if (form == LPBQ || form == LPBQ_WIDE) {
    return !turned;
  }
  if (form == TENSOR_U16 || form == CHANNEL_S16) {
    return type == EMU_QU16 || (type == EMU_QS16 && form == CHANNEL_S16);
  }
  return type != EMU_QS16 || !unsigned_8;
}

static void quantized_layers_are_exact(void) {
  for (int round = 0; round < 4; round++) {
    for (int i = 0; i < LAYERS * FORMS * 4; i++) {
      enum layer layer = (enum layer)(i % LAYERS);
      enum form form = (enum form)(i / LAYERS % FORMS);
      uint32_t type = whole_types[i / LAYERS / FORMS];
      begin();
      layer_case l = make_layer(layer, form, type, round == 0 ? 20 : 70);
      any_grid(l.x);
      if (whole_form(layer, form, type)) {
        add_bias(&l);
        check_whole_layer(&l);
      } else {
        set_grid(l.y, 1, 0);
        CHECK(refusal(node_of(&l)) != NULL, "layer %d, form %d, type %04x was taken", layer, form, type);
      }
      end();
    }
  }
}

/* The worst sums: all products of one sign and full size, over more terms than 32 bits hold. */
static void the_largest_sums_are_exact(void) {
  for (int i = 0; i < 12; i++) {
    begin();
    layer_case l = make_layer(FULLY_CONNECTED, i % 3 == 2 ? TENSOR_U16 : TENSOR_S8,
                              i % 3 == 0 ? EMU_QU8 : EMU_QU16, 2);
    l.rows = 7;
    l.in = i % 3 == 0 ? 70000 : i % 4 < 2 ? 700 : 3000; /* 700: just above what fits */
    l.out = 17;
    l.blocks = 1;
    l.x = tensor(EMU_NATIVE, l.x->dtype, DIMS(l.rows, l.in));
    l.y = tensor(EMU_NATIVE, l.y->dtype, DIMS(l.rows, l.out));
    make_weight(&l);
    any_grid(l.x);
    bool high = i % 2 == 0;
    memset(l.x->data, i / 6 ? 0xff : 0, emu_elements(l.x) * emu_dtype_size(l.x->dtype));
    for (uint64_t j = 0; j < emu_elements(l.w); j++) {
      if (l.w->dtype == EMU_QS8) {
        ((int8_t *)l.w->data)[j] = high ? 127 : -128;
      } else {
        ((uint16_t *)l.w->data)[j] = high ? 65535 : 0;
      }
    }
    for (uint32_t k = 0; k < l.in; k++) {
      for (uint32_t c = 0; c < l.out; c++) {
        l.value[(size_t)k * l.out + c] = value_of(&l, (uint64_t)c * l.in + k, k, c);
      }
    }
    check_whole_layer(&l);
    end();
  }
}

static void a_row_of_a_quantized_layer_does_not_depend_on_the_others(void) {
  for (int round = 0; round < 12; round++) {
    begin();
    uint32_t most = round % 6 ? 90 : 600; /* rows long enough to be cut, unless they are alone */
    layer_case l = make_layer(FULLY_CONNECTED, TENSOR_U8, round % 2 ? EMU_QU16 : EMU_QU8, most);
    any_grid(l.x);
    fit_output(&l, 100);
    uint32_t row = random_below(l.rows);
    layer_case one = l;
    size_t size = emu_dtype_size(l.x->dtype);
    one.x = tensor(EMU_NATIVE, l.x->dtype, DIMS(1, l.in));
    one.y = tensor(EMU_NATIVE, l.y->dtype, DIMS(1, l.out));
    one.x->quant = l.x->quant, one.y->quant = l.y->quant;
    memcpy(one.x->data, (char *)l.x->data + row * l.in * size, l.in * size);
    run(node_of(&l));
    run(node_of(&one));
    CHECK(memcmp((char *)l.y->data + row * l.out * size, one.y->data, l.out * size) == 0,
          "row %u of %u differs alone", row, l.rows);
    end();
  }
}

/* ---- float activations ---- */

static bool float_form(enum form form) {
  return form == CHANNEL_S8 || form == CHANNEL_4 || form == FLOAT_BLOCK || form == FLOAT_BLOCK_ZEROS;
}

static void weights_alone_may_be_quantized(void) {
  for (int i = 0; i < 3 * LAYERS * FORMS; i++) {
    enum layer layer = (enum layer)(i % LAYERS);
    enum form form = (enum form)(i / LAYERS % FORMS);
    begin();
    layer_case l = make_layer(layer, form, EMU_F16, 60);
    l.bias = random_below(2) ? tensor(EMU_STATIC, EMU_F16, DIMS(l.out)) : NULL;
    if (l.bias) {
      fill(l.bias, 2, 0);
    }
    if (!float_form(form)) {
      CHECK(refusal(node_of(&l)) != NULL, "layer %d, form %d was taken", layer, form);
      end();
      continue;
    }
    run(node_of(&l));
    for (uint32_t r = 0; r < l.rows; r++) {
      for (uint32_t c = 0; c < l.out; c++) {
        double sum = l.bias ? (double)get(l.bias, c) : 0, size = fabs(sum);
        for (uint32_t k = 0; k < l.in; k++) {
          double term = (double)get(l.x, r * l.in + k) * l.value[k * l.out + c] * l.scale[c];
          sum += term;
          size += fabs(term);
        }
        /* Whole weights are exact, those in blocks are rounded to f16. */
        double slack = form == FLOAT_BLOCK ? 0x1p-11 : l.in * 0x1p-23;
        double got = (double)get(l.y, (uint64_t)r * l.out + c);
        CHECK(fabs(got - sum) <= size * slack + fabs(sum) * 0x1p-11 + 0x1p-24,
              "layer %d, form %d: %g, not %g", layer, form, got, sum);
      }
    }
    end();
  }
}

/* ---- products of activations ---- */

typedef struct {
  emu_tensor *a, *b, *y;
  bool turn_a, turn_b;
  uint32_t m, n, k, heads, b_heads;
} whole_product;

static double whole_dot(const whole_product *p, uint64_t i) {
  uint64_t c = i % p->n, r = i / p->n % p->m, head = i / p->n / p->m;
  uint64_t a = head * p->m * p->k, b = (p->b_heads == 1 ? 0 : head) * p->k * p->n;
  int64_t sum = 0;
  for (uint64_t k = 0; k < p->k; k++) {
    int64_t x = stored(p->a, a + (p->turn_a ? k * p->m + r : r * p->k + k)) + p->a->quant.offsets[0];
    int64_t w = stored(p->b, b + (p->turn_b ? c * p->k + k : k * p->n + c)) + p->b->quant.offsets[0];
    sum += x * w;
  }
  return (double)sum * (double)p->a->quant.scales[0] * (double)p->b->quant.scales[0];
}

/* What the vendor's library takes. */
static bool whole_pair(const whole_product *p) {
  uint32_t a = p->a->dtype, b = p->b->dtype;
  if (a == EMU_QU8 || a == EMU_QS8) {
    bool symmetric = b == EMU_QS8 && p->b->quant.offsets[0] == 0;
    return b == EMU_QU8 || (b == EMU_QS8 && (p->turn_b || a == EMU_QS8 || !symmetric));
  }
  if (a == EMU_QS16) {
    return p->turn_b && is_signed(b);
  }
  return b == EMU_QU16 ? p->b->quant.offsets[0] == -32768 : b != EMU_QS16 || p->turn_b;
}

static void products_of_quantized_activations_are_exact(void) {
  for (int i = 0; i < 256; i++) {
    begin();
    whole_product p = {.turn_a = random_below(3) == 0, .turn_b = i % 2};
    uint32_t a = whole_types[i / 2 % 4], b = whole_types[i / 8 % 4];
    p.m = random_between(1, 9);
    p.n = random_between(1, 40);
    p.k = random_between(1, i % 16 == 0 ? 1200 : 40);
    p.heads = random_between(1, 3);
    p.b_heads = random_below(2) ? 1 : p.heads;
    p.a = p.turn_a ? tensor(EMU_NATIVE, a, DIMS(1, p.heads, p.k, p.m))
                   : tensor(EMU_NATIVE, a, DIMS(1, p.heads, p.m, p.k));
    p.b = p.turn_b ? tensor(EMU_NATIVE, b, DIMS(1, p.b_heads, p.n, p.k))
                   : tensor(EMU_NATIVE, b, DIMS(1, p.b_heads, p.k, p.n));
    p.y = tensor(EMU_NATIVE, a, DIMS(1, p.heads, p.m, p.n));
    fill(p.a, 1, 0);
    fill(p.b, 1, 0);
    if (i % 5 == 0) { /* the largest sums of one sign */
      memset(p.a->data, 0xff, emu_elements(p.a) * emu_dtype_size(a));
      memset(p.b->data, random_below(2) ? 0xff : 0, emu_elements(p.b) * emu_dtype_size(b));
    }
    any_grid(p.a);
    any_grid(p.b);
    if (random_below(3)) {
      ((int32_t *)p.b->quant.offsets)[0] = is_signed(b) ? 0 : b == EMU_QU8 ? -128 : -32768;
    }
    layer_case fit = {.y = p.y};
    double most = 0;
    for (uint64_t e = 0; e < emu_elements(p.y); e++) {
      most = fmax(most, fabs(whole_dot(&p, e)));
    }
    fit_output(&fit, most);
    emu_node *n = node("MatMul");
    input(n, p.a);
    input(n, p.b);
    output(n, p.y);
    scalar_b8(n, "transpose_in0", p.turn_a);
    scalar_b8(n, "transpose_in1", p.turn_b);
    CHECK((refusal(n) == NULL) == whole_pair(&p), "%04x by %04x, turned %d", a, b, p.turn_b);
    if (refusal(n) == NULL) {
      run(n);
      for (uint64_t e = 0; e < emu_elements(p.y); e++) {
        expect_whole(p.y, e, whole_dot(&p, e), "product");
      }
    }
    end();
  }
}

const test quant_linear_tests[] = {
    {"quantized_layers_are_exact", quantized_layers_are_exact},
    {"the_largest_sums_are_exact", the_largest_sums_are_exact},
    {"a_row_of_a_quantized_layer_does_not_depend_on_the_others",
     a_row_of_a_quantized_layer_does_not_depend_on_the_others},
    {"weights_alone_may_be_quantized", weights_alone_may_be_quantized},
    {"products_of_quantized_activations_are_exact", products_of_quantized_activations_are_exact},
    {NULL, NULL},
};

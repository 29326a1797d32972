/* quant_linear_test.c covers linear operators with quantized weights, and products of quantized
 * activations. The reference of the test is an integer sum for quantized activations, so every
 * output except ties is determined, and a sum in double for float activations.
 */
#include "quant_case.h"

/* ---- quantized activations ---- */

static void add_bias(layer_case *l) {
  bool channels = l->w->quant.encoding == EMU_Q_LPBQ || l->w->quant.encoding == EMU_Q_AXIS_SCALE_OFFSET ||
                  l->w->quant.encoding == EMU_Q_BW_AXIS_SCALE_OFFSET;
  if (l->layer == MATMUL || l->layer == MATMUL_TRANSPOSED || random_below(2)) {
    return;
  }
  bool bytes = !channels && random_below(3) == 0;
  l->bias = tensor(EMU_STATIC, bytes ? EMU_QU8 : EMU_QS32, DIMS(l->out));
  fill(l->bias, 1, 0);
  for (uint32_t c = 0; !bytes && c < l->out; c++) {
    ((int32_t *)l->bias->data)[c] = (int32_t)random_below(200001) - 100000;
  }
  if (!channels) {
    set_scale_offset(l->bias, bytes ? 0.1f : 2e-5f, bytes ? -100 : 0);
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

static void check_int_layer(layer_case *l) {
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
    expect_exact(l->y, i, sums[i], "layer");
  }
}

static bool is_int_form(enum layer layer, enum form form, uint32_t type) {
  bool transposed = layer == FULLY_CONNECTED || layer == MATMUL_TRANSPOSED;
  bool unsigned_8 = weight_type(form) == EMU_QU8;
  if (form == FLOAT_BLOCK || form == FLOAT_BLOCK_ZEROS) {
    return false;
  }
  if (form == LPBQ || form == LPBQ_WIDE) {
    return !transposed;
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
      uint32_t type = int_types[i / LAYERS / FORMS];
      begin();
      layer_case l = make_layer(layer, form, type, round == 0 ? 20 : 70);
      random_scale_offset(l.x);
      if (is_int_form(layer, form, type)) {
        add_bias(&l);
        check_int_layer(&l);
      } else {
        set_scale_offset(l.y, 1, 0);
        CHECK(refusal(node_of(&l)) != NULL, "layer %d, form %d, type %04x was taken", layer, form, type);
      }
      end();
    }
  }
}

/* The test below has the worst sums: all products have the same sign and the greatest magnitude,
 * with more terms than 32 bits hold. */
static void the_largest_sums_are_exact(void) {
  for (int i = 0; i < 12; i++) {
    begin();
    layer_case l = make_layer(FULLY_CONNECTED, i % 3 == 2 ? TENSOR_U16 : TENSOR_S8,
                              i % 3 == 0 ? EMU_QU8 : EMU_QU16, 2);
    l.rows = 7;
    l.in = i % 3 == 0 ? 70000 : i % 4 < 2 ? 700 : 3000; /* with 700 terms, the sums are just above
                                                           what 32 bits hold */
    l.out = 17;
    l.blocks = 1;
    l.x = tensor(EMU_NATIVE, l.x->dtype, DIMS(l.rows, l.in));
    l.y = tensor(EMU_NATIVE, l.y->dtype, DIMS(l.rows, l.out));
    make_weight(&l);
    random_scale_offset(l.x);
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
    check_int_layer(&l);
    end();
  }
}

static void a_row_of_a_quantized_layer_does_not_depend_on_the_others(void) {
  for (int round = 0; round < 12; round++) {
    begin();
    uint32_t most = round % 6 ? 90 : 600; /* rows of this length are divided among tasks, unless
                                             there is only one */
    layer_case l = make_layer(FULLY_CONNECTED, TENSOR_U8, round % 2 ? EMU_QU16 : EMU_QU8, most);
    random_scale_offset(l.x);
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

static bool is_float_form(enum form form) {
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
    if (!is_float_form(form)) {
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
        /* In the test, integer weights are exact; weights in blocks are rounded to f16. */
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
  bool trans_a, trans_b;
  uint32_t m, n, k, heads, b_heads;
} int_product;

static double int_dot(const int_product *p, uint64_t i) {
  uint64_t c = i % p->n, r = i / p->n % p->m, head = i / p->n / p->m;
  uint64_t a = head * p->m * p->k, b = (p->b_heads == 1 ? 0 : head) * p->k * p->n;
  int64_t sum = 0;
  for (uint64_t k = 0; k < p->k; k++) {
    int64_t x = stored(p->a, a + (p->trans_a ? k * p->m + r : r * p->k + k)) + p->a->quant.offsets[0];
    int64_t w = stored(p->b, b + (p->trans_b ? c * p->k + k : k * p->n + c)) + p->b->quant.offsets[0];
    sum += x * w;
  }
  return (double)sum * (double)p->a->quant.scales[0] * (double)p->b->quant.scales[0];
}

/* The list below has the pairs of types that the vendor's library supports. */
static bool is_supported_pair(const int_product *p) {
  uint32_t a = p->a->dtype, b = p->b->dtype;
  if (a == EMU_QU8 || a == EMU_QS8) {
    bool symmetric = b == EMU_QS8 && p->b->quant.offsets[0] == 0;
    return b == EMU_QU8 || (b == EMU_QS8 && (p->trans_b || a == EMU_QS8 || !symmetric));
  }
  if (a == EMU_QS16) {
    return p->trans_b && is_signed(b);
  }
  return b == EMU_QU16 ? p->b->quant.offsets[0] == -32768 : b != EMU_QS16 || p->trans_b;
}

static void products_of_quantized_activations_are_exact(void) {
  for (int i = 0; i < 256; i++) {
    begin();
    int_product p = {.trans_a = random_below(3) == 0, .trans_b = i % 2};
    uint32_t a = int_types[i / 2 % 4], b = int_types[i / 8 % 4];
    p.m = random_between(1, 9);
    p.n = random_between(1, 40);
    p.k = random_between(1, i % 16 == 0 ? 1200 : 40);
    p.heads = random_between(1, 3);
    p.b_heads = random_below(2) ? 1 : p.heads;
    p.a = p.trans_a ? tensor(EMU_NATIVE, a, DIMS(1, p.heads, p.k, p.m))
                   : tensor(EMU_NATIVE, a, DIMS(1, p.heads, p.m, p.k));
    p.b = p.trans_b ? tensor(EMU_NATIVE, b, DIMS(1, p.b_heads, p.n, p.k))
                   : tensor(EMU_NATIVE, b, DIMS(1, p.b_heads, p.k, p.n));
    p.y = tensor(EMU_NATIVE, a, DIMS(1, p.heads, p.m, p.n));
    fill(p.a, 1, 0);
    fill(p.b, 1, 0);
    if (i % 5 == 0) { /* the case has the largest sums, with one sign */
      memset(p.a->data, 0xff, emu_elements(p.a) * emu_dtype_size(a));
      memset(p.b->data, random_below(2) ? 0xff : 0, emu_elements(p.b) * emu_dtype_size(b));
    }
    random_scale_offset(p.a);
    random_scale_offset(p.b);
    if (random_below(3)) {
      ((int32_t *)p.b->quant.offsets)[0] = is_signed(b) ? 0 : b == EMU_QU8 ? -128 : -32768;
    }
    layer_case fit = {.y = p.y};
    double most = 0;
    for (uint64_t e = 0; e < emu_elements(p.y); e++) {
      most = fmax(most, fabs(int_dot(&p, e)));
    }
    fit_output(&fit, most);
    emu_node *n = node("MatMul");
    input(n, p.a);
    input(n, p.b);
    output(n, p.y);
    scalar_b8(n, "transpose_in0", p.trans_a);
    scalar_b8(n, "transpose_in1", p.trans_b);
    CHECK((refusal(n) == NULL) == is_supported_pair(&p), "%04x by %04x, transposed %d", a, b, p.trans_b);
    if (refusal(n) == NULL) {
      run(n);
      for (uint64_t e = 0; e < emu_elements(p.y); e++) {
        expect_exact(p.y, e, int_dot(&p, e), "product");
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

/* quant_case.c makes the test cases that quant_case.h declares. */
#include "quant_case.h"

void set_scale_offset(emu_tensor *t, float scale, int32_t offset) {
  float *scales = take(sizeof *scales);
  int32_t *offsets = take(sizeof *offsets);
  *scales = scale;
  *offsets = offset;
  t->quant = (emu_quant){.encoding = EMU_Q_SCALE_OFFSET, .count = 1, .scales = scales, .offsets = offsets};
}

void set_channels(emu_tensor *t, uint32_t axis, uint32_t count, int32_t offset) {
  float *scales = take(count * sizeof *scales);
  int32_t *offsets = take(count * sizeof *offsets);
  for (uint32_t i = 0; i < count; i++) {
    scales[i] = 0.01f + 0.01f * (random_float(1) + 1);
    offsets[i] = offset;
  }
  t->quant = (emu_quant){.encoding = EMU_Q_AXIS_SCALE_OFFSET, .count = count, .axis = axis,
                         .scales = scales, .offsets = offsets};
}

bool is_signed(uint32_t type) { return type == EMU_QS8 || type == EMU_QS16; }

int32_t stored(const emu_tensor *t, uint64_t i) {
  return t->dtype == EMU_QU8   ? ((const uint8_t *)t->data)[i]
         : t->dtype == EMU_QS8 ? ((const int8_t *)t->data)[i]
         : t->dtype == EMU_QU16 ? ((const uint16_t *)t->data)[i]
                                : ((const int16_t *)t->data)[i];
}

/* random_scale_offset sets an encoding that covers the full range and is not symmetric. */
void random_scale_offset(emu_tensor *t) {
  bool wide = t->dtype == EMU_QU16 || t->dtype == EMU_QS16;
  int32_t middle = is_signed(t->dtype) ? 0 : wide ? -32768 : -128, most = wide ? 20000 : 100;
  set_scale_offset(t, wide ? 1e-4f : 0.02f, middle + (int32_t)random_between(0, 2 * (uint32_t)most) - most);
}

uint32_t weight_type(enum form form) {
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
    set_scale_offset(w, 0.01f, 5);
    break;
  case TENSOR_U8:
    set_scale_offset(w, 0.01f, -113);
    break;
  case TENSOR_U8_128:
    set_scale_offset(w, 0.01f, -128);
    break;
  case TENSOR_U16:
    set_scale_offset(w, 1e-4f, -32768);
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
    set_scale_offset(w, 0.01f, l->form == TENSOR_U4 ? -8 : 0);
  }
  if (l->form == TENSOR_4 || l->form == TENSOR_U4 || l->form == CHANNEL_4) {
    w->quant.bitwidth = 4;
    w->quant.encoding = l->form == CHANNEL_4 ? EMU_Q_BW_AXIS_SCALE_OFFSET : EMU_Q_BW_SCALE_OFFSET;
  }
}

/* value_of returns weight (k, c) before its column's scale, computed from the definition. */
double value_of(const layer_case *l, uint64_t at, uint32_t k, uint32_t c) {
  const emu_quant *q = &l->w->quant;
  int32_t v = stored(l->w, at);
  uint32_t block = c * l->blocks + k / (l->in / l->blocks);
  if (q->bitwidth == 4 || q->encoding == EMU_Q_LPBQ) { /* the value is in the low four bits */
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

void make_weight(layer_case *l) {
  uint32_t dims[4] = {1, 1, l->in, l->out}, rank = l->layer == FULLY_CONNECTED ? 2 : 4;
  bool transposed = l->layer == FULLY_CONNECTED || l->layer == MATMUL_TRANSPOSED;
  if (transposed) {
    dims[2] = l->out;
    dims[3] = l->in;
  }
  l->w = tensor(EMU_STATIC, weight_type(l->form), rank, dims + 4 - rank);
  fill(l->w, 1, 0);
  uint32_t out_axis = rank - (transposed ? 2 : 1), in_axis = rank - (transposed ? 1 : 2);
  encode_weight(l, out_axis, in_axis);
  l->value = take((size_t)l->in * l->out * sizeof *l->value);
  l->scale = take(l->out * sizeof *l->scale);
  for (uint32_t c = 0; c < l->out; c++) {
    bool blocks = l->w->quant.encoding == EMU_Q_BW_FLOAT_BLOCK;
    l->scale[c] = blocks ? 1 : (double)l->w->quant.scales[l->w->quant.count > 1 ? c : 0];
    for (uint32_t k = 0; k < l->in; k++) {
      uint64_t at = transposed ? (uint64_t)c * l->in + k : (uint64_t)k * l->out + c;
      l->value[(size_t)k * l->out + c] = value_of(l, at, k, c);
    }
  }
}

layer_case make_layer(enum layer layer, enum form form, uint32_t type, uint32_t most) {
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

emu_node *node_of(const layer_case *l) {
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
    scalar_b8(n, "transpose_in1", l->layer == MATMUL_TRANSPOSED);
  }
  return n;
}

/* expect_exact requires the nearest stored integer, rounding halves up and saturating. If the exact
 * value is close to a tie, both neighbouring integers pass. */
void expect_exact(const emu_tensor *y, uint64_t i, double real, const char *what) {
  double exact = real / (double)y->quant.scales[0] - y->quant.offsets[0], slack = 1e-9 * (1 + fabs(exact));
  double least = y->dtype == EMU_QS8 ? -128 : y->dtype == EMU_QS16 ? -32768 : 0;
  double most = least + (y->dtype == EMU_QS8 || y->dtype == EMU_QU8 ? 255 : 65535);
  double low = fmin(most, fmax(least, floor(exact - slack + 0.5)));
  double high = fmin(most, fmax(least, floor(exact + slack + 0.5)));
  int32_t got = stored(y, i);
  CHECK(got >= low && got <= high, "%s: element %llu is %d, not %.17g", what, (unsigned long long)i,
        got, exact);
}

/* fit_output sets the output's encoding so that it covers about the range of the sums; some sums
 * saturate. */
void fit_output(layer_case *l, double most) {
  bool wide = l->y->dtype == EMU_QU16 || l->y->dtype == EMU_QS16;
  random_scale_offset(l->y);
  ((float *)l->y->quant.scales)[0] = (float)(most * 1.5 / (wide ? 65535 : 255) + 1e-12);
}

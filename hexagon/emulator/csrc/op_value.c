/* op_value.c: elements as float32, however they are stored: the one place that knows data types
 * and encodings, for all operators but the linear ones.
 *
 * A fixed-point element q means scale * (q + offset). Writing rounds to the nearest q, exact
 * halves up as the vendor's integer operators do or, where it quantizes floats, away from zero;
 * it saturates, and NaN becomes the greatest q, again as there. Plain C without fused operations
 * and with IEEE division only, so every machine and code path writes the same bits.
 */
#include <math.h>

#include "f16.h"
#include "kernels.h"
#include "ops.h"

/* ---- types and encodings ---- */

uint32_t emu_type(const emu_tensor *t) {
  switch (t->dtype) {
  case EMU_F16:
    return EMU_T_F16;
  case EMU_F32:
    return EMU_T_F32;
  case EMU_QU8:
    return EMU_T_QU8;
  case EMU_QS8:
    return EMU_T_QS8;
  case EMU_QU16:
    return EMU_T_QU16;
  case EMU_QS16:
    return EMU_T_QS16;
  case EMU_QS32:
    return EMU_T_QS32;
  case EMU_I32:
    return EMU_T_I32;
  case EMU_U32:
    return EMU_T_U32;
  case EMU_U8:
    return EMU_T_U8;
  case EMU_BOOL8:
    return EMU_T_BOOL;
  default:
    return 0;
  }
}

/* range_of sets the least and the greatest value that a fixed-point type holds. */
static void range_of(uint32_t dtype, int32_t *least, int32_t *greatest) {
  bool is_signed = dtype >> 8 == EMU_QS8 >> 8;
  uint32_t bits = 8 * (uint32_t)emu_dtype_size(dtype);
  *least = is_signed ? -(int32_t)(1u << (bits - 1)) : 0;
  *greatest = (int32_t)((1u << (is_signed ? bits - 1 : bits)) - 1);
}

emu_grid emu_grid_of(const emu_tensor *t) {
  emu_grid grid = {1, 0};
  if (emu_fixed_point(t->dtype)) {
    grid.scale = t->quant.scales[0];
    grid.offset = t->quant.offsets != NULL ? t->quant.offsets[0] : 0;
  }
  return grid;
}

bool emu_same_grid(const emu_tensor *a, const emu_tensor *b) {
  emu_grid x = emu_grid_of(a), y = emu_grid_of(b);
  return a->dtype == b->dtype && x.scale == y.scale && x.offset == y.offset;
}

int emu_check_type(const emu_tensor *t, uint32_t types, emu_why why) {
  /* Up to here scale * (q + offset) of a 16-bit q is exact but for one rounding. */
  enum { GREATEST_OFFSET = 1 << 22 };
  if ((emu_type(t) & types) == 0) {
    return emu_refuse(why, "%s is %s, which is not supported here", emu_name(t),
                      emu_dtype_name(t->dtype));
  }
  if (!emu_fixed_point(t->dtype)) {
    return 0;
  }
  const emu_quant *quant = &t->quant;
  bool one = quant->encoding == EMU_Q_SCALE_OFFSET || quant->encoding == EMU_Q_BW_SCALE_OFFSET;
  if (!one || quant->count != 1) {
    return emu_refuse(why, "%s is %s without one scale and offset for all of it", emu_name(t),
                      emu_dtype_name(t->dtype));
  }
  if (quant->bitwidth != 0 && quant->bitwidth != 8 * emu_dtype_size(t->dtype)) {
    return emu_refuse(why, "%s uses %u bits of its %zu", emu_name(t), quant->bitwidth,
                      8 * emu_dtype_size(t->dtype));
  }
  int32_t offset = emu_grid_of(t).offset;
  if (offset > GREATEST_OFFSET || offset < -GREATEST_OFFSET) {
    return emu_refuse(why, "%s has offset %d, beyond +-2^22", emu_name(t), offset);
  }
  return 0;
}

int emu_check_types(const emu_node *node, uint32_t types, emu_why why) {
  for (uint32_t i = 0; i < node->n_in + node->n_out; i++) {
    const emu_tensor *t = i < node->n_in ? node->in[i] : node->out[i - node->n_in];
    if (emu_check_type(t, types, why)) {
      return 1;
    }
  }
  return emu_check_same_dtype(node, why);
}

int emu_check_same_grid(const emu_tensor *a, const emu_tensor *b, emu_why why) {
  if (emu_same_grid(a, b)) {
    return 0;
  }
  emu_grid x = emu_grid_of(a), y = emu_grid_of(b);
  return emu_refuse(why, "%s (scale %g, offset %d) and %s (scale %g, offset %d) differ in encoding",
                    emu_name(a), (double)x.scale, x.offset, emu_name(b), (double)y.scale, y.offset);
}

/* ---- reading ---- */

enum { TOGETHER = 16 }; /* elements of one inner loop of fixed length, which compilers unroll */

#define READ(TYPE)                                                                                 \
  {                                                                                                \
    const TYPE *from = (const TYPE *)t->data + at;                                                 \
    size_t i = 0;                                                                                  \
    for (; step == 1 && i + TOGETHER <= n; i += TOGETHER) {                                        \
      for (size_t l = 0; l < TOGETHER; l++) {                                                      \
        dst[i + l] = (float)((int32_t)from[i + l] + grid.offset) * grid.scale;                     \
      }                                                                                            \
    }                                                                                              \
    for (; i < n; i++) {                                                                           \
      dst[i] = (float)((int32_t)from[i * step] + grid.offset) * grid.scale;                        \
    }                                                                                              \
    break;                                                                                         \
  }

void emu_read_on(float *restrict dst, const emu_tensor *t, emu_grid grid, uint64_t at,
                 uint64_t step, size_t n) {
  size_t size = emu_dtype_size(t->dtype);
  switch (t->dtype) {
  case EMU_F16:
  case EMU_F32:
    if (step == 1) {
      emu_kernel()->widen(dst, (const char *)t->data + at * size, n, emu_half(t));
      break;
    }
    for (size_t i = 0; i < n; i++) {
      dst[i] = emu_get(t->data, at + i * step, emu_half(t));
    }
    break;
  case EMU_QU8:
  case EMU_U8:
  case EMU_BOOL8:
    READ(uint8_t)
  case EMU_QS8:
    READ(int8_t)
  case EMU_QU16:
    READ(uint16_t)
  case EMU_QS16:
    READ(int16_t)
  case EMU_U32:
    for (size_t i = 0; i < n; i++) {
      dst[i] = (float)((const uint32_t *)t->data)[at + i * step];
    }
    break;
  default: /* INT_32, SFIXED_POINT_32: a sum with the offset could overflow */
    for (size_t i = 0; i < n; i++) {
      double q = ((const int32_t *)t->data)[at + i * step];
      dst[i] = (float)((q + grid.offset) * (double)grid.scale);
    }
  }
}

void emu_read(float *dst, const emu_tensor *t, uint64_t at, uint64_t step, size_t n) {
  emu_read_on(dst, t, emu_grid_of(t), at, step, n);
}

/* ---- writing ---- */

/* How a value becomes a q: limits before the rounding, and the fraction below which a negative
 * value is rounded down. */
typedef struct {
  float scale, least, greatest, down;
  int32_t offset;
} rounding;

static rounding rounding_of(const emu_tensor *t, enum emu_ties ties) {
  emu_grid grid = emu_grid_of(t);
  int32_t least, greatest;
  range_of(t->dtype, &least, &greatest);
  rounding r = {grid.scale, (float)(least + grid.offset), (float)(greatest + grid.offset),
                ties == EMU_TIES_AWAY ? -0.5f : -0.5f - 0x1p-24f, grid.offset};
  return r;
}

static inline int32_t rounded(float value, const rounding *r) {
  float x = value / r->scale;
  x = x < r->greatest ? x : r->greatest; /* NaN too */
  x = x > r->least ? x : r->least;
  int32_t whole = (int32_t)x;
  float rest = x - (float)whole;
  return whole + (rest >= 0.5f) - (rest <= r->down) - r->offset;
}

#define WRITE(TYPE)                                                                                \
  {                                                                                                \
    TYPE *restrict to = (TYPE *)t->data + at;                                                      \
    size_t i = 0;                                                                                  \
    for (; step == 1 && i + TOGETHER <= n; i += TOGETHER) {                                        \
      for (size_t l = 0; l < TOGETHER; l++) {                                                      \
        to[i + l] = (TYPE)rounded(src[i + l], &r);                                                 \
      }                                                                                            \
    }                                                                                              \
    for (; i < n; i++) {                                                                           \
      to[i * step] = (TYPE)rounded(src[i], &r);                                                    \
    }                                                                                              \
    break;                                                                                         \
  }

void emu_write(const emu_tensor *t, enum emu_ties ties, uint64_t at, uint64_t step,
               const float *src, size_t n) {
  if (t->dtype == EMU_F16 || t->dtype == EMU_F32) {
    if (step == 1) {
      emu_kernel()->narrow((char *)t->data + at * emu_dtype_size(t->dtype), src, n, emu_half(t));
      return;
    }
    for (size_t i = 0; i < n; i++) {
      emu_put(t->data, at + i * step, emu_half(t), src[i]);
    }
    return;
  }
  const rounding r = rounding_of(t, ties);
  switch (t->dtype) {
  case EMU_QU8:
    WRITE(uint8_t)
  case EMU_QS8:
    WRITE(int8_t)
  case EMU_QU16:
    WRITE(uint16_t)
  default:
    WRITE(int16_t)
  }
}

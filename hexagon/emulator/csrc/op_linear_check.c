/* op_linear_check.c: which activations, weights and biases go together: what the vendor's
 * library both accepts and computes right. */
#include <math.h>

#include "linear.h"

static bool per_channel(const emu_quant *q) {
  return q->encoding == EMU_Q_AXIS_SCALE_OFFSET || q->encoding == EMU_Q_BW_AXIS_SCALE_OFFSET ||
         q->encoding == EMU_Q_LPBQ;
}

static bool has_width(const emu_quant *q) {
  return q->encoding == EMU_Q_BW_SCALE_OFFSET || q->encoding == EMU_Q_BW_AXIS_SCALE_OFFSET ||
         q->encoding == EMU_Q_BW_FLOAT_BLOCK;
}

static int check_grid(const emu_tensor *t, const char *role, emu_why why) {
  if (t->quant.count != 1 || t->quant.encoding != EMU_Q_SCALE_OFFSET) {
    return emu_refuse(why, "the %s is not quantized with one scale and offset", role);
  }
  int32_t offset = emu_offset_of(t);
  if (offset > EMU_MOST_OFFSET || offset < -EMU_MOST_OFFSET) {
    return emu_refuse(why, "the offset of the %s is %d, beyond 2^17", role, offset);
  }
  return 0;
}

/* Offsets per channel: the vendor's library computes wrong values, except where they make
 * unsigned weights symmetric. */
static int check_offsets(const emu_tensor *w, emu_why why) {
  int32_t symmetric = w->dtype == EMU_QU8 ? -128 : w->dtype == EMU_QU16 ? -32768 : 0;
  bool one = !per_channel(&w->quant);
  for (uint32_t i = 0; i < w->quant.count; i++) {
    int32_t offset = w->quant.offsets ? w->quant.offsets[i] : 0;
    if (one ? offset > EMU_MOST_OFFSET || offset < -EMU_MOST_OFFSET : offset != symmetric) {
      return emu_refuse(why, one ? "the weight's offset is %d, beyond 2^17"
                                 : "the weight has offset %d in a channel; channels are symmetric",
                        offset);
    }
  }
  return 0;
}

static int check_lpbq(const emu_linear *l, emu_why why) {
  if (check_offsets(l->w, why)) {
    return 1;
  }
  if (l->w->dtype != EMU_QS8 || l->in % l->w->quant.blocks_per_axis != 0) {
    return emu_refuse(why, "LPBQ weights are SFIXED_POINT_8 in equal blocks");
  }
  for (uint32_t i = 0; i < l->out * l->w->quant.blocks_per_axis; i++) {
    if (l->w->quant.block_scales[i] > 256) {
      return emu_refuse(why, "an LPBQ block scale is %u, above 256", l->w->quant.block_scales[i]);
    }
  }
  return 0;
}

static int check_blocks(const emu_linear *l, emu_why why) {
  const emu_quant *q = &l->w->quant;
  if (l->w->dtype != EMU_QS8 || (q->bitwidth != 4 && q->bitwidth != 8)) {
    return emu_refuse(why, "weights in float blocks are 4 or 8 bits in SFIXED_POINT_8");
  }
  for (uint32_t i = 0; i < l->w->rank; i++) {
    if (i != l->in_axis && q->block[i] > 1) {
      return emu_refuse(why, "float blocks of weights run along the inputs only");
    }
  }
  return 0;
}

/* check_encoding: the weight's encoding by itself. */
static int check_encoding(const emu_linear *l, emu_why why) {
  const emu_tensor *w = l->w;
  const emu_quant *q = &w->quant;
  if (w->dtype != EMU_QS8 && w->dtype != EMU_QU8 && w->dtype != EMU_QS16 && w->dtype != EMU_QU16) {
    return emu_refuse(why, "the weight is neither float nor fixed point of 8 or 16 bits");
  }
  if (q->count == 0) {
    return emu_refuse(why, "the weight has no quantization");
  }
  if (per_channel(q) && q->axis != l->out_axis) {
    return emu_refuse(why, "the weight is quantized along axis %u, not along its outputs, %u",
                      q->axis, l->out_axis);
  }
  bool eight = q->bitwidth == 8 && q->encoding == EMU_Q_BW_FLOAT_BLOCK;
  if (has_width(q) && ((q->bitwidth != 4 && !eight) || emu_dtype_size(w->dtype) != 1)) {
    return emu_refuse(why, "weights of %u bits: only 4 in a container of 8 are known, and 8 in float blocks",
                      q->bitwidth);
  }
  switch (q->encoding) {
  case EMU_Q_SCALE_OFFSET:
  case EMU_Q_BW_SCALE_OFFSET:
  case EMU_Q_AXIS_SCALE_OFFSET:
    return check_offsets(w, why);
  case EMU_Q_BW_AXIS_SCALE_OFFSET:
    return w->dtype == EMU_QS8 ? check_offsets(w, why)
                               : emu_refuse(why, "4-bit channels are SFIXED_POINT_8");
  case EMU_Q_LPBQ:
    return check_lpbq(l, why);
  case EMU_Q_BW_FLOAT_BLOCK:
    return check_blocks(l, why);
  default:
    return emu_refuse(why, "weights in encoding %u are not supported", q->encoding);
  }
}

static int check_float(const emu_linear *l, emu_why why) {
  const emu_tensor *w = l->w;
  if (l->y->dtype != l->x->dtype) {
    return emu_refuse(why, "input and output have different data types");
  }
  if (l->bias != NULL && l->bias->dtype != l->x->dtype) {
    return emu_refuse(why, "the bias has another data type than the float activations");
  }
  if (w->dtype == l->x->dtype) {
    return EMU_RIGHT;
  }
  if (l->x->dtype == EMU_F32 || !emu_fixed_point(w->dtype)) {
    return emu_refuse(why, "the weight is neither of the float activations' data type nor, under "
                           "FLOAT_16, quantized");
  }
  if (check_encoding(l, why)) {
    return EMU_WRONG;
  }
  bool channels = per_channel(&w->quant) && w->quant.encoding != EMU_Q_LPBQ;
  if (w->dtype != EMU_QS8 || !(channels || w->quant.encoding == EMU_Q_BW_FLOAT_BLOCK)) {
    return emu_refuse(why, "weights quantized under FLOAT_16 are SFIXED_POINT_8 with a scale per "
                           "channel or in float blocks");
  }
  return EMU_RIGHT;
}

/* A bias per channel counts in units of the activation's scale times the weight's: the vendor's
 * library takes no other scale into account, and none of the other shape. */
static int check_whole_bias(const emu_linear *l, emu_why why) {
  const emu_tensor *b = l->bias;
  if (b == NULL) {
    return 0;
  }
  bool channels = per_channel(&l->w->quant);
  if (b->dtype != EMU_QS32 && (b->dtype != EMU_QU8 || channels)) {
    return emu_refuse(why, "the bias is not SFIXED_POINT_32");
  }
  const emu_quant *q = &b->quant;
  if (!channels) {
    return q->count == 1 && q->encoding == EMU_Q_SCALE_OFFSET
               ? 0
               : emu_refuse(why, "the weight has one scale, so the bias must have one too");
  }
  if (q->encoding != EMU_Q_AXIS_SCALE_OFFSET || q->count != l->out) {
    return emu_refuse(why, "the weight has a scale per channel, so the bias must have them too");
  }
  for (uint32_t c = 0; c < l->out; c++) {
    double wanted = (double)l->x->quant.scales[0] * (double)l->w->quant.scales[c];
    if (fabs((double)q->scales[c] - wanted) > 1e-3 * wanted) {
      return emu_refuse(why, "channel %u of the bias has scale %g, not the activation's times the "
                             "weight's, %g", c, (double)q->scales[c], wanted);
    }
    if (q->offsets != NULL && q->offsets[c] != 0) {
      return emu_refuse(why, "channel %u of the bias has an offset", c);
    }
  }
  return 0;
}

static int check_whole(const emu_linear *l, emu_why why) {
  const emu_tensor *x = l->x, *w = l->w;
  if (l->y->dtype != x->dtype) {
    return emu_refuse(why, "input and output have different data types");
  }
  if (l->in > EMU_MOST_TERMS) {
    return emu_refuse(why, "%u inputs, above 2^17", l->in);
  }
  if (check_grid(x, "input", why) || check_grid(l->y, "output", why) || check_encoding(l, why)) {
    return 1;
  }
  if (emu_dtype_size(w->dtype) == 2 && x->dtype != EMU_QU16 &&
      (x->dtype != EMU_QS16 || w->dtype != EMU_QS16)) {
    return emu_refuse(why, "16-bit weights need 16-bit activations");
  }
  if (w->dtype == EMU_QU16 && emu_offset_of(w) != -32768) {
    return emu_refuse(why, "weights of UFIXED_POINT_16 have offset -32768 only");
  }
  if (x->dtype == EMU_QS16 && w->dtype == EMU_QU8) {
    return emu_refuse(why, "unsigned weights under SFIXED_POINT_16 activations");
  }
  if (check_whole_bias(l, why)) {
    return EMU_WRONG;
  }
  if (w->quant.encoding == EMU_Q_BW_FLOAT_BLOCK) {
    emu_refuse(why, "weights in float blocks need FLOAT_16 activations");
    return EMU_UNPREPARED;
  }
  return EMU_RIGHT;
}

int emu_check_linear(const emu_linear *l, emu_why why) {
  if (l->x->dtype == EMU_F16 || l->x->dtype == EMU_F32) {
    return check_float(l, why);
  }
  if (l->x->dtype == EMU_QU8 || l->x->dtype == EMU_QS8 || l->x->dtype == EMU_QU16 ||
      l->x->dtype == EMU_QS16) {
    return check_whole(l, why);
  }
  return emu_refuse(why, "the input is neither float nor fixed point of 8 or 16 bits");
}

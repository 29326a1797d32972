/* quant_case.h declares test cases of linear operators with quantized weights. */
#ifndef OPS_QUANT_CASE_H
#define OPS_QUANT_CASE_H

#include "harness.h"

static const uint32_t int_types[] = {EMU_QU8, EMU_QS8, EMU_QU16, EMU_QS16};
enum form {
  TENSOR_S8, TENSOR_S8_OFFSET, TENSOR_U8, TENSOR_U8_128, CHANNEL_S8, CHANNEL_U8,
  TENSOR_4, TENSOR_U4, CHANNEL_4, LPBQ, LPBQ_WIDE, TENSOR_U16, CHANNEL_S16, FLOAT_BLOCK,
  FLOAT_BLOCK_ZEROS, FORMS
};
enum layer { FULLY_CONNECTED, MATMUL, MATMUL_TRANSPOSED, CONV2D, LAYERS };

/* The struct below holds a linear operator: its tensors, and the true weights value[k * out + c] *
 * scale[c]. */
typedef struct {
  enum layer layer;
  enum form form;
  emu_tensor *x, *w, *bias, *y;
  uint32_t rows, in, out, blocks;
  double *value, *scale;
} layer_case;

uint32_t weight_type(enum form form);
void make_weight(layer_case *l);
void set_scale_offset(emu_tensor *t, float scale, int32_t offset);
bool is_signed(uint32_t type);
int32_t stored(const emu_tensor *t, uint64_t i);
void random_scale_offset(emu_tensor *t);
layer_case make_layer(enum layer layer, enum form form, uint32_t type, uint32_t most);
emu_node *node_of(const layer_case *l);
void expect_exact(const emu_tensor *y, uint64_t i, double real, const char *what);
void fit_output(layer_case *l, double most);
void set_channels(emu_tensor *t, uint32_t axis, uint32_t count, int32_t offset);
double value_of(const layer_case *l, uint64_t at, uint32_t k, uint32_t c);

#endif

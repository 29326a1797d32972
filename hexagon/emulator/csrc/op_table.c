/* op_table.c: the operators by the vendor's names. */
#include <string.h>

#include "ops.h"

#define PLAIN(TYPE, NAME)                                                                          \
  { .type = TYPE, .check = emu_check_##NAME, .run = emu_run_##NAME }
#define SCRATCHED(TYPE, NAME)                                                                      \
  {                                                                                                \
    .type = TYPE, .check = emu_check_##NAME, .scratch_size = emu_scratch_##NAME,                   \
    .run = emu_run_##NAME                                                                          \
  }
#define PACKED(TYPE, NAME, INPUTS)                                                                 \
  {                                                                                                \
    .type = TYPE, .check = emu_check_##NAME, .packed_size = emu_packed_##NAME,                     \
    .pack = emu_pack_##NAME, .packs_input = INPUTS, .scratch_size = emu_scratch_##NAME,            \
    .run = emu_run_##NAME                                                                          \
  }

static const emu_op table[] = {
    PACKED("FullyConnected", fully_connected, 1u << 1 | 1u << 2),
    PACKED("Conv2d", conv2d, 1u << 1 | 1u << 2),
    PACKED("MatMul", matmul, 1u << 1),
    {.type = "RmsNorm",
     .check = emu_check_rms_norm,
     .scratch_size = emu_scratch_norm,
     .run = emu_run_rms_norm},
    {.type = "LayerNorm",
     .check = emu_check_layer_norm,
     .scratch_size = emu_scratch_norm,
     .run = emu_run_layer_norm},
    SCRATCHED("Softmax", softmax),
    {.type = "MaskedSoftmax", .check = emu_check_masked_softmax},
    SCRATCHED("TopK", top_k),
    SCRATCHED("RotaryEmbedding", rotary_embedding),
    PLAIN("ElementWiseAdd", add),
    PLAIN("ElementWiseSubtract", subtract),
    PLAIN("ElementWiseMultiply", multiply),
    PLAIN("ElementWiseDivide", divide),
    PLAIN("ElementWiseBinary", binary),
    PLAIN("ElementWiseSelect", select),
    PLAIN("ElementWiseNeg", neg),
    PLAIN("ElementWiseRsqrt", rsqrt),
    PLAIN("ElementWiseNeuron", neuron),
    PLAIN("Sigmoid", sigmoid),
    PLAIN("Gelu", gelu),
    PLAIN("HardSwish", hard_swish),
    PLAIN("Relu", relu),
    PLAIN("ReduceMean", reduce_mean),
    PLAIN("Cast", cast),
    PLAIN("Quantize", quantize),
    PLAIN("Dequantize", dequantize),
    PLAIN("Convert", convert),
    PLAIN("Reshape", reshape),
    PLAIN("Transpose", transpose),
    PLAIN("StridedSlice", strided_slice),
    PLAIN("Concat", concat),
    PLAIN("Split", split),
    PLAIN("Tile", tile),
    PLAIN("Pad", pad),
    PLAIN("Gather", gather),
    PLAIN("Argmax", argmax),
    PLAIN("ScatterNd", scatter_nd),
    PLAIN("ScatterElements", scatter_elements),
};

enum { OPERATORS = sizeof table / sizeof *table };

const emu_op *emu_find_op(const char *type) {
  for (size_t i = 0; i < OPERATORS; i++) {
    if (strcmp(table[i].type, type) == 0) {
      return &table[i];
    }
  }
  return NULL;
}

const emu_op *emu_ops(size_t *count) {
  *count = OPERATORS;
  return table;
}

/* op_rotary.c: RotaryEmbedding of x [B, heads, S, D] by cos and sin [S, D/2] or [1, S, D/2]:
 * half split (pairs i and i + D/2) or interleaved (pairs 2i and 2i + 1). */
#include "kernels.h"
#include "ops.h"

static int check_shapes(const emu_node *node, emu_why why) {
  const emu_tensor *x = node->in[0];
  if (x->rank != 4) {
    return emu_refuse(why, "the input has rank %u, not 4, [batch, heads, positions, size]",
                      x->rank);
  }
  uint32_t d = emu_last(x), angles[] = {1, x->dims[2], d / 2};
  if (d % 2 != 0) {
    return emu_refuse(why, "the head size %u is odd", d);
  }
  if (emu_u32(node, "rotary_embedding_dim", d) != d) {
    return emu_refuse(why, "rotary_embedding_dim is %u, not the head size %u",
                      emu_u32(node, "rotary_embedding_dim", d), d);
  }
  for (uint32_t i = 1; i <= 2; i++) {
    uint32_t flat = node->in[i]->rank == 2;
    if (emu_check_dims(node->in[i], 3 - flat, angles + flat, why)) {
      return 1;
    }
  }
  return emu_check_dims(node->out[0], 4, x->dims, why);
}

int emu_check_rotary_embedding(const emu_node *node, char *text, size_t size) {
  static const emu_param_rule rules[] = {{"interleaved", 0, EMU_BOOL8, false},
                                         {"rotary_embedding_dim", 0, EMU_U32, false}};
  emu_why why = {text, size};
  return emu_check_ports(node, 3, 3, 1, 1, why) || emu_check_params(node, rules, 2, why) ||
         emu_check_float(node, why) || check_shapes(node, why);
}

enum { ROTARY_ROWS = 64 }; /* rows of one task */

static void rotate_rows(void *arg, uint32_t task) {
  const emu_node *node = arg;
  const emu_tensor *x = node->in[0];
  bool interleaved = emu_flag(node, "interleaved");
  size_t d = emu_last(x), size = emu_dtype_size(x->dtype), other = interleaved ? 1 : d / 2;
  uint64_t rows = emu_rows(x), first = (uint64_t)task * ROTARY_ROWS;
  for (uint64_t r = first; r < rows && r < first + ROTARY_ROWS; r++) {
    size_t at = r * d * size, angle = r % x->dims[2] * (d / 2) * size;
    const char *from = (const char *)x->data + at;
    char *to = (char *)node->out[0]->data + at;
    emu_kernel()->rotate(to, to + other * size, from, from + other * size,
                         (const char *)node->in[1]->data + angle,
                         (const char *)node->in[2]->data + angle, d / 2, interleaved ? 2 : 1,
                         emu_half(x));
  }
}

void emu_run_rotary_embedding(const emu_node *node, void *scratch) {
  (void)scratch;
  uint64_t rows = emu_rows(node->in[0]);
  emu_parallel((uint32_t)((rows + ROTARY_ROWS - 1) / ROTARY_ROWS), rotate_rows, (void *)node);
}

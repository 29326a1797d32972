/* op_parts.c: operators that join, part, repeat or surround: Concat, Split, Tile, Pad. */
#include <string.h>

#include "ops.h"

/* ---- Concat and Split: a part of a whole along one axis ---- */

/* check_part: part agrees with whole in all dims but the axis. */
static int check_part(const emu_tensor *part, const emu_tensor *whole, uint32_t axis,
                      uint32_t length, emu_why why) {
  uint32_t dims[EMU_MAX_RANK];
  memcpy(dims, whole->dims, sizeof dims);
  dims[axis] = length;
  return emu_check_dims(part, whole->rank, dims, why);
}

/* run_part moves a part into, or out of, the whole at `begin` along the axis. */
static void run_part(const emu_tensor *whole, const emu_tensor *part, uint32_t axis, uint32_t begin,
                     bool into) {
  uint64_t strides[EMU_MAX_RANK];
  emu_walk walk = {.rank = part->rank};
  emu_strides(whole, strides);
  emu_strides(part, walk.strides[into ? 1 : 0]);
  for (uint32_t i = 0; i < part->rank; i++) {
    walk.dims[i] = part->dims[i];
    walk.strides[into ? 0 : 1][i] = strides[i];
  }
  if (into) {
    emu_move(&walk, whole, begin * strides[axis], part, 0);
  } else {
    emu_move(&walk, part, 0, whole, begin * strides[axis]);
  }
}

int emu_check_concat(const emu_node *node, char *text, size_t size) {
  static const emu_param_rule rules[] = {{"axis", 0, EMU_U32, true}};
  emu_why why = {text, size};
  if (emu_check_ports(node, 1, EMU_MAX_PORTS, 1, 1, why) || emu_check_params(node, rules, 1, why) ||
      emu_check_types(node, EMU_T_MOVED | EMU_T_INDEX | EMU_T_BOOL, why)) {
    return 1;
  }
  const emu_tensor *y = node->out[0];
  uint32_t axis = emu_u32(node, "axis", 0);
  uint64_t sum = 0;
  if (axis >= y->rank) {
    return emu_refuse(why, "axis %u is outside rank %u", axis, y->rank);
  }
  for (uint32_t i = 0; i < node->n_in; i++) {
    const emu_tensor *x = node->in[i];
    if (check_part(x, y, axis, x->rank == y->rank ? x->dims[axis] : 0, why)) {
      return 1;
    }
    sum += x->dims[axis];
  }
  return sum == y->dims[axis] ? 0
                              : emu_refuse(why, "the inputs have %llu along axis %u, the output %u",
                                           (unsigned long long)sum, axis, y->dims[axis]);
}

void emu_run_concat(const emu_node *node, void *scratch) {
  (void)scratch;
  uint32_t axis = emu_u32(node, "axis", 0), begin = 0;
  for (uint32_t i = 0; i < node->n_in; i++) {
    run_part(node->out[0], node->in[i], axis, begin, true);
    begin += node->in[i]->dims[axis];
  }
}

int emu_check_split(const emu_node *node, char *text, size_t size) {
  static const emu_param_rule rules[] = {{"axis", 0, EMU_U32, true},
                                         {"split_index", 1, EMU_U32, true}};
  emu_why why = {text, size};
  uint32_t cuts[] = {node->n_out - 1};
  if (emu_check_ports(node, 1, 1, 2, EMU_MAX_PORTS, why) || emu_check_params(node, rules, 2, why) ||
      emu_check_types(node, EMU_T_MOVED | EMU_T_I32 | EMU_T_BOOL, why) ||
      emu_check_values(node, "split_index", 1, cuts, why)) {
    return 1;
  }
  const emu_tensor *x = node->in[0];
  const uint32_t *index = emu_values(node, "split_index");
  uint32_t axis = emu_u32(node, "axis", 0), begin = 0;
  if (axis >= x->rank) {
    return emu_refuse(why, "axis %u is outside rank %u", axis, x->rank);
  }
  for (uint32_t i = 0; i < node->n_out; i++) {
    uint32_t end = i + 1 < node->n_out ? index[i] : x->dims[axis];
    if (end <= begin || end > x->dims[axis]) {
      return emu_refuse(why, "part %u runs from %u to %u of %u", i, begin, end, x->dims[axis]);
    }
    if (check_part(node->out[i], x, axis, end - begin, why)) {
      return 1;
    }
    begin = end;
  }
  return 0;
}

void emu_run_split(const emu_node *node, void *scratch) {
  (void)scratch;
  uint32_t axis = emu_u32(node, "axis", 0), begin = 0;
  for (uint32_t i = 0; i < node->n_out; i++) {
    run_part(node->in[0], node->out[i], axis, begin, false);
    begin += node->out[i]->dims[axis];
  }
}

/* ---- Tile: the input repeated multiples[i] times along each dim i ---- */

int emu_check_tile(const emu_node *node, char *text, size_t size) {
  static const emu_param_rule rules[] = {{"multiples", 1, EMU_U32, true}};
  emu_why why = {text, size};
  enum { TILED = EMU_T_FLOAT | EMU_T_UNSIGNED | EMU_T_QS8 | EMU_T_I32 };
  if (emu_check_move(node, rules, 1, TILED, why)) {
    return 1;
  }
  const emu_tensor *x = node->in[0];
  uint32_t dims[EMU_MAX_RANK];
  if (emu_check_values(node, "multiples", 1, &x->rank, why)) {
    return 1;
  }
  for (uint32_t i = 0; i < x->rank; i++) {
    uint32_t times = emu_values(node, "multiples")[i];
    if (__builtin_mul_overflow(x->dims[i], times, &dims[i])) {
      return emu_refuse(why, "multiples[%u] is %u: too many", i, times);
    }
  }
  return emu_check_dims(node->out[0], x->rank, dims, why);
}

void emu_run_tile(const emu_node *node, void *scratch) {
  (void)scratch;
  const emu_tensor *x = node->in[0];
  uint64_t from[EMU_MAX_RANK], to[EMU_MAX_RANK];
  emu_walk walk = {.rank = 2 * x->rank};
  emu_strides(x, from);
  emu_strides(node->out[0], to);
  for (uint32_t i = 0; i < x->rank; i++) {
    walk.dims[2 * i] = emu_values(node, "multiples")[i];
    walk.strides[0][2 * i] = to[i] * x->dims[i];
    walk.dims[2 * i + 1] = x->dims[i];
    walk.strides[0][2 * i + 1] = to[i];
    walk.strides[1][2 * i + 1] = from[i];
  }
  emu_move(&walk, node->out[0], 0, x, 0);
}

/* ---- Pad: constants before and after each dim ---- */

/* emu_check_params knows one type for a parameter; the constant is a float or a bare integer. */
int emu_check_pad(const emu_node *node, char *text, size_t size) {
  emu_why why = {text, size};
  const emu_param *constant = emu_find_param(node, "pad_constant_value");
  bool integer = constant != NULL && constant->dtype == EMU_I32;
  const emu_param_rule rules[] = {{"scheme", 0, EMU_U32, true},
                                  {"pad_amount", 1, EMU_U32, true},
                                  {"pad_constant_value", 0, integer ? EMU_I32 : EMU_F32, false}};
  if (emu_check_move(node, rules, 3, EMU_T_MOVED, why)) {
    return 1;
  }
  const emu_tensor *x = node->in[0];
  uint32_t table[] = {x->rank, 2}, dims[EMU_MAX_RANK];
  if (emu_check_values(node, "pad_amount", 2, table, why)) {
    return 1;
  }
  if (emu_u32(node, "scheme", 0) != 0) {
    return emu_refuse(why, "scheme %u is not supported, only 0, a constant",
                      emu_u32(node, "scheme", 0));
  }
  if (integer && emu_is_float(x)) {
    return emu_refuse(why, "pad_constant_value is INT_32, but the input is a float");
  }
  const uint32_t *amount = emu_values(node, "pad_amount");
  for (uint32_t i = 0; i < x->rank; i++) {
    if (__builtin_add_overflow(x->dims[i], amount[2 * i], &dims[i]) ||
        __builtin_add_overflow(dims[i], amount[2 * i + 1], &dims[i])) {
      return emu_refuse(why, "pad_amount[%u] is %u and %u: too many", i, amount[2 * i],
                        amount[2 * i + 1]);
    }
  }
  return emu_check_dims(node->out[0], x->rank, dims, why);
}

/* padding_of is what the constant means: zero without one; an integer is an element as stored. */
static float padding_of(const emu_node *node) {
  const emu_param *constant = emu_find_param(node, "pad_constant_value");
  emu_grid grid = emu_grid_of(node->out[0]);
  if (constant == NULL) {
    return 0;
  }
  return constant->dtype == EMU_F32
             ? constant->scalar.f32
             : ((float)constant->scalar.i32 + (float)grid.offset) * grid.scale;
}

static void pad_piece(const void *arg, const emu_walk *walk, const uint64_t *at, uint64_t n) {
  (void)walk;
  const emu_node *node = arg;
  float values[EMU_CHUNK], value = padding_of(node);
  for (uint32_t i = 0; i < EMU_CHUNK; i++) {
    values[i] = value;
  }
  for (uint64_t done = 0, some; done < n; done += some) {
    some = n - done < EMU_CHUNK ? n - done : EMU_CHUNK;
    emu_write(node->out[0], EMU_TIES_UP, at[0] + done, 1, values, some);
  }
}

void emu_run_pad(const emu_node *node, void *scratch) {
  (void)scratch;
  const emu_tensor *x = node->in[0], *y = node->out[0];
  const uint32_t *amount = emu_values(node, "pad_amount");
  uint64_t offset = 0;
  emu_walk all = emu_flat_walk(emu_elements(y)), walk = {.rank = x->rank};
  emu_walk_run(&all, pad_piece, node);
  emu_strides(y, walk.strides[0]);
  emu_strides(x, walk.strides[1]);
  for (uint32_t i = 0; i < x->rank; i++) {
    walk.dims[i] = x->dims[i];
    offset += amount[2 * i] * walk.strides[0][i];
  }
  emu_move(&walk, y, offset, x, 0);
}

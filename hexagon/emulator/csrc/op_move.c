/* op_move.c: operators that only move elements: Reshape, Transpose, StridedSlice, Concat,
 * Split, Tile. Each is a walk over the written elements with the strides of the source. */
#include <string.h>

#include "ops.h"

/* A move copies elements of `size` bytes; operand 0 of its walk is written, 1 is read. */
typedef struct {
  char *to;
  const char *from;
  size_t size;
} move;

#define COPY_STRIDED(TYPE)                                                                         \
  for (uint64_t i = 0; i < n; i++) {                                                               \
    ((TYPE *)to)[i * to_step] = ((const TYPE *)from)[i * from_step];                               \
  }

static void move_piece(const void *arg, const emu_walk *walk, const uint64_t *at, uint64_t n) {
  const move *m = arg;
  uint64_t to_step = walk->strides[0][walk->rank - 1], from_step = walk->strides[1][walk->rank - 1];
  char *to = m->to + at[0] * m->size;
  const char *from = m->from + at[1] * m->size;
  if (to_step == 1 && from_step == 1) {
    memcpy(to, from, n * m->size);
  } else if (m->size == 4) {
    COPY_STRIDED(uint32_t)
  } else if (m->size == 2) {
    COPY_STRIDED(uint16_t)
  } else {
    COPY_STRIDED(uint8_t)
  }
}

static void run_move(emu_walk *walk, const emu_tensor *to, uint64_t to_offset,
                     const emu_tensor *from, uint64_t from_offset) {
  size_t size = emu_dtype_size(to->dtype);
  move m = {(char *)to->data + to_offset * size, (const char *)from->data + from_offset * size,
            size};
  walk->operands = 2;
  emu_walk_collapse(walk);
  emu_walk_run(walk, move_piece, &m);
}

static int check_move(const emu_node *node, const emu_param_rule *rules, size_t n, emu_why why) {
  return emu_check_ports(node, 1, 1, 1, 1, why) || emu_check_params(node, rules, n, why) ||
         emu_check_same_dtype(node, why);
}

/* ---- Reshape: the shape comes from the output ---- */

int emu_check_reshape(const emu_node *node, char *text, size_t size) {
  emu_why why = {text, size};
  if (check_move(node, NULL, 0, why)) {
    return 1;
  }
  uint64_t from = emu_elements(node->in[0]), to = emu_elements(node->out[0]);
  return from == to ? 0
                    : emu_refuse(why, "the input has %llu elements, the output %llu",
                                 (unsigned long long)from, (unsigned long long)to);
}

void emu_run_reshape(const emu_node *node, void *scratch) {
  (void)scratch;
  emu_walk walk = {.rank = 1, .dims = {emu_elements(node->in[0])}, .strides = {{1}, {1}}};
  run_move(&walk, node->out[0], 0, node->in[0], 0);
}

/* ---- Transpose: dim i of the output is dim perm[i] of the input ---- */

int emu_check_transpose(const emu_node *node, char *text, size_t size) {
  static const emu_param_rule rules[] = {{"perm", 1, EMU_U32, true}};
  emu_why why = {text, size};
  const emu_tensor *x = node->in[0];
  uint32_t dims[EMU_MAX_RANK], seen = 0;
  if (check_move(node, rules, 1, why) || emu_check_values(node, "perm", 1, &x->rank, why)) {
    return 1;
  }
  const uint32_t *perm = emu_values(node, "perm");
  for (uint32_t i = 0; i < x->rank; i++) {
    if (perm[i] >= x->rank || (seen & 1u << perm[i])) {
      return emu_refuse(why, "perm[%u] is %u: not a permutation", i, perm[i]);
    }
    seen |= 1u << perm[i];
    dims[i] = x->dims[perm[i]];
  }
  return emu_check_dims(node->out[0], x->rank, dims, why);
}

void emu_run_transpose(const emu_node *node, void *scratch) {
  (void)scratch;
  const emu_tensor *x = node->in[0];
  const uint32_t *perm = emu_values(node, "perm");
  uint64_t strides[EMU_MAX_RANK];
  emu_walk walk = {.rank = x->rank};
  emu_strides(x, strides);
  emu_strides(node->out[0], walk.strides[0]);
  for (uint32_t i = 0; i < x->rank; i++) {
    walk.dims[i] = x->dims[perm[i]];
    walk.strides[1][i] = strides[perm[i]];
  }
  run_move(&walk, node->out[0], 0, x, 0);
}

/* ---- StridedSlice: ranges i32 [rank, 3] of begin, end, stride ---- */

int emu_check_strided_slice(const emu_node *node, char *text, size_t size) {
  static const emu_param_rule rules[] = {{"ranges", 1, EMU_I32, true}};
  emu_why why = {text, size};
  const emu_tensor *x = node->in[0];
  uint32_t table[] = {x->rank, 3}, dims[EMU_MAX_RANK];
  if (check_move(node, rules, 1, why) || emu_check_values(node, "ranges", 2, table, why)) {
    return 1;
  }
  const int32_t *range = (const int32_t *)emu_values(node, "ranges");
  for (uint32_t i = 0; i < x->rank; i++, range += 3) {
    if (range[0] < 0 || range[1] <= range[0] || (uint32_t)range[1] > x->dims[i] || range[2] < 1) {
      return emu_refuse(why, "range %u is [%d,%d) by %d; the dimension is %u", i, range[0],
                        range[1], range[2], x->dims[i]);
    }
    dims[i] = ((uint32_t)(range[1] - range[0]) - 1) / (uint32_t)range[2] + 1;
  }
  return emu_check_dims(node->out[0], x->rank, dims, why);
}

void emu_run_strided_slice(const emu_node *node, void *scratch) {
  (void)scratch;
  const emu_tensor *x = node->in[0], *y = node->out[0];
  const uint32_t *range = emu_values(node, "ranges");
  uint64_t strides[EMU_MAX_RANK], offset = 0;
  emu_walk walk = {.rank = x->rank};
  emu_strides(x, strides);
  emu_strides(y, walk.strides[0]);
  for (uint32_t i = 0; i < x->rank; i++) {
    walk.dims[i] = y->dims[i];
    walk.strides[1][i] = strides[i] * range[3 * i + 2];
    offset += strides[i] * range[3 * i];
  }
  run_move(&walk, y, 0, x, offset);
}

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
static void run_part(const emu_tensor *whole, const emu_tensor *part, uint32_t axis,
                     uint32_t begin, bool into) {
  uint64_t strides[EMU_MAX_RANK];
  emu_walk walk = {.rank = part->rank};
  emu_strides(whole, strides);
  emu_strides(part, walk.strides[into ? 1 : 0]);
  for (uint32_t i = 0; i < part->rank; i++) {
    walk.dims[i] = part->dims[i];
    walk.strides[into ? 0 : 1][i] = strides[i];
  }
  if (into) {
    run_move(&walk, whole, begin * strides[axis], part, 0);
  } else {
    run_move(&walk, part, 0, whole, begin * strides[axis]);
  }
}

int emu_check_concat(const emu_node *node, char *text, size_t size) {
  static const emu_param_rule rules[] = {{"axis", 0, EMU_U32, true}};
  emu_why why = {text, size};
  if (emu_check_ports(node, 1, EMU_MAX_PORTS, 1, 1, why) ||
      emu_check_params(node, rules, 1, why) || emu_check_same_dtype(node, why)) {
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
  if (emu_check_ports(node, 1, 1, 2, EMU_MAX_PORTS, why) ||
      emu_check_params(node, rules, 2, why) || emu_check_same_dtype(node, why) ||
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
  const emu_tensor *x = node->in[0];
  uint32_t dims[EMU_MAX_RANK];
  if (check_move(node, rules, 1, why) || emu_check_values(node, "multiples", 1, &x->rank, why)) {
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
  run_move(&walk, node->out[0], 0, x, 0);
}

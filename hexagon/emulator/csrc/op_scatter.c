/* op_scatter.c: ScatterNd and ScatterElements: the data with some elements replaced, in the order
 * of the updates. An index outside the data replaces nothing, as in the vendor's library.
 */
#include <string.h>

#include "ops.h"

/* check_scatter: data, indices, updates and output but for their shapes. */
static int check_scatter(const emu_node *node, uint32_t types, const emu_param_rule *rules,
                         size_t n, emu_why why) {
  if (emu_check_ports(node, 3, 3, 1, 1, why) || emu_check_params(node, rules, n, why) ||
      emu_check_type(node->in[1], EMU_T_INDEX, why)) {
    return 1;
  }
  const emu_tensor *data = node->in[0], *others[] = {node->in[2], node->out[0]};
  if (emu_check_type(data, types, why)) {
    return 1;
  }
  for (int i = 0; i < 2; i++) {
    if (emu_check_type(others[i], emu_type(data), why) ||
        emu_check_same_grid(others[i], data, why)) {
      return 1;
    }
  }
  if (emu_u32(node, "reduction", 0) != 0) {
    return emu_refuse(why, "reduction %u is not supported, only 0, replace",
                      emu_u32(node, "reduction", 0));
  }
  return emu_check_dims(node->out[0], data->rank, data->dims, why);
}

/* ---- ScatterNd: updates[i...] replaces the part of the data at indices[i..., :] ---- */

int emu_check_scatter_nd(const emu_node *node, char *text, size_t size) {
  static const emu_param_rule rules[] = {{"reduction", 0, EMU_U32, false}};
  emu_why why = {text, size};
  if (check_scatter(node, EMU_T_FLOAT | EMU_T_FIXED | EMU_T_INDEX, rules, 1, why)) {
    return 1;
  }
  const emu_tensor *data = node->in[0], *indices = node->in[1];
  uint32_t dims[2 * EMU_MAX_RANK], depth = emu_last(indices), rank = indices->rank - 1;
  if (depth > data->rank) {
    return emu_refuse(why, "the indices name %u dimensions of %u", depth, data->rank);
  }
  memcpy(dims, indices->dims, rank * sizeof *dims);
  for (uint32_t i = depth; i < data->rank; i++) {
    dims[rank++] = data->dims[i];
  }
  return emu_check_dims(node->in[2], rank, dims, why);
}

void emu_run_scatter_nd(const emu_node *node, void *scratch) {
  (void)scratch;
  const emu_tensor *data = node->in[0], *indices = node->in[1];
  uint32_t depth = emu_last(indices);
  uint64_t strides[EMU_MAX_RANK], n = emu_rows(indices);
  size_t part = emu_elements(node->in[2]) / n * emu_dtype_size(data->dtype);
  char *to = node->out[0]->data;
  memcpy(to, data->data, emu_elements(data) * emu_dtype_size(data->dtype));
  emu_strides(data, strides);
  for (uint64_t i = 0; i < n; i++) {
    const uint32_t *index = (const uint32_t *)indices->data + i * depth; /* negative: too large */
    uint64_t at = 0;
    bool inside = true;
    for (uint32_t d = 0; d < depth; d++) {
      inside = inside && index[d] < data->dims[d];
      at += index[d] * strides[d];
    }
    if (inside) {
      memcpy(to + at * emu_dtype_size(data->dtype), (const char *)node->in[2]->data + i * part,
             part);
    }
  }
}

/* ---- ScatterElements: each update goes to its own place but for the index along one axis ---- */

int emu_check_scatter_elements(const emu_node *node, char *text, size_t size) {
  static const emu_param_rule rules[] = {{"axis", 0, EMU_U32, false},
                                         {"reduction", 0, EMU_U32, false}};
  emu_why why = {text, size};
  if (check_scatter(node, EMU_T_FLOAT | EMU_T_UNSIGNED | EMU_T_I32, rules, 2, why)) {
    return 1;
  }
  const emu_tensor *data = node->in[0], *indices = node->in[1];
  uint32_t axis = emu_u32(node, "axis", 0);
  if (axis >= data->rank || indices->rank != data->rank) {
    return emu_refuse(why, "axis %u and indices of rank %u do not fit rank %u", axis, indices->rank,
                      data->rank);
  }
  for (uint32_t i = 0; i < data->rank; i++) {
    if (i != axis && indices->dims[i] > data->dims[i]) {
      return emu_refuse(why, "dimension %u of the indices is %u, of the data %u", i,
                        indices->dims[i], data->dims[i]);
    }
  }
  return emu_check_dims(node->in[2], indices->rank, indices->dims, why);
}

void emu_run_scatter_elements(const emu_node *node, void *scratch) {
  (void)scratch;
  const emu_tensor *data = node->in[0], *indices = node->in[1];
  uint32_t axis = emu_u32(node, "axis", 0);
  size_t size = emu_dtype_size(data->dtype);
  uint64_t strides[EMU_MAX_RANK];
  char *to = node->out[0]->data;
  memcpy(to, data->data, emu_elements(data) * size);
  emu_strides(data, strides);
  for (uint64_t i = 0; i < emu_elements(indices); i++) {
    uint32_t index = ((const uint32_t *)indices->data)[i];
    uint64_t rest = i, at = index * strides[axis];
    for (uint32_t d = indices->rank; d-- > 0;) {
      at += d == axis ? 0 : rest % indices->dims[d] * strides[d];
      rest /= indices->dims[d];
    }
    if (index < data->dims[axis]) {
      memcpy(to + at * size, (const char *)node->in[2]->data + i * size, size);
    }
  }
}

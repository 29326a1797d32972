/* scatter_test.c covers ScatterNd and ScatterElements, and cases that the copying operators and
 * Gather reject. */
#include "harness.h"

static const uint32_t types[] = {EMU_F16, EMU_F32, EMU_QU8,  EMU_QU16,
                                 EMU_I32, EMU_QS8, EMU_QS16, EMU_U32};
enum { ELEMENTS = 5, PARTS = 8 };

static emu_node *scatter(const char *type, emu_tensor *data, emu_tensor *index,
                         emu_tensor *updates) {
  emu_node *n = node(type);
  input(n, data);
  input(n, index);
  input(n, updates);
  output(n, like(data, EMU_NATIVE));
  fill(data, 9, 0);
  fill(updates, 9, 0);
  if (random_below(2)) {
    scalar_u32(n, "reduction", 0);
  }
  return n;
}

/* expected is the data, which the updates of the test then overwrite element by element. */
static char *copy_of(const emu_tensor *t) {
  size_t bytes = emu_elements(t) * emu_dtype_size(t->dtype);
  return memcpy(take(bytes), t->data, bytes);
}

static void expect_bytes(const emu_tensor *y, const char *want, const char *what) {
  CHECK(memcmp(y->data, want, emu_elements(y) * emu_dtype_size(y->dtype)) == 0,
        "%s: other elements", what);
}

static void scatter_nd_replaces_parts_in_order(void) {
  for (int round = 0; round < 150; round++) {
    begin();
    uint32_t dims[5], rank = random_between(1, 5), depth = random_between(1, rank), part[5],
                      n_part = 1;
    uint32_t count = random_between(1, 6), type = types[random_below(PARTS)];
    uint64_t size = 1;
    for (uint32_t i = 0; i < rank; i++) {
      dims[i] = random_between(1, 5);
      size *= i < depth ? 1 : dims[i];
      if (i >= depth) {
        part[n_part++] = dims[i];
      }
    }
    part[0] = count;
    emu_tensor *data = tensor(EMU_NATIVE, type, rank, dims),
               *updates = reshaped(data, EMU_NATIVE, n_part, part);
    emu_tensor *index = tensor(EMU_NATIVE, random_below(2) ? EMU_I32 : EMU_U32, DIMS(count, depth));
    for (uint32_t i = 0; i < count * depth; i++) { /* some indices are out of range, below and
                                                      above */
      ((uint32_t *)index->data)[i] = random_below(dims[i % depth] + 1) - (random_below(9) == 0);
    }
    emu_node *n = scatter("ScatterNd", data, index, updates);
    char *want = copy_of(data);
    run(n);
    size *= emu_dtype_size(type);
    for (uint32_t i = 0; i < count; i++) {
      uint64_t at = 0;
      bool inside = true;
      for (uint32_t d = 0; d < depth; d++) {
        uint32_t k = ((uint32_t *)index->data)[i * depth + d];
        inside = inside && k < dims[d];
        at = at * dims[d] + k;
      }
      if (inside) {
        memcpy(want + at * size, (char *)updates->data + i * size, size);
      }
    }
    expect_bytes(n->out[0], want, "ScatterNd");
    end();
  }
}

static void scatter_elements_replaces_along_an_axis(void) {
  for (int round = 0; round < 150; round++) {
    begin();
    uint32_t dims[5], some[5], rank = random_between(1, 5), axis = random_below(rank);
    for (uint32_t i = 0; i < rank; i++) {
      dims[i] = random_between(1, 6);
      some[i] = random_between(1, i == axis ? 8 : dims[i]);
    }
    emu_tensor *data = tensor(EMU_NATIVE, types[random_below(ELEMENTS)], rank, dims);
    emu_tensor *updates = reshaped(data, EMU_NATIVE, rank, some);
    emu_tensor *index = tensor(EMU_NATIVE, random_below(2) ? EMU_I32 : EMU_U32, rank, some);
    for (uint64_t i = 0; i < emu_elements(index); i++) {
      ((uint32_t *)index->data)[i] = random_below(dims[axis] + 1) - (random_below(9) == 0);
    }
    emu_node *n = scatter("ScatterElements", data, index, updates);
    if (axis != 0 || random_below(2)) {
      scalar_u32(n, "axis", axis);
    }
    char *want = copy_of(data);
    run(n);
    size_t size = emu_dtype_size(data->dtype);
    for (uint64_t i = 0; i < emu_elements(index); i++) {
      uint32_t place[5], k = ((uint32_t *)index->data)[i];
      uint64_t rest = i, at = 0;
      for (uint32_t d = rank; d-- > 0; rest /= some[d]) {
        place[d] = (uint32_t)(rest % some[d]);
      }
      place[axis] = k;
      for (uint32_t d = 0; d < rank; d++) {
        at = at * dims[d] + place[d];
      }
      if (k < dims[axis]) {
        memcpy(want + at * size, (char *)updates->data + i * size, size);
      }
    }
    expect_bytes(n->out[0], want, "ScatterElements");
    end();
  }
}

static void refused(const emu_node *n, const char *want) {
  const char *got = refusal(n);
  CHECK(got != NULL && strstr(got, want) != NULL, "%s: got: %s; want: %s", n->name,
        got ? got : "accepted", want);
}

static void wrong_scatters_are_refused(void) {
  begin();
  emu_tensor *data = tensor(EMU_NATIVE, EMU_QU16, DIMS(4, 5)),
             *index = tensor(EMU_NATIVE, EMU_I32, DIMS(3, 1));
  emu_tensor *updates = reshaped(data, EMU_NATIVE, DIMS(3, 5));
  emu_node *n = scatter("ScatterNd", data, index, updates);
  CHECK(refusal(n) == NULL, "refused: %s", refusal(n));
  updates->dims[1] = 4;
  refused(n, "t has shape [3,4], not [3,5]");
  updates->dims[1] = 5;
  index->dtype = EMU_I64;
  refused(n, "INT_64, which is not supported");
  index->dtype = EMU_I32;
  index->dims[1] = 3;
  refused(n, "the indices have depth 3, the data rank 2");
  index->dims[1] = 1;
  encode(updates, 0.125f, 0);
  refused(n, "differ in encoding");
  updates->quant = data->quant;
  n->n_params = 0;
  scalar_u32(n, "reduction", 1);
  refused(n, "reduction 1 is not supported");
  n = scatter("ScatterElements", data, reshaped(index, EMU_NATIVE, DIMS(4, 2)),
              reshaped(data, EMU_NATIVE, DIMS(4, 2)));
  scalar_u32(n, "axis", 1);
  CHECK(refusal(n) == NULL, "refused: %s", refusal(n));
  n->in[1]->dims[0] = n->in[2]->dims[0] = 5;
  refused(n, "dimension 0 of the indices is 5, of the data 4");
  n->in[1]->rank = 1;
  refused(n, "do not fit data of rank 2");
  end();
}

/* Operators that keep stored integers must keep their encoding. */
static void changed_encodings_are_refused_where_integers_stay(void) {
  begin();
  uint32_t perm[] = {1, 0};
  emu_tensor *x = tensor(EMU_NATIVE, EMU_QU8, DIMS(2, 3)), *y = reshaped(x, EMU_NATIVE, DIMS(3, 2));
  emu_node *reshape = node("Reshape"), *transpose = node("Transpose"), *top = node("TopK");
  emu_tensor *best = reshaped(x, EMU_NATIVE, DIMS(2, 1));
  emu_node *nodes[] = {reshape, transpose, top};
  for (int i = 0; i < 3; i++) {
    input(nodes[i], x);
    output(nodes[i], i == 2 ? best : y);
  }
  values(transpose, "perm", EMU_U32, DIMS(2), perm);
  output(top, tensor(EMU_NATIVE, EMU_U32, DIMS(2, 1)));
  scalar_u32(top, "k", 1);
  for (int i = 0; i < 3; i++) {
    CHECK(refusal(nodes[i]) == NULL, "refused: %s", refusal(nodes[i]));
  }
  encode(y, 0.5f, y->quant.offsets[0]);
  encode(best, best->quant.scales[0], best->quant.offsets[0] - 1);
  for (int i = 0; i < 3; i++) {
    refused(nodes[i], "differ in encoding");
  }
  end();
}

/* For operators that keep stored integers, the vendor's library computes wrong values if the
 * encodings differ. */
static void gather_of_floats_within_batches_needs_static_indices(void) {
  begin();
  emu_node *n = node("Gather");
  input(n, tensor(EMU_NATIVE, EMU_F16, DIMS(2, 5, 4)));
  input(n, tensor(EMU_NATIVE, EMU_I32, DIMS(3)));
  output(n, tensor(EMU_NATIVE, EMU_F16, DIMS(2, 3, 4)));
  scalar_i32(n, "axis", 1);
  refused(n, "computes wrong values");
  n->in[1]->kind = EMU_STATIC;
  CHECK(refusal(n) == NULL, "refused: %s", refusal(n));
  n->in[1]->kind = EMU_NATIVE;
  n->in[0]->dims[0] = n->out[0]->dims[0] = 1;
  CHECK(refusal(n) == NULL, "refused: %s", refusal(n));
  n->in[1]->dtype = EMU_I64;
  refused(n, "INT_64, which is not supported");
  end();
}

const test scatter_tests[] = {
    {"scatter_nd_replaces_parts_in_order", scatter_nd_replaces_parts_in_order},
    {"scatter_elements_replaces_along_an_axis", scatter_elements_replaces_along_an_axis},
    {"wrong_scatters_are_refused", wrong_scatters_are_refused},
    {"changed_encodings_are_refused_where_integers_stay",
     changed_encodings_are_refused_where_integers_stay},
    {"gather_of_floats_within_batches_needs_static_indices",
     gather_of_floats_within_batches_needs_static_indices},
    {NULL, NULL},
};

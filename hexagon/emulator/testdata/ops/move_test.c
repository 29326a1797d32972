/* move_test.c compares operators that copy elements with index arithmetic in plain loops. */
#include "harness.h"

/* The list of types in move_test.c has the types that every copying operator supports, followed by
 * the others. */
static const uint32_t any_type[] = {EMU_F16, EMU_F32,  EMU_QU8, EMU_QS8,  EMU_QU16,
                                    EMU_I32, EMU_QS16, EMU_U32, EMU_BOOL8};
enum { TILED = 6, SLICED = 7, PLAIN = 9 };

static uint32_t random_dims(uint32_t *dims, uint32_t most) {
  uint32_t rank = random_between(1, 5);
  for (uint32_t i = 0; i < rank; i++) {
    dims[i] = random_between(1, most);
  }
  return rank;
}

static emu_tensor *random_tensor(uint32_t types, uint32_t rank, const uint32_t *dims) {
  emu_tensor *t = tensor(EMU_NATIVE, any_type[random_below(types)], rank, dims);
  fill(t, 100, 0);
  return t;
}

/* destination returns a tensor to which elements of x may be copied. Half of the destinations have
 * another encoding than the source. */
static emu_tensor *destination(const emu_tensor *x, uint32_t rank, const uint32_t *dims) {
  return random_below(2) ? reshaped(x, EMU_NATIVE, rank, dims)
                         : tensor(EMU_NATIVE, x->dtype, rank, dims);
}

static uint64_t position(const emu_tensor *t, const uint32_t *index) {
  uint64_t at = 0;
  for (uint32_t i = 0; i < t->rank; i++) {
    at = at * t->dims[i] + index[i];
  }
  return at;
}

static void indices(const emu_tensor *t, uint64_t at, uint32_t *index) {
  for (uint32_t i = t->rank; i-- > 0;) {
    index[i] = (uint32_t)(at % t->dims[i]);
    at /= t->dims[i];
  }
}

static void same_element(const emu_tensor *y, uint64_t i, const emu_tensor *x, uint64_t j,
                         const char *what) {
  size_t size = emu_dtype_size(x->dtype);
  if (emu_is_fixed_point(x->dtype) && x->quant.scales != y->quant.scales) {
    expect_near(y, i, real(x, j), 2e-6 * fabs(real(x, j)), what);
    return;
  }
  CHECK(memcmp((char *)y->data + i * size, (char *)x->data + j * size, size) == 0,
        "%s: element %llu is not element %llu of the input", what, (unsigned long long)i,
        (unsigned long long)j);
}

static void reshape_keeps_the_order(void) {
  for (int round = 0; round < 40; round++) {
    begin();
    uint32_t a = random_between(1, 50), b = random_between(1, 60), c = random_between(1, 9);
    emu_tensor *x = random_tensor(PLAIN, DIMS(a, b, c));
    emu_tensor *y = reshaped(x, EMU_NATIVE, DIMS(1, c, a * b));
    emu_node *n = node("Reshape");
    input(n, x);
    output(n, y);
    run(n);
    for (uint64_t i = 0; i < emu_elements(x); i++) {
      same_element(y, i, x, i, "Reshape");
    }
    end();
  }
}

static void transpose_permutes_dims(void) {
  for (int round = 0; round < 150; round++) {
    begin();
    uint32_t dims[5], perm[5] = {0, 1, 2, 3, 4}, permuted[5], rank = random_dims(dims, 9);
    for (uint32_t i = rank; i > 1; i--) {
      uint32_t j = random_below(i), swap = perm[j];
      perm[j] = perm[i - 1];
      perm[i - 1] = swap;
    }
    for (uint32_t i = 0; i < rank; i++) {
      permuted[i] = dims[perm[i]];
    }
    emu_tensor *x = random_tensor(PLAIN, rank, dims), *y = reshaped(x, EMU_NATIVE, rank, permuted);
    emu_node *n = node("Transpose");
    input(n, x);
    output(n, y);
    values(n, "perm", EMU_U32, DIMS(rank), perm);
    run(n);
    for (uint64_t i = 0; i < emu_elements(y); i++) {
      uint32_t to[5], from[5];
      indices(y, i, to);
      for (uint32_t d = 0; d < rank; d++) {
        from[perm[d]] = to[d];
      }
      same_element(y, i, x, position(x, from), "Transpose");
    }
    end();
  }
}

static void strided_slice_takes_every_nth(void) {
  for (int round = 0; round < 150; round++) {
    begin();
    uint32_t dims[5], cut[5], rank = random_dims(dims, 12);
    int32_t ranges[5][3];
    for (uint32_t i = 0; i < rank; i++) {
      uint32_t begins = random_below(dims[i]), ends = random_between(begins + 1, dims[i]);
      uint32_t stride = random_between(1, 3);
      ranges[i][0] = (int32_t)begins;
      ranges[i][1] = (int32_t)ends;
      ranges[i][2] = (int32_t)stride;
      cut[i] = 0;
      for (uint32_t at = begins; at < ends; at += stride) {
        cut[i]++;
      }
    }
    emu_tensor *x = random_tensor(SLICED, rank, dims), *y = destination(x, rank, cut);
    emu_node *n = node("StridedSlice");
    input(n, x);
    output(n, y);
    values(n, "ranges", EMU_I32, DIMS(rank, 3), ranges);
    run(n);
    for (uint64_t i = 0; i < emu_elements(y); i++) {
      uint32_t index[5];
      indices(y, i, index);
      for (uint32_t d = 0; d < rank; d++) {
        index[d] = (uint32_t)ranges[d][0] + index[d] * (uint32_t)ranges[d][2];
      }
      same_element(y, i, x, position(x, index), "StridedSlice");
    }
    end();
  }
}

/* The same parts of a tensor serve the tests of Concat and Split. Concat joins the parts of a
 * tensor, and Split separates them. */
static void concat_joins_and_split_parts(void) {
  for (int round = 0; round < 100; round++) {
    begin();
    uint32_t dims[5], rank = random_dims(dims, 6), axis = random_below(rank);
    uint32_t count = random_between(2, 5), type = any_type[random_below(SLICED)], cuts[5], sum = 0;
    emu_tensor *parts[5], *back[5];
    emu_node *concat = node("Concat"), *split = node("Split");
    for (uint32_t i = 0; i < count; i++) {
      dims[axis] = random_between(1, 7);
      parts[i] = tensor(EMU_NATIVE, type, rank, dims);
      back[i] = destination(parts[i], rank, dims);
      fill(parts[i], 100, 0);
      input(concat, parts[i]);
      output(split, back[i]);
      sum += dims[axis];
      cuts[i] = sum;
    }
    dims[axis] = sum;
    emu_tensor *whole = tensor(EMU_NATIVE, type, rank, dims);
    output(concat, whole);
    input(split, whole);
    scalar_u32(concat, "axis", axis);
    scalar_u32(split, "axis", axis);
    values(split, "split_index", EMU_U32, DIMS(count - 1), cuts);
    run(concat);
    run(split);
    for (uint32_t i = 0; i < count; i++) {
      for (uint64_t at = 0; at < emu_elements(parts[i]); at++) {
        uint32_t index[5];
        indices(parts[i], at, index);
        index[axis] += i ? cuts[i - 1] : 0;
        same_element(whole, position(whole, index), parts[i], at, "Concat");
        same_element(back[i], at, whole, position(whole, index), "Split");
      }
    }
    end();
  }
}

static void tile_repeats(void) {
  for (int round = 0; round < 100; round++) {
    begin();
    uint32_t dims[5], many[5], times[5], rank = random_dims(dims, 5);
    for (uint32_t i = 0; i < rank; i++) {
      times[i] = random_between(1, 3);
      many[i] = dims[i] * times[i];
    }
    emu_tensor *x = random_tensor(TILED, rank, dims), *y = destination(x, rank, many);
    emu_node *n = node("Tile");
    input(n, x);
    output(n, y);
    values(n, "multiples", EMU_U32, DIMS(rank), times);
    run(n);
    for (uint64_t i = 0; i < emu_elements(y); i++) {
      uint32_t index[5];
      indices(y, i, index);
      for (uint32_t d = 0; d < rank; d++) {
        index[d] %= dims[d];
      }
      same_element(y, i, x, position(x, index), "Tile");
    }
    end();
  }
}

static void pad_surrounds_with_a_constant(void) {
  static const uint32_t types[] = {EMU_F16, EMU_F32, EMU_QU8, EMU_QS8, EMU_QU16, EMU_QS16};
  for (int round = 0; round < 150; round++) {
    begin();
    uint32_t dims[5], wide[5], amount[5][2], rank = random_dims(dims, 5);
    for (uint32_t i = 0; i < rank; i++) {
      amount[i][0] = random_below(3);
      amount[i][1] = random_below(3);
      wide[i] = dims[i] + amount[i][0] + amount[i][1];
    }
    emu_tensor *x = tensor(EMU_NATIVE, types[random_below(6)], rank, dims),
               *y = destination(x, rank, wide);
    uint32_t how = random_below(emu_is_fixed_point(x->dtype) ? 3 : 2); /* the constant of Pad is
                                                                          absent, a float, or an
                                                                          integer */
    double constant = 0;
    fill(x, 100, 0);
    emu_node *n = node("Pad");
    input(n, x);
    output(n, y);
    scalar_u32(n, "scheme", 0);
    values(n, "pad_amount", EMU_U32, DIMS(rank, 2), amount);
    if (how == 1) {
      constant = (double)random_float(4);
      scalar_f32(n, "pad_constant_value", (float)constant);
    } else if (how == 2) {
      scalar_i32(n, "pad_constant_value", 7);
      constant = (7.0 + y->quant.offsets[0]) * (double)y->quant.scales[0];
    }
    run(n);
    for (uint64_t i = 0; i < emu_elements(y); i++) {
      uint32_t index[5];
      bool inside = true;
      indices(y, i, index);
      for (uint32_t d = 0; d < rank; d++) {
        inside = inside && index[d] >= amount[d][0] && index[d] < amount[d][0] + dims[d];
        index[d] -= amount[d][0];
      }
      if (inside) {
        same_element(y, i, x, position(x, index), "Pad");
      } else {
        expect_near(y, i, constant, 1e-6, "Pad");
      }
    }
    end();
  }
}

static void large_moves_are_cut_into_tasks_without_a_trace(void) {
  begin();
  uint32_t perm[] = {0, 2, 1, 3};
  emu_tensor *x = tensor(EMU_NATIVE, EMU_F16, DIMS(1, 128, 9, 70));
  emu_tensor *y = tensor(EMU_NATIVE, EMU_F16, DIMS(1, 9, 128, 70));
  emu_node *n = node("Transpose");
  fill(x, 100, 0);
  input(n, x);
  output(n, y);
  values(n, "perm", EMU_U32, DIMS(4), perm);
  run(n);
  for (uint64_t i = 0; i < emu_elements(y); i++) {
    uint64_t head = i / 70 / 128, row = i / 70 % 128;
    same_element(y, i, x, (row * 9 + head) * 70 + i % 70, "large Transpose");
  }
  end();
}

static void gather_picks_and_shows_bad_indices(void) {
  for (int round = 0; round < 100; round++) {
    begin();
    uint32_t before = random_between(1, 3), length = random_between(1, 20);
    uint32_t after = random_between(1, 9), a = random_between(1, 4), b = random_between(1, 4);
    emu_tensor *table = random_tensor(SLICED, DIMS(before, length, after));
    emu_tensor *index = tensor(EMU_STATIC, random_below(2) ? EMU_I32 : EMU_U32, DIMS(a, b));
    emu_tensor *y = reshaped(table, EMU_NATIVE, DIMS(before, a, b, after));
    uint32_t *picks = index->data;
    for (uint32_t i = 0; i < a * b; i++) {
      picks[i] = random_below(length + 1) - (random_below(9) == 0); /* some indices are out of
                                                                       range: -1 and length */
    }
    emu_node *n = node("Gather");
    input(n, table);
    input(n, index);
    output(n, y);
    scalar_i32(n, "axis", 1);
    run(n);
    for (uint64_t i = 0; i < emu_elements(y); i++) {
      uint64_t outer = i / after / (a * b), pick = picks[i / after % (a * b)];
      if (pick < length) {
        same_element(y, i, table, (outer * length + pick) * after + i % after, "Gather");
      } else {
        uint64_t ones = UINT64_MAX;
        size_t size = emu_dtype_size(y->dtype);
        CHECK(memcmp((char *)y->data + i * size, &ones, size) == 0, "Gather: outside not shown");
      }
    }
    end();
  }
}

const test move_tests[] = {
    {"reshape_keeps_the_order", reshape_keeps_the_order},
    {"transpose_permutes_dims", transpose_permutes_dims},
    {"strided_slice_takes_every_nth", strided_slice_takes_every_nth},
    {"concat_joins_and_split_parts", concat_joins_and_split_parts},
    {"tile_repeats", tile_repeats},
    {"pad_surrounds_with_a_constant", pad_surrounds_with_a_constant},
    {"large_moves_are_cut_into_tasks_without_a_trace",
     large_moves_are_cut_into_tasks_without_a_trace},
    {"gather_picks_and_shows_bad_indices", gather_picks_and_shows_bad_indices},
    {NULL, NULL},
};

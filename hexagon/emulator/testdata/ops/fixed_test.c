/* fixed_test.c compares operators over rows, in every type, with a formula in double: norms,
 * Softmax, ReduceMean, RotaryEmbedding, TopK, Argmax. row_test.c checks the bits of the float
 * versions.
 */
#include "harness.h"

static const uint32_t types[] = {EMU_F16, EMU_F32, EMU_QU8, EMU_QU16, EMU_QS8, EMU_QS16};

static uint32_t random_dims(uint32_t *dims, uint32_t least_rank, uint32_t rank, uint32_t last) {
  rank = random_between(least_rank, rank);
  for (uint32_t i = 0; i < rank; i++) {
    dims[i] = random_between(1, i + 1 == rank ? last : 6);
  }
  return rank;
}

/* ---- norms ---- */

static const struct {
  const char *type;
  uint32_t x, gamma, beta;
} norms[] = {
    {"RmsNorm", EMU_F16, EMU_F16, EMU_F16},     {"RmsNorm", EMU_F32, EMU_F32, EMU_F32},
    {"RmsNorm", EMU_QU8, EMU_QU8, EMU_QS32},    {"RmsNorm", EMU_QU8, EMU_QU8, EMU_QU8},
    {"RmsNorm", EMU_QU16, EMU_QU16, EMU_QS32},  {"RmsNorm", EMU_QU16, EMU_QU8, EMU_QS32},
    {"RmsNorm", EMU_QU16, EMU_QS16, EMU_QU16},  {"RmsNorm", EMU_QS16, EMU_QS16, EMU_QS32},
    {"LayerNorm", EMU_F16, EMU_F16, EMU_F16},   {"LayerNorm", EMU_F32, EMU_F32, EMU_F32},
    {"LayerNorm", EMU_QU8, EMU_QU8, EMU_QS32},  {"LayerNorm", EMU_QS8, EMU_QS8, EMU_QS32},
    {"LayerNorm", EMU_QU16, EMU_QU8, EMU_QS32}, {"LayerNorm", EMU_QU16, EMU_QU16, EMU_QU8},
};

static void norms_in_every_type(void) {
  for (int round = 0; round < 280; round++) {
    begin();
    uint32_t dims[5], rank = random_dims(dims, 1, 3, 150), length = dims[rank - 1], axis = rank - 1;
    uint32_t which = (uint32_t)round % (sizeof norms / sizeof *norms);
    bool centred = norms[which].type[0] == 'L';
    emu_tensor *x = tensor(EMU_NATIVE, norms[which].x, rank, dims),
               *y = span(like(x, EMU_NATIVE), -9, 9);
    emu_tensor *gamma = tensor(EMU_STATIC, norms[which].gamma, DIMS(length));
    emu_tensor *beta = tensor(EMU_STATIC, norms[which].beta, DIMS(length));
    double size = random_below(3) ? 1 : 1e-3; /* a large epsilon dominates small rows */
    fill(span(x, -4 * size, 3 * size), 3 * (float)size, 10);
    span(gamma, -2, 2);
    if (centred && gamma->dtype == EMU_QU16) { /* the encoding is symmetric, because the vendor's
                                                  library requires it */
      encode(gamma, 0x1p-14f, -32768);
    }
    fill(gamma, 2, 0);
    fill(span(beta, -1, 1), 1, 2);
    emu_node *n = node(norms[which].type);
    input(n, x);
    input(n, gamma);
    input(n, beta);
    output(n, y);
    float epsilon = random_below(4) ? 1e-5f : 1e-6f; /* the default */
    if (epsilon == 1e-5f) {
      scalar_f32(n, "epsilon", epsilon);
    }
    values(n, "axes", EMU_U32, DIMS(1), &axis);
    run(n);
    for (uint64_t i = 0; i < emu_elements(x); i++) {
      double mean = 0, squares = 0;
      uint64_t row = i / length * length;
      for (uint64_t k = row; centred && k < row + length; k++) {
        mean += real(x, k) / length;
      }
      for (uint64_t k = row; k < row + length; k++) {
        squares += (real(x, k) - mean) * (real(x, k) - mean) / length;
      }
      double scale = 1 / sqrt(squares + (double)epsilon), g = real(gamma, i % length);
      double exact = (real(x, i) - mean) * scale * g + real(beta, i % length);
      /* The computed mean of a row has an error of a few times 2^-24, which the scale
       * multiplies. */
      expect_near(y, i, exact, 4e-6 * fabs(exact) + 2e-6 * (1 + size * fabs(scale * g)),
                  norms[which].type);
    }
    end();
  }
}

static void norms_refuse_other_types_and_axes(void) {
  begin();
  uint32_t axis = 2;
  emu_tensor *x = tensor(EMU_NATIVE, EMU_QU16, DIMS(1, 4, 8));
  emu_tensor *gamma = tensor(EMU_STATIC, EMU_QU16, DIMS(8)),
             *beta = tensor(EMU_STATIC, EMU_QS32, DIMS(8));
  emu_node *n = node("RmsNorm");
  input(n, x);
  input(n, gamma);
  input(n, beta);
  output(n, like(x, EMU_NATIVE));
  values(n, "axes", EMU_U32, DIMS(1), &axis);
  CHECK(refusal(n) == NULL, "refused: %s", refusal(n));
  gamma->dtype = EMU_QS8;
  CHECK(refusal(n) && strstr(refusal(n), "SFIXED_POINT_8, which is not"), "%s", refusal(n));
  gamma->dtype = EMU_F32;
  CHECK(refusal(n) && strstr(refusal(n), "FLOAT_32, which is not"), "%s", refusal(n));
  gamma->dtype = EMU_QU16;
  beta->dtype = EMU_QS16;
  CHECK(refusal(n) && strstr(refusal(n), "SFIXED_POINT_16, which is not"), "%s", refusal(n));
  beta->dtype = EMU_QS32;
  n->out[0]->dtype = EMU_QU8;
  CHECK(refusal(n) && strstr(refusal(n), "UFIXED_POINT_8, which is not"), "%s", refusal(n));
  n->out[0]->dtype = x->dtype = EMU_QS8;
  CHECK(refusal(n) && strstr(refusal(n), "the input is SFIXED_POINT_8"), "%s", refusal(n));
  n->out[0]->dtype = x->dtype = EMU_QU16;
  n->op = emu_find_op("LayerNorm");
  encode(gamma, 0.1f, -32767);
  CHECK(refusal(n) && strstr(refusal(n), "only -32768 is supported"), "%s", refusal(n));
  encode(gamma, 0.1f, -32768);
  CHECK(refusal(n) == NULL, "refused: %s", refusal(n));
  *(uint32_t *)n->params[0].tensor->data = 1;
  CHECK(refusal(n) && strstr(refusal(n), "only the last axis"), "%s", refusal(n));
  end();
}

/* ---- Softmax ---- */

static void softmax_in_fixed_point(void) {
  static const uint32_t fixed[] = {EMU_QU8, EMU_QU16, EMU_QS16};
  for (int round = 0; round < 120; round++) {
    begin();
    uint32_t dims[5], rank = random_dims(dims, 1, 5, 120), length = dims[rank - 1];
    emu_tensor *x = tensor(EMU_NATIVE, fixed[random_below(3)], rank, dims),
               *y = like(x, EMU_NATIVE);
    float beta = random_below(2) ? 1 : 0.5f;
    fill(span(x, -8, 6), 1, 0);
    span(y, 0, random_below(2) ? 1 : 0.25);
    if (x->dtype == EMU_QU16) {
      encode(y, 1.0f / 65536, 0);
    }
    emu_node *n = node("Softmax");
    input(n, x);
    output(n, y);
    if (beta != 1) {
      scalar_f32(n, "beta", beta);
    }
    run(n);
    for (uint64_t first = 0; first < emu_elements(x); first += length) {
      double sum = 0;
      for (uint32_t i = 0; i < length; i++) {
        sum += exp((double)beta * real(x, first + i));
      }
      for (uint32_t i = 0; i < length; i++) {
        double p = exp((double)beta * real(x, first + i)) / sum;
        expect_near(y, first + i, p, 4e-6 * p, "Softmax");
      }
    }
    end();
  }
}

/* ---- ReduceMean ---- */

static void means_over_any_axes(void) {
  for (int round = 0; round < 200; round++) {
    begin();
    uint32_t dims[5], kept[5], axes[5], rank = random_dims(dims, 1, 5, 30), n_axes = 0, n_kept = 0;
    bool keep = random_below(2), gone[5];
    for (uint32_t i = rank; i-- > 0;) { /* in any order */
      gone[i] = random_below(2);
      if (gone[i]) {
        axes[n_axes++] = i;
      }
    }
    if (n_axes == 0 || (n_axes == rank && !keep)) {
      end();
      continue;
    }
    uint64_t count = 1;
    for (uint32_t i = 0; i < rank; i++) {
      count *= gone[i] ? dims[i] : 1;
      if (!gone[i] || keep) {
        kept[n_kept++] = gone[i] ? 1 : dims[i];
      }
    }
    emu_tensor *x = tensor(EMU_NATIVE, types[random_below(6)], rank, dims);
    emu_tensor *y = tensor(EMU_NATIVE, x->dtype, n_kept, kept);
    fill(span(x, -3, 5), 4, 0);
    emu_node *n = node("ReduceMean");
    input(n, x);
    output(n, span(y, -2, 3));
    values(n, "axes", EMU_U32, DIMS(n_axes), axes);
    if (keep || random_below(2)) {
      scalar_b8(n, "keep_dims", keep);
    }
    run(n);
    double *sums = take(emu_elements(y) * sizeof *sums);
    memset(sums, 0, emu_elements(y) * sizeof *sums);
    for (uint64_t i = 0; i < emu_elements(x); i++) {
      uint64_t rest = i, at = 0, stride = 1;
      for (uint32_t d = rank; d-- > 0; rest /= dims[d]) {
        at += gone[d] ? 0 : rest % dims[d] * stride;
        stride *= gone[d] ? 1 : dims[d];
      }
      sums[at] += real(x, i);
    }
    for (uint64_t i = 0; i < emu_elements(y); i++) {
      expect_near(y, i, sums[i] / (double)count, 5e-7, "ReduceMean");
    }
    end();
  }
}

static void wrong_axes_of_a_mean_are_refused(void) {
  static const struct {
    uint32_t n, axes[3];
  } wrong[] = {{1, {3}}, {2, {1, 1}}, {3, {0, 1, 2}}, {1, {UINT32_MAX}}};
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    begin();
    emu_node *n = node("ReduceMean");
    input(n, tensor(EMU_NATIVE, EMU_F16, DIMS(2, 3, 4)));
    output(n, tensor(EMU_NATIVE, EMU_F16, DIMS(1)));
    values(n, "axes", EMU_U32, 1, &wrong[i].n, wrong[i].axes);
    CHECK(refusal(n) != NULL, "case %zu was accepted", i);
    end();
  }
}

/* ---- RotaryEmbedding ---- */

static void rotary_embedding_in_every_form(void) {
  for (int round = 0; round < 150; round++) {
    begin();
    uint32_t b = random_between(1, 3), heads = random_between(1, 4), s = random_between(1, 9);
    uint32_t d = random_between(2, 40), rotary_dim = 2 * random_between(1, d / 2), half = rotary_dim / 2;
    uint32_t known = random_between(1, 12), type = types[random_below(4)];
    bool interleaved = random_below(2), by_position = random_below(2);
    emu_tensor *x = tensor(EMU_NATIVE, type, DIMS(b, heads, s, d)),
               *y = span(like(x, EMU_NATIVE), -7, 7);
    emu_tensor *angle[2], *position = tensor(EMU_NATIVE, EMU_I32, DIMS(b, s));
    emu_node *n = node("RotaryEmbedding");
    fill(span(x, -4, 4), 4, 0);
    input(n, x);
    for (int i = 0; i < 2; i++) {
      angle[i] = by_position ? tensor(EMU_NATIVE, type, DIMS(known, half))
                             : tensor(EMU_NATIVE, type, DIMS(b, s, half));
      fill(span(angle[i], -1, 1), 1, 0);
      input(n, angle[i]);
    }
    for (uint32_t i = 0; i < b * s; i++) {
      ((int32_t *)position->data)[i] = (int32_t)random_below(known + 1) - (random_below(9) == 0);
    }
    if (by_position) {
      input(n, position);
    }
    output(n, y);
    scalar_b8(n, "interleaved", interleaved);
    if (rotary_dim != d || random_below(2)) {
      scalar_u32(n, "rotary_embedding_dim", rotary_dim);
    }
    run(n);
    for (uint64_t i = 0; i < emu_elements(x); i++) {
      uint64_t row = i / d, e = i % d, which = row / (heads * s) * s + row % s;
      int32_t at = by_position ? ((int32_t *)position->data)[which] : (int32_t)which;
      if (by_position && (at < 0 || at >= (int32_t)known)) {
        uint64_t ones = UINT64_MAX;
        size_t size = emu_dtype_size(type);
        CHECK(memcmp((char *)y->data + i * size, &ones, size) == 0,
              "a position outside is not shown");
        continue;
      }
      double exact = real(x, i);
      if (e < rotary_dim) {
        uint64_t pair = interleaved ? e / 2 : e % half;
        bool second = interleaved ? e % 2 : e >= half;
        uint64_t distance = interleaved ? 1 : half, other = second ? i - distance : i + distance;
        double c = real(angle[0], (uint64_t)at * half + pair),
               sine = real(angle[1], (uint64_t)at * half + pair);
        exact = second ? real(x, i) * c + real(x, other) * sine
                       : real(x, i) * c - real(x, other) * sine;
      }
      expect_near(y, i, exact, 2e-6, "RotaryEmbedding");
    }
    end();
  }
}

/* ---- TopK and Argmax ---- */

static void top_k_and_argmax_in_fixed_point(void) {
  static const uint32_t fixed[] = {EMU_QU8, EMU_QS8, EMU_QU16};
  for (int round = 0; round < 100; round++) {
    begin();
    uint32_t rows = random_between(1, 5), length = random_between(1, 90),
             k = random_between(1, length);
    emu_tensor *x = tensor(EMU_NATIVE, fixed[random_below(3)], DIMS(rows, length));
    uint32_t dims[] = {rows, k};
    emu_tensor *best = reshaped(x, EMU_NATIVE, DIMS(rows, k)),
               *index = tensor(EMU_NATIVE, EMU_U32, 2, dims);
    emu_tensor *most = tensor(EMU_NATIVE, random_below(2) ? EMU_U32 : EMU_I32, DIMS(rows));
    bool largest = random_below(2), ties = random_below(2);
    fill(x, 1, 0);
    for (uint32_t i = 0; ties && i < rows * length; i++) {
      memset((char *)x->data + i * emu_dtype_size(x->dtype), (int)random_below(3),
             emu_dtype_size(x->dtype));
    }
    emu_node *top = node("TopK"), *argmax = node("Argmax");
    input(top, x);
    output(top, best);
    output(top, index);
    scalar_u32(top, "k", k);
    scalar_b8(top, "largest", largest);
    input(argmax, x);
    output(argmax, most);
    scalar_u32(argmax, "axis", 1);
    run(top);
    run(argmax);
    for (uint32_t r = 0; r < rows; r++) {
      uint32_t winner = 0;
      for (uint32_t i = 0; i < length; i++) {
        uint32_t before = 0; /* before is the number of elements that rank before element i */
        for (uint32_t j = 0; j < length; j++) {
          int64_t a = integer(x, r * length + i), c = integer(x, r * length + j);
          before += (largest ? c > a : c < a) || (c == a && j < i);
          winner = integer(x, r * length + j) > integer(x, r * length + winner) ? j : winner;
        }
        if (before < k) {
          CHECK(((uint32_t *)index->data)[r * k + before] == i, "TopK: place %u is not %u", before,
                i);
          CHECK(integer(best, r * k + before) == integer(x, r * length + i), "TopK: another value");
        }
      }
      CHECK(((uint32_t *)most->data)[r] == winner, "Argmax: %u, not %u",
            ((uint32_t *)most->data)[r], winner);
    }
    end();
  }
}

const test fixed_tests[] = {
    {"norms_in_every_type", norms_in_every_type},
    {"norms_refuse_other_types_and_axes", norms_refuse_other_types_and_axes},
    {"softmax_in_fixed_point", softmax_in_fixed_point},
    {"means_over_any_axes", means_over_any_axes},
    {"wrong_axes_of_a_mean_are_refused", wrong_axes_of_a_mean_are_refused},
    {"rotary_embedding_in_every_form", rotary_embedding_in_every_form},
    {"top_k_and_argmax_in_fixed_point", top_k_and_argmax_in_fixed_point},
    {NULL, NULL},
};

/* row_test.c covers operators over rows: RmsNorm, Softmax, RotaryEmbedding, TopK and Argmax. */
#include "harness.h"

static const uint32_t float_types[] = {EMU_F16, EMU_F32};

static emu_tensor *random_rows(uint32_t most, float scale) {
  uint32_t dims[4], rank = random_between(1, 3);
  for (uint32_t i = 0; i + 1 < rank; i++) {
    dims[i] = random_between(1, 7);
  }
  dims[rank - 1] = random_between(1, most);
  emu_tensor *t = tensor(EMU_NATIVE, float_types[random_below(2)], rank, dims);
  fill(t, scale, 10);
  return t;
}

static void rms_norm_sums_squares_in_order(void) {
  for (int round = 0; round < 100; round++) {
    begin();
    emu_tensor *x = random_rows(100, 3), *y = like(x, EMU_NATIVE);
    uint32_t length = emu_last_dim(x), axis = x->rank - 1;
    emu_tensor *gamma = tensor(EMU_STATIC, x->dtype, DIMS(length));
    emu_tensor *beta = tensor(EMU_STATIC, x->dtype, DIMS(length));
    fill(gamma, 2, 0);
    fill(beta, 1, 2);
    emu_node *n = node("RmsNorm");
    input(n, x);
    input(n, gamma);
    input(n, beta);
    output(n, y);
    scalar_f32(n, "epsilon", 1e-5f);
    values(n, "axes", EMU_U32, DIMS(1), &axis);
    run(n);
    for (uint64_t i = 0; i < emu_elements(x); i++) {
      float sum = 0;
      for (uint64_t k = i / length * length; k < (i / length + 1) * length; k++) {
        sum = fmaf(get(x, k), get(x, k), sum);
      }
      float scale = 1.0f / sqrtf(sum / (float)length + 1e-5f);
      expect(y, i, fmaf(get(x, i) * scale, get(gamma, i % length), get(beta, i % length)),
             "RmsNorm");
    }
    end();
  }
}

static void run_softmax(emu_tensor *x, emu_tensor *y, float beta) {
  emu_node *n = node("Softmax");
  input(n, x);
  output(n, y);
  if (beta != 1) {
    scalar_f32(n, "beta", beta);
  }
  if (random_below(2)) {
    scalar_u32(n, "axis", x->rank - 1);
  }
  run(n);
}

/* The sum of Softmax is checked bit by bit with the kernel's exponential, which has its own
 * test. */
static void softmax_sums_slots_in_order(void) {
  for (int round = 0; round < 100; round++) {
    begin();
    emu_tensor *x = random_rows(90, 6), *y = like(x, EMU_NATIVE);
    uint32_t length = emu_last_dim(x);
    float beta = random_below(2) ? 1 : 0.5f;
    for (int i = 0; i < 9; i++) {
      put(x, random_below((uint32_t)emu_elements(x)), random_below(2) ? -30000 : -INFINITY);
    }
    run_softmax(x, y, beta);
    for (uint64_t first = 0; first < emu_elements(x); first += length) {
      float most = -INFINITY, sum = 0, *e = take(length * sizeof *e);
      double exact = 0;
      for (uint32_t i = 0; i < length; i++) {
        most = fmaxf(most, get(x, first + i));
      }
      for (uint32_t i = 0; i < length; i++) {
        e[i] = get(x, first + i);
        emu_kernel()->exponentials(&e[i], 1, most == -INFINITY ? 0 : most, beta);
        exact += exp(beta * ((double)get(x, first + i) - (double)most));
        sum += e[i];
      }
      for (uint32_t i = 0; i < length; i++) {
        expect(y, first + i, sum == 0 ? 0 : e[i] / sum, "Softmax");
        double p = exp(beta * ((double)get(x, first + i) - (double)most)) / exact;
        CHECK(most == -INFINITY || fabs((double)get(y, first + i) - p) < 1e-6 + p * 6e-4,
              "Softmax: %g, not %g", (double)get(y, first + i), p);
      }
    }
    end();
  }
}

static void masked_slots_change_no_bit_of_softmax(void) {
  for (int round = 0; round < 40; round++) {
    begin();
    uint32_t rows = random_between(1, 20), used = random_between(1, 50);
    uint32_t wide = used + random_between(1, 100);
    emu_tensor *few = tensor(EMU_NATIVE, EMU_F16, DIMS(rows, used)), *few_y = like(few, 3);
    emu_tensor *many = tensor(EMU_NATIVE, EMU_F16, DIMS(rows, wide)), *many_y = like(many, 3);
    fill(few, 5, 0);
    uint32_t *place = take(used * sizeof *place);
    for (uint32_t i = 0; i < used; i++) {
      place[i] = (uint32_t)((uint64_t)i * wide / used);
    }
    for (uint64_t i = 0; i < emu_elements(many); i++) {
      put(many, i, random_below(2) ? -30000 : -INFINITY);
    }
    for (uint32_t i = 0; i < rows * used; i++) {
      put(many, i / used * wide + place[i % used], get(few, i));
    }
    run_softmax(few, few_y, 1);
    run_softmax(many, many_y, 1);
    for (uint32_t r = 0; r < rows; r++) {
      for (uint32_t i = 0, at = 0; i < wide; i++) {
        bool is_used = at < used && place[at] == i;
        expect(many_y, r * wide + i, is_used ? get(few_y, r * used + at++) : 0, "masked slot");
      }
    }
    end();
  }
}

static void a_row_of_softmax_and_rms_norm_does_not_depend_on_the_others(void) {
  for (int round = 0; round < 20; round++) {
    begin();
    uint32_t rows = random_between(2, 40), length = random_between(1, 60), axis = 1;
    emu_tensor *x = tensor(EMU_NATIVE, EMU_F16, DIMS(rows, length)), *y = like(x, 3);
    emu_tensor *one = tensor(EMU_NATIVE, EMU_F16, DIMS(1, length)), *one_y = like(one, 3);
    emu_tensor *gamma = tensor(EMU_STATIC, EMU_F16, DIMS(length)), *beta = like(gamma, EMU_STATIC);
    fill(x, 4, 0);
    fill(gamma, 2, 0);
    fill(beta, 2, 0);
    put(x, random_below(rows * length), NAN);
    for (int op = 0; op < 2; op++) {
      emu_node *nodes[] = {node(op ? "RmsNorm" : "Softmax"), node(op ? "RmsNorm" : "Softmax")};
      for (int i = 0; i < 2; i++) {
        input(nodes[i], i ? one : x);
        output(nodes[i], i ? one_y : y);
        if (op) {
          input(nodes[i], gamma);
          input(nodes[i], beta);
          scalar_f32(nodes[i], "epsilon", 1e-6f);
          values(nodes[i], "axes", EMU_U32, DIMS(1), &axis);
        }
      }
      run(nodes[0]);
      for (uint32_t r = 0; r < rows; r++) {
        memcpy(one->data, (uint16_t *)x->data + r * length, length * 2);
        run(nodes[1]);
        expect_equal(y, r * length, one_y, 0, length, "row alone");
      }
    }
    end();
  }
}

static void rotary_embedding_turns_pairs(void) {
  for (int round = 0; round < 60; round++) {
    begin();
    uint32_t heads = random_between(1, 9), s = random_between(1, 20), d = 2 * random_between(1, 40);
    uint32_t half = d / 2, type = float_types[random_below(2)];
    bool interleaved = random_below(2);
    uint32_t batches = random_between(1, 2);
    emu_tensor *x = tensor(EMU_NATIVE, type, DIMS(batches, heads, s, d));
    emu_tensor *y = like(x, EMU_NATIVE), *angle[2];
    emu_node *n = node("RotaryEmbedding");
    fill(x, 3, 0);
    input(n, x);
    for (int i = 0; i < 2; i++) {
      angle[i] = tensor(EMU_NATIVE, type, DIMS(batches, s, half));
      fill(angle[i], 1, 0);
      input(n, angle[i]);
    }
    output(n, y);
    if (interleaved || random_below(2)) {
      scalar_b8(n, "interleaved", interleaved);
    }
    if (random_below(2)) {
      scalar_u32(n, "rotary_embedding_dim", d);
    }
    run(n);
    for (uint64_t row = 0; row < emu_rows(x); row++) {
      for (uint32_t i = 0; i < half; i++) {
        uint64_t first = row * d + (interleaved ? 2 * i : i);
        uint64_t second = interleaved ? first + 1 : first + half;
        float a = get(x, first), b = get(x, second);
        uint64_t at = (row / (heads * s) * s + row % s) * half + i;
        float c = get(angle[0], at), sine = get(angle[1], at);
        expect(y, first, fmaf(a, c, -(b * sine)), "first of a pair");
        expect(y, second, fmaf(b, c, a * sine), "second of a pair");
      }
    }
    end();
  }
}

static void top_k_sorts_and_prefers_the_lowest_index(void) {
  for (int round = 0; round < 150; round++) {
    begin();
    bool many = round % 3 == 0; /* the rows are long and k is small, so that most blocks are
                                   skipped */
    emu_tensor *x = random_rows(many ? 3000 : 80, many ? 3 : 8);
    uint32_t length = emu_last_dim(x), k = random_between(1, many && length > 20 ? 20 : length), dims[5];
    bool largest = random_below(3) != 0, many_ties = random_below(2);
    for (uint64_t i = 0; many_ties && i < emu_elements(x); i++) {
      put(x, i, (float)random_below(4) - 1);
    }
    put(x, random_below((uint32_t)emu_elements(x)), NAN);
    memcpy(dims, x->dims, sizeof dims);
    dims[x->rank - 1] = k;
    emu_tensor *best = tensor(EMU_NATIVE, x->dtype, x->rank, dims);
    emu_tensor *index = tensor(EMU_NATIVE, random_below(2) ? EMU_I32 : EMU_U32, x->rank, dims);
    emu_node *n = node("TopK");
    input(n, x);
    output(n, best);
    output(n, index);
    scalar_u32(n, "k", k);
    if (!largest || random_below(2)) {
      scalar_b8(n, "largest", largest);
    }
    run(n);
    for (uint64_t row = 0; row < emu_rows(x); row++) {
      bool *taken = take(length);
      memset(taken, 0, length);
      for (uint32_t place = 0; place < k; place++) {
        uint32_t winner = length;
        float top = 0;
        for (uint32_t i = 0; i < length; i++) {
          float v = largest ? get(x, row * length + i) : -get(x, row * length + i);
          v = v != v ? -INFINITY : v;
          if (!taken[i] && (winner == length || v > top)) {
            winner = i;
            top = v;
          }
        }
        taken[winner] = true;
        uint32_t got = ((uint32_t *)index->data)[row * k + place];
        CHECK(got == winner, "TopK: place %u is index %u, not %u", place, got, winner);
        expect_equal(best, row * k + place, x, row * length + winner, 1, "TopK value");
      }
    }
    end();
  }
}

static void argmax_prefers_the_lowest_index(void) {
  for (int round = 0; round < 100; round++) {
    begin();
    uint32_t dims[4], kept[4], rank = random_between(2, 4), axis = random_below(rank), n_kept = 0;
    uint64_t inner = 1;
    bool keep = random_below(2);
    for (uint32_t i = 0; i < rank; i++) {
      dims[i] = random_between(1, 6);
      inner *= i > axis ? dims[i] : 1;
      if (i != axis || keep) {
        kept[n_kept++] = i == axis ? 1 : dims[i];
      }
    }
    emu_tensor *x = tensor(EMU_NATIVE, float_types[random_below(2)], rank, dims);
    emu_tensor *y = tensor(EMU_NATIVE, EMU_I32, n_kept, kept);
    for (uint64_t i = 0; i < emu_elements(x); i++) {
      put(x, i, random_below(9) == 0 ? NAN : (float)random_below(4) - 2);
    }
    emu_node *n = node("Argmax");
    input(n, x);
    output(n, y);
    scalar_u32(n, "axis", axis);
    if (keep || random_below(2)) {
      scalar_b8(n, "keep_dims", keep);
    }
    run(n);
    for (uint64_t r = 0; r < emu_elements(y); r++) {
      uint64_t at = r / inner * inner * dims[axis] + r % inner;
      int32_t winner = -1;
      for (uint32_t i = 0; i < dims[axis]; i++) {
        float v = get(x, at + i * inner);
        if (v == v && (winner < 0 || v > get(x, at + (uint32_t)winner * inner))) {
          winner = (int32_t)i;
        }
      }
      int32_t got = ((int32_t *)y->data)[r];
      CHECK(got == (winner < 0 ? 0 : winner), "Argmax: %d, not %d", got, winner);
    }
    end();
  }
}

const test row_tests[] = {
    {"rms_norm_sums_squares_in_order", rms_norm_sums_squares_in_order},
    {"softmax_sums_slots_in_order", softmax_sums_slots_in_order},
    {"masked_slots_change_no_bit_of_softmax", masked_slots_change_no_bit_of_softmax},
    {"a_row_of_softmax_and_rms_norm_does_not_depend_on_the_others",
     a_row_of_softmax_and_rms_norm_does_not_depend_on_the_others},
    {"rotary_embedding_turns_pairs", rotary_embedding_turns_pairs},
    {"top_k_sorts_and_prefers_the_lowest_index", top_k_sorts_and_prefers_the_lowest_index},
    {"argmax_prefers_the_lowest_index", argmax_prefers_the_lowest_index},
    {NULL, NULL},
};

/* linear_test.c compares FullyConnected and MatMul with sums in plain loops. */
#include "harness.h"

static const uint32_t float_types[] = {EMU_F16, EMU_F32};

typedef struct {
  emu_tensor *x, *w, *bias, *y;
} linear;

static void run_linear(linear *l, bool keep_dims) {
  emu_node *n = node("FullyConnected");
  input(n, l->x);
  input(n, l->w);
  if (l->bias) {
    input(n, l->bias);
  }
  output(n, l->y);
  if (keep_dims || random_below(2)) {
    scalar_b8(n, "keep_dims", keep_dims);
  }
  run(n);
}

static void fully_connected_sums_along_the_inputs_in_order(void) {
  for (int round = 0; round < 120; round++) {
    begin();
    uint32_t type = float_types[random_below(2)], rank = random_between(2, 4), dims[4], rows = 1;
    uint32_t in = random_between(1, 70), out = random_between(1, 150);
    bool keep_dims = random_below(2);
    for (uint32_t i = 0; i + 1 < rank; i++) {
      rows *= dims[i] = random_between(1, rank == 2 ? 30 : 4);
    }
    dims[rank - 1] = in;
    linear l = {tensor(EMU_NATIVE, type, rank, dims), tensor(EMU_STATIC, type, DIMS(out, in)),
                random_below(2) ? tensor(EMU_STATIC, type, DIMS(out)) : NULL, NULL};
    dims[rank - 1] = out;
    l.y = keep_dims ? tensor(EMU_NATIVE, type, rank, dims)
                    : tensor(EMU_NATIVE, type, DIMS(rows, out));
    fill(l.x, 2, 5);
    fill(l.w, 2, 5);
    if (l.bias) {
      fill(l.bias, 2, 0);
    }
    run_linear(&l, keep_dims);
    for (uint32_t r = 0; r < rows; r++) {
      for (uint32_t o = 0; o < out; o++) {
        float sum = 0;
        for (uint32_t k = 0; k < in; k++) {
          sum = fmaf(get(l.x, r * in + k), get(l.w, o * in + k), sum);
        }
        expect(l.y, r * out + o, sum + (l.bias ? get(l.bias, o) : 0), "FullyConnected");
      }
    }
    end();
  }
}

static void large_fully_connected_is_cut_into_tasks_without_a_trace(void) {
  static const uint32_t shapes[][3] = {
      {1, 576, 1536}, {128, 576, 192}, {33, 1536, 80}, {2, 8200, 40}, {7, 100, 2000},
      {8, 1300, 90}, {19, 1210, 60}}; /* the last two cases have rows that are long enough to be
                                         divided */
  for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
    begin();
    uint32_t m = shapes[s][0], in = shapes[s][1], out = shapes[s][2];
    linear l = {tensor(EMU_NATIVE, EMU_F16, DIMS(m, in)), tensor(EMU_STATIC, EMU_F16, DIMS(out, in)),
                tensor(EMU_STATIC, EMU_F16, DIMS(out)), tensor(EMU_NATIVE, EMU_F16, DIMS(m, out))};
    fill(l.x, 1, 0);
    fill(l.w, 0.1f, 0);
    fill(l.bias, 1, 0);
    run_linear(&l, true);
    for (int i = 0; i < 500; i++) {
      uint32_t r = random_below(m), o = random_below(out);
      float sum = 0;
      for (uint32_t k = 0; k < in; k++) {
        sum = fmaf(get(l.x, r * in + k), get(l.w, o * in + k), sum);
      }
      expect(l.y, (uint64_t)r * out + o, sum + get(l.bias, o), "FullyConnected");
    }
    end();
  }
}

static void a_row_of_fully_connected_does_not_depend_on_the_others(void) {
  for (int round = 0; round < 20; round++) {
    begin();
    uint32_t type = float_types[random_below(2)];
    uint32_t m = random_between(2, 40), in = random_between(1, 100), out = random_between(1, 100);
    emu_tensor *w = tensor(EMU_STATIC, type, DIMS(out, in));
    linear all = {tensor(EMU_NATIVE, type, DIMS(m, in)), w, NULL,
                  tensor(EMU_NATIVE, type, DIMS(m, out))};
    linear one = {tensor(EMU_NATIVE, type, DIMS(1, in)), w, NULL,
                  tensor(EMU_NATIVE, type, DIMS(1, out))};
    fill(all.x, 2, 5);
    fill(w, 2, 5);
    put(all.x, random_below(m * in), NAN); /* only the row with the NaN may become NaN */
    run_linear(&all, true);
    for (uint32_t r = 0; r < m; r++) {
      size_t row = in * emu_dtype_size(type);
      memcpy(one.x->data, (char *)all.x->data + r * row, row);
      run_linear(&one, true);
      expect_equal(all.y, r * out, one.y, 0, out, "row alone");
    }
    end();
  }
}

/* ---- MatMul ---- */

typedef struct {
  emu_tensor *a, *b, *y;
  bool trans_a, trans_b;
  uint32_t m, n, k;
} product;

static void run_product(product *p) {
  emu_node *n = node("MatMul");
  input(n, p->a);
  input(n, p->b);
  output(n, p->y);
  if (p->trans_a || random_below(2)) {
    scalar_b8(n, "transpose_in0", p->trans_a);
  }
  if (p->trans_b || random_below(2)) {
    scalar_b8(n, "transpose_in1", p->trans_b);
  }
  run(n);
}

static uint32_t batch_index(const emu_tensor *t, const emu_tensor *y, uint32_t batch) {
  uint32_t index[EMU_MAX_RANK], result = 0;
  for (uint32_t d = y->rank - 2; d-- > 0;) {
    index[d] = batch % y->dims[d];
    batch /= y->dims[d];
  }
  for (uint32_t d = 0; d + 2 < y->rank; d++) {
    result = result * t->dims[d] + (t->dims[d] == 1 ? 0 : index[d]);
  }
  return result;
}

/* left and right return element (r, k) and element (k, c) of a batch. */
static float left(const product *p, uint32_t batch, uint32_t r, uint32_t k) {
  uint64_t base = (uint64_t)batch * p->m * p->k;
  return get(p->a, base + (p->trans_a ? k * p->m + r : r * p->k + k));
}

static float right(const product *p, uint32_t batch, uint32_t k, uint32_t c) {
  uint64_t base = (uint64_t)batch * p->n * p->k;
  return get(p->b, base + (p->trans_b ? c * p->k + k : k * p->n + c));
}

static float dot(const product *p, uint32_t batch, uint32_t r, uint32_t c) {
  uint32_t a = batch_index(p->a, p->y, batch), b = batch_index(p->b, p->y, batch);
  float sum = 0;
  for (uint32_t k = 0; k < p->k; k++) {
    float x = left(p, a, r, k);
    sum = x == 0 ? sum : fmaf(x, right(p, b, k, c), sum);
  }
  return sum + 0.0f;
}

static void check_product(const product *p, uint32_t every) {
  uint64_t n = emu_elements(p->y);
  for (uint64_t i = 0; i < n; i += 1 + (every > 1 ? random_below(every) : 0)) {
    uint32_t c = (uint32_t)(i % p->n), r = (uint32_t)(i / p->n % p->m);
    expect(p->y, i, dot(p, (uint32_t)(i / p->n / p->m), r, c), "MatMul");
  }
}

static product random_product(uint32_t most) {
  product p = {.trans_a = random_below(2), .trans_b = random_below(2)};
  uint32_t type = float_types[random_below(2)], rank = random_between(2, 5);
  uint32_t a[5], b[5], y[5];
  p.m = random_between(1, most);
  p.n = random_below(3) ? random_between(1, most) : 16 * random_between(1, 5);
  p.k = random_between(1, most);
  for (uint32_t i = 0; i + 2 < rank; i++) {
    y[i] = random_between(1, 3);
    a[i] = random_below(4) ? y[i] : 1;
    b[i] = a[i] == y[i] && random_below(3) == 0 ? 1 : y[i];
  }
  a[rank - 2] = p.trans_a ? p.k : p.m;
  a[rank - 1] = p.trans_a ? p.m : p.k;
  b[rank - 2] = p.trans_b ? p.n : p.k;
  b[rank - 1] = p.trans_b ? p.k : p.n;
  y[rank - 2] = p.m;
  y[rank - 1] = p.n;
  p.a = tensor(EMU_NATIVE, type, rank, a);
  p.b = tensor(random_below(3) ? EMU_NATIVE : EMU_STATIC, type, rank, b);
  p.y = tensor(EMU_NATIVE, type, rank, y);
  return p;
}

static void matmul_sums_along_k_in_order(void) {
  for (int round = 0; round < 200; round++) {
    begin();
    product p = random_product(50);
    fill(p.a, 2, random_below(2) ? 3 : 0);
    fill(p.b, 2, 10);
    run_product(&p);
    check_product(&p, 1);
    end();
  }
}

static void matmul_does_not_see_what_stands_behind_a_zero(void) {
  for (int round = 0; round < 60; round++) {
    begin();
    product p = random_product(30);
    fill(p.a, 2, 2);
    fill(p.b, 2, 0);
    for (int i = 0; i < 3; i++) {
      put(p.b, random_below((uint32_t)emu_elements(p.b)), random_below(2) ? NAN : INFINITY);
      put(p.a, random_below((uint32_t)emu_elements(p.a)), -0.0f);
    }
    run_product(&p);
    check_product(&p, 1);
    end();
  }
}

/* An intermediate result may underflow to -0. After an underflow to -0, the final result of a sum
 * is +0, as if a zero term followed. */
static void matmul_writes_no_negative_zero(void) {
  begin();
  product p = {tensor(EMU_NATIVE, EMU_F32, DIMS(1, 2)), tensor(EMU_NATIVE, EMU_F32, DIMS(2, 16)),
               tensor(EMU_NATIVE, EMU_F32, DIMS(1, 16)), false, false, 1, 16, 2};
  fill(p.b, 1, 0);
  put(p.a, 0, -1e-30f);
  put(p.a, 1, 0);
  for (uint32_t c = 0; c < 16; c++) {
    put(p.b, c, 1e-30f);
  }
  run_product(&p);
  for (uint32_t c = 0; c < 16; c++) {
    expect(p.y, c, 0.0f, "underflow");
  }
  end();
}

static void large_matmul_is_cut_into_tasks_without_a_trace(void) {
  static const uint32_t shapes[][3] = {{3, 2176, 64}, {3, 64, 2176}, {96, 300, 64}, {40, 64, 700}};
  for (uint32_t s = 0; s < 8; s++) {
    begin();
    product p = {.m = shapes[s / 2][0], .n = shapes[s / 2][1], .k = shapes[s / 2][2]};
    p.trans_b = s % 2;
    p.a = tensor(EMU_NATIVE, EMU_F16, DIMS(1, 3, p.m, p.k));
    p.b = p.trans_b ? tensor(EMU_NATIVE, EMU_F16, DIMS(1, 3, p.n, p.k))
                   : tensor(EMU_NATIVE, EMU_F16, DIMS(1, 3, p.k, p.n));
    p.y = tensor(EMU_NATIVE, EMU_F16, DIMS(1, 3, p.m, p.n));
    fill(p.a, 1, 3);
    fill(p.b, 1, 0);
    run_product(&p);
    check_product(&p, 200);
    end();
  }
}

static void unused_slots_change_no_bit_of_a_product(void) {
  for (int round = 0; round < 20; round++) {
    begin();
    uint32_t m = random_between(1, 13), slots = random_between(1, 40), n = 16 * random_between(1, 4);
    uint32_t wide = slots + random_between(1, 60), *place = take(slots * sizeof *place);
    product few = {tensor(EMU_NATIVE, EMU_F16, DIMS(m, slots)),
                   tensor(EMU_NATIVE, EMU_F16, DIMS(slots, n)),
                   tensor(EMU_NATIVE, EMU_F16, DIMS(m, n)), false, false, m, n, slots};
    product many = {tensor(EMU_NATIVE, EMU_F16, DIMS(m, wide)),
                    tensor(EMU_NATIVE, EMU_F16, DIMS(wide, n)),
                    tensor(EMU_NATIVE, EMU_F16, DIMS(m, n)), false, false, m, n, wide};
    fill(few.a, 1, 4);
    fill(few.b, 1, 0);
    memset(many.a->data, 0, emu_elements(many.a) * 2);
    memset(many.b->data, random_below(2) ? 0xff : 0x11, emu_elements(many.b) * 2);
    for (uint32_t i = 0, at = 0; i < slots; i++, at++) { /* the list holds the used slots in order,
                                                            with gaps */
      at += random_below(wide - slots - (at - i) + 1) / 2;
      place[i] = at;
      for (uint32_t r = 0; r < m; r++) {
        put(many.a, r * wide + at, get(few.a, r * slots + i));
      }
      memcpy((uint16_t *)many.b->data + at * n, (uint16_t *)few.b->data + i * n, n * 2);
    }
    run_product(&few);
    run_product(&many);
    expect_equal(many.y, 0, few.y, 0, (uint64_t)m * n, "padding");
    end();
  }
}

const test linear_tests[] = {
    {"fully_connected_sums_along_the_inputs_in_order",
     fully_connected_sums_along_the_inputs_in_order},
    {"large_fully_connected_is_cut_into_tasks_without_a_trace",
     large_fully_connected_is_cut_into_tasks_without_a_trace},
    {"a_row_of_fully_connected_does_not_depend_on_the_others",
     a_row_of_fully_connected_does_not_depend_on_the_others},
    {"matmul_sums_along_k_in_order", matmul_sums_along_k_in_order},
    {"matmul_does_not_see_what_stands_behind_a_zero",
     matmul_does_not_see_what_stands_behind_a_zero},
    {"matmul_writes_no_negative_zero", matmul_writes_no_negative_zero},
    {"large_matmul_is_cut_into_tasks_without_a_trace",
     large_matmul_is_cut_into_tasks_without_a_trace},
    {"unused_slots_change_no_bit_of_a_product", unused_slots_change_no_bit_of_a_product},
    {NULL, NULL},
};

/* element_test.c covers elementwise operators: arithmetic with broadcasting, Neg, Sigmoid, Cast,
 * the exponential, and half precision itself.
 */
#include "harness.h"

static const uint32_t float_types[] = {EMU_F16, EMU_F32};

static const struct {
  const char *type;
  char sign;
} binaries[] = {{"ElementWiseAdd", '+'},
                {"ElementWiseSubtract", '-'},
                {"ElementWiseMultiply", '*'},
                {"ElementWiseDivide", '/'}};

static float apply(char sign, float a, float b) {
  switch (sign) {
  case '+':
    return a + b;
  case '-':
    return a - b;
  case '*':
    return a * b;
  default:
    return a / b;
  }
}

static void arithmetic_broadcasts_as_numpy_does(void) {
  for (int round = 0; round < 300; round++) {
    begin();
    uint32_t op = random_below(4), type = float_types[random_below(2)], rank = random_between(1, 5);
    uint32_t y_dims[5], dims[2][5], drop[2] = {0, 0};
    for (uint32_t i = 0; i < rank; i++) {
      y_dims[i] = random_between(1, round % 10 ? 6 : 11);
      bool whole = random_below(3), first = random_below(2);
      dims[0][i] = whole || first ? y_dims[i] : 1;
      dims[1][i] = whole || !first ? y_dims[i] : 1;
    }
    uint32_t shorter = random_below(2); /* leading dims of 1 may be absent from one operand of the
                                           test */
    while (drop[shorter] + 1 < rank && dims[shorter][drop[shorter]] == 1) {
      drop[shorter]++;
    }
    emu_tensor *in[2], *y = tensor(EMU_NATIVE, type, rank, y_dims);
    emu_node *n = node(binaries[op].type);
    for (int i = 0; i < 2; i++) {
      in[i] = tensor(EMU_NATIVE, type, rank - drop[i], dims[i] + drop[i]);
      fill(in[i], 3, 20);
      put(in[i], random_below((uint32_t)emu_elements(in[i])), INFINITY);
      input(n, in[i]);
    }
    output(n, y);
    run(n);
    for (uint64_t i = 0; i < emu_elements(y); i++) {
      expect(y, i,
             apply(binaries[op].sign, get(in[0], broadcast_index(in[0], y, i)),
                   get(in[1], broadcast_index(in[1], y, i))),
             binaries[op].type);
    }
    end();
  }
}

static void large_arithmetic_is_cut_into_tasks_without_a_trace(void) {
  begin();
  emu_tensor *a = tensor(EMU_NATIVE, EMU_F16, DIMS(1, 3, 90, 333));
  emu_tensor *b = tensor(EMU_NATIVE, EMU_F16, DIMS(1, 1, 90, 333));
  emu_tensor *y = like(a, EMU_NATIVE);
  emu_node *n = node("ElementWiseAdd");
  fill(a, 3, 0);
  fill(b, 3, 0);
  input(n, a);
  input(n, b);
  output(n, y);
  run(n);
  for (uint64_t i = 0; i < emu_elements(y); i++) {
    expect(y, i, get(a, i) + get(b, i % emu_elements(b)), "large Add");
  }
  end();
}

/* units returns the distance of the number `got` from the exact value in units of the last place of
 * f32. */
static double units(float got, double exact) {
  int exponent;
  if (exact == 0 || isinf((float)exact)) {
    return (double)got == (double)(float)exact ? 0 : INFINITY;
  }
  frexp(exact, &exponent);
  return fabs((double)got - exact) / ldexp(1, exponent < -125 ? -149 : exponent - 24);
}

static void the_exponential_is_right_within_two_units(void) {
  double worst = 0;
  for (uint32_t bits = 0; bits < 0x42d80000; bits += 0xbff5) { /* the values x go up to 108, with
                                                                  both signs */
    for (uint32_t sign = 0; sign < 2; sign++) {
      float x = emu_f32_of_bits(bits | sign << 31), y = x;
      emu_kernel()->exponentials(&y, 1, 0, 1);
      double error = units(y, exp((double)x));
      worst = error > worst ? error : worst;
      CHECK(error <= 2, "exp(%a) = %a is %g units off", (double)x, (double)y, error);
    }
  }
  printf("exp: at most %.3f units off\n", worst);
  static const float edges[][2] = {{0, 1},      {-0.0f, 1},       {-104.5f, 0},
                                   {-1e30f, 0}, {-INFINITY, 0},   {1e30f, INFINITY},
                                   {NAN, NAN},  {89.5f, INFINITY}};
  for (size_t i = 0; i < sizeof edges / sizeof *edges; i++) {
    float y = edges[i][0], want = edges[i][1];
    emu_kernel()->exponentials(&y, 1, 0, 1);
    CHECK(y == want || (y != y && want != want), "exp(%g) = %g", (double)edges[i][0],
          (double)y);
  }
}

static void sigmoid_is_right_within_three_units(void) {
  static const char *const types[] = {"Sigmoid", "ElementWiseNeuron"};
  for (int which = 0; which < 2; which++) {
    begin();
    emu_tensor *x = tensor(EMU_NATIVE, EMU_F32, DIMS(1, 40001)), *y = like(x, EMU_NATIVE);
    for (uint32_t i = 0; i < 40001; i++) {
      put(x, i, ((float)i - 20000) / 160);
    }
    emu_node *n = node(types[which]);
    input(n, x);
    output(n, y);
    if (which == 1) {
      scalar_u32(n, "operation", 6);
    }
    run(n);
    for (uint32_t i = 0; i < 40001; i++) {
      double v = (double)get(x, i), exact = v < 0 ? exp(v) / (1 + exp(v)) : 1 / (1 + exp(-v));
      double error = units(get(y, i), exact);
      CHECK(error <= 3, "sigmoid(%g) = %a is %g units off", v, (double)get(y, i), error);
    }
    end();
  }
}

static void neg_turns_the_sign_bit(void) {
  begin();
  emu_tensor *x = tensor(EMU_NATIVE, EMU_F16, DIMS(0xf802)), *y = like(x, EMU_NATIVE);
  for (uint32_t i = 0; i < 0xf802; i++) {
    ((uint16_t *)x->data)[i] = (uint16_t)(i <= 0x7c00 ? i : i + 0x3ff); /* all except NaNs */
  }
  emu_node *n = node("ElementWiseNeg");
  input(n, x);
  output(n, y);
  run(n);
  for (uint32_t i = 0; i < 0xf802; i++) {
    uint16_t want = ((uint16_t *)x->data)[i] ^ 0x8000, got = ((uint16_t *)y->data)[i];
    CHECK(got == want, "Neg: %04x, not %04x", got, want);
  }
  end();
}

/* nearest finds the f16 nearest to a value by search: slow, but without bit tricks. */
static uint16_t nearest(double value) {
  uint16_t low = 0, high = 0x7c00;
  double size = fabs(value);
  while (low + 1 < high) {
    uint16_t middle = (uint16_t)((low + high) / 2);
    if ((double)emu_f16_to_f32(middle) <= size) {
      low = middle;
    } else {
      high = middle;
    }
  }
  double above = high == 0x7c00 ? 65536 : (double)emu_f16_to_f32(high);
  double down = size - (double)emu_f16_to_f32(low), up = above - size;
  uint16_t result = up < down || (up == down && low % 2 == 1) ? high : low;
  return (uint16_t)(result | (signbit(value) ? 0x8000 : 0));
}

static void half_precision_rounds_to_nearest_even(void) {
  begin();
  emu_tensor *x = tensor(EMU_NATIVE, EMU_F32, DIMS(300000)), *y = tensor(3, EMU_F16, DIMS(300000));
  for (uint32_t i = 0; i < 300000; i++) {
    uint16_t h = (uint16_t)(random_below(0x7c01));
    float between = 0.5f * (emu_f16_to_f32(h) + emu_f16_to_f32((uint16_t)(h + (h < 0x7bff))));
    uint32_t bits = emu_bits_of_f32(between) + (i % 3 == 0 ? 0 : random_below(3) - 1);
    float value = i % 5 == 0 ? random_float(1e-6f) : emu_f32_of_bits(bits);
    put(x, i, i % 2 ? value : -value);
  }
  put(x, 0, 65519.996f);
  put(x, 1, 65520);
  emu_node *n = node("Cast");
  input(n, x);
  output(n, y);
  run(n);
  for (uint32_t i = 0; i < 300000; i++) {
    float v = get(x, i);
    uint16_t got = ((uint16_t *)y->data)[i];
    uint16_t want = isinf(v) ? (v > 0 ? 0x7c00 : 0xfc00) : nearest((double)v);
    CHECK(v != v || got == want, "f16 of %a is %04x, not %04x", (double)v, got, want);
    CHECK(emu_f32_to_f16(v) == got, "the kernel and the bit code differ at %a", (double)v);
  }
  end();
}

static void half_precision_widens_exactly(void) {
  begin();
  emu_tensor *x = tensor(EMU_NATIVE, EMU_F16, DIMS(65536)), *y = tensor(3, EMU_F32, DIMS(65536));
  emu_node *n = node("Cast");
  for (uint32_t i = 0; i < 65536; i++) {
    ((uint16_t *)x->data)[i] = (uint16_t)i;
  }
  input(n, x);
  output(n, y);
  run(n);
  for (uint32_t i = 0; i < 65536; i++) {
    int exponent = i >> 10 & 31, mantissa = i & 0x3ff;
    double size = exponent ? ldexp(1024 + mantissa, exponent - 25) : ldexp(mantissa, -24);
    float want = exponent < 31 ? (float)size : mantissa ? NAN : INFINITY;
    expect(y, i, i & 0x8000 ? -want : want, "f16 widened");
  }
  end();
}

static void integers_become_floats(void) {
  static const int32_t numbers[] = {0,     1,     -1,    2049,   2051,     -2049,     65504,
                                    65519, 65520, 70000, -70000, 16777217, INT32_MAX, INT32_MIN};
  for (int i = 0; i < 2; i++) {
    begin();
    uint32_t count = sizeof numbers / sizeof *numbers;
    emu_tensor *x = tensor(EMU_NATIVE, EMU_I32, DIMS(count));
    emu_tensor *y = tensor(EMU_NATIVE, float_types[i], DIMS(count));
    memcpy(x->data, numbers, sizeof numbers);
    emu_node *n = node("Cast");
    input(n, x);
    output(n, y);
    run(n);
    for (uint32_t j = 0; j < count; j++) {
      float want = (float)numbers[j];
      if (float_types[i] == EMU_F16) {
        bool over = abs(numbers[j] / 2) >= 65520 / 2;
        want = over ? (numbers[j] > 0 ? INFINITY : -INFINITY)
                      : emu_f16_to_f32(nearest((double)numbers[j]));
      }
      expect(y, j, want, "integer");
    }
    end();
  }
}

const test element_tests[] = {
    {"arithmetic_broadcasts_as_numpy_does", arithmetic_broadcasts_as_numpy_does},
    {"large_arithmetic_is_cut_into_tasks_without_a_trace",
     large_arithmetic_is_cut_into_tasks_without_a_trace},
    {"the_exponential_is_right_within_two_units", the_exponential_is_right_within_two_units},
    {"sigmoid_is_right_within_three_units", sigmoid_is_right_within_three_units},
    {"neg_turns_the_sign_bit", neg_turns_the_sign_bit},
    {"half_precision_rounds_to_nearest_even", half_precision_rounds_to_nearest_even},
    {"half_precision_widens_exactly", half_precision_widens_exactly},
    {"integers_become_floats", integers_become_floats},
    {NULL, NULL},
};

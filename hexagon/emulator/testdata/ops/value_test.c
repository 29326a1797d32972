/* value_test.c converts elements to floats and back, and checks Quantize, Dequantize, Convert and
 * Cast, which only do that.
 */
#include "harness.h"

static const uint32_t fixed_types[] = {EMU_QU8, EMU_QS8, EMU_QU16, EMU_QS16};

static emu_node *one(const char *type, emu_tensor *x, emu_tensor *y) {
  emu_node *n = node(type);
  input(n, x);
  output(n, y);
  return n;
}

static void every_integer_means_scale_times_its_distance(void) {
  for (int round = 0; round < 40; round++) {
    begin();
    uint32_t n = 65536, stride = random_between(1, 3);
    emu_tensor *t = tensor(EMU_NATIVE, fixed_types[random_below(4)], DIMS(n));
    for (uint32_t i = 0; i < n; i++) { /* all stored values */
      memcpy((char *)t->data + i * emu_dtype_size(t->dtype), &i, emu_dtype_size(t->dtype));
    }
    float *values = take(n * sizeof *values);
    uint32_t first = random_below(40), count = (n - first - 1) / stride + 1;
    emu_read(values, t, first, stride, count);
    for (uint32_t i = 0; i < count; i++) {
      CHECK(values[i] == (float)real(t, first + i * stride), "element %u reads %a",
            first + i * stride, (double)values[i]);
    }
    end();
  }
}

/* nearest returns the stored integer whose value is nearest to `exact` steps. In nearest, an exact
 * half rounds up, or away from zero. */
static double nearest_step(double steps, bool away) {
  double below = floor(steps), rest = steps - below;
  bool up = rest > 0.5 || (rest == 0.5 && (!away || steps > 0));
  return below + (up ? 1 : 0);
}

static void writing_rounds_to_the_nearest_and_saturates(void) {
  for (int round = 0; round < 80; round++) {
    begin();
    enum { COUNT = 2000 };
    uint32_t stride = random_between(1, 3);
    emu_tensor *t = tensor(EMU_NATIVE, fixed_types[random_below(4)], DIMS(COUNT * stride));
    bool away = random_below(2), exact = random_below(2);
    double low = t->dtype >> 8 == 3 ? -ldexp(1, (int)emu_dtype_size(t->dtype) * 8 - 1) : 0;
    double high = low + ldexp(1, (int)emu_dtype_size(t->dtype) * 8) - 1;
    if (exact) { /* with a power of two as the scale, halves are exact */
      encode(t, ldexpf(1, (int)random_between(0, 20) - 10), t->quant.offsets[0]);
    }
    double scale = (double)t->quant.scales[0], offset = t->quant.offsets[0];
    float *values = take(COUNT * sizeof *values);
    for (uint32_t i = 0; i < COUNT; i++) {
      double q =
          low + (double)random_below((uint32_t)(high - low + 40)) - 20 + random_below(3) * 0.5;
      values[i] = (float)((q + offset) * scale);
    }
    values[0] = NAN;
    values[1] = INFINITY;
    values[2] = -INFINITY;
    values[3] = 3e38f;
    emu_write(t, away ? EMU_TIES_AWAY : EMU_TIES_UP, 0, stride, values, COUNT);
    for (uint32_t i = 0; i < COUNT; i++) {
      double steps = (double)values[i] / scale, want = nearest_step(steps, away) - offset;
      want = values[i] != values[i] ? high : fmax(low, fmin(high, want));
      double got = (double)integer(t, i * stride);
      bool close = !exact && fabs(got - want) == 1 && fabs(steps - floor(steps) - 0.5) < 0.02;
      CHECK(got == want || close, "%a in steps of %g is %g, not %g", (double)values[i], scale,
            got, want);
    }
    end();
  }
}

static const char *conversion(uint32_t from, uint32_t to) {
  bool is_float[] = {from == EMU_F16 || from == EMU_F32, to == EMU_F16 || to == EMU_F32};
  if (is_float[0] && !is_float[1] && random_below(2)) {
    return "Quantize";
  }
  return !is_float[0] && is_float[1] && random_below(2) ? "Dequantize" : "Convert";
}

static void conversions_keep_what_is_meant(void) {
  static const uint32_t types[] = {EMU_F16, EMU_F32, EMU_QU8, EMU_QS8, EMU_QU16, EMU_QS16};
  for (int round = 0; round < 300; round++) {
    begin();
    emu_tensor *x = tensor(EMU_NATIVE, types[random_below(6)], DIMS(3, random_between(1, 700)));
    emu_tensor *y = tensor(EMU_NATIVE, types[random_below(6)], x->rank, x->dims);
    emu_node *n = one(conversion(x->dtype, y->dtype), x, y);
    fill(x, 12, 20);
    if (refusal(n) != NULL) { /* the list has types that the vendor's library does not validate */
      bool known = (x->dtype == EMU_F32 && y->dtype >> 8 == 3) || x->dtype >> 8 == 3;
      CHECK(known && strcmp(n->name, "Convert") == 0, "%s from %04x to %04x: %s", n->name, x->dtype,
            y->dtype, refusal(n));
      end();
      continue;
    }
    run(n);
    for (uint64_t i = 0; i < emu_elements(x); i++) {
      expect_near(y, i, real(x, i), 3e-7 * fabs(real(x, i)), n->name);
    }
    end();
  }
}

/* Exact halves: Quantize rounds floats away from zero, Convert rounds integers up. */
static void halves_go_the_vendors_way(void) {
  begin();
  emu_tensor *floats = tensor(EMU_NATIVE, EMU_F32, DIMS(41)),
             *halves = tensor(3, EMU_QS16, DIMS(41));
  emu_tensor *y = tensor(EMU_NATIVE, EMU_QS16, DIMS(41));
  encode(halves, 0.5f, 0);
  encode(y, 1, 3);
  for (int i = 0; i < 41; i++) {
    put(floats, (uint64_t)i, (float)(i - 20) / 2);
    ((int16_t *)halves->data)[i] = (int16_t)(i - 20);
  }
  for (int from_floats = 0; from_floats < 2; from_floats++) {
    run(one(from_floats ? "Quantize" : "Convert", from_floats ? floats : halves, y));
    for (int i = 0; i < 41; i++) {
      double x = (i - 20) / 2.0, want = from_floats ? round(x) : floor(x + 0.5);
      CHECK(real(y, (uint64_t)i) == want, "%g becomes %g, not %g", x, real(y, (uint64_t)i),
            want);
    }
  }
  end();
}

static void equal_encodings_convert_without_a_change(void) {
  begin();
  emu_tensor *x = tensor(EMU_NATIVE, EMU_QU16, DIMS(65536)), *y = like(x, EMU_NATIVE);
  for (uint32_t i = 0; i < 65536; i++) {
    ((uint16_t *)x->data)[i] = (uint16_t)i;
  }
  run(one("Convert", x, y));
  CHECK(memcmp(x->data, y->data, 65536 * 2) == 0, "Convert changed elements");
  end();
}

/* The operator Cast treats fixed point as integers; a cast to an integer drops the fraction. */
static void cast_changes_numbers(void) {
  static const uint32_t pairs[][2] = {
      {EMU_F16, EMU_F32}, {EMU_F32, EMU_F16},   {EMU_F16, EMU_I32},   {EMU_F32, EMU_I32},
      {EMU_I32, EMU_F16}, {EMU_I32, EMU_F32},   {EMU_I32, EMU_I32},   {EMU_U32, EMU_F32},
      {EMU_U32, EMU_I32}, {EMU_U32, EMU_U32},   {EMU_U8, EMU_F16},    {EMU_U8, EMU_I32},
      {EMU_U8, EMU_U32},  {EMU_BOOL8, EMU_F32}, {EMU_BOOL8, EMU_I32}, {EMU_QU8, EMU_F32},
      {EMU_QU8, EMU_I32}};
  for (size_t p = 0; p < sizeof pairs / sizeof *pairs; p++) {
    begin();
    emu_tensor *x = tensor(EMU_NATIVE, pairs[p][0], DIMS(1500));
    emu_tensor *y = tensor(EMU_NATIVE, pairs[p][1], DIMS(1500));
    bool to_float = y->dtype == EMU_F16 || y->dtype == EMU_F32;
    fill(x, 3000, 9);
    if (x->dtype == EMU_I32 && y->dtype == EMU_F16) {
      for (uint32_t i = 0; i < 1500; i++) {
        ((int32_t *)x->data)[i] %= 60000;
      }
    }
    run(one("Cast", x, y));
    for (uint64_t i = 0; i < 1500; i++) {
      bool is_float = x->dtype == EMU_F16 || x->dtype == EMU_F32;
      double number = is_float ? real(x, i) : (double)integer(x, i);
      if (to_float) {
        expect_near(y, i, number, 0, "Cast");
      } else { /* the same 32 bits are read as signed or unsigned */
        CHECK((uint32_t)integer(y, i) == (uint32_t)(int64_t)trunc(number), "Cast of %g gives %lld",
              number, (long long)integer(y, i));
      }
    }
    end();
  }
}

static void floats_beyond_an_integer_cast_to_the_nearest(void) {
  static const float from[] = {NAN,   INFINITY,   -INFINITY,      3e9f,
                               -3e9f, 2147483520, -2147483648.0f, -0.9f};
  static const int32_t to[] = {0,         INT32_MAX,  INT32_MIN, INT32_MAX,
                               INT32_MIN, 2147483520, INT32_MIN, 0};
  begin();
  emu_tensor *x = tensor(EMU_NATIVE, EMU_F32, DIMS(8)), *y = tensor(EMU_NATIVE, EMU_I32, DIMS(8));
  memcpy(x->data, from, sizeof from);
  run(one("Cast", x, y));
  for (int i = 0; i < 8; i++) {
    CHECK(((int32_t *)y->data)[i] == to[i], "%g casts to %d", (double)from[i],
          ((int32_t *)y->data)[i]);
  }
  end();
}

static void what_has_no_single_scale_is_refused(void) {
  begin();
  emu_tensor *x = tensor(EMU_NATIVE, EMU_F32, DIMS(4)), *y = tensor(EMU_NATIVE, EMU_QU8, DIMS(4));
  emu_node *n = one("Quantize", x, y);
  CHECK(refusal(n) == NULL, "refused: %s", refusal(n));
  static const struct {
    emu_quant quant;
    const char *reason;
  } cases[] = {
      {{.encoding = EMU_Q_NONE}, "without a single scale"},
      {{.encoding = EMU_Q_AXIS_SCALE_OFFSET, .count = 4}, "without a single scale"},
      {{.encoding = EMU_Q_SCALE_OFFSET, .count = 0}, "without a single scale"},
      {{.encoding = EMU_Q_BW_SCALE_OFFSET, .count = 1, .bitwidth = 4}, "uses 4 bits of 8"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    y->quant = cases[i].quant;
    CHECK(refusal(n) != NULL && strstr(refusal(n), cases[i].reason), "case %zu: %s", i, refusal(n));
  }
  encode(y, 1, (1 << 22) + 1);
  CHECK(refusal(n) != NULL && strstr(refusal(n), "not within +-2^22"), "offset: %s", refusal(n));
  encode(y, 1, 1 << 22);
  CHECK(refusal(n) == NULL, "refused: %s", refusal(n));
  run(n);
  end();
}

const test value_tests[] = {
    {"every_integer_means_scale_times_its_distance", every_integer_means_scale_times_its_distance},
    {"writing_rounds_to_the_nearest_and_saturates", writing_rounds_to_the_nearest_and_saturates},
    {"conversions_keep_what_is_meant", conversions_keep_what_is_meant},
    {"halves_go_the_vendors_way", halves_go_the_vendors_way},
    {"equal_encodings_convert_without_a_change", equal_encodings_convert_without_a_change},
    {"cast_changes_numbers", cast_changes_numbers},
    {"floats_beyond_an_integer_cast_to_the_nearest", floats_beyond_an_integer_cast_to_the_nearest},
    {"what_has_no_single_scale_is_refused", what_has_no_single_scale_is_refused},
    {NULL, NULL},
};

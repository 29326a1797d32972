/* broadcast_test.c compares broadcasting operators of every type with a formula in double. */
#include "harness.h"

static const uint32_t types[] = {EMU_F16, EMU_F32, EMU_QU8, EMU_QS8, EMU_QU16, EMU_QS16, EMU_I32};
enum { ARITHMETIC = 6, SELECTED = 7 };

static const struct {
  const char *type;
  int operation; /* operation is the value of ElementWiseBinary's parameter operation */
  char sign;
} binaries[] = {{"ElementWiseAdd", 0, '+'},
                {"ElementWiseSubtract", 18, '-'},
                {"ElementWiseMultiply", 13, '*'},
                {"ElementWiseDivide", 2, '/'},
                {NULL, 10, '>'},
                {NULL, 11, '<'}};

static double apply(char sign, double a, double b) {
  switch (sign) {
  case '+':
    return a + b;
  case '-':
    return a - b;
  case '*':
    return a * b;
  case '/':
    return a / b;
  case '>':
    return fmax(a, b);
  default:
    return fmin(a, b);
  }
}

/* operand returns a tensor that broadcasts to y: some dims are 1, and leading ones may be
 * absent. */
static emu_tensor *operand(const emu_tensor *y, uint32_t type, bool whole) {
  uint32_t dims[5], drop = 0;
  for (uint32_t i = 0; i < y->rank; i++) {
    dims[i] = whole || random_below(3) ? y->dims[i] : 1;
  }
  while (!whole && random_below(2) && drop + 1 < y->rank && dims[drop] == 1) {
    drop++;
  }
  return tensor(EMU_NATIVE, type, y->rank - drop, dims + drop);
}

static emu_tensor *random_output(uint32_t type, uint32_t most) {
  uint32_t dims[5], rank = random_between(1, 5);
  for (uint32_t i = 0; i < rank; i++) {
    dims[i] = random_between(1, most);
  }
  return tensor(EMU_NATIVE, type, rank, dims);
}

static void arithmetic_in_every_type(void) {
  for (int round = 0; round < 400; round++) {
    begin();
    uint32_t which = random_below(6), type = types[random_below(ARITHMETIC)];
    bool by_number = binaries[which].type == NULL || random_below(2), first = random_below(2);
    emu_tensor *y = span(random_output(type, round % 10 ? 6 : 13), -20, 20);
    emu_tensor *in[] = {operand(y, type, first), operand(y, type, !first)};
    emu_node *n = node(by_number ? "ElementWiseBinary" : binaries[which].type);
    for (int i = 0; i < 2; i++) {
      fill(span(in[i], -4, 5), 4, 0);
      input(n, in[i]);
    }
    if (by_number) {
      scalar_u32(n, "operation", (uint32_t)binaries[which].operation);
    }
    output(n, y);
    run(n);
    for (uint64_t i = 0; i < emu_elements(y); i++) {
      double a = real(in[0], broadcast_index(in[0], y, i));
      double b = real(in[1], broadcast_index(in[1], y, i));
      double exact = apply(binaries[which].sign, a, b);
      if (isfinite(exact) && fabs(exact) < 60000) {
        expect_near(y, i, exact, 3e-7 * (fabs(a) + fabs(b) + fabs(exact)), n->name);
      } else { /* a division by zero */
        bool saturated = !emu_is_fixed_point(type) || exact != exact || fabs(real(y, i)) >= 19.9;
        CHECK(saturated, "%g %c %g is %g", a, binaries[which].sign, b, real(y, i));
      }
    }
    end();
  }
}

static void select_takes_one_or_the_other(void) {
  for (int round = 0; round < 200; round++) {
    begin();
    uint32_t type = types[random_below(SELECTED)], whole = random_below(3);
    emu_tensor *y = random_output(type, 7), *condition = operand(y, EMU_BOOL8, whole == 0);
    emu_tensor *a = operand(y, type, whole == 1), *b = operand(y, type, whole == 2);
    emu_node *n = node("ElementWiseSelect");
    if (random_below(2)) { /* if encodings are equal, elements are copied unchanged */
      a->quant = b->quant = y->quant;
    }
    fill(a, 5, 0);
    fill(b, 5, 0);
    for (uint64_t i = 0; i < emu_elements(condition); i++) {
      ((uint8_t *)condition->data)[i] = (uint8_t)(random_below(2) * random_between(1, 255));
    }
    input(n, condition);
    input(n, a);
    input(n, b);
    output(n, y);
    run(n);
    for (uint64_t i = 0; i < emu_elements(y); i++) {
      bool yes = ((uint8_t *)condition->data)[broadcast_index(condition, y, i)] != 0;
      const emu_tensor *x = yes ? a : b;
      double exact = real(x, broadcast_index(x, y, i));
      bool moved = !emu_is_fixed_point(type) || x->quant.scales == y->quant.scales;
      if (moved) {
        CHECK(real(y, i) == exact, "Select: %g, not %g", real(y, i), exact);
      } else {
        expect_near(y, i, exact, 3e-7 * fabs(exact), "Select");
      }
    }
    end();
  }
}

static void broadcasts_that_do_not_fit_are_refused(void) {
  begin();
  emu_node *n = node("ElementWiseSelect");
  emu_tensor *a = tensor(EMU_NATIVE, EMU_F16, DIMS(2, 3)),
             *b = tensor(EMU_NATIVE, EMU_F16, DIMS(3));
  emu_tensor *condition = tensor(EMU_NATIVE, EMU_BOOL8, DIMS(2, 1)), *y = like(a, EMU_NATIVE);
  input(n, condition);
  input(n, a);
  input(n, b);
  output(n, y);
  CHECK(refusal(n) == NULL, "refused: %s", refusal(n));
  condition->dtype = EMU_U8;
  CHECK(refusal(n) && strstr(refusal(n), "UINT_8, which is not"), "%s", refusal(n));
  condition->dtype = EMU_BOOL8;
  condition->dims[0] = 3;
  CHECK(refusal(n) && strstr(refusal(n), "dimension 0"), "%s", refusal(n));
  condition->dims[0] = 2;
  b->dtype = EMU_F32;
  CHECK(refusal(n) && strstr(refusal(n), "FLOAT_32, but"), "%s", refusal(n));
  n = node("ElementWiseBinary");
  input(n, a);
  input(n, a);
  output(n, y);
  scalar_u32(n, "operation", 13);
  CHECK(refusal(n) == NULL, "refused: %s", refusal(n));
  for (uint32_t operation = 0; operation < 30; operation++) {
    n->params[0].scalar.u32 = operation;
    bool known = false;
    for (int i = 0; i < 6; i++) {
      known = known || binaries[i].operation == (int)operation;
    }
    CHECK((refusal(n) == NULL) == known, "operation %u: %s", operation, refusal(n));
  }
  end();
}

const test broadcast_tests[] = {
    {"arithmetic_in_every_type", arithmetic_in_every_type},
    {"select_takes_one_or_the_other", select_takes_one_or_the_other},
    {"broadcasts_that_do_not_fit_are_refused", broadcasts_that_do_not_fit_are_refused},
    {NULL, NULL},
};

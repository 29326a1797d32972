/* main.c of the benchmark measures the speed of the operators, as shares of this machine's peak
 * speed, which the same run measures. Output lines of the benchmark with three words are "name
 * value unit"; a table of the layers follows.
 *
 *   bench              everything
 *   bench peaks        the machine's figures alone
 *   bench layers       the table
 *   bench layers f16   its rows of one type
 *
 */
#include "bench.h"

static void attention(uint32_t rows, uint32_t used) {
  const uint32_t type = EMU_F16;
  enum { SLOTS = 2176 };
  char name[64];
  emu_tensor *q = tensor(EMU_NATIVE, type, 1, 3, rows, 64), *k = tensor(EMU_NATIVE, type, 1, 3, SLOTS, 64);
  emu_tensor *scores = tensor(EMU_NATIVE, type, 1, 3, rows, SLOTS), *p = tensor(3, type, 1, 3, rows, SLOTS);
  bench *qk = make("MatMul", q, k, scores);
  flag(qk, "transpose_in1", true);
  snprintf(name, sizeof name, "scores_%u_rows", rows);
  report(name, qk);
  for (uint64_t i = 0; i < emu_elements(scores); i++) {
    emu_put(scores->data, i, true, i % SLOTS < used ? (float)(i % 7) : -30000);
  }
  snprintf(name, sizeof name, "softmax_%u_rows_%u_used", rows, used);
  report(name, make("Softmax", scores, NULL, p));
  snprintf(name, sizeof name, "values_%u_rows_%u_used", rows, used);
  report(name, make("MatMul", p, k, q));
  snprintf(name, sizeof name, "add_mask_%u_rows", rows);
  report(name, make("ElementWiseAdd", scores, tensor(3, type, 1, 1, rows, SLOTS), p));
}

int main(int argc, char **argv) {
  const char *part = argc > 1 ? argv[1] : "";
  peaks p = measure_peaks();
  if (strcmp(part, "peaks") == 0) {
    return 0;
  }
  if (strcmp(part, "layers") != 0) {
    attention(3, 300);
    attention(3, 2176);
    attention(384, 300);
    attention(384, 2176);
  }
  bench_layers(&p, argc > 2 ? argv[2] : "");
  return 0;
}

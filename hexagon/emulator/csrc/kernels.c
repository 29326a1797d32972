/* kernels.c: which code path runs. Chosen once: the best one that this machine
 * has, or the one that SDNPU_EMULATOR=cpu=NAME asks for if the machine has it. */
#include "kernels.h"

#include <pthread.h>
#include <string.h>

#include "emu.h"
#include "settings.h"

static const emu_kernels *chosen;
static pthread_once_t once = PTHREAD_ONCE_INIT;

#if defined(__x86_64__)
static bool has_avx2(void) {
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
         __builtin_cpu_supports("f16c");
}

enum { PROBE_ROWS = EMU_BLOCK_ROWS, PROBE_K = 24, PROBE_COLUMNS = 141 };

/* probe runs the kernels that differ most between the paths on made-up numbers. */
static void probe(const emu_kernels *kernels, unsigned char *result) {
  enum { PANELS = (PROBE_COLUMNS + EMU_LANES - 1) / EMU_LANES };
  float a[PROBE_ROWS * PROBE_K], wide[PANELS * PROBE_K * EMU_LANES];
  uint16_t w[PANELS * PROBE_K * EMU_LANES], *out = (uint16_t *)result;
  uint32_t state = 1;
  for (size_t i = 0; i < sizeof a / sizeof *a; i++) {
    state = state * 1664525 + 1013904223;
    a[i] = (float)(int32_t)state * 0x1p-31f;
  }
  for (size_t i = 0; i < sizeof wide / sizeof *wide; i++) {
    state = state * 1664525 + 1013904223;
    wide[i] = (float)(int32_t)state * 0x1p-29f;
  }
  kernels->narrow(w, wide, sizeof wide / sizeof *wide, true);
  for (uint32_t rows = 1; rows <= PROBE_ROWS; rows++) {
    emu_block b = {.a = a, .a_stride = PROBE_K, .rows = rows, .k = PROBE_K, .w = w,
                   .k_stride = EMU_LANES, .panel_stride = PROBE_K * EMU_LANES, .out = out,
                   .out_stride = PROBE_COLUMNS, .columns = PROBE_COLUMNS, .weight = EMU_W_F16,
                   .half = true};
    kernels->block(&b);
    out += rows * PROBE_COLUMNS;
  }
  kernels->unary(EMU_SIGMOID, out, w, PROBE_COLUMNS, true);
}

enum { PROBE_SIZE = (1 + 2 + 3 + 4 + 5 + 6 + 1) * PROBE_COLUMNS * 2 };

static bool avx512_agrees(void) {
  unsigned char expected[PROBE_SIZE], got[PROBE_SIZE];
  probe(&emu_kernels_avx2, expected);
  probe(&emu_kernels_avx512, got);
  return memcmp(expected, got, PROBE_SIZE) == 0;
}

static bool has_avx512(void) {
  return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
         avx512_agrees();
}
#endif

static const emu_kernels *find(const char *name) {
#if defined(__x86_64__)
  if (strcmp(name, "avx512") == 0 && has_avx512()) {
    return &emu_kernels_avx512;
  }
  if (strcmp(name, "avx2") == 0 && has_avx2()) {
    return &emu_kernels_avx2;
  }
#endif
  return strcmp(name, "c") == 0 ? &emu_kernels_c : NULL;
}

static void choose(void) {
  static const char *const best_first[] = {"avx512", "avx2", "c"};
  char name[16];
  if (emu_setting("cpu", name, sizeof name)) {
    chosen = find(name);
  }
  for (size_t i = 0; chosen == NULL; i++) {
    chosen = find(best_first[i]);
  }
}

const emu_kernels *emu_kernel(void) {
  pthread_once(&once, choose);
  return chosen;
}

const char *emu_code_path(void) { return emu_kernel()->name; }

int emu_select_code_path(const char *name) {
  const emu_kernels *kernels = find(name);
  pthread_once(&once, choose);
  if (kernels == NULL) {
    return 1;
  }
  chosen = kernels;
  return 0;
}

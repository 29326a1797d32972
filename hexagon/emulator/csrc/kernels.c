/* kernels.c: which code path runs. Chosen once: the best one that this machine
 * has, or the one that SDNPU_EMULATOR=cpu=NAME asks for if the machine has it. */
#include "kernels.h"

#include <pthread.h>
#include <string.h>

#if defined(__aarch64__)
#include <sys/auxv.h>
#endif

#include "emu.h"
#include "settings.h"

static const emu_kernels *chosen;
static pthread_once_t once = PTHREAD_ONCE_INIT;

#if defined(__x86_64__) || defined(__aarch64__)
enum { PROBE_ROWS = EMU_BLOCK_ROWS, PROBE_K = 24, PROBE_COLUMNS = 141 };
enum { PROBE_PANELS = (PROBE_COLUMNS + EMU_LANES - 1) / EMU_LANES };
enum { PROBE_SIZE = (1 + 2 + 3 + 4 + 5 + 6 + 1 + PROBE_ROWS) * PROBE_COLUMNS * 2 };

static uint32_t probe_state;

static int32_t made_up(void) {
  probe_state = probe_state * 1664525 + 1013904223;
  return (int32_t)probe_state;
}

static void probe_wholes(const emu_kernels *kernels, void *out) {
  int16_t a[PROBE_ROWS * PROBE_K];
  int8_t w[PROBE_PANELS * PROBE_K * EMU_LANES];
  double base[PROBE_PANELS * EMU_LANES], scale[PROBE_PANELS * EMU_LANES];
  for (size_t i = 0; i < sizeof a / sizeof *a; i++) {
    a[i] = (int16_t)(made_up() >> 16);
  }
  for (size_t i = 0; i < sizeof w; i++) {
    w[i] = (int8_t)(made_up() >> 24);
  }
  for (size_t i = 0; i < sizeof base / sizeof *base; i++) {
    base[i] = made_up() >> 17;
    scale[i] = made_up() * 0x1p-42;
  }
  emu_int_block b = {.a = a, .a_stride = PROBE_K, .rows = PROBE_ROWS, .steps = PROBE_K / 2, .chunk = 5,
                     .w = w, .plane_stride = PROBE_K * EMU_LANES, .planes = 1,
                     .scale = scale, .add = base, .out = out, .out_stride = PROBE_COLUMNS,
                     .columns = PROBE_COLUMNS, .type = EMU_WHOLE_U16};
  kernels->int_block(&b);
}

/* probe runs the kernels that differ most between the paths on made-up numbers. */
static void probe(const emu_kernels *kernels, unsigned char *result) {
  float a[PROBE_ROWS * PROBE_K], wide[PROBE_PANELS * PROBE_K * EMU_LANES];
  uint16_t w[PROBE_PANELS * PROBE_K * EMU_LANES], *out = (uint16_t *)result;
  probe_state = 1;
  for (size_t i = 0; i < sizeof a / sizeof *a; i++) {
    a[i] = (float)made_up() * 0x1p-31f;
  }
  for (size_t i = 0; i < sizeof wide / sizeof *wide; i++) {
    wide[i] = (float)made_up() * 0x1p-29f;
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
  probe_wholes(kernels, out + PROBE_COLUMNS);
}

static bool agree(const emu_kernels *a, const emu_kernels *b) {
  unsigned char expected[PROBE_SIZE], got[PROBE_SIZE];
  probe(a, expected);
  probe(b, got);
  return memcmp(expected, got, PROBE_SIZE) == 0;
}
#endif

/* find returns the code path of this name if this machine has it. */
static const emu_kernels *find(const char *name) {
#if defined(__x86_64__)
  bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
              __builtin_cpu_supports("f16c");
  if (strcmp(name, "avx512") == 0 && avx2 && __builtin_cpu_supports("avx512f") &&
      __builtin_cpu_supports("avx512dq") && agree(&emu_kernels_avx2, &emu_kernels_avx512)) {
    return &emu_kernels_avx512;
  }
  if (strcmp(name, "avx2") == 0 && avx2) {
    return &emu_kernels_avx2;
  }
#elif defined(__aarch64__)
  bool neon = (getauxval(AT_HWCAP) & HWCAP_ASIMD) != 0;
  if (strcmp(name, "neon") == 0 && neon && agree(&emu_kernels_c, &emu_kernels_neon)) {
    return &emu_kernels_neon;
  }
#endif
  return strcmp(name, "c") == 0 ? &emu_kernels_c : NULL;
}

static void choose(void) {
  static const char *const best_first[] = {"avx512", "avx2", "neon", "c"};
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

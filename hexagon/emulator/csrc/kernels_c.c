/* kernels_c.c: 16 lanes in plain C, the path that every machine has. */
#include <math.h>

#include "f16.h"
#include "kernels.h"

#define KERNEL static
#define LANE static inline
#define KERNELS_NAME "c"
#define KERNELS emu_kernels_c
#define WIDE_TILES(T)

typedef struct {
  float f[EMU_LANES];
} v16;

#define EACH_LANE for (int l = 0; l < EMU_LANES; l++)

LANE v16 v_set1(float x) {
  v16 r;
  EACH_LANE r.f[l] = x;
  return r;
}

LANE v16 v_load_s(const float *p) {
  v16 r;
  memcpy(r.f, p, sizeof r.f);
  return r;
}

LANE void v_store_s(float *p, v16 a) { memcpy(p, a.f, sizeof a.f); }

LANE v16 v_load_h(const uint16_t *p) {
  v16 r;
  EACH_LANE r.f[l] = emu_f16_to_f32(p[l]);
  return r;
}

LANE void v_store_h(uint16_t *p, v16 a) { EACH_LANE p[l] = emu_f32_to_f16(a.f[l]); }

#define LANE_BINARY(NAME, EXPRESSION)                                                              \
  LANE v16 NAME(v16 a, v16 b) {                                                                    \
    v16 r;                                                                                         \
    EACH_LANE r.f[l] = EXPRESSION;                                                                 \
    return r;                                                                                      \
  }

LANE_BINARY(v_add, a.f[l] + b.f[l])
LANE_BINARY(v_sub, a.f[l] - b.f[l])
LANE_BINARY(v_mul, a.f[l] * b.f[l])
LANE_BINARY(v_div, a.f[l] / b.f[l])
/* As the x86 instructions: b where either is NaN. */
LANE_BINARY(v_max, a.f[l] > b.f[l] ? a.f[l] : b.f[l])
LANE_BINARY(v_min, a.f[l] < b.f[l] ? a.f[l] : b.f[l])
LANE_BINARY(v_xor, emu_f32_of_bits(emu_bits_of_f32(a.f[l]) ^ emu_bits_of_f32(b.f[l])))
LANE_BINARY(v_or, emu_f32_of_bits(emu_bits_of_f32(a.f[l]) | emu_bits_of_f32(b.f[l])))

LANE v16 v_fma(v16 a, v16 b, v16 c) {
  v16 r;
  EACH_LANE r.f[l] = fmaf(a.f[l], b.f[l], c.f[l]);
  return r;
}

LANE v16 v_if_negative(v16 x, v16 yes, v16 no) {
  v16 r;
  EACH_LANE r.f[l] = x.f[l] < 0 ? yes.f[l] : no.f[l];
  return r;
}

LANE v16 v_scale(v16 a, v16 shifted) {
  v16 r;
  EACH_LANE {
    int32_t n = (int32_t)(emu_bits_of_f32(shifted.f[l]) - 0x4b400000u);
    int32_t half = n >> 1;
    float first = emu_f32_of_bits((uint32_t)(half + 127) << 23);
    r.f[l] = a.f[l] * first * emu_f32_of_bits((uint32_t)(n - half + 127) << 23);
  }
  return r;
}

#define LANE_MASK(NAME, ARGUMENTS, CONDITION)                                                      \
  LANE uint32_t NAME ARGUMENTS {                                                                   \
    uint32_t mask = 0;                                                                             \
    EACH_LANE mask |= (uint32_t)(CONDITION) << l;                                                  \
    return mask;                                                                                   \
  }

LANE_MASK(v_not_zero, (v16 a), a.f[l] != 0)
LANE_MASK(v_is_nan, (v16 a), a.f[l] != a.f[l])
LANE_MASK(v_below, (v16 a, v16 b), a.f[l] < b.f[l])

#include "kernels_impl.h"

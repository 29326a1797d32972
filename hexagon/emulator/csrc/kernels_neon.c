/* kernels_neon.c: 16 lanes as four NEON registers. Every 64-bit Arm has them; f16 is only
 * converted, never computed with. Compared with plain C when the library is loaded (kernels.c),
 * used only if they agree. */
#include "kernels.h"

#if defined(__aarch64__)
#include <arm_neon.h>
#include <string.h>

#include "f16.h"

#define KERNEL static
#define LANE static inline __attribute__((always_inline))
#define KERNELS_NAME "neon"
#define KERNELS emu_kernels_neon
/* 32 registers: 16 or 24 sums, and the weights. */
#define WIDE_TILES(T) T(1, 4) T(2, 2)
#define INT_WIDE_TILES(T) T(1, 2) T(2, 2)

#define EACH_QUARTER for (int q = 0; q < 4; q++)
#define EACH_EIGHTH for (int e = 0; e < 8; e++)

typedef struct {
  float32x4_t v[4];
} v16;

LANE v16 v_set1(float x) {
  v16 r;
  EACH_QUARTER r.v[q] = vdupq_n_f32(x);
  return r;
}

LANE v16 v_load_s(const float *p) {
  v16 r;
  EACH_QUARTER r.v[q] = vld1q_f32(p + 4 * q);
  return r;
}

LANE void v_store_s(float *p, v16 a) { EACH_QUARTER vst1q_f32(p + 4 * q, a.v[q]); }

LANE v16 v_load_h(const uint16_t *p) {
  v16 r;
  EACH_QUARTER r.v[q] = vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(p + 4 * q)));
  return r;
}

LANE v16 v_load_b(const int8_t *p) {
  int8x16_t bytes = vld1q_s8(p);
  int16x8_t low = vmovl_s8(vget_low_s8(bytes)), high = vmovl_s8(vget_high_s8(bytes));
  v16 r = {{vcvtq_f32_s32(vmovl_s16(vget_low_s16(low))), vcvtq_f32_s32(vmovl_s16(vget_high_s16(low))),
            vcvtq_f32_s32(vmovl_s16(vget_low_s16(high))),
            vcvtq_f32_s32(vmovl_s16(vget_high_s16(high)))}};
  return r;
}

LANE void v_store_h(uint16_t *p, v16 a) {
  EACH_QUARTER vst1_u16(p + 4 * q, vreinterpret_u16_f16(vcvt_f16_f32(a.v[q])));
}

#define LANE_BINARY(NAME, EXPRESSION)                                                              \
  LANE v16 NAME(v16 a, v16 b) {                                                                    \
    v16 r;                                                                                         \
    EACH_QUARTER r.v[q] = EXPRESSION;                                                              \
    return r;                                                                                      \
  }

#define BITS(x) vreinterpretq_u32_f32(x)
#define FLOATS(x) vreinterpretq_f32_u32(x)

LANE_BINARY(v_add, vaddq_f32(a.v[q], b.v[q]))
LANE_BINARY(v_sub, vsubq_f32(a.v[q], b.v[q]))
LANE_BINARY(v_mul, vmulq_f32(a.v[q], b.v[q]))
LANE_BINARY(v_div, vdivq_f32(a.v[q], b.v[q]))
/* As the x86 instructions: b where either is NaN. */
LANE_BINARY(v_max, vbslq_f32(vcgtq_f32(a.v[q], b.v[q]), a.v[q], b.v[q]))
LANE_BINARY(v_min, vbslq_f32(vcltq_f32(a.v[q], b.v[q]), a.v[q], b.v[q]))
LANE_BINARY(v_xor, FLOATS(veorq_u32(BITS(a.v[q]), BITS(b.v[q]))))
LANE_BINARY(v_or, FLOATS(vorrq_u32(BITS(a.v[q]), BITS(b.v[q]))))

LANE v16 v_fma(v16 a, v16 b, v16 c) {
  v16 r;
  EACH_QUARTER r.v[q] = vfmaq_f32(c.v[q], a.v[q], b.v[q]);
  return r;
}

LANE v16 v_if_negative(v16 x, v16 yes, v16 no) {
  v16 r;
  EACH_QUARTER r.v[q] = vbslq_f32(vcltzq_f32(x.v[q]), yes.v[q], no.v[q]);
  return r;
}

LANE v16 v_scale(v16 a, v16 shifted) {
  v16 r;
  const int32x4_t bias = vdupq_n_s32(127);
  EACH_QUARTER {
    int32x4_t n = vsubq_s32(vreinterpretq_s32_f32(shifted.v[q]), vdupq_n_s32(0x4b400000));
    int32x4_t half = vshrq_n_s32(n, 1), rest = vsubq_s32(n, half);
    float32x4_t first = vreinterpretq_f32_s32(vshlq_n_s32(vaddq_s32(half, bias), 23));
    float32x4_t second = vreinterpretq_f32_s32(vshlq_n_s32(vaddq_s32(rest, bias), 23));
    r.v[q] = vmulq_f32(vmulq_f32(a.v[q], first), second);
  }
  return r;
}

LANE uint32_t v_mask(const uint32x4_t *lanes) {
  static const uint32_t place[4] = {1, 2, 4, 8};
  uint32_t mask = 0;
  EACH_QUARTER mask |= vaddvq_u32(vandq_u32(lanes[q], vld1q_u32(place))) << (4 * q);
  return mask;
}

LANE uint32_t v_not_zero(v16 a) {
  uint32x4_t lanes[4];
  EACH_QUARTER lanes[q] = vmvnq_u32(vceqzq_f32(a.v[q]));
  return v_mask(lanes);
}

LANE uint32_t v_is_nan(v16 a) {
  uint32x4_t lanes[4];
  EACH_QUARTER lanes[q] = vmvnq_u32(vceqq_f32(a.v[q], a.v[q]));
  return v_mask(lanes);
}

LANE uint32_t v_below(v16 a, v16 b) {
  uint32x4_t lanes[4];
  EACH_QUARTER lanes[q] = vcltq_f32(a.v[q], b.v[q]);
  return v_mask(lanes);
}

/* ---- whole numbers, and f64 for their sums ---- */

typedef struct {
  int32x4_t v[4];
} i16;

/* The first and the second term of each pair. */
typedef struct {
  int16x4_t first[4], second[4];
} pairs;

typedef struct {
  float64x2_t v[8];
} d16;

LANE i16 i_zero(void) {
  i16 r;
  EACH_QUARTER r.v[q] = vdupq_n_s32(0);
  return r;
}

LANE i16 i_load(const int32_t *p) {
  i16 r;
  EACH_QUARTER r.v[q] = vld1q_s32(p + 4 * q);
  return r;
}

LANE void i_store(int32_t *p, i16 a) { EACH_QUARTER vst1q_s32(p + 4 * q, a.v[q]); }

LANE void p_widen(int16x4_t *out, int8x16_t bytes) {
  int16x8_t low = vmovl_s8(vget_low_s8(bytes)), high = vmovl_s8(vget_high_s8(bytes));
  out[0] = vget_low_s16(low);
  out[1] = vget_high_s16(low);
  out[2] = vget_low_s16(high);
  out[3] = vget_high_s16(high);
}

LANE pairs p_load(const int8_t *p) {
  pairs r;
  int8x16x2_t both = vld2q_s8(p);
  p_widen(r.first, both.val[0]);
  p_widen(r.second, both.val[1]);
  return r;
}

LANE pairs p_repeat(const int16_t *p) {
  pairs r;
  EACH_QUARTER {
    r.first[q] = vld1_dup_s16(p);
    r.second[q] = vld1_dup_s16(p + 1);
  }
  return r;
}

LANE i16 i_add_products(i16 sum, pairs a, pairs b) {
  EACH_QUARTER {
    sum.v[q] = vmlal_s16(sum.v[q], a.first[q], b.first[q]);
    sum.v[q] = vmlal_s16(sum.v[q], a.second[q], b.second[q]);
  }
  return sum;
}

/* i_narrow writes the low `size` bytes of each lane, 1 or 2; the values fit. */
LANE void i_narrow(void *dst, i16 a, size_t size) {
  int16x8_t low = vcombine_s16(vmovn_s32(a.v[0]), vmovn_s32(a.v[1]));
  int16x8_t high = vcombine_s16(vmovn_s32(a.v[2]), vmovn_s32(a.v[3]));
  if (size == 2) {
    vst1q_u8(dst, vreinterpretq_u8_s16(low));
    vst1q_u8((uint8_t *)dst + 16, vreinterpretq_u8_s16(high));
  } else {
    vst1q_s8(dst, vcombine_s8(vmovn_s16(low), vmovn_s16(high)));
  }
}

LANE d16 d_set1(double x) {
  d16 r;
  EACH_EIGHTH r.v[e] = vdupq_n_f64(x);
  return r;
}

LANE d16 d_load(const double *p) {
  d16 r;
  EACH_EIGHTH r.v[e] = vld1q_f64(p + 2 * e);
  return r;
}

LANE void d_store(double *p, d16 a) { EACH_EIGHTH vst1q_f64(p + 2 * e, a.v[e]); }

LANE d16 d_of_i(i16 a) {
  d16 r;
  EACH_QUARTER {
    r.v[2 * q] = vcvtq_f64_s64(vmovl_s32(vget_low_s32(a.v[q])));
    r.v[2 * q + 1] = vcvtq_f64_s64(vmovl_s32(vget_high_s32(a.v[q])));
  }
  return r;
}

/* The lanes are whole and fit 32 bits. */
LANE i16 i_of_d(d16 a) {
  i16 r;
  EACH_QUARTER {
    r.v[q] = vcombine_s32(vmovn_s64(vcvtq_s64_f64(a.v[2 * q])), vmovn_s64(vcvtq_s64_f64(a.v[2 * q + 1])));
  }
  return r;
}

#define LANE_DOUBLE(NAME, INTRINSIC)                                                               \
  LANE d16 NAME(d16 a, d16 b) {                                                                    \
    EACH_EIGHTH a.v[e] = INTRINSIC(a.v[e], b.v[e]);                                                \
    return a;                                                                                      \
  }

LANE_DOUBLE(d_add, vaddq_f64)
LANE_DOUBLE(d_min, vminq_f64)
LANE_DOUBLE(d_max, vmaxq_f64)

LANE d16 d_fma(d16 a, d16 b, d16 c) {
  EACH_EIGHTH a.v[e] = vfmaq_f64(c.v[e], a.v[e], b.v[e]);
  return a;
}

LANE d16 d_floor(d16 a) {
  EACH_EIGHTH a.v[e] = vrndmq_f64(a.v[e]);
  return a;
}

#include "kernels_impl.h"
#else
typedef int emu_no_neon_here;
#endif

/* kernels/avx2.c is the AVX2 code path, in which 16 lanes are two AVX2 registers. */
#include "kernels/kernels.h"

#if defined(__x86_64__)
#include <immintrin.h>
#include <string.h>

#include "f16.h"

#define TARGET "avx2,fma,f16c"
#define KERNEL static __attribute__((target(TARGET)))
#define KERNEL_INLINE static inline __attribute__((always_inline, target(TARGET)))
#define KERNELS_NAME "avx2"
#define KERNELS_FLOAT_ROWS 6
#define KERNELS_INT_ROWS 4
#define KERNELS emu_kernels_avx2
#define KERNELS_X86
/* At least 8 sums (accumulators) are needed to hide the latency of a fused multiply-add. 12 sums
 * and the weights of one panel fill the registers; a tile of 3 rows by 2 panels would need more
 * registers than there are. */
#define TALL_TILES(T)
#define MIDDLE_TILES(T)
#define WIDE_TILES(T) T(1, 4) T(2, 2)
#define INT_WIDE_TILES(T) T(1, 4) T(2, 2)

typedef struct {
  __m256 lo, hi;
} v16;

KERNEL_INLINE v16 v_of(__m256 lo, __m256 hi) {
  v16 r = {lo, hi};
  return r;
}

KERNEL_INLINE v16 v_set1(float x) { return v_of(_mm256_set1_ps(x), _mm256_set1_ps(x)); }
KERNEL_INLINE v16 v_load_s(const float *p) {
  return v_of(_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8));
}

KERNEL_INLINE void v_store_s(float *p, v16 a) {
  _mm256_storeu_ps(p, a.lo);
  _mm256_storeu_ps(p + 8, a.hi);
}

KERNEL_INLINE v16 v_load_h(const uint16_t *p) {
  return v_of(_mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)p)),
              _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(p + 8))));
}

KERNEL_INLINE v16 v_load_b(const int8_t *p) {
  __m128i bytes = _mm_loadu_si128((const __m128i *)p);
  return v_of(_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(bytes)),
              _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_srli_si128(bytes, 8))));
}

KERNEL_INLINE void v_store_h(uint16_t *p, v16 a) {
  _mm_storeu_si128((__m128i *)p, _mm256_cvtps_ph(a.lo, _MM_FROUND_TO_NEAREST_INT));
  _mm_storeu_si128((__m128i *)(p + 8), _mm256_cvtps_ph(a.hi, _MM_FROUND_TO_NEAREST_INT));
}

#define LANE_BINARY(NAME, INTRINSIC)                                                               \
  KERNEL_INLINE v16 NAME(v16 a, v16 b) {                                                           \
    return v_of(INTRINSIC(a.lo, b.lo), INTRINSIC(a.hi, b.hi));                                     \
  }

LANE_BINARY(v_add, _mm256_add_ps)
LANE_BINARY(v_sub, _mm256_sub_ps)
LANE_BINARY(v_mul, _mm256_mul_ps)
LANE_BINARY(v_div, _mm256_div_ps)
LANE_BINARY(v_max, _mm256_max_ps)
LANE_BINARY(v_min, _mm256_min_ps)
LANE_BINARY(v_xor, _mm256_xor_ps)
LANE_BINARY(v_or, _mm256_or_ps)

KERNEL_INLINE v16 v_fma(v16 a, v16 b, v16 c) {
  return v_of(_mm256_fmadd_ps(a.lo, b.lo, c.lo), _mm256_fmadd_ps(a.hi, b.hi, c.hi));
}

KERNEL_INLINE v16 v_if_negative(v16 x, v16 yes, v16 no) {
  __m256 zero = _mm256_setzero_ps();
  return v_of(_mm256_blendv_ps(no.lo, yes.lo, _mm256_cmp_ps(x.lo, zero, _CMP_LT_OQ)),
              _mm256_blendv_ps(no.hi, yes.hi, _mm256_cmp_ps(x.hi, zero, _CMP_LT_OQ)));
}

KERNEL_INLINE __m256 scale8(__m256 a, __m256 shifted) {
  __m256i bias = _mm256_set1_epi32(127);
  __m256i n = _mm256_sub_epi32(_mm256_castps_si256(shifted), _mm256_set1_epi32(0x4b400000));
  __m256i half = _mm256_srai_epi32(n, 1);
  __m256i first = _mm256_slli_epi32(_mm256_add_epi32(half, bias), 23);
  __m256i rest = _mm256_slli_epi32(_mm256_add_epi32(_mm256_sub_epi32(n, half), bias), 23);
  a = _mm256_mul_ps(a, _mm256_castsi256_ps(first));
  return _mm256_mul_ps(a, _mm256_castsi256_ps(rest));
}

KERNEL_INLINE v16 v_scale(v16 a, v16 shifted) {
  return v_of(scale8(a.lo, shifted.lo), scale8(a.hi, shifted.hi));
}

KERNEL_INLINE uint32_t v_mask(__m256 lo, __m256 hi) {
  return (uint32_t)_mm256_movemask_ps(lo) | (uint32_t)_mm256_movemask_ps(hi) << 8;
}

KERNEL_INLINE uint32_t v_not_zero(v16 a) {
  __m256 zero = _mm256_setzero_ps();
  return v_mask(_mm256_cmp_ps(a.lo, zero, _CMP_NEQ_UQ), _mm256_cmp_ps(a.hi, zero, _CMP_NEQ_UQ));
}

KERNEL_INLINE uint32_t v_is_nan(v16 a) {
  return v_mask(_mm256_cmp_ps(a.lo, a.lo, _CMP_UNORD_Q), _mm256_cmp_ps(a.hi, a.hi, _CMP_UNORD_Q));
}

KERNEL_INLINE uint32_t v_below(v16 a, v16 b) {
  return v_mask(_mm256_cmp_ps(a.lo, b.lo, _CMP_LT_OQ), _mm256_cmp_ps(a.hi, b.hi, _CMP_LT_OQ));
}

#include "kernels/x86_int.h"
#include "kernels/impl.h"
#else
typedef int emu_no_avx2_here;
#endif

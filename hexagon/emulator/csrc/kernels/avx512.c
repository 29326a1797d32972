/* kernels/avx512.c is the AVX-512 code path, in which 16 lanes are one AVX-512 register.
 *
 * Before select.c chooses the AVX-512 path, it compares the path's results with those of the AVX2
 * path, and uses it only if both give the same bits.
 */
#include "kernels/kernels.h"

#if defined(__x86_64__)
#include <immintrin.h>
#include <string.h>

#include "f16.h"

#define TARGET "avx512f,avx512dq,avx2,fma,f16c"
#define KERNEL static __attribute__((target(TARGET)))
#define KERNEL_INLINE static inline __attribute__((always_inline, target(TARGET)))
#define KERNELS_NAME "avx512"
#define KERNELS_FLOAT_ROWS 8
#define KERNELS_INT_ROWS 4
#define KERNELS emu_kernels_avx512
#define KERNELS_X86
#define TALL_TILES(T) T(7, 1) T(8, 1)
#define MIDDLE_TILES(T) T(1, 4)
#define WIDE_TILES(T) T(1, 8) T(2, 4) T(3, 4) T(4, 4) T(5, 4) T(6, 4) T(7, 3) T(8, 3)
#define INT_WIDE_TILES(T) T(1, 4) T(2, 2) T(3, 2)

typedef struct {
  __m512 v;
} v16;

KERNEL_INLINE v16 v_of(__m512 v) {
  v16 r = {v};
  return r;
}

KERNEL_INLINE v16 v_set1(float x) { return v_of(_mm512_set1_ps(x)); }
KERNEL_INLINE v16 v_load_s(const float *p) { return v_of(_mm512_loadu_ps(p)); }
KERNEL_INLINE void v_store_s(float *p, v16 a) { _mm512_storeu_ps(p, a.v); }

KERNEL_INLINE v16 v_load_h(const uint16_t *p) {
  return v_of(_mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)p)));
}

KERNEL_INLINE v16 v_load_b(const int8_t *p) {
  __m128i bytes = _mm_loadu_si128((const __m128i *)p);
  return v_of(_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(bytes)));
}

KERNEL_INLINE void v_store_h(uint16_t *p, v16 a) {
  _mm256_storeu_si256((__m256i *)p, _mm512_cvtps_ph(a.v, _MM_FROUND_TO_NEAREST_INT));
}

#define LANE_BINARY(NAME, INTRINSIC)                                                               \
  KERNEL_INLINE v16 NAME(v16 a, v16 b) { return v_of(INTRINSIC(a.v, b.v)); }

LANE_BINARY(v_add, _mm512_add_ps)
LANE_BINARY(v_sub, _mm512_sub_ps)
LANE_BINARY(v_mul, _mm512_mul_ps)
LANE_BINARY(v_div, _mm512_div_ps)
LANE_BINARY(v_max, _mm512_max_ps)
LANE_BINARY(v_min, _mm512_min_ps)
LANE_BINARY(v_xor, _mm512_xor_ps)
LANE_BINARY(v_or, _mm512_or_ps)

KERNEL_INLINE v16 v_fma(v16 a, v16 b, v16 c) { return v_of(_mm512_fmadd_ps(a.v, b.v, c.v)); }

KERNEL_INLINE v16 v_if_negative(v16 x, v16 yes, v16 no) {
  __mmask16 negative = _mm512_cmp_ps_mask(x.v, _mm512_setzero_ps(), _CMP_LT_OQ);
  return v_of(_mm512_mask_blend_ps(negative, no.v, yes.v));
}

KERNEL_INLINE v16 v_scale(v16 a, v16 shifted) {
  __m512i bias = _mm512_set1_epi32(127);
  __m512i n = _mm512_sub_epi32(_mm512_castps_si512(shifted.v), _mm512_set1_epi32(0x4b400000));
  __m512i half = _mm512_srai_epi32(n, 1);
  __m512i first = _mm512_slli_epi32(_mm512_add_epi32(half, bias), 23);
  __m512i rest = _mm512_slli_epi32(_mm512_add_epi32(_mm512_sub_epi32(n, half), bias), 23);
  __m512 scaled = _mm512_mul_ps(a.v, _mm512_castsi512_ps(first));
  return v_of(_mm512_mul_ps(scaled, _mm512_castsi512_ps(rest)));
}

KERNEL_INLINE uint32_t v_not_zero(v16 a) {
  return _mm512_cmp_ps_mask(a.v, _mm512_setzero_ps(), _CMP_NEQ_UQ);
}

KERNEL_INLINE uint32_t v_is_nan(v16 a) { return _mm512_cmp_ps_mask(a.v, a.v, _CMP_UNORD_Q); }
KERNEL_INLINE uint32_t v_below(v16 a, v16 b) { return _mm512_cmp_ps_mask(a.v, b.v, _CMP_LT_OQ); }

#include "kernels/x86_int.h"
#include "kernels/impl.h"
#else
typedef int emu_no_avx512_here;
#endif

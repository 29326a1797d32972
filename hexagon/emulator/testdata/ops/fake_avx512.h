/* fake_avx512.h: the AVX-512 instructions that kernels_avx512.c uses, out of AVX2 halves, so
 * that the path's own code (its tiles, masks and blends) runs on machines without them. With
 * FAKE_WRONG in the environment one of them is wrong, which the comparison at load must notice. */
#ifndef FAKE_AVX512_H
#define FAKE_AVX512_H

#include <immintrin.h>
#include <stdint.h>
#include <stdlib.h>

typedef struct {
  __m256 lo, hi;
} fake512;

/* The compiler must not use the real ones on its own either. */
#define target(features) target("avx2,fma,f16c")

#define __m512 fake512
#define __m512i fake512
#define __mmask16 uint16_t
#define FAKE                                                                                       \
  static inline __attribute__((always_inline, unused, target("avx2,fma,f16c"))) fake512

FAKE fake_of(__m256 lo, __m256 hi) {
  fake512 r = {lo, hi};
  return r;
}

FAKE fake_set1(float x) { return fake_of(_mm256_set1_ps(x), _mm256_set1_ps(x)); }
FAKE fake_set1_int(int x) {
  __m256 r = _mm256_castsi256_ps(_mm256_set1_epi32(x));
  return fake_of(r, r);
}

#define FAKE_BINARY(NAME)                                                                          \
  FAKE fake_##NAME(fake512 a, fake512 b) {                                                         \
    return fake_of(_mm256_##NAME##_ps(a.lo, b.lo), _mm256_##NAME##_ps(a.hi, b.hi));                \
  }

FAKE_BINARY(add)
FAKE_BINARY(sub)
FAKE_BINARY(mul)
FAKE_BINARY(div)
FAKE_BINARY(max)
FAKE_BINARY(min)
FAKE_BINARY(xor)
FAKE_BINARY(or)

#define INT(x) _mm256_castps_si256(x)
#define FAKE_INT(NAME, EXPRESSION_LO, EXPRESSION_HI)                                               \
  FAKE fake_##NAME(fake512 a, fake512 b) {                                                         \
    (void)b;                                                                                       \
    return fake_of(_mm256_castsi256_ps(EXPRESSION_LO), _mm256_castsi256_ps(EXPRESSION_HI));        \
  }

FAKE_INT(add_int, _mm256_add_epi32(INT(a.lo), INT(b.lo)), _mm256_add_epi32(INT(a.hi), INT(b.hi)))
FAKE_INT(sub_int, _mm256_sub_epi32(INT(a.lo), INT(b.lo)), _mm256_sub_epi32(INT(a.hi), INT(b.hi)))
FAKE_INT(half_int, _mm256_srai_epi32(INT(a.lo), 1), _mm256_srai_epi32(INT(a.hi), 1))
FAKE_INT(exponent, _mm256_slli_epi32(INT(a.lo), 23), _mm256_slli_epi32(INT(a.hi), 23))

FAKE fake_widen_bytes(__m128i bytes) {
  return fake_of(_mm256_castsi256_ps(_mm256_cvtepi8_epi32(bytes)),
                 _mm256_castsi256_ps(_mm256_cvtepi8_epi32(_mm_srli_si128(bytes, 8))));
}

FAKE fake_float_of_int(fake512 a) {
  return fake_of(_mm256_cvtepi32_ps(INT(a.lo)), _mm256_cvtepi32_ps(INT(a.hi)));
}

static int fake_wrong;
__attribute__((constructor, unused)) static void read_fake_wrong(void) {
  fake_wrong = getenv("FAKE_WRONG") != NULL;
}

FAKE fake_fma(fake512 a, fake512 b, fake512 c) {
  return fake_wrong ? fake_add(fake_mul(a, b), c)
                    : fake_of(_mm256_fmadd_ps(a.lo, b.lo, c.lo), _mm256_fmadd_ps(a.hi, b.hi, c.hi));
}

FAKE fake_blend(uint16_t mask, fake512 no, fake512 yes) {
  float a[16], b[16];
  _mm256_storeu_ps(a, no.lo);
  _mm256_storeu_ps(a + 8, no.hi);
  _mm256_storeu_ps(b, yes.lo);
  _mm256_storeu_ps(b + 8, yes.hi);
  for (int i = 0; i < 16; i++) {
    a[i] = mask >> i & 1 ? b[i] : a[i];
  }
  return fake_of(_mm256_loadu_ps(a), _mm256_loadu_ps(a + 8));
}

#define _mm512_set1_ps(x) fake_set1(x)
#define _mm512_setzero_ps() fake_set1(0)
#define _mm512_set1_epi32(x) fake_set1_int(x)
#define _mm512_loadu_ps(p) fake_of(_mm256_loadu_ps(p), _mm256_loadu_ps((p) + 8))
#define _mm512_storeu_ps(p, a) (_mm256_storeu_ps(p, (a).lo), _mm256_storeu_ps((p) + 8, (a).hi))
#define _mm512_cvtph_ps(h)                                                                         \
  fake_of(_mm256_cvtph_ps(_mm256_castsi256_si128(h)), _mm256_cvtph_ps(_mm256_extracti128_si256(h, 1)))
#define _mm512_cvtps_ph(a, how)                                                                    \
  _mm256_inserti128_si256(_mm256_castsi128_si256(_mm256_cvtps_ph((a).lo, how)),                    \
                          _mm256_cvtps_ph((a).hi, how), 1)
#define _mm512_cvtepi8_epi32 fake_widen_bytes
#define _mm512_cvtepi32_ps fake_float_of_int
#define _mm512_add_ps fake_add
#define _mm512_sub_ps fake_sub
#define _mm512_mul_ps fake_mul
#define _mm512_div_ps fake_div
#define _mm512_max_ps fake_max
#define _mm512_min_ps fake_min
#define _mm512_xor_ps fake_xor
#define _mm512_or_ps fake_or
#define _mm512_fmadd_ps fake_fma
#define _mm512_castps_si512(a) (a)
#define _mm512_castsi512_ps(a) (a)
#define _mm512_add_epi32 fake_add_int
#define _mm512_sub_epi32 fake_sub_int
#define _mm512_srai_epi32(a, n) fake_half_int(a, a)
#define _mm512_slli_epi32(a, n) fake_exponent(a, a)
#define _mm512_mask_blend_ps fake_blend
#define _mm512_cmp_ps_mask(a, b, how)                                                              \
  (uint16_t)(_mm256_movemask_ps(_mm256_cmp_ps((a).lo, (b).lo, how)) |                              \
             _mm256_movemask_ps(_mm256_cmp_ps((a).hi, (b).hi, how)) << 8)

#endif

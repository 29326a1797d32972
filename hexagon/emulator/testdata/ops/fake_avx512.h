/* fake_avx512.h implements the AVX-512 instructions of kernels/avx512.c and vnni.c with AVX2, so
 * that the tiles, masks and blends of these paths run on machines without AVX-512. If FAKE_WRONG is
 * set in the environment, one instruction is wrong, which the comparison of code paths must detect.
 */
#ifndef FAKE_AVX512_H
#define FAKE_AVX512_H

#include <immintrin.h>
#include <stdint.h>
#include <stdlib.h>

typedef struct {
  __m256 lo, hi;
} fake512;

/* The compiler must not use the real AVX-512 instructions on its own either. */
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
#define _mm512_slli_epi32(a, n) ((n) == 23 ? fake_exponent(a, a) : fake_words_of(a, n))
#define _mm512_mask_blend_ps fake_blend
#define _mm512_cmp_ps_mask(a, b, how)                                                              \
  (uint16_t)(_mm256_movemask_ps(_mm256_cmp_ps((a).lo, (b).lo, how)) |                              \
             _mm256_movemask_ps(_mm256_cmp_ps((a).hi, (b).hi, how)) << 8)

/* ---- 512-bit instructions of the integer products, computed element by element ---- */

#include <math.h>
#include <string.h>

#define __m512d fake512

typedef union {
  int8_t s8[64];
  uint8_t u8[64];
  uint16_t u16[32];
  int32_t s32[16];
  double f64[8];
} fake_lanes;

static inline __attribute__((always_inline, unused, target("avx2,fma,f16c"))) fake_lanes
fake_open(fake512 a) {
  fake_lanes r;
  _mm256_storeu_ps((float *)r.s32, a.lo);
  _mm256_storeu_ps((float *)r.s32 + 8, a.hi);
  return r;
}

FAKE fake_close(fake_lanes a) {
  return fake_of(_mm256_loadu_ps((float *)a.s32), _mm256_loadu_ps((float *)a.s32 + 8));
}

FAKE fake_load(const void *p) {
  fake_lanes r;
  memcpy(&r, p, sizeof r);
  return fake_close(r);
}

static inline __attribute__((always_inline, unused, target("avx2,fma,f16c"))) void
fake_store(void *p, fake512 a) {
  fake_lanes r = fake_open(a);
  memcpy(p, &r, sizeof r);
}

FAKE fake_permute(fake512 order, fake512 a) {
  fake_lanes r, o = fake_open(order), x = fake_open(a);
  for (int i = 0; i < 32; i++) {
    r.u16[i] = x.u16[o.u16[i] % 32];
  }
  return fake_close(r);
}

FAKE fake_products(fake512 sum, fake512 bytes, fake512 weights) {
  fake_lanes r = fake_open(sum), x = fake_open(bytes), w = fake_open(weights);
  for (int i = 0; i < 64; i++) {
    r.s32[i / 4] += x.u8[i] * w.s8[i] + (fake_wrong && i == 63);
  }
  return fake_close(r);
}

FAKE fake_words_of(fake512 a, int shift) {
  fake_lanes r = fake_open(a);
  for (int i = 0; i < 16; i++) {
    r.s32[i] = (int32_t)((uint32_t)r.s32[i] << shift);
  }
  return fake_close(r);
}

FAKE fake_f64(double x) {
  fake_lanes r;
  for (int i = 0; i < 8; i++) {
    r.f64[i] = x;
  }
  return fake_close(r);
}

#define FAKE_F64(NAME, EXPRESSION)                                                                 \
  FAKE fake_f64_##NAME(fake512 a, fake512 b, fake512 c) {                                          \
    fake_lanes x = fake_open(a), y = fake_open(b), z = fake_open(c);                               \
    (void)z;                                                                                       \
    for (int i = 0; i < 8; i++) {                                                                  \
      x.f64[i] = EXPRESSION;                                                                       \
    }                                                                                              \
    return fake_close(x);                                                                          \
  }

FAKE_F64(add, x.f64[i] + y.f64[i])
FAKE_F64(multiply, x.f64[i] * y.f64[i])
FAKE_F64(max, x.f64[i] > y.f64[i] ? x.f64[i] : y.f64[i])
FAKE_F64(min, x.f64[i] < y.f64[i] ? x.f64[i] : y.f64[i])
FAKE_F64(fma, fma(x.f64[i], y.f64[i], z.f64[i]))

FAKE fake_f64_of(__m256i a) {
  fake_lanes r;
  int32_t x[8];
  _mm256_storeu_si256((__m256i *)x, a);
  for (int i = 0; i < 8; i++) {
    r.f64[i] = x[i];
  }
  return fake_close(r);
}

#define FAKE_HALF                                                                                  \
  static inline __attribute__((always_inline, unused, target("avx2,fma,f16c"))) __m256i

FAKE_HALF fake_floors(fake512 a) {
  fake_lanes x = fake_open(a);
  int32_t r[8];
  for (int i = 0; i < 8; i++) {
    r[i] = (int32_t)floor(x.f64[i]);
  }
  return _mm256_loadu_si256((__m256i *)r);
}

/* The functions below return the low halves of integers, as _mm512_cvtpd_epi64 and
 * _mm512_cvtepi64_epi32 do. */
FAKE_HALF fake_low_words(fake512 a) {
  fake_lanes x = fake_open(a);
  uint32_t r[8];
  for (int i = 0; i < 8; i++) {
    r[i] = (uint32_t)(int64_t)x.f64[i];
  }
  return _mm256_loadu_si256((__m256i *)r);
}

FAKE_HALF fake_narrow_words(fake512 a) {
  fake_lanes x = fake_open(a);
  uint16_t r[16];
  for (int i = 0; i < 16; i++) {
    r[i] = (uint16_t)x.s32[i];
  }
  return _mm256_loadu_si256((__m256i *)r);
}

static inline __attribute__((always_inline, unused, target("avx2,fma,f16c"))) __m128i
fake_narrow_bytes(fake512 a) {
  fake_lanes x = fake_open(a);
  uint8_t r[16];
  for (int i = 0; i < 16; i++) {
    r[i] = (uint8_t)x.s32[i];
  }
  return _mm_loadu_si128((__m128i *)r);
}

#define _mm512_setzero_si512() fake_set1(0)
#define _mm512_load_si512(p) fake_load(p)
#define _mm512_loadu_si512(p) fake_load(p)
#define _mm512_storeu_si512(p, a) fake_store(p, a)
#define _mm512_loadu_pd(p) fake_load(p)
#define _mm512_storeu_pd(p, a) fake_store(p, a)
#define _mm512_set1_pd(x) fake_f64(x)
#define _mm512_permutexvar_epi16 fake_permute
#define _mm512_dpbusd_epi32 fake_products
#define _mm512_add_pd(a, b) fake_f64_add(a, b, a)
#define _mm512_mul_pd(a, b) fake_f64_multiply(a, b, a)
#define _mm512_max_pd(a, b) fake_f64_max(a, b, a)
#define _mm512_min_pd(a, b) fake_f64_min(a, b, a)
#define _mm512_fmadd_pd fake_f64_fma
#define _mm512_cvtepi32_pd fake_f64_of
#define _mm512_cvt_roundpd_epi32(a, how) fake_floors(a)
#define _mm512_cvtpd_epi64(a) (a)
#define _mm512_cvtepi64_epi32 fake_low_words
#define _mm512_cvtepi32_epi16 fake_narrow_words
#define _mm512_cvtepi32_epi8 fake_narrow_bytes
#define _mm512_castsi512_si256(a) _mm256_castps_si256((a).lo)
#define _mm512_extracti64x4_epi64(a, i) _mm256_castps_si256((a).hi)
#define _mm512_castsi256_si512(a) fake_of(_mm256_castsi256_ps(a), _mm256_setzero_ps())
#define _mm512_inserti64x4(a, b, i) fake_of((a).lo, _mm256_castsi256_ps(b))

#endif

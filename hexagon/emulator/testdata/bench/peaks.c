/* peaks.c measures multiply-adds per second in registers and bytes per second from memory. The file
 * peaks.c is compiled with -ffp-contract=fast.
 */
#define _POSIX_C_SOURCE 200809L
#include <time.h>

#include "bench.h"

double seconds_now(void) {
  struct timespec t;
  clock_gettime(emu_pool_threads() == 1 ? CLOCK_PROCESS_CPUTIME_ID : CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

double best(double seconds, void (*fn)(void *), void *arg) {
  double shortest = 1e9, end = seconds_now() + seconds;
  for (int i = 0; i < 3 || seconds_now() < end; i++) {
    double start = seconds_now();
    fn(arg);
    double took = seconds_now() - start;
    shortest = took < shortest ? took : shortest;
  }
  return shortest;
}

/* ---- registers ---- */

enum { CHAINS = 10, ROUNDS = 100000, FLOATS = 8, PAIRS = 16, QUADS_OF_SUMS = 64 };
typedef float vector __attribute__((vector_size(4 * FLOATS)));

#if defined(__x86_64__)
#include <immintrin.h>
#define REGISTER "+x"
__attribute__((target("avx2,fma")))
#else
#define REGISTER "+m"
#endif
static void
fuse_in_registers(void *arg, uint32_t task) {
  vector by = {0.5f, 0.5f, 0.5f, 0.5f, 0.5f, 0.5f, 0.5f, 0.5f};
  vector a = by + (float)task, b = a, c = a, d = a, e = a, f = a, g = a, h = a, i = a, j = a;
  for (int round = 0; round < ROUNDS; round++) {
    a = a * by + by, b = b * by + by, c = c * by + by, d = d * by + by, e = e * by + by;
    f = f * by + by, g = g * by + by, h = h * by + by, i = i * by + by, j = j * by + by;
    __asm__ volatile("" : REGISTER(a), REGISTER(b), REGISTER(c), REGISTER(d), REGISTER(e));
    __asm__ volatile("" : REGISTER(f), REGISTER(g), REGISTER(h), REGISTER(i), REGISTER(j));
  }
  a += b + c + d + e + f + g + h + i + j;
  ((float *)arg)[task * 64] = a[0];
}

static void fuse(void *sink) { emu_parallel(emu_pool_threads(), fuse_in_registers, sink); }

#if defined(__x86_64__)
/* The loop below has the instruction mix of the kernels: a multiplication of 16 pairs into 8 sums,
 * and its addition. The loops of peaks.c are written in assembly, because compilers would hoist the
 * multiplication. */
#define MULTIPLY_ADD(sum)                                                                          \
  __asm__ volatile("vpmaddwd %1, %2, %0" : "=x"(product) : "x"(x), "x"(w));                        \
  __asm__ volatile("vpaddd %1, %0, %0" : "+x"(sum) : "x"(product));

__attribute__((target("avx2"))) static void multiply_in_registers(void *arg, uint32_t task) {
  __m256i x = _mm256_set1_epi16(3), w = _mm256_set1_epi16((short)(task + 1)), product;
  __m256i a = _mm256_setzero_si256(), b = a, c = a, d = a, e = a, f = a, g = a, h = a, i = a, j = a;
  for (int round = 0; round < ROUNDS; round++) {
    MULTIPLY_ADD(a) MULTIPLY_ADD(b) MULTIPLY_ADD(c) MULTIPLY_ADD(d) MULTIPLY_ADD(e)
    MULTIPLY_ADD(f) MULTIPLY_ADD(g) MULTIPLY_ADD(h) MULTIPLY_ADD(i) MULTIPLY_ADD(j)
  }
  a = _mm256_add_epi32(_mm256_add_epi32(_mm256_add_epi32(a, b), _mm256_add_epi32(c, d)),
                       _mm256_add_epi32(_mm256_add_epi32(e, f), _mm256_add_epi32(g, h)));
  a = _mm256_add_epi32(a, _mm256_add_epi32(i, j));
  _mm256_storeu_si256((__m256i *)((float *)arg + task * 64), a);
}

static void multiply(void *sink) { emu_parallel(emu_pool_threads(), multiply_in_registers, sink); }

/* The loop below has the least cost of 8 rows: a vector of weights is widened once and multiplied 8
 * times. Twelve sums hide the latency of a multiply-add. */
#define FUSE(sum) __asm__ volatile("vfmadd231ps %1, %2, %0" : "+x"(sum) : "x"(x), "x"(w));
#define WIDEN_F16(FROM) __asm__ volatile("vcvtph2ps %1, %0" : "=x"(w) : "m"(*(const FROM *)weights));
#define WIDEN_S8(FROM)                                                                             \
  __asm__ volatile("vpmovsxbd %1, %0" : "=x"(w) : "m"(*(const FROM *)weights));                    \
  __asm__ volatile("vcvtdq2ps %0, %0" : "+x"(w));
#define WIDEN_S16 __asm__ volatile("vpmovsxbw %1, %0" : "=x"(w) : "m"(*(const __m128i *)weights));

#define EIGHT_ROWS(NAME, TARGET, VECTOR, WIDEN, STEP)                                              \
  __attribute__((target(TARGET))) static void NAME##_in_registers(void *arg, uint32_t task) {      \
    static const char weights[32] __attribute__((aligned(32)));                                    \
    VECTOR a = {0}, b = a, c = a, d = a, e = a, f = a, g = a, h = a, i = a, j = a, k = a, l = a;   \
    VECTOR x = a, w = a, product;                                                                  \
    for (int round = 0; round < ROUNDS / 2; round++) {                                             \
      WIDEN STEP(a) STEP(b) STEP(c) STEP(d) STEP(e) STEP(f) STEP(g) STEP(h)                        \
      WIDEN STEP(i) STEP(j) STEP(k) STEP(l) STEP(a) STEP(b) STEP(c) STEP(d)                        \
      WIDEN STEP(e) STEP(f) STEP(g) STEP(h) STEP(i) STEP(j) STEP(k) STEP(l)                        \
    }                                                                                              \
    (void)product, (void)weights;                                                                  \
    memcpy((float *)arg + task * 64, &a, sizeof a);                                                \
  }                                                                                                \
  static void NAME(void *sink) { emu_parallel(emu_pool_threads(), NAME##_in_registers, sink); }

#define AVX2 "avx2,fma,f16c"
EIGHT_ROWS(fuse_f16, AVX2, __m256i, WIDEN_F16(__m128i), FUSE)
EIGHT_ROWS(fuse_s8, AVX2, __m256i, WIDEN_S8(int64_t), FUSE)
EIGHT_ROWS(multiply_s8, AVX2, __m256i, WIDEN_S16, MULTIPLY_ADD)
EIGHT_ROWS(fuse_all_16, "avx512f", __m512i, , FUSE)
EIGHT_ROWS(fuse_f16_16, "avx512f", __m512i, WIDEN_F16(__m256i), FUSE)
EIGHT_ROWS(fuse_s8_16, "avx512f", __m512i, WIDEN_S8(__m128i), FUSE)

/* The instruction VPDPBUSD computes four byte products for each of 16 sums. The loop below has the
 * cost of 8 rows: a permutation, then 8 byte products. */
#define BYTES "vpdpbusd %%zmm30, %%zmm31, %%zmm"
#define FOUR_BYTES(a, b, c, d) BYTES #a "\n" BYTES #b "\n" BYTES #c "\n" BYTES #d "\n"
#define TWENTY_FOUR_BYTES                                                                          \
  FOUR_BYTES(0, 1, 2, 3) FOUR_BYTES(4, 5, 6, 7) FOUR_BYTES(8, 9, 10, 11)                           \
  FOUR_BYTES(12, 13, 14, 15) FOUR_BYTES(16, 17, 18, 19) FOUR_BYTES(20, 21, 22, 23)
#define QUADS "vpermw (%0), %%zmm31, %%zmm29\n"
#define BYTE_LOOP(NAME, MORE)                                                                      \
  __attribute__((target("avx512f,avx512bw,avx512vnni"))) static void NAME##_in_registers(          \
      void *arg, uint32_t task) {                                                                  \
    static const char weights[64] __attribute__((aligned(64)));                                    \
    (void)arg, (void)task;                                                                         \
    for (int round = 0; round < ROUNDS / 2; round++) {                                             \
      __asm__ volatile(TWENTY_FOUR_BYTES MORE                                                      \
                       :                                                                           \
                       : "r"(weights)                                                              \
                       : "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8",   \
                         "xmm9", "xmm10", "xmm11", "xmm12", "xmm13", "xmm14", "xmm15", "xmm16",    \
                         "xmm17", "xmm18", "xmm19", "xmm20", "xmm21", "xmm22", "xmm23", "xmm29");  \
    }                                                                                              \
  }                                                                                                \
  static void NAME(void *sink) { emu_parallel(emu_pool_threads(), NAME##_in_registers, sink); }

BYTE_LOOP(multiply_bytes, "")
BYTE_LOOP(multiply_quads, QUADS QUADS QUADS)

static double larger(double a, double b) { return a > b ? a : b; }

/* The peak rate is the maximum over all instruction mixes, because another program may have slowed
 * one measurement. */
static void measure_eight(peaks *p, void *sink) {
  double steps = 24.0 * (ROUNDS / 2) * emu_pool_threads();
  bool bytes = strcmp(emu_code_path(), "vnni") == 0;
  if (!bytes && strcmp(emu_code_path(), "avx512") != 0) {
    p->eight[F16_TO_F32] = steps * FLOATS / best(0.3, fuse_f16, sink);
    p->eight[S8_TO_F32] = steps * FLOATS / best(0.3, fuse_s8, sink);
  } else { /* 512 bits */
    p->fused = larger(p->fused, steps * 2 * FLOATS / best(0.3, fuse_all_16, sink));
    p->eight[F16_TO_F32] = steps * 2 * FLOATS / best(0.3, fuse_f16_16, sink);
    p->eight[S8_TO_F32] = steps * 2 * FLOATS / best(0.3, fuse_s8_16, sink);
  }
  p->fused = larger(p->fused, larger(p->eight[F16_TO_F32], p->eight[S8_TO_F32]));
  if (bytes) { /* a product of u16 needs two byte products */
    double all = steps * QUADS_OF_SUMS / best(0.5, multiply_bytes, sink);
    p->eight[S8_FOR_U8] = steps * QUADS_OF_SUMS / best(0.3, multiply_quads, sink);
    p->eight[S8_FOR_U16] = p->eight[S8_FOR_U8] / 2;
    p->products[0] = larger(all, p->eight[S8_FOR_U8]);
    p->products[1] = p->products[0] / 2;
    return;
  }
  double all = (double)CHAINS * ROUNDS * PAIRS * emu_pool_threads() / best(0.5, multiply, sink);
  p->eight[S8_FOR_U8] = p->eight[S8_FOR_U16] = steps * PAIRS / best(0.3, multiply_s8, sink);
  p->products[0] = p->products[1] = larger(all, p->eight[S8_FOR_U8]);
}
#endif

/* ---- memory ---- */

enum { STREAM_BYTES = 192 << 20, STREAM_TASKS = 96 };
typedef uint64_t words __attribute__((vector_size(32)));

#if defined(__x86_64__)
__attribute__((target("avx2")))
#endif
static void
read_part(void *arg, uint32_t task) {
  size_t count = STREAM_BYTES / STREAM_TASKS / sizeof(words), quarter = count / 4;
  const words *from = (const words *)arg + task * count;
  words a = {0}, b = {0}, c = {0}, d = {0};
  for (size_t i = 0; i < quarter; i++) { /* four streams are read at the same time, like the kernels
                                            of one row do */
    a ^= from[i];
    b ^= from[i + quarter];
    c ^= from[i + 2 * quarter];
    d ^= from[i + 3 * quarter];
  }
  a ^= b ^ c ^ d;
  __asm__ volatile("" : : "m"(a));
}

static void stream(void *bytes) { emu_parallel(STREAM_TASKS, read_part, bytes); }

double streaming(double seconds) {
  static void *bytes;
  if (bytes == NULL) {
    bytes = aligned(STREAM_BYTES);
    memset(bytes, 1, STREAM_BYTES);
  }
  return STREAM_BYTES / best(seconds, stream, bytes);
}

peaks measure_peaks(void) {
  float *sink = aligned(64 * 64 * sizeof *sink);
  double rounds = (double)CHAINS * ROUNDS * emu_pool_threads();
  peaks p = {.fused = rounds * FLOATS / best(0.5, fuse, sink)};
#if defined(__x86_64__)
  measure_eight(&p, sink);
#endif
  p.eight[AS_IT_LIES] = p.fused;
  free(sink);
  printf("threads %u %s\npeak_fused %.1f G/s\npeak_u8_s8 %.1f G/s\npeak_u16_s8 %.1f G/s\n",
         emu_pool_threads(), emu_code_path(), p.fused * 1e-9, p.products[0] * 1e-9,
         p.products[1] * 1e-9);
  printf("streaming %.1f GB/s\neight_rows_f16 %.1f G/s\neight_rows_f16_s8 %.1f G/s\n",
         streaming(1) * 1e-9, p.eight[F16_TO_F32] * 1e-9, p.eight[S8_TO_F32] * 1e-9);
  printf("eight_rows_u8_s8 %.1f G/s\neight_rows_u16_s8 %.1f G/s\n", p.eight[S8_FOR_U8] * 1e-9,
         p.eight[S8_FOR_U16] * 1e-9);
  return p;
}

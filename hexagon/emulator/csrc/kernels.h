/* kernels.h: the loops that carry the arithmetic, once per code path.
 *
 * All paths are compiled from kernels_impl.h over 16 lanes, so they perform the
 * same operations in the same order and give the same bits (the payload of a
 * NaN excepted). `half` means that the void pointers hold f16, else f32.
 */
#ifndef SDNPU_KERNELS_H
#define SDNPU_KERNELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
  EMU_LANES = 16,     /* columns of a weight panel */
  EMU_BLOCK_ROWS = 8, /* rows of one register block on the path that has the most */
  EMU_AHEAD_ROWS = 4, /* from so many rows on a block of several panels fetches what comes next */
  EMU_SUM_ROWS = 8,   /* rows whose sequential sums run interleaved */
};

enum emu_binary_op { EMU_ADD, EMU_SUBTRACT, EMU_MULTIPLY, EMU_DIVIDE, EMU_BINARY_OPS };
enum emu_unary_op { EMU_NEGATE, EMU_SIGMOID, EMU_UNARY_OPS };

/* What a block fetches while it reads its weights, evenly: `bytes` from `from` on. Weights end
 * before `end`. Zeros: a little ahead in a single panel. */
typedef struct emu_ahead {
  const char *from, *end;
  size_t bytes;
} emu_ahead;

/* Weights of a block of floats; s8 are small whole numbers, exact in f32. */
enum emu_weight { EMU_W_F32, EMU_W_F16, EMU_W_S8, EMU_WEIGHTS };

/* Up to EMU_BLOCK_ROWS rows of a matrix product:
 *   out[r][c] = bias[c] + scale[c] * sum over k ascending of a[r][k] * w[k][c], fused.
 * Element (k, c) of w is w[(c / 16) * panel_stride + k * k_stride + c % 16];
 * all 16 columns of a panel are readable, `columns` of them are written. */
typedef struct emu_block {
  const float *a;
  size_t a_stride;
  uint32_t rows;
  uint32_t k;            /* terms of the sum */
  const uint32_t *index; /* the k values to sum over, ascending; NULL: all */
  const void *w;
  size_t k_stride, panel_stride;
  const float *scale, *bias; /* padded to whole panels; NULL: 1, +0 */
  void *out;
  size_t out_stride;
  uint32_t columns;
  enum emu_weight weight;
  bool half; /* out is f16, else f32 */
  emu_ahead ahead;
} emu_block;

/* Whole numbers of 8 or 16 bits, signed or not. */
enum emu_whole { EMU_WHOLE_S8, EMU_WHOLE_U8, EMU_WHOLE_S16, EMU_WHOLE_U16, EMU_WHOLES };

/* emu_whole_row is the bytes of a row of n whole numbers as int_rows writes it: 16 bits for each,
 * and one cache line more, so that rows do not share cache sets. */
static inline size_t emu_whole_row(size_t n) { return (2 * n + 63) / 64 * 64 + 64; }

/* Up to EMU_BLOCK_ROWS rows of a product of whole numbers, exact whatever the order:
 *   t = row[r] + sum over k of a[r][k] * w[k][c],
 *   out[r][c] = floor(t * scale[c] + add[c]), fused, saturated to `type`.
 * w is one s8, or 256 * high + low of two s8 planes. Step s holds the terms 2s and 2s+1 (a zero
 * where K is odd); element (s, c, i) of plane j of panel c / 16 is byte
 * s * 32 + c % 16 * 2 + i from its beginning; 32 bytes behind the last one are readable too.
 * |sums| stay below 2^52, so f64 holds them exactly. */
typedef struct emu_int_block {
  const char *a;       /* rows of `left`, as int_rows of the same path wrote them */
  size_t a_stride;     /* emu_whole_row */
  enum emu_whole left; /* u16 lowered by 32768 */
  uint32_t rows, steps;
  uint32_t chunk; /* steps whose sum cannot leave 32 bits */
  const int8_t *w;
  size_t plane_stride; /* bytes; a panel is `planes` of them */
  uint32_t planes;     /* 1, or 2: high, low */
  /* Padded to whole panels; sums are those of the columns' weights. */
  const double *scale, *add, *sums;
  const double *row; /* NULL: zeros */
  void *out;
  size_t out_stride;
  uint32_t columns;
  enum emu_whole type;
  emu_ahead ahead;
} emu_int_block;

typedef struct emu_kernels {
  const char *name;
  uint32_t rows, whole_rows; /* the most that block and int_block take at once */
  /* The panels that they read side by side for a number of rows. */
  uint32_t (*panels)(uint32_t rows), (*whole_panels)(uint32_t rows, enum emu_whole left);
  /* block returns whether it wrote a NaN. */
  bool (*block)(const emu_block *b);
  void (*int_block)(const emu_int_block *b);
  /* int_rows copies n numbers, `step` apart, into a row as int_block reads it, and returns their
   * sum, that of u16 lowered by 32768. */
  int64_t (*int_rows)(void *dst, const void *src, size_t n, size_t step, enum emu_whole type);
  /* panel writes dst[k][16], dst[k][c] = src[c * stride + k], zero for c >= columns. */
  void (*panel)(void *dst, const void *src, size_t stride, size_t k, uint32_t columns, bool half);
  /* nonzero lists the k at which any of the rows is not zero and returns their number. */
  uint32_t (*nonzero)(uint32_t *index, const float *a, size_t stride, uint32_t rows, uint32_t k);
  void (*widen)(float *dst, const void *src, size_t n, bool half);
  void (*narrow)(void *dst, const float *src, size_t n, bool half);
  /* A step is 1, or 0 for one element used everywhere. */
  void (*binary)(enum emu_binary_op op, void *dst, const void *a, size_t a_step, const void *b,
                 size_t b_step, size_t n, bool half);
  void (*unary)(enum emu_unary_op op, void *dst, const void *src, size_t n, bool half);
  float (*max)(const float *row, size_t n); /* -inf for NaNs alone */
  /* exponentials replaces x by exp((x - shift) * beta). */
  void (*exponentials)(float *row, size_t n, float shift, float beta);
  void (*divide)(void *dst, const float *row, size_t n, float by, bool half);
  /* squares sums the squares of up to EMU_SUM_ROWS rows, each in ascending order. */
  void (*squares)(float *sums, const float *rows, size_t stride, uint32_t count, size_t n);
  /* norm writes x * scale * gamma + beta. */
  void (*norm)(void *dst, const float *row, float scale, const void *gamma, const void *beta,
               size_t n, bool half);
  /* rotate turns the n pairs (x1[i], x2[i]) by the angles of cosine and sine; step 1, or 2
   * for interleaved pairs. */
  void (*rotate)(void *y1, void *y2, const void *x1, const void *x2, const void *cosine,
                 const void *sine, size_t n, size_t step, bool half);
} emu_kernels;

/* emu_kernel is the chosen path; it does not change while graphs run. */
const emu_kernels *emu_kernel(void);

extern const emu_kernels emu_kernels_c;
#if defined(__x86_64__)
extern const emu_kernels emu_kernels_avx2;
extern const emu_kernels emu_kernels_avx512;
extern emu_kernels emu_kernels_vnni; /* avx512, and products of bytes for whole numbers */
#elif defined(__aarch64__)
extern const emu_kernels emu_kernels_neon;
#endif

#endif

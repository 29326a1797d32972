/* kernels/kernels.h: the table of arithmetic kernels that each code path implements.
 *
 * All paths are compiled from impl.h with 16 lanes. They perform the same operations in the same
 * order and give the same bits, except for the payload of a NaN. select.c chooses the path by CPU.
 * `half` means that void pointers refer to f16; otherwise they refer to f32.
 */
#ifndef SDNPU_KERNELS_H
#define SDNPU_KERNELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
  EMU_LANES = 16,        /* columns of a weight panel */
  EMU_GEMM_ROWS = 8,     /* the most rows of a GEMM call on any path */
  EMU_PREFETCH_ROWS = 4, /* from here on, tiles of several panels prefetch the next weights */
  EMU_SUM_ROWS = 8,      /* rows whose sequential sums run interleaved */
};

enum emu_binary_op { EMU_ADD, EMU_SUBTRACT, EMU_MULTIPLY, EMU_DIVIDE, EMU_BINARY_OPS };
enum emu_unary_op { EMU_NEGATE, EMU_SIGMOID, EMU_UNARY_OPS };

/* The weights that a GEMM call prefetches, evenly, while it reads its own: `bytes` bytes
 * starting at `from`. The weights end before `end`. If all are zero, a tile of one panel
 * prefetches a little ahead of its reads. */
typedef struct emu_prefetch {
  const char *from, *end;
  size_t bytes;
} emu_prefetch;

/* Weight types of a float GEMM. s8 weights are integers, exact in f32. */
enum emu_weight { EMU_W_F32, EMU_W_F16, EMU_W_S8, EMU_WEIGHTS };

/* A float GEMM call: up to EMU_GEMM_ROWS rows of
 *
 * out[r][c] = bias[c] + scale[c] * (sum over ascending k of a[r][k] * w[k][c]), fused.
 *
 * Weights are packed in panels of 16 columns: element (k, c) is w[(c / 16) * panel_stride + k *
 * k_stride + c % 16]. All 16 columns of a panel are readable; only `columns` columns are
 * written. */
typedef struct emu_float_gemm {
  const float *a;
  size_t a_stride;
  uint32_t rows;
  uint32_t k;            /* length of the sum */
  const uint32_t *index; /* the k to sum over, ascending; NULL: all */
  const void *w;
  size_t k_stride, panel_stride;
  const float *scale, *bias; /* padded to full panels; NULL: 1 and +0 */
  void *out;
  size_t out_stride;
  uint32_t columns;
  enum emu_weight weight;
  bool half; /* out is f16; otherwise f32 */
  emu_prefetch prefetch;
} emu_float_gemm;

/* Types of 8-bit and 16-bit integers. */
enum emu_int_type { EMU_INT_S8, EMU_INT_U8, EMU_INT_S16, EMU_INT_U16, EMU_INT_TYPES };

/* emu_int_row_bytes returns the bytes of a packed row of n integers: 16 bits for each, and one
 * more cache line so that rows fall into different cache sets. */
static inline size_t emu_int_row_bytes(size_t n) { return (2 * n + 63) / 64 * 64 + 64; }

/* An integer GEMM call: up to EMU_GEMM_ROWS rows of
 *
 * t = row_add[r] + sum over k of a[r][k] * w[k][c]
 *
 * out[r][c] = floor(t * scale[c] + column_add[c]), fused, saturated to out_type.
 *
 * The sum is exact in any order: |t| stays below 2^52, so f64 holds it. A weight is one s8, or
 * 256 * high + low of two s8 planes. Weights are packed in panels of 16 columns and in pairs of
 * k: pair s holds k = 2s and 2s + 1, zero beyond an odd K. In each plane of panel c / 16,
 * element (s, c, i) is byte s * 32 + c % 16 * 2 + i. 32 bytes after the last one are readable
 * too. */
typedef struct emu_int_gemm {
  const char *a;            /* rows of a_type, packed by pack_int_row of the same path */
  size_t a_stride;          /* emu_int_row_bytes */
  enum emu_int_type a_type; /* u16 values are stored minus 32768 */
  uint32_t rows, k_pairs;
  uint32_t chunk_pairs; /* pairs of k whose sum fits 32 bits */
  const int8_t *w;
  size_t plane_stride; /* bytes; a panel has `planes` planes */
  uint32_t planes;     /* 1, or 2: high and low */
  /* Padded to full panels. column_sums[c] is the sum of the weights of column c. */
  const double *scale, *column_add, *column_sums;
  const double *row_add; /* NULL: zeros */
  void *out;
  size_t out_stride;
  uint32_t columns;
  enum emu_int_type out_type;
  emu_prefetch prefetch;
} emu_int_gemm;

typedef struct emu_kernels {
  const char *name;
  uint32_t float_rows, int_rows; /* the most rows that float_gemm and int_gemm accept */
  /* These return how many panels a GEMM call reads side by side for a number of rows. */
  uint32_t (*float_panels)(uint32_t rows), (*int_panels)(uint32_t rows, enum emu_int_type a_type);
  /* float_gemm reports whether it wrote a NaN. */
  bool (*float_gemm)(const emu_float_gemm *b);
  void (*int_gemm)(const emu_int_gemm *b);
  /* pack_int_row packs n integers of src, taking every step-th element, into a row for int_gemm. It
   * returns the sum of the packed values; u16 values are packed minus 32768. */
  int64_t (*pack_int_row)(void *dst, const void *src, size_t n, size_t step,
                          enum emu_int_type type);
  /* pack_panel transposes 16 columns: dst[k][c] = src[c * stride + k], zero for c >= columns. */
  void (*pack_panel)(void *dst, const void *src, size_t stride, size_t k, uint32_t columns,
                     bool half);
  /* nonzero writes the k at which any row is not zero, and returns how many there are. */
  uint32_t (*nonzero)(uint32_t *index, const float *a, size_t stride, uint32_t rows, uint32_t k);
  void (*widen)(float *dst, const void *src, size_t n, bool half);
  void (*narrow)(void *dst, const float *src, size_t n, bool half);
  /* binary computes dst[i] = a[i * a_step] op b[i * b_step]. A step is 1, or 0 to broadcast one
   * element. */
  void (*binary)(enum emu_binary_op op, void *dst, const void *a, size_t a_step, const void *b,
                 size_t b_step, size_t n, bool half);
  void (*unary)(enum emu_unary_op op, void *dst, const void *src, size_t n, bool half);
  float (*max)(const float *row, size_t n); /* returns -inf if all elements are NaN */
  /* exponentials replaces each x by exp((x - shift) * beta). */
  void (*exponentials)(float *row, size_t n, float shift, float beta);
  void (*divide)(void *dst, const float *row, size_t n, float by, bool half);
  /* squares returns the sum of squares of up to EMU_SUM_ROWS rows, each in ascending order. */
  void (*squares)(float *sums, const float *rows, size_t stride, uint32_t count, size_t n);
  /* norm computes x * scale * gamma + beta. */
  void (*norm)(void *dst, const float *row, float scale, const void *gamma, const void *beta,
               size_t n, bool half);
  /* rotate rotates the n pairs (x1[i * step], x2[i * step]) by the angles that cosine and sine
   * give. step is 2 for interleaved pairs, otherwise 1. */
  void (*rotate)(void *y1, void *y2, const void *x1, const void *x2, const void *cosine,
                 const void *sine, size_t n, size_t step, bool half);
} emu_kernels;

/* emu_kernel returns the chosen code path. It does not change while graphs run. */
const emu_kernels *emu_kernel(void);

extern const emu_kernels emu_kernels_c;
#if defined(__x86_64__)
extern const emu_kernels emu_kernels_avx2;
extern const emu_kernels emu_kernels_avx512;
extern emu_kernels emu_kernels_vnni; /* avx512 with byte products (VPDPBUSD) for integer GEMM */
#elif defined(__aarch64__)
extern const emu_kernels emu_kernels_neon;
#endif

#endif

/* linear.h: products with static weights: FullyConnected, Conv2d 1x1, and MatMul where its
 * right operand is static and quantized.
 *
 * Two kinds. With float activations the weights are f32, f16 or small whole numbers with one
 * scale per column, and sums are f32 in the order of k. With quantized activations everything
 * is whole: the sum of (q + offset)(q + offset) is exact, then comes one multiplication in f64
 * and one rounding, exact halves up as the vendor's library rounds.
 */
#ifndef SDNPU_LINEAR_H
#define SDNPU_LINEAR_H

#include "kernels.h"
#include "ops.h"

/* More terms or larger offsets could leave the 2^52 within which f64 sums are exact. */
enum { EMU_MOST_TERMS = 1 << 17, EMU_MOST_OFFSET = 1 << 17 };

/* y[rows][out] = x[rows][in] W + b. */
typedef struct emu_linear {
  const emu_tensor *x, *w, *bias, *y; /* bias: NULL without one */
  uint32_t rows, in, out;
  uint32_t in_axis, out_axis; /* of w */
} emu_linear;

/* op_linear_check.c: data types and encodings; shapes are the operators' matter. */
int emu_check_linear(const emu_linear *l, emu_why why);

/* op_linear_pack.c: what pack() writes, 64-byte aligned parts: panels of weights; then for whole
 * numbers scale, add and sums of kernels.h and the heaviest column, else the scale and the bias,
 * if any. */
typedef struct emu_packing {
  bool whole;
  enum emu_weight weight;   /* of floats */
  uint32_t planes;          /* of whole numbers */
  double offset;            /* whole: add this to every stored weight */
  uint32_t steps;           /* whole: pairs of terms */
  size_t panel_bytes, weight_bytes, column_bytes, bytes;
  bool scaled;              /* floats: one scale per column */
} emu_packing;
emu_packing emu_packing_of(const emu_linear *l);
void emu_pack_linear(const emu_linear *l, void *dst);
/* emu_chunk_of is emu_int_block.chunk for these weights: where no column's magnitudes times the
 * largest left number leave 32 bits, a sum need not be broken. */
uint32_t emu_chunk_of(const emu_linear *l, const emu_packing *p, const void *packed);

/* op_linear_run.c */
size_t emu_scratch_linear(const emu_linear *l);
void emu_run_linear(const emu_linear *l, const void *packed, void *scratch);

/* ---- whole numbers, for the static and the dynamic products ---- */

enum emu_whole emu_whole_of(uint32_t dtype);
/* emu_lowering is what int_rows subtracts; emu_shift what a packed right operand lacks to its
 * stored integers (both unsigned types are lowered to signed ones, two planes by 128 more). */
int32_t emu_lowering(uint32_t dtype);
int32_t emu_shift(uint32_t dtype);
uint32_t emu_planes(uint32_t dtype); /* 1 for 8 bits, 2 for 16 */
uint32_t emu_chunk(uint32_t dtype);  /* emu_int_block.chunk for this left operand */
double emu_scale_of(const emu_tensor *t, uint32_t channel);
int32_t emu_offset_of(const emu_tensor *t);

/* emu_put_plane writes the stored value v at (step s, column c, term i) of one panel. */
static inline void emu_put_planes(int8_t *panel, size_t plane_bytes, uint32_t planes, size_t k,
                                  uint32_t c, int32_t v) {
  size_t at = k / 2 * (2 * EMU_LANES) + 2 * c + k % 2;
  if (planes == 1) {
    panel[at] = (int8_t)v;
  } else {
    panel[at] = (int8_t)(v >> 8);
    panel[plane_bytes + at] = (int8_t)((v & 255) - 128);
  }
}

#endif

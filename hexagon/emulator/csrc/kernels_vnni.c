/* kernels_vnni.c: the AVX-512 path with products of whole numbers by VPDPBUSD, which adds four
 * products of an unsigned and a signed byte to each of 16 sums: twice as many as pairs of 16 bits.
 *
 * Left numbers are unsigned bytes here, one of 8 bits or two of 16 (the high ones first), so they
 * are too large by `base`, whose part in each column's sum is known: base times the column's sum.
 * Weights lie in pairs of terms; one permutation makes quads of two steps. Compared with the AVX2
 * path when the library is loaded (kernels.c), used only if they agree.
 */
#include "kernels.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#include <string.h>

#define TARGET "avx512f,avx512dq,avx512bw,avx512vl,avx512vnni,avx2,fma"
#define KERNEL static __attribute__((target(TARGET)))
#define LANE static inline __attribute__((always_inline, target(TARGET)))

#include "kernels_fetch.h"
#include "kernels_tile.h"
#include "kernels_vnni_tile.h"

/* ---- rows of whole numbers as rows of bytes ---- */

enum { MOST_SUMS = EMU_BLOCK_ROWS * 4 * EMU_LANES };

typedef struct {
  uint32_t bytes; /* of a number */
  double base;    /* what numbers are too large by */
} left_form;

static const left_form lefts[EMU_WHOLES] = {
    [EMU_WHOLE_S8] = {1, 128}, [EMU_WHOLE_U8] = {1, 0},
    [EMU_WHOLE_S16] = {2, 32768}, [EMU_WHOLE_U16] = {2, 32768}};

/* The low bytes lie half a row behind the high ones, so few rows of two bytes are twice as many
 * of one, half a stride apart; of more rows the low bytes come after the high ones. */
static bool at_once(uint32_t rows, enum emu_whole left) {
  return lefts[left].bytes == 2 && 2 * rows <= EMU_BLOCK_ROWS;
}

static uint32_t byte_rows(uint32_t rows, enum emu_whole left) {
  return at_once(rows, left) ? 2 * rows : rows;
}

static uint32_t panels_of(uint32_t rows, enum emu_whole left) {
  return wide[byte_rows(rows, left)].panels;
}

#include "kernels_vnni_finish.h"

/* ---- blocks ---- */

/* A fetch walks the page tables where it must, so that nothing has to be loaded ahead of it. */
static bool fetch_walks;

/* Intel's processors do (its optimization manual, 3.7.1). Of AMD's a Zen 5 takes 5 % less for 8
 * rows of u8 without loads; on a Zen 4 fetches alone gave nothing. */
static bool walks_pages(void) {
  enum { ZEN_5 = 26 };
  uint32_t a, b, c, d;
  if (!__get_cpuid(0, &a, &b, &c, &d) || b != signature_AMD_ebx) {
    return true;
  }
  return __get_cpuid(1, &a, &b, &c, &d) && (a >> 8 & 15) + (a >> 20 & 255) >= ZEN_5;
}

/* fetches_of_pass leaves the loads away where computing is so fast that they would hold it up. */
KERNEL fetches fetches_of_pass(const emu_int_block *b, const int8_t *w, size_t steps, uint32_t i,
                               uint32_t passes) {
  fetches next = fetches_of(&b->ahead, i, passes, steps, w, QUAD_BYTES);
  if (fetch_walks && next.end != NULL && next.step > 2 * LINE_BYTES) {
    next.end = next.from;
  }
  return next;
}

/* pass_of reads plane `plane` of the weights w, by `bytes` bytes of the left numbers, and is the
 * i-th of `passes` over the tile. */
KERNEL pass_of_tile pass_of(const emu_int_block *b, const int8_t *w, uint32_t bytes, uint32_t i,
                            uint32_t passes) {
  size_t quads = (b->steps + 1) / 2, half = b->a_stride / 2;
  return (pass_of_tile){.left = b->a,
                        .stride = at_once(b->rows, b->left) ? half : b->a_stride,
                        .w = w,
                        .quads = quads,
                        .bytes = bytes,
                        .half = half,
                        .next = fetches_of_pass(b, w, bytes * quads, i, passes)};
}

/* add_all adds up, in f64, passes whose sums stay within 32 bits: plane by plane of the weights and
 * byte by byte of the left numbers, the high ones first. */
KERNEL void add_all(const emu_int_block *b, const int8_t *w, const tile_set *tile, double *all) {
  int32_t part[MOST_SUMS] __attribute__((aligned(LINE_BYTES)));
  bool once = at_once(b->rows, b->left);
  uint32_t bytes = lefts[b->left].bytes, lots = once ? 1 : bytes;
  size_t row = tile->panels * EMU_LANES;
  memset(all, 0, b->rows * row * sizeof *all);
  for (uint32_t i = 0; i < lots * b->planes; i++) {
    double plane = i / lots + 1 < b->planes ? 256 : 1;
    pass_of_tile pass = pass_of(b, w + i / lots * b->plane_stride, 1, i, lots * b->planes);
    pass.left += i % lots * pass.half;
    for (size_t left = pass.quads; left > 0; left -= pass.quads) {
      pass.quads = left < MOST_QUADS ? left : MOST_QUADS;
      tile->run(b, &pass, part);
      for (uint32_t r = 0; r < byte_rows(b->rows, b->left); r++) {
        bool high = bytes == 2 && (once ? r % 2 : i % lots) == 0;
        const f64s times = f64s_set1(high ? 256 * plane : plane);
        double *to = all + (once ? r / 2 : r) * row;
        for (size_t j = 0; j < row; j += EMU_LANES) {
          f64s sums = f64s_of(_mm512_loadu_si512(part + r * row + j));
          f64s_store(to + j, f64s_fma(sums, times, f64s_load(to + j)));
        }
      }
      pass.left += 4 * pass.quads;
      pass.w += QUAD_BYTES * pass.quads;
      pass.next.from += pass.next.step * pass.quads;
    }
  }
}

/* add_bytes is for sums that stay within 32 bits in the end. */
KERNEL tile_sums add_bytes(const emu_int_block *b, const int8_t *w, const tile_set *tile,
                           int32_t *part) {
  size_t row = tile->panels * EMU_LANES;
  bool once = at_once(b->rows, b->left);
  pass_of_tile pass = pass_of(b, w, once ? 1 : lefts[b->left].bytes, 0, 1);
  tile->run(b, &pass, part);
  return once ? (tile_sums){.high = part, .low = part + row, .row = 2 * row}
              : (tile_sums){.low = part, .row = row};
}

/* fetch_columns asks for what finish reads: with nothing else on its way then, it would wait. Of
 * few terms 8 rows take 5 to 10 % less with it. */
LANE void fetch_columns(const emu_int_block *b, size_t column, uint32_t panels) {
  for (size_t i = column; i < column + panels * EMU_LANES; i += LINE_BYTES / sizeof(double)) {
    __builtin_prefetch(b->scale + i, 0, 3);
    __builtin_prefetch(b->add + i, 0, 3);
    __builtin_prefetch(b->sums + i, 0, 3);
  }
}

KERNEL void int_block(const emu_int_block *b) {
  int32_t part[MOST_SUMS] __attribute__((aligned(LINE_BYTES)));
  double all[MOST_SUMS] __attribute__((aligned(LINE_BYTES)));
  uint32_t panels = (b->columns + EMU_LANES - 1) / EMU_LANES, rows = byte_rows(b->rows, b->left);
  bool few = b->planes == 1 && b->steps <= b->chunk && b->steps <= 2 * MOST_QUADS;
  for (uint32_t p = 0; p < panels;) {
    const tile_set *tile = widest_of(rows, panels - p);
    const int8_t *w = b->w + p * b->plane_stride * b->planes;
    fetch_columns(b, (size_t)p * EMU_LANES, tile->panels);
    tile_sums sums = {.all = all, .row = tile->panels * EMU_LANES};
    if (few) {
      sums = add_bytes(b, w, tile, part);
    } else {
      add_all(b, w, tile, all);
    }
    finish(b, (size_t)p * EMU_LANES, tile->panels, &sums);
    p += tile->panels;
  }
}

#include "kernels_vnni_rows.h"

emu_kernels emu_kernels_vnni;

__attribute__((constructor)) static void fill(void) {
  fetch_walks = walks_pages();
  emu_kernels_vnni = emu_kernels_avx512;
  emu_kernels_vnni.name = "vnni";
  emu_kernels_vnni.whole_rows = EMU_BLOCK_ROWS;
  emu_kernels_vnni.whole_panels = panels_of;
  emu_kernels_vnni.int_block = int_block;
  emu_kernels_vnni.int_rows = int_rows;
}
#else
typedef int emu_no_vnni_here;
#endif

/* kernels_block.h: blocks of a matrix product in f32, included by kernels_impl.h.
 *
 * A tile is R rows by P panels of weights, accumulated in registers; the weights
 * are f32, f16 or s8, widened as they are read.
 */

typedef float elem_s;
typedef uint16_t elem_h;
typedef int8_t elem_b;

/* ---- blocks of a matrix product ---- */

#define DECLARE(r, p) v16 acc##r##_##p = v_set1(0);
#define DECLARE_ROW(E, r) E(DECLARE, r)

#define LOAD_s(unused, p) v16 w##p = v_load_s(at + p * b->panel_stride);
#define LOAD_h(unused, p) v16 w##p = v_load_h(at + p * b->panel_stride);
#define LOAD_b(unused, p) v16 w##p = v_load_b(at + p * b->panel_stride);
#define FUSE(r, p) acc##r##_##p = v_fma(x, w##p, acc##r##_##p);
#define FUSE_ROW(E, r)                                                                             \
  {                                                                                                \
    v16 x = v_set1(*(const float *)LEFT_##r);                                                      \
    E(FUSE, r)                                                                                     \
  }
#define STORE(r, p) v_store_s(out + p * EMU_LANES, acc##r##_##p);
#define STORE_ROW(E, r)                                                                            \
  E(STORE, r)                                                                                      \
  out += panels * EMU_LANES;

#define K_dense(i) (i)
#define K_listed(i) (b->index[i])

/* One tile: R rows by P panels, accumulated in registers, written to out[R][P * 16]. */
#define TILE_OF(R, P, TYPE, WHICH)                                                                 \
  KERNEL void tile_##R##_##P##_##TYPE##_##WHICH(const emu_block *b, const void *panel,             \
                                                float *out) {                                      \
    enum { panels = P };                                                                           \
    const elem_##TYPE *w = panel;                                                                  \
    const fetches next = fetches_of(&b->ahead, 0, 1, b->k, w, b->k_stride * sizeof *w);            \
    const size_t stride = b->a_stride * sizeof(float);                                             \
    const char *rows0 = (const char *)b->a, *rows3 = rows0 + ((R) > 3 ? 3 * stride : 0);           \
    const char *rows6 = rows3 + ((R) > 6 ? 3 * stride : 0);                                        \
    ROWS##R(DECLARE_ROW, PANELS##P)                                                                \
    for (size_t i = 0; i < b->k; i++) {                                                            \
      size_t k = K_##WHICH(i);                                                                     \
      const elem_##TYPE *at = w + k * b->k_stride;                                                 \
      const char *left0 = rows0 + k * sizeof(float), *left3 = rows3 + k * sizeof(float);           \
      const char *left6 = rows6 + k * sizeof(float);                                               \
      (void)left3, (void)left6;                                                                    \
      if (panels == 1 || ((R) >= EMU_AHEAD_ROWS && b->ahead.bytes != 0)) {                         \
        fetch(&next, k);                                                                           \
      }                                                                                            \
      PANELS##P(LOAD_##TYPE, 0)                                                                    \
      ROWS##R(FUSE_ROW, PANELS##P)                                                                 \
    }                                                                                              \
    ROWS##R(STORE_ROW, PANELS##P)                                                                  \
  }

#define TILE(R, P)                                                                                 \
  TILE_OF(R, P, s, dense)                                                                          \
  TILE_OF(R, P, s, listed)                                                                         \
  TILE_OF(R, P, h, dense)                                                                          \
  TILE_OF(R, P, h, listed)                                                                         \
  TILE_OF(R, P, b, dense)

TILE(1, 1)
TILE(2, 1)
TILE(3, 1)
TILE(4, 1)
TILE(5, 1)
TILE(6, 1)
HIGH_TILES(TILE)
MIDDLE_TILES(TILE)
WIDE_TILES(TILE)

typedef void (*tile_fn)(const emu_block *b, const void *panel, float *out);

/* The tile for a row count: by the weights' type, then by listed k. s8 weights are static, and
 * lists come from the right operands of MatMul, which are not. */
typedef struct {
  uint32_t panels;
  tile_fn run[EMU_WEIGHTS][2];
} tile_set;

#define TILE_ENTRY(R, P)                                                                           \
  [R] = {P,                                                                                        \
         {{tile_##R##_##P##_s_dense, tile_##R##_##P##_s_listed},                                   \
          {tile_##R##_##P##_h_dense, tile_##R##_##P##_h_listed},                                   \
          {tile_##R##_##P##_b_dense, NULL}}},

static const tile_set narrow_tiles[EMU_BLOCK_ROWS + 1] = {
    TILE_ENTRY(1, 1) TILE_ENTRY(2, 1) TILE_ENTRY(3, 1) TILE_ENTRY(4, 1) TILE_ENTRY(5, 1)
        TILE_ENTRY(6, 1) HIGH_TILES(TILE_ENTRY)};
/* Of 0 panels: none. */
static const tile_set middle_tiles[EMU_BLOCK_ROWS + 1] = {[0] = {0, {{NULL}}},
                                                          MIDDLE_TILES(TILE_ENTRY)};
static const tile_set wide_tiles[EMU_BLOCK_ROWS + 1] = {[0] = {0, {{NULL}}},
                                                        WIDE_TILES(TILE_ENTRY)};

/* widest_of is the tile of most panels that those left fill. A single panel is a chain of sums,
 * each waiting for the one before. */
KERNEL const tile_set *widest_of(uint32_t rows, uint32_t left) {
  const tile_set *wide = &wide_tiles[rows], *middle = &middle_tiles[rows];
  if (wide->panels != 0 && left >= wide->panels) {
    return wide;
  }
  return middle->panels != 0 && left >= middle->panels ? middle : &narrow_tiles[rows];
}

KERNEL uint32_t panels_of(uint32_t rows) {
  return wide_tiles[rows].panels != 0 ? wide_tiles[rows].panels : 1;
}

/* finish scales, adds the bias, rounds and stores one tile; +0 turns a sum of -0 into +0, so
 * that it does not matter whether a zero term was skipped. Returns the lanes that are NaN. */
KERNEL uint32_t finish(const emu_block *b, size_t column, uint32_t panels, const float *tile) {
  uint32_t nan = 0;
  size_t size = b->half ? sizeof(uint16_t) : sizeof(float);
  for (uint32_t r = 0; r < b->rows; r++) {
    for (uint32_t p = 0; p < panels; p++, tile += EMU_LANES) {
      size_t c = column + (size_t)p * EMU_LANES;
      v16 bias = b->bias ? v_load_s(b->bias + c) : v_set1(0), sum = v_load_s(tile);
      sum = b->scale ? v_fma(sum, v_load_s(b->scale + c), bias) : v_add(sum, bias);
      nan |= v_is_nan(sum);
      store_part((char *)b->out + (r * b->out_stride + c) * size, sum, b->columns - c, b->half);
    }
  }
  return nan;
}

KERNEL bool block(const emu_block *b) {
  static const size_t sizes[EMU_WEIGHTS] = {sizeof(elem_s), sizeof(elem_h), sizeof(elem_b)};
  float tile[EMU_BLOCK_ROWS * 8 * EMU_LANES];
  uint32_t nan = 0, panels = (b->columns + EMU_LANES - 1) / EMU_LANES;
  for (uint32_t p = 0; p < panels;) {
    const tile_set *set = widest_of(b->rows, panels - p);
    const void *w = (const char *)b->w + p * b->panel_stride * sizes[b->weight];
    set->run[b->weight][b->index != NULL](b, w, tile);
    nan |= finish(b, (size_t)p * EMU_LANES, set->panels, tile);
    p += set->panels;
  }
  return nan != 0;
}

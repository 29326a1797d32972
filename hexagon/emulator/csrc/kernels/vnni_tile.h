/* kernels/vnni_tile.h contains the register tiles of vnni.c: byte rows by panels. */
enum {
  QUAD_BYTES = 4 * EMU_LANES,
  MAX_QUADS = 16384 /* MAX_QUADS keeps sums of 255 * 128 * 4 * MAX_QUADS below 2^31 */
};

#define ZERO(r, p) __m512i sum##r##_##p = _mm512_setzero_si512();
#define ZERO_ROW(P, r) P(ZERO, r)
#define QUADS(unused, p)                                                                           \
  __m512i w##p = _mm512_permutexvar_epi16(order, _mm512_loadu_si512(at + p * panel_bytes));
#define ADD(r, p) sum##r##_##p = _mm512_dpbusd_epi32(sum##r##_##p, x, w##p);
#define ADD_ROW(P, r)                                                                              \
  {                                                                                                \
    int32_t quad;                                                                                  \
    memcpy(&quad, LEFT_##r, sizeof quad);                                                          \
    __m512i x = _mm512_set1_epi32(quad);                                                           \
    P(ADD, r)                                                                                      \
  }
#define STORE(r, p) _mm512_storeu_si512(out + (r * panels + p) * EMU_LANES, sum##r##_##p);
#define STORE_ROW(P, r) P(STORE, r)

#define RAISE(r, p) sum##r##_##p = _mm512_slli_epi32(sum##r##_##p, 8);
#define RAISE_ROW(P, r) P(RAISE, r)

/* tile_pass describes one pass over a tile. A pass reads `quads` quads of k from the byte rows of A
 * and from one plane of the weights. If `bytes` is 2, the pass sums the products of the high bytes
 * of A, multiplies the sums by 256, and adds the products of the low bytes, which start `half`
 * bytes after the high bytes. */
typedef struct {
  const char *left;
  size_t stride; /* stride is the distance between two rows in bytes */
  const int8_t *w;
  size_t quads;
  uint32_t bytes;
  size_t half;
  prefetch_stream next;
} tile_pass;

#define TILE(R, P)                                                                                 \
  KERNEL void tile_##R##_##P(const emu_int_gemm *b, const tile_pass *pass, int32_t *out) {         \
    enum { panels = P };                                                                           \
    const __m512i order = _mm512_load_si512(quad_order);                                           \
    const size_t panel_bytes = b->plane_stride * b->planes, stride = pass->stride;                 \
    prefetch_stream next = pass->next;                                                             \
    const bool prefetching = panels == 1 || ((R) >= EMU_PREFETCH_ROWS && next.end != NULL);        \
    (void)panel_bytes;                                                                             \
    FOR_ROWS##R(ZERO_ROW, FOR_PANELS##P) for (uint32_t byte = 0; byte < pass->bytes; byte++) {     \
      const char *rows0 = pass->left + byte * pass->half;                                          \
      const char *rows3 = rows0 + ((R) > 3 ? 3 * stride : 0);                                      \
      const char *rows6 = rows3 + ((R) > 6 ? 3 * stride : 0);                                      \
      if (byte > 0) {                                                                              \
        FOR_ROWS##R(RAISE_ROW, FOR_PANELS##P) next.from += pass->quads * next.step;                \
      }                                                                                            \
      for (size_t q = 0; q < pass->quads; q++) {                                                   \
        const int8_t *at = pass->w + q * QUAD_BYTES;                                               \
        const char *left0 = rows0 + 4 * q, *left3 = rows3 + 4 * q, *left6 = rows6 + 4 * q;         \
        (void)left3, (void)left6;                                                                  \
        if (prefetching) {                                                                         \
          prefetch_line(&next, q);                                                                 \
        }                                                                                          \
        FOR_PANELS##P(QUADS, 0) FOR_ROWS##R(ADD_ROW, FOR_PANELS##P)                                \
      }                                                                                            \
    }                                                                                              \
    FOR_ROWS##R(STORE_ROW, FOR_PANELS##P)                                                          \
  }

/* quad_order is the permutation that turns two pairs of k into a quad: for each column c, the words
 * of the first and of the second pair become the words 2c and 2c + 1. */
#define COLUMN(c) c, c + 16
static const uint16_t quad_order[32] __attribute__((aligned(64))) = {
    COLUMN(0), COLUMN(1), COLUMN(2),  COLUMN(3),  COLUMN(4),  COLUMN(5),  COLUMN(6),  COLUMN(7),
    COLUMN(8), COLUMN(9), COLUMN(10), COLUMN(11), COLUMN(12), COLUMN(13), COLUMN(14), COLUMN(15)};

#define NARROW_TILES(T) T(1, 1) T(2, 1) T(3, 1) T(4, 1) T(5, 1) T(6, 1) T(7, 1) T(8, 1)
#define MIDDLE_TILES(T) T(1, 4) T(2, 4)
#define WIDE_TILES(T) T(1, 8) T(2, 8) T(3, 4) T(4, 4) T(5, 4) T(6, 4) T(7, 3) T(8, 3)
NARROW_TILES(TILE)
MIDDLE_TILES(TILE)
WIDE_TILES(TILE)

typedef struct {
  uint32_t panels;
  void (*run)(const emu_int_gemm *b, const tile_pass *pass, int32_t *out);
} tile_set;

#define ENTRY(R, P) [R] = {P, tile_##R##_##P},
static const tile_set narrow[EMU_GEMM_ROWS + 1] = {NARROW_TILES(ENTRY)};
static const tile_set middle[EMU_GEMM_ROWS + 1] = {
    MIDDLE_TILES(ENTRY)}; /* an entry of 0 panels means that the table has no tile for that number
                             of rows */
static const tile_set wide[EMU_GEMM_ROWS + 1] = {WIDE_TILES(ENTRY)};

/* widest_tile returns the tile with the most panels, but at most `left` panels. */
KERNEL const tile_set *widest_tile(uint32_t rows, uint32_t left) {
  if (left >= wide[rows].panels) {
    return &wide[rows];
  }
  return middle[rows].panels != 0 && left >= middle[rows].panels ? &middle[rows] : &narrow[rows];
}

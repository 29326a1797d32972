/* kernels_vnni_rows.h: rows of whole numbers as rows of bytes, as kernels_vnni.c reads them. */

/* Loops of a constant length: compilers turn them into vectors without being asked. */
#define ROW(NAME, TYPE, PUT)                                                                       \
  LANE int32_t NAME##_some(uint8_t *restrict high, uint8_t *restrict low,                          \
                           const TYPE *restrict src, size_t n, int32_t base) {                     \
    int32_t sum = 0;                                                                               \
    for (size_t i = 0; i < n; i++) {                                                               \
      int32_t x = src[i] + base;                                                                   \
      PUT;                                                                                         \
      sum += x;                                                                                    \
    }                                                                                              \
    return sum;                                                                                    \
  }                                                                                                \
  KERNEL int64_t NAME(uint8_t *high, uint8_t *low, const TYPE *src, size_t n, size_t step,         \
                      int32_t base) {                                                              \
    enum { PIECE = 64 };                                                                           \
    int64_t sum = 0;                                                                               \
    size_t i = 0;                                                                                  \
    for (; step == 1 && i + PIECE <= n; i += PIECE) {                                              \
      sum += NAME##_some(high + i, low + i, src + i, PIECE, base);                                 \
    }                                                                                              \
    for (; i < n; i++) {                                                                           \
      sum += NAME##_some(high + i, low + i, src + i * step, 1, base);                              \
    }                                                                                              \
    return sum;                                                                                    \
  }

#define PUT_BYTE ((void)low, high[i] = (uint8_t)x)
#define PUT_BOTH (high[i] = (uint8_t)(x >> 8), low[i] = (uint8_t)x)
ROW(row_s8, int8_t, PUT_BYTE)
ROW(row_u8, uint8_t, PUT_BYTE)
ROW(row_s16, int16_t, PUT_BOTH)
ROW(row_u16, uint16_t, PUT_BOTH)

KERNEL int64_t int_rows(void *dst, const void *src, size_t n, size_t step, enum emu_whole type) {
  size_t half = emu_whole_row(n) / 2;
  uint8_t *high = dst, *low = high + half;
  int64_t less = (int64_t)lefts[type].base * (int64_t)n;
  for (uint32_t i = 0; i < lefts[type].bytes; i++) {
    memset(high + i * half + n, 0, 4); /* up to a whole quad */
  }
  switch (type) {
  case EMU_WHOLE_S8:
    return row_s8(high, low, src, n, step, 128) - less;
  case EMU_WHOLE_U8:
    return row_u8(high, low, src, n, step, 0);
  case EMU_WHOLE_S16:
    return row_s16(high, low, src, n, step, 32768) - less;
  default:
    return row_u16(high, low, src, n, step, 0) - less;
  }
}

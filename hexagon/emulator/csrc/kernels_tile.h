/* kernels_tile.h: what tiles of floats, of whole numbers and of bytes are written out with: F(E, r)
 * for each of some rows, X(r, p) for each of some panels. */
#ifndef SDNPU_KERNELS_TILE_H
#define SDNPU_KERNELS_TILE_H

#define ROWS1(F, E) F(E, 0)
#define ROWS2(F, E) ROWS1(F, E) F(E, 1)
#define ROWS3(F, E) ROWS2(F, E) F(E, 2)
#define ROWS4(F, E) ROWS3(F, E) F(E, 3)
#define ROWS5(F, E) ROWS4(F, E) F(E, 4)
#define ROWS6(F, E) ROWS5(F, E) F(E, 5)
#define ROWS7(F, E) ROWS6(F, E) F(E, 6)
#define ROWS8(F, E) ROWS7(F, E) F(E, 7)
#define PANELS1(X, r) X(r, 0)
#define PANELS2(X, r) PANELS1(X, r) X(r, 1)
#define PANELS3(X, r) PANELS2(X, r) X(r, 2)
#define PANELS4(X, r) PANELS2(X, r) X(r, 2) X(r, 3)
#define PANELS8(X, r) PANELS4(X, r) X(r, 4) X(r, 5) X(r, 6) X(r, 7)

/* The k-th number of row r: three pointers and a scaled stride reach eight rows, where eight
 * pointers would not leave registers for the rest. */
#define LEFT_0 (left0)
#define LEFT_1 (left0 + stride)
#define LEFT_2 (left0 + 2 * stride)
#define LEFT_3 (left3)
#define LEFT_4 (left0 + 4 * stride)
#define LEFT_5 (left3 + 2 * stride)
#define LEFT_6 (left6)
#define LEFT_7 (left3 + 4 * stride)

/* What whole numbers can be, and their bytes. */
static const struct {
  double least, most;
  size_t size;
} wholes[EMU_WHOLES] = {
    [EMU_WHOLE_S8] = {INT8_MIN, INT8_MAX, 1},
    [EMU_WHOLE_U8] = {0, UINT8_MAX, 1},
    [EMU_WHOLE_S16] = {INT16_MIN, INT16_MAX, 2},
    [EMU_WHOLE_U16] = {0, UINT16_MAX, 2},
};

#endif

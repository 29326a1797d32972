/* bench.h: what the parts of the benchmark share. */
#ifndef BENCH_H
#define BENCH_H

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "f16.h"
#include "kernels.h"
#include "ops.h"

/* seconds_now counts from some moment; of one thread alone its processor time, which a busy
 * machine changes little. */
double seconds_now(void);
/* best is the shortest of many runs within the time given: other programs only add to it. */
double best(double seconds, void (*fn)(void *), void *arg);

/* How a weight comes into a register: as it lies, or by instructions that 8 rows share. */
enum widening { AS_IT_LIES, F16_TO_F32, S8_TO_F32, S8_FOR_U8, S8_FOR_U16, WIDENINGS };

/* peaks.c: what the machine can do, on all threads of the pool. */
typedef struct {
  double fused;    /* multiply-adds per second, f32, in registers */
  double products[2]; /* of u8 and of u16 with s8, with their additions, in registers and by the
                         instructions of the code path that runs; 0: unknown */
  double eight[WIDENINGS]; /* multiply-adds per second where each vector of weights is widened once
                              for 8 of them; 0: unknown */
} peaks;
peaks measure_peaks(void);
/* streaming is the most bytes per second that all threads read from memory, within the seconds
 * given and at least three times. */
double streaming(double seconds);

/* node.c: nodes with made-up contents. */
typedef struct {
  emu_node node;
  emu_tensor *in[3], *out[1];
  emu_param params[2];
  void *scratch, *packed; /* its own; node.packed may be another's */
} bench;
void *aligned(size_t size);
emu_tensor *tensor(uint32_t kind, uint32_t dtype, uint32_t a, uint32_t b, uint32_t c, uint32_t d);
bench *make(const char *type, emu_tensor *a, emu_tensor *b, emu_tensor *y);
void flag(bench *w, const char *name, bool value);
void prepare(bench *w);
void once(void *w);
void report(const char *name, bench *w);
void drop(bench *w);

/* linear.c */
void bench_layers(const peaks *p, const char *only); /* only: the type; all: "" */

#endif

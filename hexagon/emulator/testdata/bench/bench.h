/* bench.h contains declarations that the files of the benchmark share. */
#ifndef BENCH_H
#define BENCH_H

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "f16.h"
#include "kernels/kernels.h"
#include "ops/ops.h"

/* seconds_now returns a time in seconds with an arbitrary start. If the benchmark runs on one
 * thread, seconds_now returns the processor time of that thread, which other programs change
 * little. */
double seconds_now(void);
/* best returns the time of the shortest of many runs within `seconds`, because other programs can
 * only make a run longer. */
double best(double seconds, void (*fn)(void *), void *arg);

/* The constants below tell how a weight gets into a register: unconverted, or widened by
 * instructions that 8 rows share. */
enum widening { AS_IT_LIES, F16_TO_F32, S8_TO_F32, S8_FOR_U8, S8_FOR_U16, WIDENINGS };

/* peaks.c measures the machine's peak rates, on all threads of the pool. */
typedef struct {
  double fused;    /* fused is the rate of f32 multiply-adds per second, in registers */
  double products[2]; /* products holds the rates per second of products of u8 and of u16 with s8,
                         including their additions, in registers, by the instructions of the current
                         code path; 0: unknown */
  double eight[WIDENINGS]; /* eight holds the rates of multiply-adds per second if each vector of
                              weights is widened once for 8 of them; 0: unknown */
} peaks;
peaks measure_peaks(void);
/* streaming returns the most bytes per second that all threads read from memory. streaming measures
 * for `seconds` and at least three times. */
double streaming(double seconds);

/* node.c makes nodes with random contents for the benchmark. */
typedef struct {
  emu_node node;
  emu_tensor *in[3], *out[1];
  emu_param params[2];
  void *scratch, *packed; /* the bench owns scratch and packed; node.packed may belong to another
                             bench */
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
void bench_layers(const peaks *p, const char *only); /* only limits the benchmark to one weight
                                                        type; "" means all types */

#endif

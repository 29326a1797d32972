/* bench_ops.c: how fast the operators run, as shares of what this machine can do, measured in
 * the same run: fused multiply-adds per second in registers, and bytes read per second from
 * memory, both on all threads of the pool. Prints one "name value unit" per line. */
#define _POSIX_C_SOURCE 200809L
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "f16.h"
#include "kernels.h"
#include "ops.h"

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* best is the shortest of many runs within the time given: other programs only add to it. */
static double best(double seconds, void (*fn)(void *), void *arg) {
  double shortest = 1e9, end = now() + seconds;
  for (int i = 0; i < 3 || now() < end; i++) {
    double start = now();
    fn(arg);
    double took = now() - start;
    shortest = took < shortest ? took : shortest;
  }
  return shortest;
}

/* ---- what the machine can do ---- */

enum { CHAINS = 10, PEAK_ROUNDS = 100000, VECTOR = 8 };
typedef float vector __attribute__((vector_size(4 * VECTOR)));

#if defined(__x86_64__)
#define REGISTER "+x"
__attribute__((target("avx2,fma")))
#else
#define REGISTER "+m"
#endif
static void
fuse_in_registers(void *arg, uint32_t task) {
  vector by = {0.5f, 0.5f, 0.5f, 0.5f, 0.5f, 0.5f, 0.5f, 0.5f};
  vector a = by + (float)task, b = a, c = a, d = a, e = a, f = a, g = a, h = a, i = a, j = a;
  for (int round = 0; round < PEAK_ROUNDS; round++) {
    /* Contracted: this file is compiled with -ffp-contract=fast. */
    a = a * by + by, b = b * by + by, c = c * by + by, d = d * by + by, e = e * by + by;
    f = f * by + by, g = g * by + by, h = h * by + by, i = i * by + by, j = j * by + by;
    __asm__ volatile("" : REGISTER(a), REGISTER(b), REGISTER(c), REGISTER(d), REGISTER(e));
    __asm__ volatile("" : REGISTER(f), REGISTER(g), REGISTER(h), REGISTER(i), REGISTER(j));
  }
  a += b + c + d + e + f + g + h + i + j;
  ((float *)arg)[task * 64] = a[0];
}

static void peak(void *sink) { emu_parallel(emu_pool_threads(), fuse_in_registers, sink); }

enum { STREAM_BYTES = 192 << 20, STREAM_TASKS = 96 };
typedef uint64_t words __attribute__((vector_size(32)));

#if defined(__x86_64__)
__attribute__((target("avx2")))
#endif
static void
read_part(void *arg, uint32_t task) {
  size_t count = STREAM_BYTES / STREAM_TASKS / sizeof(words);
  const words *from = (const words *)arg + task * count;
  words a = {0}, b = {0}, c = {0}, d = {0};
  for (size_t i = 0; i < count; i += 4) {
    a ^= from[i];
    b ^= from[i + 1];
    c ^= from[i + 2];
    d ^= from[i + 3];
  }
  a ^= b ^ c ^ d;
  __asm__ volatile("" : : "m"(a));
}

static void stream(void *bytes) { emu_parallel(STREAM_TASKS, read_part, bytes); }

/* ---- operators ---- */

static void *aligned(size_t size) {
  void *p = NULL;
  if (posix_memalign(&p, 64, size + 64) != 0) {
    exit(2);
  }
  return p;
}

static void fill(emu_tensor *t, float scale) {
  uint32_t state = 7;
  for (uint64_t i = 0; i < emu_elements(t); i++) {
    state = state * 1664525 + 1013904223;
    emu_put(t->data, i, true, scale * (float)(int32_t)state * 0x1p-31f);
  }
}

static emu_tensor *tensor(uint32_t kind, uint32_t a, uint32_t b, uint32_t c, uint32_t d) {
  emu_tensor *t = calloc(1, sizeof *t);
  uint32_t dims[4] = {a, b, c, d};
  t->kind = kind;
  t->dtype = EMU_F16;
  for (int i = 0; i < 4; i++) { /* zeros stand for absent dims */
    if (dims[i] != 0) {
      t->dims[t->rank++] = dims[i];
    }
  }
  t->data = aligned(emu_elements(t) * 2);
  fill(t, 1);
  return t;
}

typedef struct {
  emu_node node;
  emu_tensor *in[3], *out[1];
  emu_param params[1];
  void *scratch;
} bench;

static bench *make(const char *type, emu_tensor *a, emu_tensor *b, emu_tensor *y) {
  bench *w = calloc(1, sizeof *w);
  w->in[0] = a;
  w->in[1] = b;
  w->out[0] = y;
  w->node = (emu_node){.op = emu_find_op(type), .n_in = b ? 2 : 1, .n_out = 1, .in = w->in,
                       .out = w->out, .params = w->params};
  return w;
}

static void flag(bench *w, const char *name) {
  w->params[w->node.n_params++] =
      (emu_param){.name = (char *)name, .dtype = EMU_BOOL8, .scalar = {.b8 = 1}};
}

static void prepare(bench *w) {
  char why[200];
  const emu_op *op = w->node.op;
  if (op->check(&w->node, why, sizeof why)) {
    printf("%s: %s\n", op->type, why);
    exit(1);
  }
  size_t size = op->packed_size ? op->packed_size(&w->node) : 0;
  if (size > 0) {
    void *packed = aligned(size);
    op->pack(&w->node, packed);
    w->node.packed = packed;
  }
  w->scratch = aligned(op->scratch_size ? op->scratch_size(&w->node) : 0);
}

static void once(void *arg) {
  bench *w = arg;
  emu_pool_enter();
  w->node.op->run(&w->node, w->scratch);
  emu_pool_leave();
}

static void linear(uint32_t rows, uint32_t in, uint32_t out, double fused_per_second) {
  bench *w = make("FullyConnected", tensor(EMU_NATIVE, rows, in, 0, 0),
                  tensor(EMU_STATIC, out, in, 0, 0), tensor(EMU_NATIVE, rows, out, 0, 0));
  prepare(w);
  double took = best(0.25, once, w), fused = (double)rows * in * out / took;
  printf("fully_connected_%ux%u_%u_rows %.1f %%-of-peak\n", in, out, rows,
         100 * fused / fused_per_second);
}

/* one_row runs through layers that together exceed every cache, as decoding does. */
enum { LAYERS = 96 };

static void all_layers(void *arg) {
  bench **layers = arg;
  emu_pool_enter();
  for (int i = 0; i < LAYERS; i++) {
    layers[i]->node.op->run(&layers[i]->node, layers[i]->scratch);
  }
  emu_pool_leave();
}

static void few_rows(uint32_t rows, double bytes_per_second) {
  bench *layers[LAYERS];
  for (int i = 0; i < LAYERS; i++) {
    layers[i] = make("FullyConnected", tensor(EMU_NATIVE, rows, 576, 0, 0),
                     tensor(EMU_STATIC, 1536, 576, 0, 0), tensor(EMU_NATIVE, rows, 1536, 0, 0));
    prepare(layers[i]);
  }
  double took = best(1, all_layers, layers);
  printf("fully_connected_%u_rows_streaming %.1f %%-of-bandwidth\n", rows,
         100 * LAYERS * 576.0 * 1536 * 2 / took / bytes_per_second);
}

static void report(const char *name, bench *w) {
  prepare(w);
  printf("%s %.1f us\n", name, 1e6 * best(0.25, once, w));
}

static void attention(uint32_t rows, uint32_t used) {
  enum { SLOTS = 2176 };
  char name[64];
  emu_tensor *q = tensor(EMU_NATIVE, 1, 3, rows, 64), *k = tensor(EMU_NATIVE, 1, 3, SLOTS, 64);
  emu_tensor *scores = tensor(EMU_NATIVE, 1, 3, rows, SLOTS), *p = tensor(3, 1, 3, rows, SLOTS);
  bench *qk = make("MatMul", q, k, scores);
  flag(qk, "transpose_in1");
  snprintf(name, sizeof name, "scores_%u_rows", rows);
  report(name, qk);
  for (uint64_t i = 0; i < emu_elements(scores); i++) {
    emu_put(scores->data, i, true, i % SLOTS < used ? (float)(i % 7) : -30000);
  }
  snprintf(name, sizeof name, "softmax_%u_rows_%u_used", rows, used);
  report(name, make("Softmax", scores, NULL, p));
  snprintf(name, sizeof name, "values_%u_rows_%u_used", rows, used);
  report(name, make("MatMul", p, k, q));
  snprintf(name, sizeof name, "add_mask_%u_rows", rows);
  report(name, make("ElementWiseAdd", scores, tensor(3, 1, 1, rows, SLOTS), p));
}

/* Any argument: the machine's figures alone. */
int main(int argc, char **argv) {
  (void)argv;
  float *sink = aligned(64 * 64 * sizeof *sink);
  void *bytes = aligned(STREAM_BYTES);
  memset(bytes, 1, STREAM_BYTES);
  double fused = (double)CHAINS * PEAK_ROUNDS * VECTOR * emu_pool_threads() / best(0.5, peak, sink);
  double rate = STREAM_BYTES / best(1, stream, bytes);
  printf("threads %u %s\npeak %.1f Gfma/s\nstreaming %.1f GB/s\n", emu_pool_threads(),
         emu_code_path(), fused * 1e-9, rate * 1e-9);
  if (argc > 1) {
    return 0;
  }
  static const uint32_t rows[] = {8, 32, 128};
  for (int i = 0; i < 3; i++) {
    linear(rows[i], 576, 1536, fused);
    linear(rows[i], 1536, 576, fused);
    linear(rows[i], 576, 192, fused);
  }
  linear(32, 576, 49152, fused);
  few_rows(1, rate);
  few_rows(4, rate);
  attention(3, 300);
  attention(3, 2176);
  attention(384, 300);
  attention(384, 2176);
  return 0;
}

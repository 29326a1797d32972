/* linear.c measures linear operators with the shapes of SmolLM2 in every type, as shares of the
 * machine's peak rates.
 */
#include "bench.h"

typedef struct {
  const char *name;
  uint32_t x, w;
  enum widening widening;
} kind;

static const kind kinds[] = {{"f16", EMU_F16, EMU_F16, F16_TO_F32},
                             {"f32", EMU_F32, EMU_F32, AS_IT_LIES},
                             {"f16_s8", EMU_F16, EMU_QS8, S8_TO_F32},
                             {"u8_s8", EMU_QU8, EMU_QS8, S8_FOR_U8},
                             {"u16_s8", EMU_QU16, EMU_QS8, S8_FOR_U16}};

static const uint32_t shapes[][2] = {{576, 1536}, {1536, 576}, {576, 49152}};

/* In the benchmark, few rows read their weights from memory, as decoding does: the layers of one
 * measurement together exceed every cache. */
enum { STREAMED_BYTES = 160 << 20, MOST_LAYERS = 400 };

typedef struct {
  bench *layers[MOST_LAYERS];
  double least[MOST_LAYERS]; /* seconds */
  uint32_t count;
} model;

static bench *make_layer(const kind *k, uint32_t rows, const uint32_t *shape, emu_tensor *w) {
  return make("FullyConnected", tensor(EMU_NATIVE, k->x, rows, shape[0], 0, 0), w,
              tensor(EMU_NATIVE, k->x, rows, shape[1], 0, 0));
}

/* next_layer makes a layer with other weights of the same shape and type. The layer that next_layer
 * makes shares rows, results and scratch with the first layer, as the nodes of a graph share arena
 * and scratch. */
static bench *next_layer(const bench *first, void *packed) {
  bench *layer = make("FullyConnected", first->in[0], first->in[1], first->out[0]);
  layer->node.packed = packed;
  layer->scratch = first->scratch;
  return layer;
}

/* In the benchmark, weights are packed once and copied, because a layer reads nothing else. */
static model *make_model(const kind *k, const uint32_t *shape) {
  model *m = calloc(1, sizeof *m);
  emu_tensor *w = tensor(EMU_STATIC, k->w, shape[1], shape[0], 0, 0);
  size_t each = (size_t)shape[0] * shape[1] * emu_dtype_size(k->w);
  m->count = STREAMED_BYTES / (uint32_t)each + 1;
  m->count = m->count < MOST_LAYERS ? m->count : MOST_LAYERS;
  bench *first = m->layers[0] = make_layer(k, 1, shape, w);
  prepare(first);
  size_t size = first->node.op->packed_size(&first->node);
  for (uint32_t i = 1; i < m->count; i++) {
    bench *layer = m->layers[i] = next_layer(first, aligned(size));
    layer->packed = (void *)(uintptr_t)layer->node.packed;
    memcpy(layer->packed, first->packed, size);
  }
  return m;
}

/* with_rows makes the same model of layers for more rows. */
static model *with_rows(const kind *k, uint32_t rows, const uint32_t *shape, const model *from) {
  model *m = calloc(1, sizeof *m);
  m->count = from->count;
  bench *first = m->layers[0] = make_layer(k, rows, shape, from->layers[0]->in[1]);
  first->node.packed = from->layers[0]->packed;
  first->scratch = aligned(first->node.op->scratch_size(&first->node));
  for (uint32_t i = 1; i < m->count; i++) {
    m->layers[i] = next_layer(first, from->layers[i]->packed);
  }
  return m;
}

static void free_model(model *m) {
  for (uint32_t i = m->count; i-- > 0;) {
    m->layers[i]->scratch = i == 0 ? m->layers[0]->scratch : NULL; /* shared */
    drop(m->layers[i]);
  }
  free(m);
}

/* run_model returns the total time of all layers in seconds. */
static double run_model(model *m, bool first) {
  double all = 0;
  emu_pool_enter();
  for (uint32_t i = 0; i < m->count; i++) {
    double start = seconds_now();
    m->layers[i]->node.op->run(&m->layers[i]->node, m->layers[i]->scratch);
    double took = seconds_now() - start;
    m->least[i] = first || took < m->least[i] ? took : m->least[i];
    all += took;
  }
  emu_pool_leave();
  return all;
}

static double mean(const model *m) {
  double sum = 0;
  for (uint32_t i = 0; i < m->count; i++) {
    sum += m->least[i];
  }
  return sum / m->count;
}

static int ascending(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return x < y ? -1 : x > y;
}

typedef struct {
  double one, eight; /* one and eight are the seconds per layer: the mean over layers of the
                        shortest run */
  double ratio;      /* ratio is the time of 8 rows divided by the time of 1 row: the median over
                        pairs of adjacent passes */
  double bytes;      /* bytes is the memory bandwidth in bytes per second, measured between the
                        runs */
} few;

/* time_few measures memory bandwidth, then runs 1 and 8 rows over the same weights, alternately.
 * On a shared machine the bandwidth changes by up to a half from moment to moment, so the ratio
 * of two shortest times would compare two moments. */
static few time_few(const kind *k, const uint32_t *shape) {
  enum { MOST = 1000, LEAST = 5 };
  static double ratios[MOST];
  model *narrow = make_model(k, shape), *wide = with_rows(k, 8, shape, narrow);
  double end = seconds_now() + 2, bytes = 0;
  int n = 0;
  for (; n < LEAST || (n < MOST && seconds_now() < end); n++) {
    double now = streaming(0), one = run_model(narrow, n == 0);
    bytes = now > bytes ? now : bytes;
    ratios[n] = run_model(wide, n == 0) / one;
  }
  qsort(ratios, (size_t)n, sizeof *ratios, ascending);
  few result = {mean(narrow), mean(wide), ratios[n / 2], bytes};
  free_model(wide);
  free_model(narrow);
  return result;
}

/* time_many returns the shortest time of one layer whose weights stay in the caches. */
static double time_many(const kind *k, uint32_t rows, const uint32_t *shape) {
  bench *layer = make_layer(k, rows, shape, tensor(EMU_STATIC, k->w, shape[1], shape[0], 0, 0));
  prepare(layer);
  double took = best(0.25, once, layer);
  drop(layer);
  return took;
}

/* bound_of returns the least time that 8 rows can take on this machine: the time of one row,
 * which reads the same weights, or the time to widen the weights once and multiply 8 times,
 * whichever is longer. */
static double bound_of(const peaks *p, const kind *k, double terms, double one) {
  double computing = p->eight[k->widening] > 0 ? 8 * terms / p->eight[k->widening] : 0;
  return one > computing ? one : computing;
}

void bench_layers(const peaks *p, const char *only) {
  printf("\n%-8s %-10s | 1 row: GB/s, %% of streaming | 8 rows / 1, median; shortest (least by the "
         "peaks) | 32 rows: G/s, %% of peak | 128 rows\n", "type", "shape");
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
    const kind *k = &kinds[i];
    if (*only != 0 && strcmp(only, k->name) != 0) {
      continue;
    }
    double peak = k->x == EMU_QU8 ? p->products[0] : k->x == EMU_QU16 ? p->products[1] : p->fused;
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
      double terms = (double)shapes[s][0] * shapes[s][1];
      few times = time_few(k, shapes[s]);
      double some = time_many(k, 32, shapes[s]), many = time_many(k, 128, shapes[s]);
      double rate = terms * (double)emu_dtype_size(k->w) / times.one;
      printf("%-8s %4ux%-6u| %5.1f %5.1f%% %13s | %11.2f; %4.2f (%4.2f) %22s | %9.1f %5.1f%% %9s | "
             "%5.1f %5.1f%%\n", k->name, shapes[s][0], shapes[s][1], rate * 1e-9,
             100 * rate / times.bytes, "", times.ratio, times.eight / times.one,
             bound_of(p, k, terms, times.one) / times.one, "", 32e-9 * terms / some,
             100 * 32 * terms / some / peak, "", 128e-9 * terms / many,
             100 * 128 * terms / many / peak);
      fflush(stdout);
    }
  }
}

/* linear.c: layers of SmolLM2's shapes in every type: shares of the machine's peaks. */
#include "bench.h"

typedef struct {
  const char *name;
  uint32_t x, w;
} kind;

static const kind kinds[] = {{"f16", EMU_F16, EMU_F16},
                             {"f32", EMU_F32, EMU_F32},
                             {"f16_s8", EMU_F16, EMU_QS8},
                             {"u8_s8", EMU_QU8, EMU_QS8},
                             {"u16_s8", EMU_QU16, EMU_QS8}};

static const uint32_t shapes[][2] = {{576, 1536}, {1536, 576}, {576, 49152}};

/* Few rows read their weights from memory, as decoding does: the layers of one measurement
 * together exceed every cache. */
enum { STREAMED_BYTES = 160 << 20, MOST_LAYERS = 400 };

typedef struct {
  bench *layers[MOST_LAYERS];
  uint32_t count;
} model;

static void run_model(void *arg) {
  model *m = arg;
  emu_pool_enter();
  for (uint32_t i = 0; i < m->count; i++) {
    m->layers[i]->node.op->run(&m->layers[i]->node, m->layers[i]->scratch);
  }
  emu_pool_leave();
}

/* The weights are packed once and copied: a layer reads nothing else. */
static model *make_model(const kind *k, uint32_t rows, uint32_t in, uint32_t out, size_t bytes) {
  model *m = calloc(1, sizeof *m);
  emu_tensor *x = tensor(EMU_NATIVE, k->x, rows, in, 0, 0), *y = tensor(EMU_NATIVE, k->x, rows, out, 0, 0);
  emu_tensor *w = tensor(EMU_STATIC, k->w, out, in, 0, 0);
  size_t each = (size_t)in * out * emu_dtype_size(k->w);
  m->count = (uint32_t)(bytes / each) + 1;
  m->count = m->count < MOST_LAYERS ? m->count : MOST_LAYERS;
  for (uint32_t i = 0; i < m->count; i++) {
    bench *layer = m->layers[i] = make("FullyConnected", x, w, y);
    if (i == 0) {
      prepare(layer);
      continue;
    }
    size_t size = layer->node.op->packed_size(&layer->node);
    layer->packed = aligned(size);
    memcpy(layer->packed, m->layers[0]->packed, size);
    layer->node.packed = layer->packed;
    layer->scratch = aligned(layer->node.op->scratch_size(&layer->node));
  }
  return m;
}

static void free_model(model *m) {
  for (uint32_t i = 0; i < m->count; i++) {
    drop(m->layers[i]);
  }
  free(m);
}

/* time_of is the shortest time of one layer. */
static double time_of(const kind *k, uint32_t rows, const uint32_t *shape, bool streamed) {
  model *m = make_model(k, rows, shape[0], shape[1], streamed ? STREAMED_BYTES : 0);
  double took = best(streamed ? 0.5 : 0.25, run_model, m) / m->count;
  free_model(m);
  return took;
}

void bench_layers(const peaks *p) {
  printf("\n%-8s %-10s | 1 row: GB/s, %% of streaming | 8 rows / 1 | 32 rows: G/s, %% of peak | "
         "128 rows\n", "type", "shape");
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
    const kind *k = &kinds[i];
    double peak = emu_fixed_point(k->x) ? p->products : p->fused;
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
      double terms = (double)shapes[s][0] * shapes[s][1];
      double one = time_of(k, 1, shapes[s], true), eight = time_of(k, 8, shapes[s], true);
      double some = time_of(k, 32, shapes[s], false), many = time_of(k, 128, shapes[s], false);
      double rate = terms * (double)emu_dtype_size(k->w) / one;
      printf("%-8s %4ux%-6u| %5.1f %5.1f%% %13s | %10.2f | %9.1f %5.1f%% %9s | %5.1f %5.1f%%\n",
             k->name, shapes[s][0], shapes[s][1], rate * 1e-9, 100 * rate / p->bytes, "", eight / one,
             32e-9 * terms / some, 100 * 32 * terms / some / peak, "", 128e-9 * terms / many,
             100 * 128 * terms / many / peak);
      fflush(stdout);
    }
  }
}

/* op_linear.c: FullyConnected: y = x W^T + b with static W [out, in] and b [out].
 *
 * Packed: W as panels [out/16][in][16] in its own dtype, padded with zeros, then b
 * as f32, padded likewise. Inputs are widened to f32 once per run. Every output is
 * one sum along in, then one addition of the bias, then one rounding.
 */
#include "f16.h"
#include "kernels.h"
#include "ops.h"

static uint32_t panels_of(const emu_tensor *w) {
  return (w->dims[0] + EMU_LANES - 1) / EMU_LANES;
}

static size_t panel_bytes(const emu_tensor *w) {
  return (size_t)w->dims[1] * EMU_LANES * emu_dtype_size(w->dtype);
}

static size_t weight_bytes(const emu_tensor *w) {
  return emu_align(panels_of(w) * panel_bytes(w));
}

static int check_shapes(const emu_node *node, emu_why why) {
  const emu_tensor *x = node->in[0], *w = node->in[1], *y = node->out[0];
  uint32_t dims[EMU_MAX_RANK], rank = x->rank;
  if (x->rank < 2 || x->rank > 4) {
    return emu_refuse(why, "the input has rank %u, not 2 to 4", x->rank);
  }
  if (w->rank != 2 || w->kind != EMU_STATIC) {
    return emu_refuse(why, "the weight is not static of rank 2, [out, in]");
  }
  if (w->dims[1] != emu_last(x)) {
    return emu_refuse(why, "the weight has %u columns, the input %u", w->dims[1], emu_last(x));
  }
  if (node->n_in == 3) {
    if (node->in[2]->kind != EMU_STATIC) {
      return emu_refuse(why, "the bias is not static");
    }
    if (emu_check_dims(node->in[2], 1, w->dims, why)) {
      return 1;
    }
  }
  for (uint32_t i = 0; i < rank; i++) {
    dims[i] = x->dims[i];
  }
  if (!emu_flag(node, "keep_dims")) {
    dims[0] = (uint32_t)emu_rows(x);
    rank = 2;
  }
  dims[rank - 1] = w->dims[0];
  return emu_check_dims(y, rank, dims, why);
}

int emu_check_fully_connected(const emu_node *node, char *text, size_t size) {
  static const emu_param_rule rules[] = {{"keep_dims", 0, EMU_BOOL8, false}};
  emu_why why = {text, size};
  return emu_check_ports(node, 2, 3, 1, 1, why) || emu_check_params(node, rules, 1, why) ||
         emu_check_float(node, why) || check_shapes(node, why);
}

size_t emu_packed_fully_connected(const emu_node *node) {
  const emu_tensor *w = node->in[1];
  size_t bias = node->n_in == 3 ? panels_of(w) * EMU_LANES * sizeof(float) : 0;
  return weight_bytes(w) + bias;
}

typedef struct {
  const emu_tensor *w;
  char *dst;
} pack_job;

static void pack_panel(void *arg, uint32_t p) {
  const pack_job *job = arg;
  const emu_tensor *w = job->w;
  uint32_t first = p * EMU_LANES, left = w->dims[0] - first;
  size_t offset = (size_t)first * w->dims[1] * emu_dtype_size(w->dtype);
  emu_kernel()->panel(job->dst + p * panel_bytes(w), (const char *)w->data + offset, w->dims[1],
                      w->dims[1], left < EMU_LANES ? left : EMU_LANES, emu_half(w));
}

void emu_pack_fully_connected(const emu_node *node, void *dst) {
  const emu_tensor *w = node->in[1];
  pack_job job = {w, dst};
  emu_parallel(panels_of(w), pack_panel, &job);
  if (node->n_in == 3) {
    float *bias = (float *)((char *)dst + weight_bytes(w));
    for (uint32_t i = 0; i < panels_of(w) * EMU_LANES; i++) {
      bias[i] = i < w->dims[0] ? emu_get(node->in[2]->data, i, emu_half(w)) : 0;
    }
  }
}

/* One cache line more than a row, so that rows do not share cache sets. */
static size_t widened_stride(const emu_tensor *x) {
  return emu_align((size_t)emu_last(x) * sizeof(float)) / sizeof(float) + EMU_LANES;
}

size_t emu_scratch_fully_connected(const emu_node *node) {
  const emu_tensor *x = node->in[0];
  return emu_half(x) ? 64 + emu_rows(x) * widened_stride(x) * sizeof(float) : 0;
}

typedef struct {
  const emu_node *node;
  float *wide; /* the input in f32 */
  size_t stride;
  uint32_t rows, blocks; /* blocks of at most EMU_BLOCK_ROWS rows, evenly cut */
  uint32_t block_parts;  /* tasks along the rows */
  uint32_t panel_step;   /* panels of one task */
} linear_job;

static void widen_block(void *arg, uint32_t task) {
  const linear_job *job = arg;
  const emu_tensor *x = job->node->in[0];
  size_t n = emu_last(x);
  for (uint32_t r = emu_cut(job->rows, task, job->blocks); r < emu_cut(job->rows, task + 1, job->blocks);
       r++) {
    emu_kernel()->widen(job->wide + r * job->stride, (const uint16_t *)x->data + r * n, n, true);
  }
}

static void multiply(void *arg, uint32_t task) {
  const linear_job *job = arg;
  const emu_tensor *x = job->node->in[0], *w = job->node->in[1], *y = job->node->out[0];
  uint32_t part = task % job->block_parts, panel = task / job->block_parts * job->panel_step;
  uint32_t column = panel * EMU_LANES, left = w->dims[0] - column;
  uint32_t columns = job->panel_step * EMU_LANES;
  size_t size = emu_dtype_size(y->dtype);
  emu_block b = {
      .a_stride = job->stride,
      .k = emu_last(x),
      .w = (const char *)job->node->packed + panel * panel_bytes(w),
      .k_stride = EMU_LANES,
      .panel_stride = (size_t)emu_last(x) * EMU_LANES,
      .out_stride = w->dims[0],
      .columns = columns < left ? columns : left,
      .half = emu_half(w),
  };
  if (job->node->n_in == 3) {
    b.bias = (const float *)((const char *)job->node->packed + weight_bytes(w)) + column;
  }
  for (uint32_t i = emu_cut(job->blocks, part, job->block_parts);
       i < emu_cut(job->blocks, part + 1, job->block_parts); i++) {
    uint32_t first = emu_cut(job->rows, i, job->blocks);
    b.rows = emu_cut(job->rows, i + 1, job->blocks) - first;
    b.a = job->wide + first * job->stride;
    b.out = (char *)y->data + ((size_t)first * w->dims[0] + column) * size;
    emu_kernel()->block(&b);
  }
}

enum {
  GROUP_BYTES = 192 * 1024, /* panels of one task stay in the second-level cache */
  TASKS_PER_THREAD = 4,
  SMALL_INPUT = 16384, /* elements that one thread widens as fast as several */
};

void emu_run_fully_connected(const emu_node *node, void *scratch) {
  const emu_tensor *x = node->in[0], *w = node->in[1];
  uint32_t rows = (uint32_t)emu_rows(x), panels = panels_of(w);
  uint32_t wanted = TASKS_PER_THREAD * emu_pool_threads();
  linear_job job = {.node = node, .wide = x->data, .stride = emu_last(x), .rows = rows,
                    .blocks = (rows + EMU_BLOCK_ROWS - 1) / EMU_BLOCK_ROWS, .block_parts = 1};
  if (emu_half(x)) {
    job.wide = emu_aligned(scratch);
    job.stride = widened_stride(x);
    bool small = (uint64_t)rows * emu_last(x) <= SMALL_INPUT;
    for (uint32_t i = 0; small && i < job.blocks; i++) {
      widen_block(&job, i);
    }
    if (!small) {
      emu_parallel(job.blocks, widen_block, &job);
    }
  }
  size_t step = GROUP_BYTES / panel_bytes(w), even = (panels + wanted - 1) / wanted;
  step = step < even ? step : even;
  job.panel_step = (uint32_t)(step < 4 ? 4 : (step + 3) / 4 * 4); /* whole wide tiles */
  uint32_t groups = (panels + job.panel_step - 1) / job.panel_step;
  if (groups < wanted) {
    uint32_t parts = (wanted + groups - 1) / groups;
    job.block_parts = parts < job.blocks ? parts : job.blocks;
  }
  emu_parallel(groups * job.block_parts, multiply, &job);
}

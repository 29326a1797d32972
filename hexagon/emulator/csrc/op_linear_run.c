/* op_linear_run.c: runs packed layers: rows of the input once into the form that the kernels
 * read (f32, or s16 with the sum of each row), then tasks of some panels by some rows. */
#include "linear.h"

enum {
  GROUP_BYTES = 192 * 1024, /* panels of one task stay in the second-level cache */
  TASKS_PER_THREAD = 4,
  SMALL_INPUT = 16384, /* elements that one thread widens as fast as several */
};

emu_cuts emu_cut_product(uint32_t rows, uint32_t panels, size_t panel_bytes) {
  uint32_t wanted = TASKS_PER_THREAD * emu_pool_threads();
  emu_cuts cuts = {.blocks = (rows + EMU_BLOCK_ROWS - 1) / EMU_BLOCK_ROWS, .block_parts = 1};
  size_t step = GROUP_BYTES / panel_bytes, even = (panels + wanted - 1) / wanted;
  step = step < even ? step : even;
  cuts.panel_step = (uint32_t)(step < 4 ? 4 : (step + 3) / 4 * 4); /* whole wide tiles */
  uint32_t groups = (panels + cuts.panel_step - 1) / cuts.panel_step;
  if (groups < wanted) {
    uint32_t parts = (wanted + groups - 1) / groups;
    cuts.block_parts = parts < cuts.blocks ? parts : cuts.blocks;
  }
  cuts.tasks = groups * cuts.block_parts;
  return cuts;
}

/* One cache line more than a row, so that rows do not share cache sets. */
static size_t row_bytes(const emu_linear *l) {
  bool whole = emu_fixed_point(l->x->dtype);
  size_t element = whole ? sizeof(int16_t) : sizeof(float);
  return emu_align((l->in + (whole ? l->in % 2 : 0)) * element) + 64;
}

size_t emu_scratch_linear(const emu_linear *l) {
  if (l->x->dtype == EMU_F32) {
    return 0;
  }
  size_t sums = emu_fixed_point(l->x->dtype) ? emu_align(l->rows * sizeof(double)) : 0;
  return 64 + l->rows * row_bytes(l) + sums;
}

typedef struct {
  const emu_linear *l;
  const char *packed;
  emu_packing p;
  emu_cuts cuts;
  char *rows; /* the input as the kernels read it */
  size_t row_bytes;
  double *sums; /* whole: what the weights' offset adds to each row; NULL: nothing */
} linear_job;

static void prepare_rows(void *arg, uint32_t block) {
  const linear_job *job = arg;
  const emu_linear *l = job->l;
  size_t bytes = l->in * emu_dtype_size(l->x->dtype);
  for (uint32_t r = emu_cut(l->rows, block, job->cuts.blocks);
       r < emu_cut(l->rows, block + 1, job->cuts.blocks); r++) {
    const char *from = (const char *)l->x->data + r * bytes;
    void *to = job->rows + r * job->row_bytes;
    if (!job->p.whole) {
      emu_kernel()->widen(to, from, l->in, true);
      continue;
    }
    int64_t sum = emu_kernel()->int_rows(to, from, l->in, emu_whole_of(l->x->dtype));
    if (job->sums != NULL) {
      job->sums[r] = job->p.offset * (double)sum;
    }
  }
}

/* What one task computes: rows block by block over the columns [column, column + columns). */
typedef struct {
  uint32_t first_block, end_block, panel, column, columns;
} part;

static part part_of(const linear_job *job, uint32_t task) {
  const emu_cuts *cuts = &job->cuts;
  uint32_t i = task % cuts->block_parts, panel = task / cuts->block_parts * cuts->panel_step;
  part t = {.first_block = emu_cut(cuts->blocks, i, cuts->block_parts),
            .end_block = emu_cut(cuts->blocks, i + 1, cuts->block_parts),
            .panel = panel,
            .column = panel * EMU_LANES};
  uint32_t left = job->l->out - t.column, most = cuts->panel_step * EMU_LANES;
  t.columns = most < left ? most : left;
  return t;
}

static void multiply_floats(void *arg, uint32_t task) {
  const linear_job *job = arg;
  const emu_linear *l = job->l;
  part t = part_of(job, task);
  const float *columns = (const float *)(job->packed + job->p.weight_bytes) + t.column;
  emu_block b = {
      .a_stride = job->row_bytes / sizeof(float),
      .k = l->in,
      .w = job->packed + t.panel * job->p.panel_bytes,
      .k_stride = EMU_LANES,
      .panel_stride = (size_t)l->in * EMU_LANES,
      .out_stride = l->out,
      .columns = t.columns,
      .weight = job->p.weight,
      .half = emu_half(l->y),
  };
  if (job->p.scaled) {
    b.scale = columns;
    columns += job->p.column_bytes / sizeof *columns;
  }
  b.bias = l->bias != NULL ? columns : NULL;
  for (uint32_t i = t.first_block; i < t.end_block; i++) {
    uint32_t first = emu_cut(l->rows, i, job->cuts.blocks);
    b.rows = emu_cut(l->rows, i + 1, job->cuts.blocks) - first;
    b.a = (const float *)(job->rows + first * job->row_bytes);
    b.out = (char *)l->y->data + ((size_t)first * l->out + t.column) * emu_dtype_size(l->y->dtype);
    emu_kernel()->block(&b);
  }
}

static void multiply_wholes(void *arg, uint32_t task) {
  const linear_job *job = arg;
  const emu_linear *l = job->l;
  part t = part_of(job, task);
  const double *columns = (const double *)(job->packed + job->p.weight_bytes) + t.column;
  size_t step = job->p.column_bytes / sizeof *columns;
  emu_int_block b = {
      .a_stride = job->row_bytes / sizeof(int16_t),
      .steps = job->p.steps,
      .chunk = emu_chunk(l->x->dtype),
      .w = (const int8_t *)job->packed + t.panel * job->p.panel_bytes,
      .plane_stride = job->p.panel_bytes / job->p.planes,
      .planes = job->p.planes,
      .base = columns,
      .scale = columns + step,
      .add = columns + 2 * step,
      .out_stride = l->out,
      .columns = t.columns,
      .type = emu_whole_of(l->y->dtype),
  };
  for (uint32_t i = t.first_block; i < t.end_block; i++) {
    uint32_t first = emu_cut(l->rows, i, job->cuts.blocks);
    b.rows = emu_cut(l->rows, i + 1, job->cuts.blocks) - first;
    b.a = (const int16_t *)(job->rows + first * job->row_bytes);
    b.row = job->sums != NULL ? job->sums + first : NULL;
    b.out = (char *)l->y->data + ((size_t)first * l->out + t.column) * emu_dtype_size(l->y->dtype);
    emu_kernel()->int_block(&b);
  }
}

void emu_run_linear(const emu_linear *l, const void *packed, void *scratch) {
  linear_job job = {.l = l, .packed = packed, .p = emu_packing_of(l)};
  job.cuts = emu_cut_product(l->rows, (l->out + EMU_LANES - 1) / EMU_LANES, job.p.panel_bytes);
  if (l->x->dtype == EMU_F32) {
    job.rows = l->x->data;
    job.row_bytes = l->in * sizeof(float);
  } else {
    job.rows = emu_aligned(scratch);
    job.row_bytes = row_bytes(l);
    if (job.p.whole && job.p.offset != 0) {
      job.sums = (double *)(job.rows + l->rows * job.row_bytes);
    }
    bool small = (uint64_t)l->rows * l->in <= SMALL_INPUT;
    for (uint32_t i = 0; small && i < job.cuts.blocks; i++) {
      prepare_rows(&job, i);
    }
    if (!small) {
      emu_parallel(job.cuts.blocks, prepare_rows, &job);
    }
  }
  emu_parallel(job.cuts.tasks, job.p.whole ? multiply_wholes : multiply_floats, &job);
}

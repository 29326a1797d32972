/* op_linear_run.c: runs packed layers: rows of the input once into the form that the kernels
 * read (f32, or s16 with the sum of each row), then tasks of some panels by some rows. */
#include "linear.h"

enum {
  FEW_BLOCKS = 4,
  MANY_BLOCKS = 32, /* fetch a byte each per step of a panel */
  GROUP_BYTES = 192 * 1024, /* panels of one task stay in the second-level cache */
  TASKS_PER_THREAD = 4,
  SMALL_INPUT = 16384, /* elements that one thread widens as fast as several */
};

emu_cuts emu_cut_product(uint32_t rows, uint32_t block_rows, uint32_t panels, size_t panel_bytes) {
  uint32_t wanted = TASKS_PER_THREAD * emu_pool_threads();
  emu_cuts cuts = {.blocks = (rows + block_rows - 1) / block_rows, .block_parts = 1};
  size_t step = GROUP_BYTES / panel_bytes, even = (panels + wanted - 1) / wanted;
  step = step < even ? step : even;
  uint32_t whole = cuts.blocks == 1 ? 4 : 1; /* wide tiles */
  cuts.panel_step = (uint32_t)(step < whole ? whole : (step + whole - 1) / whole * whole);
  uint32_t groups = (panels + cuts.panel_step - 1) / cuts.panel_step;
  if (groups < wanted && cuts.blocks > FEW_BLOCKS) { /* each part reads its panels from memory */
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
  uint32_t chunk;
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

/* One call of a kernel: some rows by some columns. */
typedef struct {
  uint32_t row, rows, column, columns;
  void *out;
  emu_ahead ahead;
} piece;

static void floats_of(const linear_job *job, const piece *t) {
  const emu_linear *l = job->l;
  const float *columns = (const float *)(job->packed + job->p.weight_bytes) + t->column;
  emu_block b = {
      .a = (const float *)(job->rows + t->row * job->row_bytes),
      .a_stride = job->row_bytes / sizeof(float),
      .rows = t->rows,
      .k = l->in,
      .w = job->packed + t->column / EMU_LANES * job->p.panel_bytes,
      .k_stride = EMU_LANES,
      .panel_stride = (size_t)l->in * EMU_LANES,
      .out = t->out,
      .out_stride = l->out,
      .columns = t->columns,
      .weight = job->p.weight,
      .half = emu_half(l->y),
      .ahead = t->ahead,
  };
  if (job->p.scaled) {
    b.scale = columns;
    columns += job->p.column_bytes / sizeof *columns;
  }
  b.bias = l->bias != NULL ? columns : NULL;
  emu_kernel()->block(&b);
}

static void wholes_of(const linear_job *job, const piece *t) {
  const emu_linear *l = job->l;
  const double *columns = (const double *)(job->packed + job->p.weight_bytes) + t->column;
  size_t step = job->p.column_bytes / sizeof *columns;
  emu_int_block b = {
      .a = (const int16_t *)(job->rows + t->row * job->row_bytes),
      .a_stride = job->row_bytes / sizeof(int16_t),
      .rows = t->rows,
      .steps = job->p.steps,
      .chunk = job->chunk,
      .w = (const int8_t *)job->packed + t->column / EMU_LANES * job->p.panel_bytes,
      .plane_stride = job->p.panel_bytes / job->p.planes,
      .planes = job->p.planes,
      .scale = columns,
      .add = columns + step,
      .row = job->sums != NULL ? job->sums + t->row : NULL,
      .out = t->out,
      .out_stride = l->out,
      .columns = t->columns,
      .type = emu_whole_of(l->y->dtype),
      .ahead = t->ahead,
  };
  emu_kernel()->int_block(&b);
}

static void multiply_piece(const linear_job *job, uint32_t block, piece t) {
  const emu_linear *l = job->l;
  t.row = emu_cut(l->rows, block, job->cuts.blocks);
  t.rows = emu_cut(l->rows, block + 1, job->cuts.blocks) - t.row;
  t.out = (char *)l->y->data + ((size_t)t.row * l->out + t.column) * emu_dtype_size(l->y->dtype);
  if (job->p.whole) {
    wholes_of(job, &t);
  } else {
    floats_of(job, &t);
  }
}

/* A task goes block by block over its panels, which stay in the second-level cache. Few blocks
 * would spend their time waiting for memory in the first and computing in the others: they go
 * panel by panel, and each block fetches its share of the next panel. So do many blocks of whole
 * numbers, of which a panel is twice as large as a block's rows: the smaller of the two moves. */
static void multiply(void *arg, uint32_t task) {
  const linear_job *job = arg;
  const emu_cuts *cuts = &job->cuts;
  uint32_t part = task % cuts->block_parts, panel = task / cuts->block_parts * cuts->panel_step;
  uint32_t first = emu_cut(cuts->blocks, part, cuts->block_parts);
  uint32_t end = emu_cut(cuts->blocks, part + 1, cuts->block_parts), blocks = end - first;
  uint32_t column = panel * EMU_LANES, left = job->l->out - column;
  uint32_t columns = cuts->panel_step * EMU_LANES;
  columns = columns < left ? columns : left;
  if (blocks == 1 || blocks > (job->p.whole ? MANY_BLOCKS : FEW_BLOCKS)) {
    for (uint32_t i = first; i < end; i++) {
      multiply_piece(job, i, (piece){.column = column, .columns = columns});
    }
    return;
  }
  uint32_t terms = job->p.whole ? job->p.steps * job->p.planes : job->l->in;
  size_t step = job->p.panel_bytes / terms / blocks;
  for (uint32_t c = 0; c < columns; c += EMU_LANES) {
    uint32_t some = columns - c < EMU_LANES ? columns - c : EMU_LANES;
    for (uint32_t i = first; i < end; i++) {
      emu_ahead ahead = {job->p.panel_bytes + (i - first) * terms * step, step};
      multiply_piece(job, i, (piece){.column = column + c, .columns = some, .ahead = ahead});
    }
  }
}

void emu_run_linear(const emu_linear *l, const void *packed, void *scratch) {
  linear_job job = {.l = l, .packed = packed, .p = emu_packing_of(l)};
  job.cuts = emu_cut_product(l->rows, job.p.whole ? EMU_INT_ROWS : EMU_BLOCK_ROWS,
                             (l->out + EMU_LANES - 1) / EMU_LANES, job.p.panel_bytes);
  job.chunk = job.p.whole ? emu_chunk_of(l, &job.p, packed) : 0;
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
  emu_parallel(job.cuts.tasks, multiply, &job);
}

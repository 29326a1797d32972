/* op_linear_run.c: runs packed layers: rows of the input once into the form that the kernels
 * read (f32, or s16 with the sum of each row), then tasks of some panels by some rows. */
#include <stdatomic.h>

#include "linear.h"

enum {
  FEW_BLOCKS = 4,
  MANY_BLOCKS = 32, /* fetch a byte each per step of a panel */
  GROUP_BYTES = 192 * 1024, /* panels of one task stay in the second-level cache */
  TASKS_PER_THREAD = 4,
  OWN_BYTES = 64 * 1024, /* rows that every thread prepares for itself */
};

/* How a product is cut into tasks: groups of panels by parts of the row blocks. */
typedef struct {
  uint32_t blocks;      /* of at most block_rows rows, evenly cut */
  uint32_t block_parts; /* tasks along the rows */
  uint32_t together;    /* panels that no task parts: those of a wide tile */
  bool wide;            /* the tile spans them and fetches what the next one reads */
  uint32_t groups;      /* of panels, evenly cut */
  uint32_t panels, tasks;
} cuts_of_product;

static cuts_of_product cut_product(const emu_linear *l, bool whole, uint32_t panels,
                                   size_t panel_bytes) {
  const emu_kernels *kernel = emu_kernel();
  uint32_t threads = emu_pool_threads(), wanted = TASKS_PER_THREAD * threads;
  uint32_t block_rows = whole ? kernel->whole_rows : kernel->rows;
  cuts_of_product cuts = {.blocks = (l->rows + block_rows - 1) / block_rows, .block_parts = 1,
                          .panels = panels};
  uint32_t highest = (l->rows + cuts.blocks - 1) / cuts.blocks;
  uint32_t side_by_side = whole ? kernel->whole_panels(highest, emu_whole_of(l->x->dtype))
                                : kernel->panels(highest);
  cuts.wide = side_by_side > 1 && highest >= EMU_AHEAD_ROWS;
  cuts.together = cuts.wide ? side_by_side : cuts.blocks == 1 ? 4 : 1;
  uint32_t units = (panels + cuts.together - 1) / cuts.together;
  size_t most = GROUP_BYTES / (panel_bytes * cuts.together) + 1;
  uint32_t groups = (uint32_t)((units + most - 1) / most);
  groups = groups < wanted ? wanted : (groups + threads - 1) / threads * threads;
  cuts.groups = groups < units ? groups : units;
  if (cuts.groups < wanted && cuts.blocks > FEW_BLOCKS) { /* each part reads its own panels */
    uint32_t parts = (wanted + cuts.groups - 1) / cuts.groups;
    cuts.block_parts = parts < cuts.blocks ? parts : cuts.blocks;
  }
  cuts.tasks = cuts.groups * cuts.block_parts;
  return cuts;
}

/* One cache line more than a row, so that rows do not share cache sets. */
static size_t row_bytes(const emu_linear *l) {
  return emu_fixed_point(l->x->dtype) ? emu_whole_row(l->in)
                                      : emu_align(l->in * sizeof(float)) + 64;
}

/* The rows, and of whole numbers what the weights' offset adds to each. */
static size_t rows_bytes(const emu_linear *l) {
  size_t sums = emu_fixed_point(l->x->dtype) ? emu_align(l->rows * sizeof(double)) : 0;
  return l->rows * row_bytes(l) + sums;
}

/* Few rows are prepared by every thread for itself: that is less work than to wait for the one
 * that does it for all, and to fetch them out of its caches. */
static bool own_rows(const emu_linear *l) {
  return l->x->dtype != EMU_F32 && l->rows * row_bytes(l) <= OWN_BYTES;
}

size_t emu_scratch_linear(const emu_linear *l) {
  if (l->x->dtype == EMU_F32) {
    return 0;
  }
  return 64 + rows_bytes(l) * (own_rows(l) ? emu_slots() : 1);
}

typedef struct {
  const emu_linear *l;
  const char *packed;
  emu_packing p;
  cuts_of_product cuts;
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
    int64_t sum = emu_kernel()->int_rows(to, from, l->in, 1, emu_whole_of(l->x->dtype));
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
      .a = job->rows + t->row * job->row_bytes,
      .a_stride = job->row_bytes,
      .left = emu_whole_of(l->x->dtype),
      .rows = t->rows,
      .steps = job->p.steps,
      .chunk = job->chunk,
      .w = (const int8_t *)job->packed + t->column / EMU_LANES * job->p.panel_bytes,
      .plane_stride = job->p.panel_bytes / job->p.planes,
      .planes = job->p.planes,
      .scale = columns,
      .add = columns + step,
      .sums = columns + 2 * step,
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

/* The panels and blocks of one task. */
typedef struct {
  uint32_t panel, end_panel, block, end_block;
} share;

/* in_order numbers the groups so that threads which take them in turn each go through memory
 * without a gap: what a task fetches beyond its end is what its thread needs next. */
static uint32_t in_order(uint32_t group, uint32_t groups) {
  uint32_t threads = emu_pool_threads(), thread = group % threads, longer = groups % threads;
  return thread * (groups / threads) + (thread < longer ? thread : longer) + group / threads;
}

static share share_of(const cuts_of_product *cuts, uint32_t task) {
  uint32_t part = task % cuts->block_parts;
  uint32_t group = in_order(task / cuts->block_parts, cuts->groups);
  uint32_t units = (cuts->panels + cuts->together - 1) / cuts->together;
  uint32_t end = emu_cut(units, group + 1, cuts->groups) * cuts->together;
  return (share){.panel = emu_cut(units, group, cuts->groups) * cuts->together,
                 .end_panel = end < cuts->panels ? end : cuts->panels,
                 .block = emu_cut(cuts->blocks, part, cuts->block_parts),
                 .end_block = emu_cut(cuts->blocks, part + 1, cuts->block_parts)};
}

/* panels_of is the piece of these panels; the last may have fewer columns. */
static piece panels_of(const linear_job *job, uint32_t panel, uint32_t end) {
  uint32_t column = panel * EMU_LANES, last = end * EMU_LANES;
  return (piece){.column = column, .columns = (last < job->l->out ? last : job->l->out) - column};
}

/* go_along takes one block after the other over all of a task's panels, which stay in the
 * second-level cache. */
static void go_along(const linear_job *job, const share *mine) {
  for (uint32_t i = mine->block; i < mine->end_block; i++) {
    multiply_piece(job, i, panels_of(job, mine->panel, mine->end_panel));
  }
}

/* go_across takes all blocks over the panels of one tile before the next, of which each block
 * fetches its share from memory. */
static void go_across(const linear_job *job, const share *mine) {
  uint32_t blocks = mine->end_block - mine->block, some = job->cuts.wide ? job->cuts.together : 1;
  size_t bytes = some * job->p.panel_bytes / blocks;
  const char *end = job->packed + job->p.weight_bytes;
  for (uint32_t panel = mine->panel; panel < mine->end_panel; panel += some) {
    uint32_t next = panel + some < mine->end_panel ? panel + some : mine->end_panel;
    piece t = panels_of(job, panel, next);
    for (uint32_t i = 0; i < blocks; i++) {
      t.ahead = (emu_ahead){job->packed + next * job->p.panel_bytes + i * bytes, end, bytes};
      multiply_piece(job, mine->block + i, t);
    }
  }
}

/* Few blocks would spend their time waiting for memory in the first and computing in the others,
 * so they go across. So do many blocks of whole numbers, of which a panel is twice as large as a
 * block's rows: the smaller of the two moves. */
static void multiply(void *arg, uint32_t task) {
  const linear_job *job = arg;
  share mine = share_of(&job->cuts, task);
  uint32_t blocks = mine.end_block - mine.block;
  if ((blocks == 1 && !job->cuts.wide) || blocks > (job->p.whole ? MANY_BLOCKS : FEW_BLOCKS)) {
    go_along(job, &mine);
  } else {
    go_across(job, &mine);
  }
}

static void use_rows(linear_job *job, char *rows) {
  job->rows = rows;
  if (job->p.whole && job->p.offset != 0) {
    job->sums = (double *)(rows + job->l->rows * job->row_bytes);
  }
}

typedef struct {
  const linear_job *job;
  atomic_uint next; /* task */
} slot_run;

/* run_slot takes tasks one after the other, over rows of its own. */
static void run_slot(void *arg, uint32_t slot) {
  slot_run *run = arg;
  linear_job job = *run->job;
  uint32_t task = atomic_fetch_add(&run->next, 1);
  use_rows(&job, job.rows + slot * rows_bytes(job.l));
  for (uint32_t i = 0; task < job.cuts.tasks && i < job.cuts.blocks; i++) {
    prepare_rows(&job, i);
  }
  for (; task < job.cuts.tasks; task = atomic_fetch_add(&run->next, 1)) {
    multiply(&job, task);
  }
}

void emu_run_linear(const emu_linear *l, const void *packed, void *scratch) {
  linear_job job = {.l = l, .packed = packed, .p = emu_packing_of(l), .row_bytes = row_bytes(l)};
  job.cuts = cut_product(l, job.p.whole, (l->out + EMU_LANES - 1) / EMU_LANES,
                         job.p.panel_bytes);
  job.chunk = job.p.whole ? emu_chunk_of(l, &job.p, packed) : 0;
  if (own_rows(l)) {
    job.rows = emu_aligned(scratch);
    slot_run run = {.job = &job};
    emu_parallel(emu_slots(), run_slot, &run);
    return;
  }
  if (l->x->dtype == EMU_F32) {
    job.rows = l->x->data;
    job.row_bytes = l->in * sizeof(float);
  } else {
    use_rows(&job, emu_aligned(scratch));
    emu_parallel(job.cuts.blocks, prepare_rows, &job);
  }
  emu_parallel(job.cuts.tasks, multiply, &job);
}

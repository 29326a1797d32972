/* tensor.c: shapes: sizes, strides, and walks over several operands at once. */
#include <stdatomic.h>
#include <string.h>

#include "ops.h"

size_t emu_dtype_size(uint32_t dtype) {
  switch (dtype) {
  case EMU_I64:
    return 8;
  case EMU_I32:
  case EMU_U32:
  case EMU_F32:
  case EMU_QS32:
  case EMU_QU32:
    return 4;
  case EMU_I16:
  case EMU_U16:
  case EMU_F16:
  case EMU_QS16:
  case EMU_QU16:
    return 2;
  case EMU_I8:
  case EMU_U8:
  case EMU_QS8:
  case EMU_QU8:
  case EMU_BOOL8:
    return 1;
  default:
    return 0;
  }
}

bool emu_fixed_point(uint32_t dtype) { return dtype >> 8 == 3 || dtype >> 8 == 4; }

uint64_t emu_elements(const emu_tensor *t) {
  uint64_t n = 1;
  for (uint32_t i = 0; i < t->rank; i++) {
    if (__builtin_mul_overflow(n, (uint64_t)t->dims[i], &n)) {
      return 0;
    }
  }
  return n;
}

void emu_strides(const emu_tensor *t, uint64_t *strides) {
  uint64_t stride = 1;
  for (uint32_t i = t->rank; i-- > 0;) {
    strides[i] = stride;
    stride *= t->dims[i];
  }
}

static bool joins(const emu_walk *walk, uint32_t outer, uint32_t inner) {
  for (uint32_t o = 0; o < walk->operands; o++) {
    if (walk->strides[o][outer] != walk->strides[o][inner] * walk->dims[inner]) {
      return false;
    }
  }
  return true;
}

static void move_dim(emu_walk *walk, uint32_t to, uint32_t from) {
  walk->dims[to] = walk->dims[from];
  for (uint32_t o = 0; o < walk->operands; o++) {
    walk->strides[o][to] = walk->strides[o][from];
  }
}

void emu_walk_collapse(emu_walk *walk) {
  uint32_t kept = 0;
  for (uint32_t i = 0; i < walk->rank; i++) {
    if (walk->dims[i] == 1) {
      continue;
    }
    if (kept > 0 && joins(walk, kept - 1, i)) {
      uint64_t outer = walk->dims[kept - 1];
      move_dim(walk, kept - 1, i);
      walk->dims[kept - 1] *= outer;
      continue;
    }
    move_dim(walk, kept++, i);
  }
  if (kept == 0) { /* one element */
    walk->dims[0] = 1;
    for (uint32_t o = 0; o < walk->operands; o++) {
      walk->strides[o][0] = 1;
    }
    kept = 1;
  }
  walk->rank = kept;
}

enum { WALK_PIECE = 16384 }; /* elements of one task: some microseconds of work */

typedef struct {
  const emu_walk *walk;
  emu_walk_fn fn;
  const void *arg;
  uint64_t total, piece;
} walk_job;

/* locate sets the operands' offsets of flat position `at` and returns its place in the run. */
static uint64_t locate(const emu_walk *walk, uint64_t at, uint64_t *offsets) {
  uint64_t inner = at % walk->dims[walk->rank - 1];
  for (uint32_t o = 0; o < walk->operands; o++) {
    offsets[o] = 0;
  }
  for (uint32_t i = walk->rank; i-- > 0;) {
    uint64_t index = at % walk->dims[i];
    at /= walk->dims[i];
    for (uint32_t o = 0; o < walk->operands; o++) {
      offsets[o] += index * walk->strides[o][i];
    }
  }
  return inner;
}

static void walk_piece(void *arg, uint32_t task) {
  const walk_job *job = arg;
  uint64_t at = task * job->piece, end = at + job->piece, offsets[EMU_WALK_OPERANDS];
  uint64_t run = job->walk->dims[job->walk->rank - 1];
  end = end < job->total ? end : job->total;
  while (at < end) {
    uint64_t n = run - locate(job->walk, at, offsets);
    n = n < end - at ? n : end - at;
    job->fn(job->arg, job->walk, offsets, n);
    at += n;
  }
}

void emu_walk_run(const emu_walk *walk, emu_walk_fn fn, const void *arg) {
  walk_job job = {.walk = walk, .fn = fn, .arg = arg, .total = 1, .piece = WALK_PIECE};
  for (uint32_t i = 0; i < walk->rank; i++) {
    job.total *= walk->dims[i];
  }
  while (job.total / job.piece >= UINT32_MAX / 2) {
    job.piece *= 2;
  }
  emu_parallel((uint32_t)((job.total + job.piece - 1) / job.piece), walk_piece, &job);
}

typedef struct {
  void (*fn)(void *, uint32_t, uint32_t);
  void *arg;
  uint32_t n;
  atomic_uint next;
} slot_job;

static void run_slot(void *arg, uint32_t slot) {
  slot_job *job = arg;
  for (uint32_t task; (task = atomic_fetch_add(&job->next, 1)) < job->n;) {
    job->fn(job->arg, task, slot);
  }
}

uint32_t emu_slots(void) { return emu_pool_threads(); }

void emu_parallel_slots(uint32_t n, void (*fn)(void *arg, uint32_t task, uint32_t slot),
                        void *arg) {
  slot_job job = {.fn = fn, .arg = arg, .n = n};
  uint32_t slots = emu_slots();
  emu_parallel(n < slots ? n : slots, run_slot, &job);
}

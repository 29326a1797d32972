/* op_pick.c: operators that pick by index or by size: Gather, TopK, Argmax. */
#include <math.h>
#include <string.h>

#include "kernels.h"
#include "ops.h"

/* ---- Gather: output[..., i..., ...] = table[..., indices[i...], ...] ---- */

static int check_gather_shapes(const emu_node *node, emu_why why) {
  const emu_tensor *table = node->in[0], *index = node->in[1];
  int32_t axis = emu_find_param(node, "axis")->scalar.i32;
  uint32_t dims[2 * EMU_MAX_RANK], rank = 0;
  if (axis < 0 || (uint32_t)axis >= table->rank) {
    return emu_refuse(why, "axis %d is outside rank %u", axis, table->rank);
  }
  uint64_t before = 1;
  for (uint32_t i = 0; i < (uint32_t)axis; i++) {
    before *= table->dims[i];
    dims[rank++] = table->dims[i];
  }
  if (emu_is_float(table) && index->kind != EMU_STATIC && (uint32_t)axis + 2 == table->rank &&
      before > 1) {
    return emu_refuse(why, "floats along the last axis but one, below others, with indices that "
                           "are not static give wrong values in the vendor's library");
  }
  for (uint32_t i = 0; i < index->rank; i++) {
    dims[rank++] = index->dims[i];
  }
  for (uint32_t i = (uint32_t)axis + 1; i < table->rank; i++) {
    dims[rank++] = table->dims[i];
  }
  return rank > EMU_MAX_RANK ? emu_refuse(why, "the output would have rank %u", rank)
                             : emu_check_dims(node->out[0], rank, dims, why);
}

int emu_check_gather(const emu_node *node, char *text, size_t size) {
  static const emu_param_rule rules[] = {{"axis", 0, EMU_I32, true}};
  emu_why why = {text, size};
  return emu_check_ports(node, 2, 2, 1, 1, why) || emu_check_params(node, rules, 1, why) ||
         emu_check_type(node->in[0], EMU_T_MOVED | EMU_T_INDEX, why) ||
         emu_check_type(node->in[1], EMU_T_INDEX, why) ||
         emu_check_type(node->out[0], emu_type(node->in[0]), why) ||
         emu_check_same_grid(node->out[0], node->in[0], why) || check_gather_shapes(node, why);
}

/* An index outside the table cannot be refused here; its elements become all ones (NaN or -1),
 * so that the mistake shows. */
void emu_run_gather(const emu_node *node, void *scratch) {
  (void)scratch;
  const emu_tensor *table = node->in[0], *index = node->in[1];
  uint32_t axis = (uint32_t)emu_find_param(node, "axis")->scalar.i32;
  uint64_t outer = 1, picks = emu_elements(index), inner = emu_dtype_size(table->dtype);
  for (uint32_t i = 0; i < axis; i++) {
    outer *= table->dims[i];
  }
  for (uint32_t i = axis + 1; i < table->rank; i++) {
    inner *= table->dims[i];
  }
  char *to = node->out[0]->data;
  for (uint64_t o = 0; o < outer; o++) {
    const char *from = (const char *)table->data + o * table->dims[axis] * inner;
    for (uint64_t i = 0; i < picks; i++, to += inner) {
      uint32_t pick = ((const uint32_t *)index->data)[i];
      if (pick < table->dims[axis]) {
        memcpy(to, from + pick * inner, inner);
      } else {
        memset(to, 0xff, inner);
      }
    }
  }
}

/* What TopK and Argmax order. Integers are compared as they are: their scale is positive. */
enum { PICKED = EMU_T_FLOAT | EMU_T_UNSIGNED | EMU_T_QS8 };
static const emu_grid bare = {1, 0};

/* ---- TopK along the last axis, sorted, the lowest index first among equals ---- */

int emu_check_top_k(const emu_node *node, char *text, size_t size) {
  static const emu_param_rule rules[] = {{"k", 0, EMU_U32, true}, {"largest", 0, EMU_BOOL8, false}};
  emu_why why = {text, size};
  if (emu_check_ports(node, 1, 1, 2, 2, why) || emu_check_params(node, rules, 2, why)) {
    return 1;
  }
  const emu_tensor *x = node->in[0], *values = node->out[0], *indices = node->out[1];
  uint32_t dims[EMU_MAX_RANK], k = emu_u32(node, "k", 0);
  if (emu_check_type(x, PICKED, why) || emu_check_type(values, emu_type(x), why) ||
      emu_check_type(indices, EMU_T_INDEX, why) || emu_check_same_grid(values, x, why)) {
    return 1;
  }
  if (x->rank > 4) {
    return emu_refuse(why, "the input has rank %u, not 1 to 4", x->rank);
  }
  if (k == 0 || k > emu_last(x)) {
    return emu_refuse(why, "k is %u of %u", k, emu_last(x));
  }
  memcpy(dims, x->dims, sizeof dims);
  dims[x->rank - 1] = k;
  return emu_check_dims(values, x->rank, dims, why) || emu_check_dims(indices, x->rank, dims, why);
}

/* A row is looked at in blocks: whole ones whose greatest element ranks too low are skipped. */
enum { BLOCK = 128 };

static uint32_t blocks_of(uint32_t n) { return (n + BLOCK - 1) / BLOCK; }

/* A row as floats, and the greatest of each of its blocks. */
static size_t top_k_slot(uint32_t n) {
  return emu_align(n * sizeof(float)) + emu_align(blocks_of(n) * sizeof(float));
}

size_t emu_scratch_top_k(const emu_node *node) {
  return 64 + emu_slots() * top_k_slot(emu_last(node->in[0]));
}

/* comes_before: element i ranks before element j. NaN counts as -inf. */
static bool comes_before(const float *row, uint32_t i, uint32_t j) {
  return row[i] > row[j] || (row[i] == row[j] && i < j);
}

/* sift puts `index` at place `at` of a heap of n whose root ranks last. */
static void sift(const float *row, uint32_t *heap, uint32_t n, uint32_t at, uint32_t index) {
  for (;;) {
    uint32_t child = 2 * at + 1;
    if (child >= n) {
      break;
    }
    if (child + 1 < n && comes_before(row, heap[child], heap[child + 1])) {
      child++;
    }
    if (!comes_before(row, index, heap[child])) {
      break;
    }
    heap[at] = heap[child];
    at = child;
  }
  heap[at] = index;
}

/* enter has element i replace the last of the k best, if it ranks before that. */
static void enter(const float *row, uint32_t *heap, uint32_t k, uint32_t i) {
  if (row[i] > row[heap[0]]) {
    sift(row, heap, k, 0, i);
  }
}

/* make_heap orders k elements as a heap. */
static void make_heap(const float *row, uint32_t *heap, uint32_t k) {
  for (uint32_t i = k / 2; i-- > 0;) {
    sift(row, heap, k, i, heap[i]);
  }
}

/* at_least is a number that k elements or more are not below: the k-th of the blocks' greatest
 * elements, which it writes to `most`; -inf where there are fewer blocks. heap is its memory. */
static float at_least(const float *row, uint32_t n, uint32_t *heap, uint32_t k, float *most) {
  uint32_t blocks = blocks_of(n);
  for (uint32_t b = 0; b < blocks; b++) {
    uint32_t from = b * BLOCK, size = n - from < BLOCK ? n - from : BLOCK;
    most[b] = emu_kernel()->max(row + from, size);
  }
  if (blocks < k) {
    return -INFINITY;
  }
  for (uint32_t b = 0; b < k; b++) {
    heap[b] = b;
  }
  make_heap(most, heap, k);
  for (uint32_t b = k; b < blocks; b++) {
    enter(most, heap, k, b);
  }
  return most[heap[0]];
}

/* best lists the k first-ranking of n elements in order. most has room for a number per block. */
static void best(float *row, uint32_t n, uint32_t *heap, uint32_t k, float *most) {
  float bound = at_least(row, n, heap, k, most);
  uint32_t filled = 0;
  for (uint32_t i = 0; bound == -INFINITY && i < n; i++) {
    row[i] = row[i] != row[i] ? bound : row[i]; /* NaN may be among the best */
  }
  for (uint32_t from = 0, b = 0; from < n; from += BLOCK, b++) {
    if (most[b] < bound) {
      continue;
    }
    uint32_t end = n - from < BLOCK ? n : from + BLOCK;
    for (uint32_t i = from; i < end; i++) {
      if (!(row[i] >= bound)) {
        continue;
      }
      if (filled == k) {
        enter(row, heap, k, i);
      } else {
        heap[filled++] = i;
        if (filled == k) {
          make_heap(row, heap, k);
        }
      }
    }
  }
  for (uint32_t i = k; i-- > 1;) {
    uint32_t last = heap[0];
    sift(row, heap, i, 0, heap[i]);
    heap[i] = last;
  }
}

typedef struct {
  const emu_node *node;
  char *slots;
} top_k_job;

static void top_k_row(void *arg, uint32_t r, uint32_t slot) {
  const top_k_job *job = arg;
  const emu_tensor *x = job->node->in[0];
  const emu_param *largest = emu_find_param(job->node, "largest");
  uint32_t n = emu_last(x), k = emu_u32(job->node, "k", 0);
  size_t size = emu_dtype_size(x->dtype);
  float *row = (float *)(job->slots + slot * top_k_slot(n));
  float *most = (float *)((char *)row + emu_align(n * sizeof(float)));
  const char *from = (const char *)x->data + (size_t)r * n * size;
  uint32_t *indices = (uint32_t *)job->node->out[1]->data + (size_t)r * k;
  char *values = (char *)job->node->out[0]->data + (size_t)r * k * size;
  emu_read_on(row, x, bare, (uint64_t)r * n, 1, n);
  for (uint32_t i = 0; largest != NULL && largest->scalar.b8 == 0 && i < n; i++) {
    row[i] = -row[i];
  }
  best(row, n, indices, k, most);
  for (uint32_t i = 0; i < k; i++) {
    memcpy(values + i * size, from + indices[i] * size, size);
  }
}

void emu_run_top_k(const emu_node *node, void *scratch) {
  top_k_job job = {node, emu_aligned(scratch)};
  emu_parallel_slots((uint32_t)emu_rows(node->in[0]), top_k_row, &job);
}

/* ---- Argmax along any axis: the lowest index of the greatest; NaN never wins ---- */

int emu_check_argmax(const emu_node *node, char *text, size_t size) {
  static const emu_param_rule rules[] = {{"axis", 0, EMU_U32, true},
                                         {"keep_dims", 0, EMU_BOOL8, false}};
  emu_why why = {text, size};
  if (emu_check_ports(node, 1, 1, 1, 1, why) || emu_check_params(node, rules, 2, why)) {
    return 1;
  }
  const emu_tensor *x = node->in[0];
  uint32_t axis = emu_u32(node, "axis", 0), dims[EMU_MAX_RANK], rank = 0;
  bool keep = emu_flag(node, "keep_dims");
  if (emu_check_type(x, PICKED, why) ||
      emu_check_type(node->out[0], emu_is_float(x) ? EMU_T_I32 : EMU_T_INDEX, why)) {
    return 1;
  }
  if (axis >= x->rank || (x->rank == 1 && !keep)) {
    return emu_refuse(why, "axis %u of rank %u leaves no shape", axis, x->rank);
  }
  for (uint32_t i = 0; i < x->rank; i++) {
    if (i != axis || keep) {
      dims[rank++] = i == axis ? 1 : x->dims[i];
    }
  }
  return emu_check_dims(node->out[0], rank, dims, why);
}

void emu_run_argmax(const emu_node *node, void *scratch) {
  (void)scratch;
  const emu_tensor *x = node->in[0];
  uint32_t axis = emu_u32(node, "axis", 0);
  uint64_t inner = 1;
  for (uint32_t i = axis + 1; i < x->rank; i++) {
    inner *= x->dims[i];
  }
  uint64_t n = x->dims[axis], results = emu_elements(x) / n;
  for (uint64_t r = 0; r < results; r++) {
    uint64_t at = r / inner * inner * n + r % inner;
    float greatest = -INFINITY, values[EMU_CHUNK];
    int32_t index = -1;
    for (uint64_t done = 0, some; done < n; done += some) {
      some = n - done < EMU_CHUNK ? n - done : EMU_CHUNK;
      emu_read_on(values, x, bare, at + done * inner, inner, some);
      for (uint64_t i = 0; i < some; i++) {
        if (values[i] > greatest || (index < 0 && values[i] == values[i])) {
          greatest = values[i];
          index = (int32_t)(done + i);
        }
      }
    }
    ((int32_t *)node->out[0]->data)[r] = index < 0 ? 0 : index;
  }
}

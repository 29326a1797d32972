/* op_norm.c: RmsNorm over the last axis: y = x / sqrt(mean(x^2) + epsilon) * gamma + beta. */
#include <math.h>

#include "kernels.h"
#include "ops.h"

static int check_axis(const emu_node *node, emu_why why) {
  static const uint32_t one[] = {1};
  const emu_tensor *x = node->in[0];
  float epsilon = emu_find_param(node, "epsilon")->scalar.f32;
  if (!(epsilon >= 0) || isinf(epsilon)) {
    return emu_refuse(why, "epsilon is %g", (double)epsilon);
  }
  if (emu_check_values(node, "axes", 1, one, why)) {
    return 1;
  }
  if (emu_values(node, "axes")[0] != x->rank - 1) {
    return emu_refuse(why, "axes is [%u]; only the last axis, %u, is supported",
                      emu_values(node, "axes")[0], x->rank - 1);
  }
  return 0;
}

static int check_shapes(const emu_node *node, emu_why why) {
  const emu_tensor *x = node->in[0];
  uint32_t length[] = {emu_last(x)};
  if (emu_half(x) && x->rank == 4 && x->dims[1] > 1 && x->dims[2] > 1) {
    return emu_refuse(why, "FLOAT_16 of rank 4 with dims[1] and dims[2] above 1 gives wrong values "
                           "in the vendor's library; reshape to [1, rows, length]");
  }
  return emu_check_dims(node->in[1], 1, length, why) ||
         emu_check_dims(node->in[2], 1, length, why) ||
         emu_check_dims(node->out[0], x->rank, x->dims, why);
}

int emu_check_rms_norm(const emu_node *node, char *text, size_t size) {
  static const emu_param_rule rules[] = {{"epsilon", 0, EMU_F32, true},
                                         {"axes", 1, EMU_U32, true}};
  emu_why why = {text, size};
  /* Without beta the vendor's 2.36 and 2.37 fail, so it is demanded. */
  return emu_check_ports(node, 3, 3, 1, 1, why) || emu_check_params(node, rules, 2, why) ||
         emu_check_float(node, why) || check_axis(node, why) || check_shapes(node, why);
}

static size_t row_stride(const emu_tensor *x) {
  return emu_align(emu_last(x) * sizeof(float)) / sizeof(float);
}

size_t emu_scratch_rms_norm(const emu_node *node) {
  return 64 + emu_slots() * EMU_SUM_ROWS * row_stride(node->in[0]) * sizeof(float);
}

typedef struct {
  const emu_node *node;
  float *slots;
  uint32_t rows;
} norm_job;

/* normalise does EMU_SUM_ROWS rows. */
static void normalise(void *arg, uint32_t task, uint32_t slot) {
  const norm_job *job = arg;
  const emu_kernels *kernels = emu_kernel();
  const emu_tensor *x = job->node->in[0];
  float epsilon = emu_find_param(job->node, "epsilon")->scalar.f32, sums[EMU_SUM_ROWS];
  size_t n = emu_last(x), stride = row_stride(x), bytes = n * emu_dtype_size(x->dtype);
  uint32_t first = task * EMU_SUM_ROWS, left = job->rows - first;
  uint32_t count = left < EMU_SUM_ROWS ? left : EMU_SUM_ROWS;
  float *wide = job->slots + slot * EMU_SUM_ROWS * stride;
  for (uint32_t r = 0; r < count; r++) {
    kernels->widen(wide + r * stride, (const char *)x->data + (first + r) * bytes, n, emu_half(x));
  }
  kernels->squares(sums, wide, stride, count, n);
  for (uint32_t r = 0; r < count; r++) {
    float scale = 1.0f / sqrtf(sums[r] / (float)n + epsilon);
    kernels->norm((char *)job->node->out[0]->data + (first + r) * bytes, wide + r * stride, scale,
                  job->node->in[1]->data, job->node->in[2]->data, n, emu_half(x));
  }
}

void emu_run_rms_norm(const emu_node *node, void *scratch) {
  norm_job job = {node, emu_aligned(scratch), (uint32_t)emu_rows(node->in[0])};
  emu_parallel_slots((job.rows + EMU_SUM_ROWS - 1) / EMU_SUM_ROWS, normalise, &job);
}

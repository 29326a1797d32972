/* op_reduce.c: ReduceMean over any axes.
 *
 * A mean is one sum in double over the elements in order of their position, one division and
 * one rounding.
 */
#include "ops.h"

/* reduced marks the axes of the mean; 0 when they are no distinct axes of the input. */
static uint32_t reduced(const emu_node *node) {
  const emu_param *axes = emu_find_param(node, "axes");
  uint32_t marks = 0;
  for (uint32_t i = 0; i < axes->tensor->dims[0]; i++) {
    uint32_t axis = ((const uint32_t *)axes->tensor->data)[i];
    if (axis >= node->in[0]->rank || (marks & 1u << axis)) {
      return 0;
    }
    marks |= 1u << axis;
  }
  return marks;
}

int emu_check_reduce_mean(const emu_node *node, char *text, size_t size) {
  static const emu_param_rule rules[] = {{"axes", 1, EMU_U32, true},
                                         {"keep_dims", 0, EMU_BOOL8, false}};
  emu_why why = {text, size};
  if (emu_check_ports(node, 1, 1, 1, 1, why) || emu_check_params(node, rules, 2, why) ||
      emu_check_types(node, EMU_T_FLOAT | EMU_T_FIXED, why)) {
    return 1;
  }
  const emu_tensor *x = node->in[0];
  uint32_t dims[EMU_MAX_RANK], rank = 0, marks = 0;
  if (emu_find_param(node, "axes")->tensor->rank == 1) {
    marks = reduced(node);
  }
  if (marks == 0) {
    return emu_refuse(why, "parameter axes does not list distinct axes of rank %u", x->rank);
  }
  for (uint32_t i = 0; i < x->rank; i++) {
    bool gone = marks >> i & 1;
    if (!gone || emu_flag(node, "keep_dims")) {
      dims[rank++] = gone ? 1 : x->dims[i];
    }
  }
  return rank == 0 ? emu_refuse(why, "nothing would be left of the shape; set keep_dims")
                   : emu_check_dims(node->out[0], rank, dims, why);
}

/* The dims of a mean, those that stay and those that go, each with its stride in the input. */
typedef struct {
  const emu_node *node;
  uint32_t n_stay, n_go;
  uint64_t stay[EMU_MAX_RANK], stay_stride[EMU_MAX_RANK];
  uint64_t go[EMU_MAX_RANK], go_stride[EMU_MAX_RANK];
  uint64_t results;
} mean_job;

static uint64_t offset_of(uint64_t index, uint32_t n, const uint64_t *dims,
                          const uint64_t *strides) {
  uint64_t offset = 0;
  for (uint32_t i = n; i-- > 0;) {
    offset += index % dims[i] * strides[i];
    index /= dims[i];
  }
  return offset;
}

/* mean_at sums runs along the innermost axis that goes. */
static float mean_at(const mean_job *job, uint64_t start) {
  const emu_tensor *x = job->node->in[0];
  uint32_t inner = job->n_go - 1;
  uint64_t outer = 1, n = job->go[inner], step = job->go_stride[inner];
  float values[EMU_CHUNK];
  double sum = 0;
  for (uint32_t i = 0; i < inner; i++) {
    outer *= job->go[i];
  }
  for (uint64_t o = 0; o < outer; o++) {
    uint64_t at = start + offset_of(o, inner, job->go, job->go_stride);
    for (uint64_t done = 0, some; done < n; done += some) {
      some = n - done < EMU_CHUNK ? n - done : EMU_CHUNK;
      emu_read(values, x, at + done * step, step, some);
      for (uint64_t i = 0; i < some; i++) {
        sum += (double)values[i];
      }
    }
  }
  return (float)(sum / (double)(outer * n));
}

enum { MEANS = 64 }; /* results of one task */

static void means(void *arg, uint32_t task) {
  const mean_job *job = arg;
  uint64_t first = (uint64_t)task * MEANS;
  for (uint64_t r = first; r < job->results && r < first + MEANS; r++) {
    float mean = mean_at(job, offset_of(r, job->n_stay, job->stay, job->stay_stride));
    emu_write(job->node->out[0], EMU_TIES_UP, r, 1, &mean, 1);
  }
}

void emu_run_reduce_mean(const emu_node *node, void *scratch) {
  (void)scratch;
  const emu_tensor *x = node->in[0];
  mean_job job = {.node = node, .results = emu_elements(node->out[0])};
  uint32_t marks = reduced(node);
  uint64_t strides[EMU_MAX_RANK];
  emu_strides(x, strides);
  for (uint32_t i = 0; i < x->rank; i++) {
    if (marks >> i & 1) {
      job.go[job.n_go] = x->dims[i];
      job.go_stride[job.n_go++] = strides[i];
    } else {
      job.stay[job.n_stay] = x->dims[i];
      job.stay_stride[job.n_stay++] = strides[i];
    }
  }
  emu_parallel((uint32_t)((job.results + MEANS - 1) / MEANS), means, &job);
}

/* ops.h: what the operators share: checks, walks over shapes, scratch slots. */
#ifndef SDNPU_OPS_H
#define SDNPU_OPS_H

#include "emu.h"

/* A check's outcome travels with it: where to write the reason, and how much fits. */
typedef struct emu_why {
  char *text;
  size_t size;
} emu_why;

/* emu_refuse writes the reason and returns 1, the result of a failed check. */
int emu_refuse(emu_why why, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* emu_check_ports: counts in range, every tensor of a known dtype, of rank 1 to 5 without a
 * zero dim, outputs not static. */
int emu_check_ports(const emu_node *node, uint32_t min_in, uint32_t max_in, uint32_t min_out,
                    uint32_t max_out, emu_why why);

/* What a parameter may look like: a scalar or a one- or two-dimensional tensor of dtype. */
typedef struct emu_param_rule {
  const char *name;
  uint32_t kind; /* as in emu_param */
  uint32_t dtype;
  bool required;
} emu_param_rule;

/* emu_check_params: every parameter has its rule, once, and the required ones are there. */
int emu_check_params(const emu_node *node, const emu_param_rule *rules, size_t n, emu_why why);

/* emu_check_values: tensor parameter `name`, if there, is u32 or i32 of exactly these dims. */
int emu_check_values(const emu_node *node, const char *name, uint32_t rank, const uint32_t *dims,
                     emu_why why);
const uint32_t *emu_values(const emu_node *node, const char *name); /* NULL: not given */
uint32_t emu_u32(const emu_node *node, const char *name, uint32_t otherwise);
bool emu_flag(const emu_node *node, const char *name); /* false: not given */

int emu_check_float(const emu_node *node, emu_why why); /* all tensors f16, or all f32 */
int emu_check_same_dtype(const emu_node *node, emu_why why);
int emu_check_dims(const emu_tensor *t, uint32_t rank, const uint32_t *dims, emu_why why);
int emu_check_last_axis(const emu_node *node, const char *name, emu_why why);

const char *emu_name(const emu_tensor *t);
const char *emu_dtype_name(uint32_t dtype); /* "FLOAT_16" */

/* ---- op_value.c: elements as float32 ---- */

/* Element types, one bit each, so that an operator can name the set it takes. */
enum emu_types {
  EMU_T_F16 = 1 << 0,
  EMU_T_F32 = 1 << 1,
  EMU_T_QU8 = 1 << 2,
  EMU_T_QS8 = 1 << 3,
  EMU_T_QU16 = 1 << 4,
  EMU_T_QS16 = 1 << 5,
  EMU_T_QS32 = 1 << 6,
  EMU_T_I32 = 1 << 7,
  EMU_T_U32 = 1 << 8,
  EMU_T_U8 = 1 << 9,
  EMU_T_BOOL = 1 << 10,
  EMU_T_FLOAT = EMU_T_F16 | EMU_T_F32,
  EMU_T_UNSIGNED = EMU_T_QU8 | EMU_T_QU16,
  EMU_T_FIXED = EMU_T_UNSIGNED | EMU_T_QS8 | EMU_T_QS16, /* 8 and 16 bits */
  EMU_T_INDEX = EMU_T_I32 | EMU_T_U32,
};
uint32_t emu_type(const emu_tensor *t); /* 0: none of them */
static inline bool emu_is_float(const emu_tensor *t) { return (emu_type(t) & EMU_T_FLOAT) != 0; }

/* What the integers of a tensor mean: scale * (q + offset). */
typedef struct emu_grid {
  float scale;
  int32_t offset;
} emu_grid;
emu_grid emu_grid_of(const emu_tensor *t); /* {1, 0} for what is not fixed point */
bool emu_same_grid(const emu_tensor *a, const emu_tensor *b); /* data type, scale and offset */

/* emu_check_type: t is of one of these types and, when fixed point, has one scale and offset.
 * emu_check_types: every tensor of the node, and all have one data type. */
int emu_check_type(const emu_tensor *t, uint32_t types, emu_why why);
int emu_check_types(const emu_node *node, uint32_t types, emu_why why);
int emu_check_same_grid(const emu_tensor *a, const emu_tensor *b, emu_why why);

/* emu_read reads n elements from element `at` on, every step-th, into floats; emu_read_on the
 * same under another grid: {1, 0} gives the bare integers. Written are floats and 8- and 16-bit
 * fixed point; everything with an emu_type can be read. */
enum emu_ties { EMU_TIES_UP, EMU_TIES_AWAY };
void emu_read(float *dst, const emu_tensor *t, uint64_t at, uint64_t step, size_t n);
void emu_read_on(float *dst, const emu_tensor *t, emu_grid grid, uint64_t at, uint64_t step,
                 size_t n);
void emu_write(const emu_tensor *t, enum emu_ties ties, uint64_t at, uint64_t step,
               const float *src, size_t n);

enum { EMU_CHUNK = 512 }; /* floats that are read, computed and written at a time */

static inline bool emu_half(const emu_tensor *t) { return t->dtype == EMU_F16; }
static inline uint32_t emu_last(const emu_tensor *t) { return t->dims[t->rank - 1]; }
/* emu_rows is the number of rows along the last axis. */
static inline uint64_t emu_rows(const emu_tensor *t) { return emu_elements(t) / emu_last(t); }

/* emu_parallel_slots is emu_parallel with the number of a scratch slot, below emu_slots(),
 * that no other running task has. */
uint32_t emu_slots(void);
void emu_parallel_slots(uint32_t n, void (*fn)(void *arg, uint32_t task, uint32_t slot), void *arg);

/* emu_cut is where part `part` of n things begins when they are cut evenly into parts. */
static inline uint32_t emu_cut(uint32_t n, uint32_t part, uint32_t parts) {
  return (uint32_t)((uint64_t)n * part / parts);
}

/* Scratch is cut into 64-byte aligned pieces; sizes count their alignment in. */
static inline size_t emu_align(size_t size) { return (size + 63) & ~(size_t)63; }
static inline void *emu_aligned(void *p) { return (void *)emu_align((size_t)p); }

/* A walk visits a shape in order with up to four operands, each with its own strides (in
 * elements; 0 repeats). The last dim is the inner run. */
enum { EMU_WALK_RANK = 2 * EMU_MAX_RANK, EMU_WALK_OPERANDS = 4 };

typedef struct emu_walk {
  uint32_t rank, operands;
  uint64_t dims[EMU_WALK_RANK];
  uint64_t strides[EMU_WALK_OPERANDS][EMU_WALK_RANK];
} emu_walk;

/* emu_walk_collapse drops dims of 1 and joins neighbours that every operand runs through
 * evenly, so that inner runs are as long as possible. */
void emu_walk_collapse(emu_walk *walk);

/* emu_walk_run calls fn for pieces of inner runs, in parallel when there is much to do. */
typedef void (*emu_walk_fn)(const void *arg, const emu_walk *walk, const uint64_t *offsets,
                            uint64_t n);
void emu_walk_run(const emu_walk *walk, emu_walk_fn fn, const void *arg);

/* emu_flat_walk visits n elements that lie alike in all operands: one offset serves them. */
static inline emu_walk emu_flat_walk(uint64_t n) {
  return (emu_walk){.rank = 1, .operands = 1, .dims = {n}, .strides = {{1}}};
}

/* Row-major strides of a tensor. */
void emu_strides(const emu_tensor *t, uint64_t *strides);

/* op_move.c: emu_move copies elements along a walk whose operand 0 is `to`, from element to_at
 * on, and operand 1 is `from`; it converts them where the encodings differ. emu_check_move: one
 * input, one output, both of one of these types. */
enum { EMU_T_MOVED = EMU_T_FLOAT | EMU_T_FIXED }; /* what every mover takes */
void emu_move(emu_walk *walk, const emu_tensor *to, uint64_t to_at, const emu_tensor *from,
              uint64_t from_at);
int emu_check_move(const emu_node *node, const emu_param_rule *rules, size_t n, uint32_t types,
                   emu_why why);

/* The operators' functions, for the rows of op_table.c. */
#define EMU_OPERATOR(NAME)                                                                         \
  int emu_check_##NAME(const emu_node *node, char *why, size_t why_size);                          \
  void emu_run_##NAME(const emu_node *node, void *scratch);

EMU_OPERATOR(fully_connected)
EMU_OPERATOR(conv2d)
EMU_OPERATOR(matmul)
EMU_OPERATOR(rms_norm)
EMU_OPERATOR(layer_norm)
EMU_OPERATOR(softmax)
EMU_OPERATOR(rotary_embedding)
EMU_OPERATOR(add)
EMU_OPERATOR(subtract)
EMU_OPERATOR(multiply)
EMU_OPERATOR(divide)
EMU_OPERATOR(binary)
EMU_OPERATOR(neg)
EMU_OPERATOR(sigmoid)
EMU_OPERATOR(neuron)
EMU_OPERATOR(gelu)
EMU_OPERATOR(hard_swish)
EMU_OPERATOR(relu)
EMU_OPERATOR(rsqrt)
EMU_OPERATOR(select)
EMU_OPERATOR(reduce_mean)
EMU_OPERATOR(cast)
EMU_OPERATOR(quantize)
EMU_OPERATOR(dequantize)
EMU_OPERATOR(convert)
EMU_OPERATOR(reshape)
EMU_OPERATOR(transpose)
EMU_OPERATOR(strided_slice)
EMU_OPERATOR(concat)
EMU_OPERATOR(split)
EMU_OPERATOR(tile)
EMU_OPERATOR(pad)
EMU_OPERATOR(gather)
EMU_OPERATOR(top_k)
EMU_OPERATOR(argmax)
EMU_OPERATOR(scatter_nd)
EMU_OPERATOR(scatter_elements)

int emu_check_masked_softmax(const emu_node *node, char *why, size_t why_size); /* always refuses */
size_t emu_packed_fully_connected(const emu_node *node);
void emu_pack_fully_connected(const emu_node *node, void *dst);
size_t emu_scratch_fully_connected(const emu_node *node);
size_t emu_packed_conv2d(const emu_node *node);
void emu_pack_conv2d(const emu_node *node, void *dst);
size_t emu_scratch_conv2d(const emu_node *node);
size_t emu_packed_matmul(const emu_node *node);
void emu_pack_matmul(const emu_node *node, void *dst);
size_t emu_scratch_matmul(const emu_node *node);
size_t emu_scratch_norm(const emu_node *node);
size_t emu_scratch_softmax(const emu_node *node);
size_t emu_scratch_rotary_embedding(const emu_node *node);
size_t emu_scratch_top_k(const emu_node *node);

#endif

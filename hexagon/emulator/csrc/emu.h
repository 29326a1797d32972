/* emu.h: the types and functions that all parts of the emulator share.
 *
 * The files of api/ implement the vendor's ABI and own graphs, contexts and binaries. The files of
 * ops/ implement operators on the types below. Neither includes the other's headers. Both call
 * kernels/, and csrc/README.md describes all folders.
 *
 * Life of a node: its operator checks it once when the client adds it, packs its constants once
 * when the graph is finalized, and runs it many times. A check is stricter than the vendor's x86-64
 * library, because a phone may reject what that library accepts.
 *
 * Rule of sums: every sum runs in one fixed order (along K; over KV slots in Softmax and P.V) with
 * fused multiply-add in float32. The order is the same on every code path, thread count and graph
 * width. A slot whose probability is exactly zero is skipped everywhere. Therefore padding, graph
 * width and machine never change a bit of a result.
 */
#ifndef SDNPU_EMU_H
#define SDNPU_EMU_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { EMU_MAX_RANK = 5, EMU_MAX_PORTS = 64, EMU_MAX_PARAMS = 8 };

/* The values of Qnn_DataType_t that the emulator supports. */
enum emu_dtype {
  EMU_I8 = 0x0008,
  EMU_I16 = 0x0016,
  EMU_I32 = 0x0032,
  EMU_I64 = 0x0064,
  EMU_U8 = 0x0108,
  EMU_U16 = 0x0116,
  EMU_U32 = 0x0132,
  EMU_F16 = 0x0216,
  EMU_F32 = 0x0232,
  EMU_QS8 = 0x0308, /* signed fixed point; always has a quantization */
  EMU_QS16 = 0x0316,
  EMU_QS32 = 0x0332,
  EMU_QU8 = 0x0408, /* unsigned fixed point */
  EMU_QU16 = 0x0416,
  EMU_QU32 = 0x0432,
  EMU_BOOL8 = 0x0508,
};

/* The values of Qnn_TensorType_t that the emulator supports. */
enum emu_kind { EMU_APP_WRITE = 0, EMU_APP_READ = 1, EMU_NATIVE = 3, EMU_STATIC = 4 };

/* The values of Qnn_QuantizationEncoding_t that the emulator supports. */
enum emu_encoding {
  EMU_Q_SCALE_OFFSET = 0,
  EMU_Q_AXIS_SCALE_OFFSET = 1,
  EMU_Q_BW_SCALE_OFFSET = 2,
  EMU_Q_BW_AXIS_SCALE_OFFSET = 3,
  EMU_Q_BLOCK = 4,
  EMU_Q_LPBQ = 5, /* blockwise expansion */
  EMU_Q_FLOAT_BLOCK = 7,
  EMU_Q_BW_FLOAT_BLOCK = 11,
  EMU_Q_NONE = 0x7fffffff,
};

/* The encoding of a quantized tensor. A stored integer q represents scale * (q + offset), as QNN
 * defines it: the offset is the negated zero point.
 *
 * Invariants, checked by api/quant.c: count fits the shape, scales are finite and positive, axis
 * is a dimension, block sizes divide their dimensions, and bitwidth fits the container. The
 * arrays live as long as their tensor. */
typedef struct emu_quant {
  uint32_t encoding; /* an emu_encoding */
  uint32_t count; /* number of scales: 1, dims[axis] or blocks; 0: not quantized, other fields are
                     ignored */
  uint32_t bitwidth; /* significant bits of a value in its container; 0: all */
  uint32_t axis;     /* per-channel encodings and LPBQ */
  uint32_t
      block[EMU_MAX_RANK];   /* block sizes of BLOCK, FLOAT_BLOCK and BW_FLOAT_BLOCK; otherwise 0 */
  uint32_t blocks_per_axis;  /* LPBQ: blocks per channel */
  uint32_t block_scale_bits; /* LPBQ: bits of a block scale */
  const float *scales;       /* block encodings: in the client's order */
  const int32_t *offsets;    /* NULL: all 0 */
  const float *zeros;        /* float offsets of the FLOAT_BLOCK encodings; NULL: all 0 */
  /* LPBQ, [channel][block]: a block's scale is scales[channel] * block_scales[channel][block]. */
  const uint16_t *block_scales;
} emu_quant;

typedef struct emu_tensor {
  uint32_t id;
  char *name;
  uint32_t kind;
  uint32_t dtype;
  uint32_t rank;
  uint32_t dims[EMU_MAX_RANK];
  emu_quant quant;
  void *data; /* static tensors: the elements, set at creation; others: set for each run */
} emu_tensor;

/* A parameter is a scalar (kind 0) or a static tensor (kind 1). */
typedef struct emu_param {
  char *name;
  uint32_t kind;
  uint32_t dtype; /* of the scalar */
  union {
    uint32_t u32;
    int32_t i32;
    float f32;
    uint8_t b8;
  } scalar;
  emu_tensor *tensor;
} emu_param;

struct emu_op;

/* Version of the packed constants that context binaries carry. Raise it when pack() of any
 * operator writes other bytes for the same inputs. Packed bytes must not depend on the code path
 * or the thread count. */
enum { EMU_PACKING_VERSION = 4 };

typedef struct emu_node {
  char *name;
  const struct emu_op *op;
  uint32_t n_in, n_out, n_params;
  emu_tensor **in, **out;
  emu_param *params;
  const void *packed; /* output of pack(), 64-byte aligned, or NULL */
} emu_node;

/* The result of a check. It names the call of the vendor's library that rejects such a node. */
enum emu_verdict {
  EMU_VALID = 0,
  EMU_INVALID = 1, /* validation rejects it (3110), and here addNode too; the vendor's addNode
                    accepts most of these */
  EMU_INVALID_AT_FINALIZE = 2, /* only graphFinalize rejects it (1002) */
  EMU_VALID_SINCE_V73 = 3,     /* valid, but addNode returns 6005 for chips before v73 */
};

/* One operator: a row of the table in ops/table.c. */
typedef struct emu_op {
  const char *type; /* the vendor's name, such as "FullyConnected" */
  /* check returns an emu_verdict and, unless it is EMU_VALID, writes the reason to reason. It
   * inspects counts, ranks, dims, data types, parameters, and which inputs must be static. */
  int (*check)(const emu_node *node, char *reason, size_t reason_size);
  /* packed_size and pack are NULL if the operator packs nothing. After pack, run no longer reads
   * the static inputs that packs_input names (bit i = input i). */
  size_t (*packed_size)(const emu_node *node);
  void (*pack)(const emu_node *node, void *dst);
  uint32_t packs_input;
  /* scratch_size returns the bytes of scratch memory that run needs. NULL means none. All nodes
   * of a graph share one scratch buffer. */
  size_t (*scratch_size)(const emu_node *node);
  void (*run)(const emu_node *node, void *scratch);
} emu_op;

/* ops/table.c */
const emu_op *emu_find_op(const char *type); /* NULL: unknown */
const emu_op *emu_ops(size_t *count);

/* ops/tensor.c */
size_t emu_dtype_size(uint32_t dtype); /* 0: unknown */
bool emu_is_fixed_point(uint32_t dtype);
uint64_t emu_elements(const emu_tensor *t); /* 0: overflow, or a dim is zero */
const emu_param *emu_find_param(const emu_node *node, const char *name);

/* pool.c: one thread pool per process. Threads spin for a short time between the parallel calls
 * of one execute (emu_pool_enter ... emu_pool_leave) and sleep otherwise. Every task index in
 * [0, n) runs exactly once. Results must not depend on which thread runs a task. */
void emu_pool_enter(void);
void emu_pool_leave(void);
void emu_parallel(uint32_t n, void (*fn)(void *arg, uint32_t task), void *arg);
enum { EMU_MAX_THREADS = 64 };
uint32_t emu_pool_threads(void);

/* kernels/select.c: returns the code path: "vnni", "avx512", "avx2", "neon" or "c". It is chosen
 * once, from the CPU's features or by SDNPU_EMULATOR=cpu=NAME. */
const char *emu_code_path(void);

/* All values of cpu=, the fastest first, followed by NULL. */
extern const char *const emu_code_paths[];
int emu_select_code_path(
    const char *name); /* returns 0 if this machine supports the path; tests only */

#endif

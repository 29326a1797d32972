/* emu.h: what the parts of the emulator share.
 *
 * api_*.c speak the vendor's ABI and own graphs, contexts and binaries;
 * op_*.c know operators; neither includes the other's headers. A node is
 * checked once by its operator's row (strictly: the vendor's library accepts
 * more, a phone may not), packed once at finalize, and run many times.
 *
 * Rule of sums: every sum runs in one fixed order (along K; over slots in
 * Softmax and P.V), with fused multiply-add in float32, and is the same on
 * every code path, thread count and graph width. A slot whose probability is
 * exactly zero is skipped everywhere. So results do not depend on padding,
 * width or machine.
 */
#ifndef SDNPU_EMU_H
#define SDNPU_EMU_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { EMU_MAX_RANK = 5, EMU_MAX_PORTS = 64, EMU_MAX_PARAMS = 8 };

/* Values of Qnn_DataType_t that the emulator knows. */
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
  EMU_QS8 = 0x0308, /* fixed point, signed: always with a quantization */
  EMU_QS16 = 0x0316,
  EMU_QS32 = 0x0332,
  EMU_QU8 = 0x0408, /* fixed point, unsigned */
  EMU_QU16 = 0x0416,
  EMU_QU32 = 0x0432,
  EMU_BOOL8 = 0x0508,
};

/* Values of Qnn_TensorType_t that the emulator knows. */
enum emu_kind { EMU_APP_WRITE = 0, EMU_APP_READ = 1, EMU_NATIVE = 3, EMU_STATIC = 4 };

/* Values of Qnn_QuantizationEncoding_t that the emulator knows. */
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

/* What a stored integer q means: real = scale * (q + offset), as the vendor defines it.
 *
 * The API hands over sound ones only: count fits the shape, scales are finite and positive,
 * the axis is a dimension, blocks divide their dimensions, bitwidth fits the container. The
 * arrays live as long as their tensor. */
typedef struct emu_quant {
  uint32_t encoding; /* an emu_encoding */
  uint32_t count;    /* scales: 1, dims[axis], or blocks; 0: not quantized, whatever else stands here */
  uint32_t bitwidth; /* significant bits of a value in its container; 0: all */
  uint32_t axis;     /* the per-channel forms and LPBQ */
  uint32_t block[EMU_MAX_RANK]; /* block sizes: BLOCK, FLOAT_BLOCK, BW_FLOAT_BLOCK; else 0 */
  uint32_t blocks_per_axis;     /* LPBQ: blocks of one channel */
  uint32_t block_scale_bits;    /* LPBQ */
  const float *scales;          /* blocks: as the client ordered them */
  const int32_t *offsets;       /* NULL: all 0 */
  const float *zeros;           /* real offsets of the FLOAT_BLOCK forms; NULL: all 0 */
  /* LPBQ, [channel][block]: the scale of a block is scales[channel] * block_scales[...] */
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
  void *data; /* static: its elements, from creation on; others: set for each run */
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

/* Binaries carry packed constants: raise this whenever pack() of any operator writes other
 * bytes for the same inputs. They must not depend on the code path or the thread count. */
enum { EMU_PACKING_VERSION = 4 };

typedef struct emu_node {
  char *name;
  const struct emu_op *op;
  uint32_t n_in, n_out, n_params;
  emu_tensor **in, **out;
  emu_param *params;
  const void *packed; /* what pack() wrote, 64-byte aligned, or NULL */
} emu_node;

/* What a check says, in the terms of the vendor's library: the call that refuses the node. */
enum emu_verdict {
  EMU_RIGHT = 0,
  EMU_WRONG = 1,      /* validation (3110), and addNode here, where it would take most of them */
  EMU_UNPREPARED = 2, /* graphFinalize alone: 1002 */
  EMU_SINCE_V73 = 3,  /* right, but addNode answers 6005 for chips before v73 */
};

/* One operator form. */
typedef struct emu_op {
  const char *type; /* "FullyConnected" */
  /* check: an emu_verdict; unless EMU_RIGHT it has written the reason. It looks at counts,
   * ranks, dims, dtypes and parameters, and at which inputs must be static. */
  int (*check)(const emu_node *node, char *why, size_t why_size);
  /* packed_size and pack: NULL when the operator packs nothing. After pack the static
   * inputs named in packs_input (bit i = input i) are no longer read by run. */
  size_t (*packed_size)(const emu_node *node);
  void (*pack)(const emu_node *node, void *dst);
  uint32_t packs_input;
  /* scratch_size: bytes of scratch that run wants, or NULL. Shared by all nodes of a graph. */
  size_t (*scratch_size)(const emu_node *node);
  void (*run)(const emu_node *node, void *scratch);
} emu_op;

/* op_table.c */
const emu_op *emu_find_op(const char *type); /* NULL: unknown */
const emu_op *emu_ops(size_t *count);

/* tensor.c */
size_t emu_dtype_size(uint32_t dtype); /* 0: unknown */
bool emu_fixed_point(uint32_t dtype);
uint64_t emu_elements(const emu_tensor *t); /* 0: overflow or a zero dim */
const emu_param *emu_find_param(const emu_node *node, const char *name);

/* pool.c: one process-wide pool. Threads spin briefly between the parallel calls of one
 * execute (emu_pool_enter ... emu_pool_leave) and sleep outside. Every task index in
 * [0,n) runs exactly once; tasks must not depend on which thread runs them. */
void emu_pool_enter(void);
void emu_pool_leave(void);
void emu_parallel(uint32_t n, void (*fn)(void *arg, uint32_t task), void *arg);
enum { EMU_MAX_THREADS = 64 };
uint32_t emu_pool_threads(void);

/* kernels.c: "vnni", "avx512", "avx2", "neon" or "c", chosen at load; SDNPU_EMULATOR=cpu=NAME and
 * threads=N (comma-separated, with other keys) override. */
const char *emu_code_path(void);

/* The names that cpu may have on any machine, the best first, NULL behind them. */
extern const char *const emu_code_paths[];
int emu_select_code_path(const char *name); /* 0 when this machine has it; tests only */

#endif

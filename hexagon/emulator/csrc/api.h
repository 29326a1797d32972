/* api.h: what the files of the ABI side share. Operators never see it.
 *
 * Objects: a handle is a number that is never given out twice, so a stale
 * handle is always noticed. A call holds the object it works on; freeing takes
 * the handle away first and then waits for the calls inside.
 *
 * Locks, in the order in which they may be taken: a context's `build` (adding,
 * finalizing, saving), then the lane (executing), then the registry (a few
 * instructions). The lane is one per process: an emulated NPU runs one graph
 * at a time, while contexts come and go beside it.
 */
#ifndef SDNPU_API_H
#define SDNPU_API_H

#include <pthread.h>
#include <stdatomic.h>

#include "emu.h"
#include "qnn_abi.h"

#define API_VERSION "v0.1.0"
#define API_PACKAGE "qti.aisw"
#define API_PRINTF(at) __attribute__((format(printf, at, at + 1)))

enum { API_ALIGN = 64, API_DEFAULT_SOC = 30 };
/* A single buffer of the ABI has a 32-bit size. */
#define API_MAX_TENSOR_BYTES ((uint64_t)UINT32_MAX)

/* api_handle.c */
typedef enum { API_LOG, API_BACKEND, API_DEVICE, API_CONTEXT, API_GRAPH, API_PROFILE, API_MEMORY, API_SYSTEM, API_KINDS } api_kind;

typedef struct api_object {
  uint32_t id;
  uint32_t users;           /* calls inside; guarded by the registry */
  struct api_object *owner; /* a graph's context: who holds the graph holds it */
} api_object;

qnn_handle api_register(api_kind kind, api_object *object); /* NULL: no memory */
void *api_hold(api_kind kind, qnn_handle handle);           /* NULL: no such object */
void *api_hold_newest(api_kind kind);
void api_release(void *object);
/* api_withdraw makes the handle (and those of its graphs) unknown, waits for the calls
 * inside, and returns the object, now the caller's alone; NULL: no such object. */
void *api_withdraw(api_kind kind, qnn_handle handle);
/* The handle of some memory that belongs to a context; NULL: none is left. */
qnn_handle api_first_memory(uint32_t context);

/* api_log.c */
typedef struct {
  api_object base;
  qnn_log_callback callback;
  atomic_uint level;
} api_logger;

void api_log(uint32_t log, uint32_t level, const char *format, ...) API_PRINTF(3);
qnn_status api_fail(uint32_t log, qnn_status code, const char *format, ...) API_PRINTF(3);
uint64_t api_now_us(void);

/* api_store.c: the bytes of a context that do not change. Equal contents are kept once. */
typedef struct api_chunk {
  const void *data;
  size_t size;
  uint64_t hash;
  uint32_t refs;
  uint32_t index; /* its place in a binary; set by the writer */
  bool checked;   /* data has its hash; false only for what a binary holds and nobody ran yet */
  bool borrowed;  /* data lies in a persistent binary of the client */
  struct api_chunk *next;
} api_chunk;

typedef struct {
  api_chunk *first, *last;
} api_store;

void *api_aligned(size_t size);
uint64_t api_hash(const void *data, size_t size, uint64_t seed);
api_chunk *api_store_copy(api_store *store, const void *data, size_t size);
api_chunk *api_store_adopt(api_store *store, void *aligned, size_t size);
api_chunk *api_store_load(api_store *store, const void *data, size_t size, uint64_t hash, bool borrow);
bool api_store_check(api_chunk *chunk); /* false: the bytes are not those that were saved */
void api_store_drop(api_store *store, api_chunk *chunk);
void api_store_clear(api_store *store);

/* Backends and devices */
typedef struct {
  api_object base;
  uint32_t log;
} api_backend;

typedef struct {
  api_object base;
  uint32_t log;
  uint32_t soc, arch;
  qnn_htp_device_extension extension;
  qnn_core_info core;
  qnn_hw_device_info hardware;
  qnn_platform_info platform;
} api_device;

uint32_t api_arch_of(uint32_t soc); /* 73 for SM8550; 0: unknown */

/* Profiles */
typedef struct api_profile api_profile;
api_profile *api_profile_begin(qnn_handle handle, uint32_t log, qnn_status *status);
bool api_profile_detailed(const api_profile *profile);
/* api_profile_add appends an event; parent 0 is the top level. Returns its number. */
uint32_t api_profile_add(api_profile *profile, uint32_t parent, uint32_t type, uint32_t unit,
                         uint64_t value, const char *identifier);
void api_profile_set(api_profile *profile, uint32_t number, uint64_t value);
void api_profile_end(api_profile *profile);

/* Graphs */
typedef struct {
  emu_tensor t; /* first: nodes point at it */
  uint64_t bytes;
  api_chunk *quant_chunk; /* quantization arrays too large to be kept here, else */
  void *quant_block;      /* the arrays, or NULL */
  api_chunk *chunk;  /* static data, while something reads it */
  int32_t producer;  /* node number, -1: none yet */
  int32_t last_use;  /* node number of the last reader, -1: none */
  uint32_t readers;  /* inputs and parameters that name it */
  uint32_t raw_uses; /* readers that read the elements at run time */
  uint64_t offset;   /* native: place in the arena */
  bool bound;        /* while an execute is checked */
} api_tensor;

typedef struct {
  emu_node n;
  api_chunk *packed;
} api_node;

typedef struct {
  const char **slots;
  uint32_t used, capacity;
} api_names;

typedef struct api_context api_context;

typedef struct api_graph {
  api_object base;
  api_context *context;
  struct api_graph *next;
  char *name;
  api_tensor **tensors; /* ids ascend */
  uint32_t n_tensors, cap_tensors;
  api_node **nodes;
  uint32_t n_nodes, cap_nodes;
  api_names tensor_names, node_names;
  uint32_t n_inputs, n_outputs; /* APP_WRITE and APP_READ tensors */
  uint64_t arena_size;
  size_t scratch_size;
  atomic_bool finalized;
  bool checked; /* its chunks have their hashes; guarded by the lane */
} api_graph;

struct api_context {
  api_object base;
  uint32_t log;
  uint32_t soc;
  bool from_binary;
  pthread_mutex_t build;
  api_store store;
  api_graph *graphs, **graphs_end;
  uint32_t next_id; /* tensor ids are unique in a context */
  double session_bytes; /* what it takes of a phone's session; see api_pace.h */
  uint32_t session;     /* of the connection that it was made over */
};

/* api_restart.c: the connection to the DSP: its number, and whether one with that number still
 * stands; for executes also the failures that tests ask for. */
uint32_t api_session(void);
qnn_status api_connection(uint32_t log, uint32_t session);
qnn_status api_connection_execute(uint32_t log, uint32_t session);
void api_power_lost(void); /* api_device.c */

/* api_context.c */
/* For describing a binary: a context that has no handle and belongs to no device. */
qnn_status api_context_unregistered(api_context **out);
void api_context_discard(api_context *context);
api_graph *api_context_find_graph(const api_context *context, const char *name, size_t length);

/* api_graph.c */
api_graph *api_graph_new(api_context *context, const char *name, size_t length);
void api_graph_destroy(api_graph *graph);
int api_names_add(api_names *names, const char *name); /* 0 added, 1 there already, -1 no memory */

/* api_tensor.c: checks shared by the ABI and by binaries. `where` names the graph. */
qnn_status api_check_shape(uint32_t log, const char *where, const emu_tensor *spec, uint64_t *bytes);
/* The arrays of spec's quantization lie in quant, or are copied where that is NULL. */
qnn_status api_graph_add_tensor(api_graph *graph, const emu_tensor *spec, api_chunk *chunk,
                                api_chunk *quant);
api_tensor *api_graph_tensor(const api_graph *graph, uint32_t id);
/* out points into *quant, to be freed after it. */
qnn_status api_tensor_spec(uint32_t log, const char *where, const qnn_tensor *in, emu_tensor *out,
                           uint64_t *bytes, void **quant);

/* api_quant.c */
enum { API_QUANT_SMALL = 64 }; /* bytes of arrays that a tensor keeps itself */
qnn_status api_quant_read(uint32_t log, const char *where, const qnn_quantize_params *in,
                          emu_tensor *spec, void **block);
const char *api_quant_check(const emu_tensor *spec);
size_t api_quant_size(const emu_quant *q); /* of all arrays */
size_t api_quant_block_scales(const emu_quant *q);
void api_quant_point(emu_quant *q, const void *block);

/* api_node.c: spec and everything it points at stay the caller's. */
qnn_status api_graph_add_node(api_graph *graph, const emu_node *spec);
bool api_node_packs(const emu_node *node, size_t *size);

/* api_finalize.c */
qnn_status api_graph_connected(const api_graph *graph, qnn_status code);
qnn_status api_graph_ready(api_graph *graph); /* counts readers, plans the arena; graph is packed */

/* api_plan.c: fails only where memory does */
int api_plan_arena(api_graph *graph);

/* api_execute.c */
void api_lane_trim(void); /* the last context is gone: give the arena back */

/* api_binary_write.c, api_binary_read.c */
typedef struct {
  const char *const *enabled; /* NULL: all graphs */
  bool persistent;
  bool inspect; /* for reading only: any chip, any alignment, nothing copied */
} api_load_options;

qnn_status api_binary_size(api_context *context, uint64_t *size);
qnn_status api_binary_write(api_context *context, void *buffer, uint64_t size, uint64_t *written);
qnn_status api_binary_read(api_context *context, const void *blob, uint64_t size,
                           const api_load_options *options);

/* api_memory.c */
uint32_t api_memory_context(const api_object *memory);
void api_memory_release_all(uint32_t context);
qnn_status api_memory_resolve(const api_context *context, qnn_tensor *tensor, void **held);

/* api_device.c: the newest power vote of a kind; NULL: none. Tests only. */
const qnn_power_config *api_power_vote(uint32_t id, uint32_t option);

/* Entries of the function table */
qnn_status api_backend_create(qnn_handle log, const qnn_config *const *config, qnn_handle *out);
qnn_status api_backend_version(qnn_api_version *out);
qnn_status api_backend_build_id(const char **out);
qnn_status api_backend_operations(qnn_handle backend, uint32_t *n, const qnn_operation_name **out);
qnn_status api_backend_validate(qnn_handle backend, qnn_op_config config);
qnn_status api_backend_free(qnn_handle backend);
qnn_status api_property(uint32_t key);
qnn_status api_error_message(qnn_status code, const char **message);
qnn_status api_error_verbose(qnn_status code, const char **message);
qnn_status api_error_free(const char *message);
qnn_status api_backend_set_config(qnn_handle backend, const qnn_config *const *config);
qnn_status api_context_set_config(qnn_handle context, const qnn_config *const *config);
qnn_status api_context_validate(qnn_handle backend, qnn_handle device, const qnn_config *const *config,
                                const void *blob, uint64_t size);
qnn_status api_graph_set_config(qnn_handle graph, const qnn_config *const *config);
qnn_status api_memory_register(qnn_handle context, const qnn_mem_descriptor *in, uint32_t n,
                               qnn_handle *out);
qnn_status api_memory_deregister(const qnn_handle *handles, uint32_t n);
qnn_status api_log_create(qnn_log_callback callback, uint32_t level, qnn_handle *out);
qnn_status api_log_set_level(qnn_handle log, uint32_t level);
qnn_status api_log_free(qnn_handle log);
qnn_status api_device_create(qnn_handle log, const qnn_config *const *config, qnn_handle *out);
qnn_status api_device_free(qnn_handle device);
qnn_status api_device_info(qnn_handle device, const qnn_platform_info **out);
qnn_status api_platform_info(qnn_handle log, const qnn_platform_info **out);
qnn_status api_free_platform_info(qnn_handle log, const qnn_platform_info *info);
qnn_status api_device_infrastructure(const qnn_infrastructure **out);
qnn_status api_context_create(qnn_handle backend, qnn_handle device, const qnn_config *const *config,
                              qnn_handle *out);
qnn_status api_context_free(qnn_handle context, qnn_handle profile);
qnn_status api_context_binary_size(qnn_handle context, uint64_t *size);
qnn_status api_context_binary(qnn_handle context, void *buffer, uint64_t size, uint64_t *written);
qnn_status api_context_from_binary(qnn_handle backend, qnn_handle device,
                                   const qnn_config *const *config, const void *blob, uint64_t size,
                                   qnn_handle *out, qnn_handle profile);
qnn_status api_graph_create(qnn_handle context, const char *name, const qnn_config *const *config,
                            qnn_handle *out);
qnn_status api_graph_retrieve(qnn_handle context, const char *name, qnn_handle *out);
qnn_status api_graph_node(qnn_handle graph, qnn_op_config config);
qnn_status api_graph_finalize(qnn_handle graph, qnn_handle profile, qnn_handle signal);
qnn_status api_graph_execute(qnn_handle graph, const qnn_tensor *inputs, uint32_t n_inputs,
                             const qnn_tensor *outputs, uint32_t n_outputs, qnn_handle profile,
                             qnn_handle signal);
qnn_status api_graph_create_tensor(qnn_handle graph, qnn_tensor *tensor);
qnn_status api_profile_create(qnn_handle backend, uint32_t level, qnn_handle *out);
qnn_status api_profile_set_config(qnn_handle profile, const qnn_config *const *config);
qnn_status api_profile_extended(uint64_t event, qnn_extended_event_data *out);
qnn_status api_profile_events(qnn_handle profile, const uint64_t **ids, uint32_t *n);
qnn_status api_profile_sub_events(uint64_t event, const uint64_t **ids, uint32_t *n);
qnn_status api_profile_event_data(uint64_t event, qnn_event_data *out);
qnn_status api_profile_free(qnn_handle profile);

#endif

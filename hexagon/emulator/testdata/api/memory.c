/* The test memory.c covers registered memory, options at creation, and binaries described without a
 * device. */
#define _GNU_SOURCE
#include <sys/mman.h>
#include <unistd.h>

#include "drive.h"

#define CALL(index, ...) ((qnn_status(*)(__VA_ARGS__))qnn->table[index])

static qnn_status enlist(qnn_handle context, const qnn_mem_descriptor *d, uint32_t n, qnn_handle *out) {
  return CALL(35, qnn_handle, const qnn_mem_descriptor *, uint32_t, qnn_handle *)(context, d, n, out);
}
static qnn_status delist(const qnn_handle *handles, uint32_t n) {
  return CALL(36, const qnn_handle *, uint32_t)(handles, n);
}

enum { ROWS = 3, X_BYTES = ROWS * BLOCK_IN * 4, Y_BYTES = ROWS * BLOCK_OUT * 4, SHARED = 8192 };
static const uint32_t x_dims[] = {ROWS, BLOCK_IN}, y_dims[] = {ROWS, BLOCK_OUT};

static int file_of(size_t size, float **map) {
  int fd = memfd_create("shared", 0);
  REQUIRE(fd >= 0 && ftruncate(fd, (off_t)size) == 0);
  *map = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  REQUIRE(*map != MAP_FAILED);
  return fd;
}

static qnn_mem_descriptor part(const qnn_shared_buffer *shared, const uint32_t *dims) {
  return (qnn_mem_descriptor){.rank = 2, .dims = dims, .data_type = EMU_F32, .mem_type = 2, .info.custom = shared};
}

static qnn_tensor in_memory(uint32_t id, qnn_handle memory) {
  return (qnn_tensor){.version = 1, .id = id, .mem_type = 1, .data = memory};
}

/* The test memory.c uses x alone in a file, and then x and y as parts of one file; results must
 * equal the results with raw buffers. */
void test_memory(void) {
  qnn_handle context = NULL, graph = NULL, memory[3];
  block_ids ids;
  float *x_map, *map;
  REQUIRE_CODE(0, new_context(&context));
  build_block(context, "g", ROWS, &ids, &graph);
  float *want = run_block(graph, &ids, 5), *y = calloc(ROWS * BLOCK_OUT, 4);
  int x_file = file_of(X_BYTES, &x_map), file = file_of(SHARED, &map);
  qnn_shared_buffer x_part = {.type = 1, .size = SHARED, .fd = file, .offset = 64};
  qnn_shared_buffer y_part = {.type = 1, .size = SHARED, .fd = file, .offset = 4096};
  qnn_mem_descriptor all[] = {
      {.rank = 2, .dims = x_dims, .data_type = EMU_F32, .mem_type = 1, .info.fd = x_file},
      part(&x_part, x_dims), part(&y_part, y_dims)};
  REQUIRE_CODE(0, enlist(context, all, 3, memory));
  seed_random(5);
  for (int i = 0; i < ROWS * BLOCK_IN; i++) {
    x_map[i] = map[16 + i] = random_float();
  }
  for (int i = 0; i < 2; i++) {
    qnn_tensor in = in_memory(ids.x, memory[i]), raw = binding(ids.y, y, Y_BYTES);
    qnn_tensor out = in_memory(ids.y, memory[2]);
    REQUIRE_CODE(0, execute(graph, &in, 1, &raw, 1));
    REQUIRE_CODE(0, execute(graph, &in, 1, &out, 1));
    REQUIRE(memcmp(y, want, Y_BYTES) == 0 && memcmp(map + 1024, want, Y_BYTES) == 0);
    memset(map + 1024, 0, Y_BYTES);
    REQUIRE_CODE(QNN_GRAPH_TENSOR, execute(graph, &out, 1, &in, 1)); /* not an input */
    out = in_memory(ids.y, memory[i]);
    REQUIRE_CODE(QNN_GRAPH_TENSOR, execute(graph, &in, 1, &out, 1)); /* too small */
  }
  REQUIRE_CODE(0, delist(memory, 1));
  REQUIRE_CODE(QNN_MEMORY_HANDLE, delist(memory, 1));
  qnn_tensor gone = in_memory(ids.x, memory[0]), out = in_memory(ids.y, memory[2]);
  REQUIRE_CODE(QNN_GRAPH_TENSOR, execute(graph, &gone, 1, &out, 1));
  REQUIRE(strstr(last_line, "unknown memory") != NULL);
  qnn_handle other = NULL, other_graph = NULL;
  block_ids other_ids;
  REQUIRE_CODE(0, new_context(&other));
  build_block(other, "g", ROWS, &other_ids, &other_graph);
  gone = in_memory(other_ids.x, memory[1]);
  qnn_tensor raw = binding(other_ids.y, y, Y_BYTES);
  REQUIRE_CODE(QNN_GRAPH_TENSOR, execute(other_graph, &gone, 1, &raw, 1)); /* the memory is
                                                                              registered with
                                                                              another context */
  REQUIRE_CODE(0, free_context(other));
  REQUIRE_CODE(0, free_context(context)); /* freeing the context frees the registered memory too */
  REQUIRE_CODE(QNN_MEMORY_HANDLE, delist(&memory[1], 2));
  munmap(x_map, X_BYTES);
  munmap(map, SHARED);
  close(x_file);
  close(file);
  free(want);
  free(y);
}

void test_memory_errors(void) {
  static const uint32_t zero[] = {0, 4}, large[] = {1u << 31, 1u << 31};
  qnn_handle context = NULL, out[2];
  float *map;
  int file = file_of(4096, &map);
  REQUIRE_CODE(0, new_context(&context));
  qnn_mem_descriptor good = {.rank = 2, .dims = x_dims, .data_type = EMU_F32, .mem_type = 1, .info.fd = file}, bad;
  struct {
    uint64_t size, offset;
    int fd;
    uint32_t type;
  } parts[] = {{X_BYTES - 1, 0, file, 1}, {4096, 4096, file, 1}, {4096, UINT64_MAX - 8, file, 1},
               {1u << 20, 8192, file, 1}, {4096, 0, -1, 1}, {4096, 0, file, 0}};
  for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
    qnn_shared_buffer shared = {parts[i].type, 0, parts[i].size, parts[i].fd, 0, parts[i].offset};
    bad = part(&shared, x_dims);
    REQUIRE_CODE(QNN_INVALID_ARGUMENT, enlist(context, &bad, 1, out));
  }
  for (int i = 0; i < 7; i++) {
    bad = good;
    bad.rank = i == 0 ? 0 : i == 1 ? 6 : 2;
    bad.dims = i == 2 ? NULL : i == 3 ? zero : i == 4 ? large : x_dims;
    bad.data_type = i == 5 ? 0x9999 : EMU_F32;
    bad.mem_type = i == 6 ? 9 : 1;
    REQUIRE_CODE(QNN_INVALID_ARGUMENT, enlist(context, &bad, 1, out));
  }
  qnn_mem_descriptor both[] = {good, bad};
  REQUIRE_CODE(QNN_INVALID_ARGUMENT, enlist(context, both, 2, out));
  REQUIRE(api_first_memory((uint32_t)(uintptr_t)context) == NULL); /* a call registers all memory of
                                                                      its list or none */
  REQUIRE_CODE(QNN_CONTEXT_HANDLE, enlist(NULL, &good, 1, out));
  REQUIRE_CODE(QNN_INVALID_ARGUMENT, enlist(context, &good, 0, out));
  REQUIRE_CODE(QNN_INVALID_ARGUMENT, delist(NULL, 1));
  REQUIRE_CODE(0, free_context(context));
  munmap(map, 4096);
  close(file);
}

static qnn_status created(qnn_config config) {
  const qnn_config *configs[] = {&config, NULL};
  qnn_handle context = NULL;
  qnn_status status =
      CALL(9, qnn_handle, qnn_handle, const qnn_config *const *, qnn_handle *)(backend, device, configs, &context);
  if (status == QNN_OK) {
    REQUIRE_CODE(0, free_context(context));
  }
  return status;
}

static qnn_status graph_created(qnn_handle context, qnn_config config) {
  const qnn_config *configs[] = {&config, NULL};
  qnn_handle graph = NULL;
  char name[16];
  static uint32_t n;
  snprintf(name, sizeof name, "g%u", n++);
  return CALL(15, qnn_handle, const char *, const qnn_config *const *, qnn_handle *)(context, name, configs,
                                                                                     &graph);
}

/* The codes that the emulator returns equal the codes of the vendor's x86-64 library 2.40. */
void test_configs(void) {
  static const struct {
    uint32_t option;
    qnn_status code;
  } rows[] = {{1, 0}, {4, 0}, {5, 1000}, {6, 1000}, {7, 1000}, {8, 1000}, {9, 1000}, {10, 0}};
  static const char *const nothing[] = {"unknown", NULL};
  qnn_handle context = NULL;
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    REQUIRE_CODE(rows[i].code, created((qnn_config){.option = rows[i].option, .value.names = nothing}));
  }
  REQUIRE_CODE(0, new_context(&context));
  for (uint32_t option = 0; option < 14; option++) {
    qnn_htp_config custom = {.option = option, .word0 = 1};
    qnn_config config = {.value.custom = &custom};
    REQUIRE_CODE(option == 1 || option == 3 ? 0 : QNN_CONTEXT_CONFIG, created(config));
    REQUIRE_CODE(option == 0 ? QNN_GRAPH_ARGUMENT : QNN_OK, graph_created(context, config));
  }
  REQUIRE_CODE(0, graph_created(context, (qnn_config){.option = 3, .value.u32 = 200}));
  REQUIRE_CODE(QNN_GRAPH_ARGUMENT, graph_created(context, (qnn_config){.option = 9}));
  REQUIRE_CODE(0, free_context(context));
}

static void require_described(const qnn_binary_info *info, const block_ids *ids, uint64_t size) {
  REQUIRE(info->version == 3 && info->backend_id == 6 && info->soc_model == 57 && info->blob_size == size);
  REQUIRE(info->core_version[1] == 40 && strstr(info->build_id, "sdnpu") != NULL && info->n_graphs == 1);
  const qnn_graph_info *g = info->graphs;
  REQUIRE(g->version == 3 && strcmp(g->name, "g") == 0 && g->n_inputs == 1 && g->n_outputs == 1);
  REQUIRE(g->inputs[0].id == ids->x && strcmp(g->inputs[0].name, "x") == 0 && g->inputs[0].data_type == EMU_F32);
  REQUIRE(g->outputs[0].id == ids->y && g->outputs[0].rank == 2 && g->outputs[0].dimensions[1] == BLOCK_OUT);
}

void test_system(void) {
  const qnn_system_interface *const *list = NULL;
  const qnn_binary_info *info = NULL;
  qnn_handle context = NULL, graph = NULL, system = NULL;
  block_ids ids;
  uint64_t size = 0, info_size = 1;
  uint32_t n = 0;
  REQUIRE_CODE(0, QnnSystemInterface_getProviders(&list, &n));
  REQUIRE(n == 1 && list[0]->version[0] == 1);
#define SYSTEM(index, ...) ((qnn_status(*)(__VA_ARGS__))list[0]->table[index])
  REQUIRE_CODE(0, new_context(&context));
  build_block(context, "g", ROWS, &ids, &graph);
  uint8_t *blob = save(context, &size);
  REQUIRE_CODE(0, free_context(context));
  REQUIRE_CODE(0, SYSTEM(0, qnn_handle *)(&system));
  for (int i = 0; i < 3; i++) { /* a binary can be described at any alignment, and repeatedly */
    uint8_t *copy = malloc(size + 1);
    memcpy(copy + (i & 1), blob, size);
    REQUIRE_CODE(0, SYSTEM(1, qnn_handle, const void *, uint64_t, const qnn_binary_info **, uint64_t *)(
                        system, copy + (i & 1), size, &info, &info_size));
    require_described(info, &ids, size);
    free(copy);
    require_described(info, &ids, size); /* the description of a binary does not point into its
                                            bytes */
  }
  for (uint32_t i = 0; i < 3000; i++) {
    seed_random(i + 1);
    uint8_t *mutant = mapped_copy(blob, size);
    mutant[random_word() % size] ^= (uint8_t)(1u << random_word() % 8);
    uint64_t length = i % 3 == 0 ? random_word() % size : size;
    qnn_status status = SYSTEM(2, qnn_handle, const void *, uint64_t, const qnn_binary_info **)(system, mutant, length, &info);
    REQUIRE(status == QNN_OK || status == QNN_BLOB_TRUNCATED || status == QNN_BLOB_FOREIGN);
    free(mutant);
  }
  REQUIRE_CODE(0, SYSTEM(3, qnn_handle)(system));
  REQUIRE_CODE(QNN_SYSTEM_HANDLE, SYSTEM(3, qnn_handle)(system));
  REQUIRE_CODE(QNN_NOT_SUPPORTED, SYSTEM(8, qnn_handle)(system));
  free(blob);
}

/* The test binaries.c saves and loads binaries, and checks which binaries are rejected. */
#include "api/binary.h"
#include "drive.h"

static const block_ids *both[2];

static void require_same(qnn_handle context, const char *name, const block_ids *ids, const float *want) {
  qnn_handle graph = NULL;
  REQUIRE_CODE(0, retrieve(context, name, &graph));
  float *got = run_block(graph, ids, 3);
  REQUIRE(memcmp(got, want, ids->rows * BLOCK_OUT * 4) == 0);
  free(got);
}

static const qnn_config persistent = {.option = 7, .value.u8 = 1};
static const qnn_config *const map_it[] = {&persistent, NULL};

static void reload(const void *blob, uint64_t size, bool map, const float *const want[2]) {
  qnn_handle context = NULL;
  uint64_t again_size = 0;
  uint8_t *memory = mapped_copy(blob, size);
  REQUIRE_CODE(0, from_binary(map ? map_it : NULL, memory, size, &context));
  if (!map) {
    memset(memory, 0, size); /* the caller may free a binary that the library has copied */
  }
  require_same(context, "long", both[0], want[0]);
  require_same(context, "short", both[1], want[1]);
  void *again = save(context, &again_size);
  REQUIRE(again_size == size && memcmp(again, blob, size) == 0);
  qnn_handle graph = NULL;
  REQUIRE_CODE(QNN_GENERAL, new_graph(context, "more", &graph));
  REQUIRE_CODE(0, retrieve(context, "long", &graph));
  REQUIRE_CODE(QNN_NOT_SUPPORTED, finalize(graph));
  REQUIRE_CODE(0, free_context(context));
  REQUIRE_CODE(QNN_CONTEXT_HANDLE, free_context(context));
  free(again);
  free(memory);
}

/* Three constants of the graph remain in the binary: the packed weights, the scale, the
 * permutation. */
static void require_chunks(qnn_handle context, uint32_t want) {
  uint32_t n = 0;
  api_context *held = api_acquire(API_CONTEXT, context);
  REQUIRE(held != NULL);
  for (const api_chunk *chunk = held->store.first; chunk != NULL; chunk = chunk->next) {
    n++;
  }
  api_release(held);
  REQUIRE(n == want);
}

static void *build_both(uint64_t *size, block_ids ids[2], float *want[2]) {
  qnn_handle context = NULL, first = NULL, second = NULL;
  REQUIRE_CODE(0, new_context(&context));
  build_block(context, "long", 9, &ids[0], &first);
  build_block(context, "short", 1, &ids[1], &second);
  want[0] = run_block(first, &ids[0], 3);
  want[1] = run_block(second, &ids[1], 3);
  REQUIRE(memcmp(want[0], want[1], BLOCK_OUT * 4) == 0); /* rows are independent */
  require_chunks(context, 3); /* both graphs use the same three constants */
  void *blob = save(context, size);
  require_same(context, "long", &ids[0], want[0]); /* the call is repeated after the execute */
  REQUIRE_CODE(0, free_context(context));
  return blob;
}

void test_round_trip(void) {
  block_ids ids[2], one_id;
  float *want[2];
  uint64_t size = 0, one_size = 0;
  void *blob = build_both(&size, ids, want);
  qnn_handle context = NULL, graph = NULL;
  REQUIRE_CODE(0, new_context(&context));
  build_block(context, "long", 9, &one_id, &graph);
  require_chunks(context, 3);
  void *one = save(context, &one_size);
  REQUIRE_CODE(0, free_context(context));
  REQUIRE(size < one_size + BLOCK_IN * BLOCK_OUT * 4); /* the binary stores the weights once */
  both[0] = &ids[0];
  both[1] = &ids[1];
  reload(blob, size, false, (const float *const *)want);
  reload(blob, size, true, (const float *const *)want);
  uint64_t size_again = 0;
  float *want_again[2];
  void *blob_again = build_both(&size_again, ids, want_again);
  REQUIRE(size_again == size && memcmp(blob, blob_again, size) == 0);
  for (int i = 0; i < 2; i++) {
    free(want[i]);
    free(want_again[i]);
  }
  free(blob);
  free(blob_again);
  free(one);
}

void test_subset(void) {
  block_ids ids[2];
  float *want[2];
  uint64_t size = 0;
  void *blob = build_both(&size, ids, want);
  const char *some[] = {"short", NULL}, *unknown[] = {"short", "other", NULL};
  qnn_config enable = {.option = 5, .value.names = some};
  const qnn_config *configs[] = {&enable, NULL};
  qnn_handle context = NULL, graph = NULL;
  REQUIRE_CODE(0, from_binary(configs, blob, size, &context));
  require_same(context, "short", &ids[1], want[1]);
  REQUIRE_CODE(QNN_GRAPH_NAME, retrieve(context, "long", &graph));
  REQUIRE_CODE(0, free_context(context));
  enable.value.names = unknown;
  REQUIRE_CODE(QNN_CONTEXT_CONFIG, from_binary(configs, blob, size, &context));
  REQUIRE(strstr(last_line, "other") != NULL);
  free(want[0]);
  free(want[1]);
  free(blob);
}

/* fix_checksum makes the checksum of a binary correct again, as an attacker would. */
static void reseal(uint8_t *blob, uint64_t size) {
  api_binary_header header;
  memcpy(&header, blob, sizeof header);
  header.checksum = 0;
  if (header.meta_size > size - sizeof header) {
    return;
  }
  uint64_t seed = api_hash(&header, sizeof header, 0);
  header.checksum = api_hash(blob + sizeof header, header.meta_size, seed);
  memcpy(blob, &header, sizeof header);
}

static void require_refused(qnn_status want, const uint8_t *blob, uint64_t size) {
  qnn_handle context = NULL;
  REQUIRE_CODE(want, from_binary(NULL, blob, size, &context));
}

void test_binary_errors(void) {
  block_ids ids[2];
  float *want[2];
  uint64_t size = 0, written = 0;
  uint8_t *blob = build_both(&size, ids, want);
  api_binary_header *header = (api_binary_header *)blob;
  qnn_handle context = NULL, graph = NULL;
  require_refused(QNN_CONTEXT_ARGUMENT, blob, 0);
  require_refused(QNN_CONTEXT_ARGUMENT, NULL, 64);
  require_refused(QNN_BLOB_TRUNCATED, blob, size - 1);
  require_refused(QNN_BLOB_TRUNCATED, blob, 64);
  uint8_t *zeros = calloc(1, size);
  require_refused(QNN_BLOB_FOREIGN, zeros, size);
  free(zeros);
  header->packing++;
  reseal(blob, size);
  require_refused(QNN_CONTEXT_VERSION, blob, size);
  header->packing--;
  header->soc = 69;
  reseal(blob, size);
  require_refused(QNN_CONTEXT_FROM_BINARY, blob, size);
  REQUIRE(strstr(last_line, "SoC 69") != NULL);
  header->soc = 57;
  header->checksum = 0;
  require_refused(QNN_CONTEXT_FROM_BINARY, blob, size);
  REQUIRE(strstr(last_line, "checksum") != NULL);
  REQUIRE_CODE(0, new_context(&context));
  REQUIRE_CODE(QNN_CONTEXT_NOT_FINALIZED, binary_size(context, &written));
  REQUIRE_CODE(0, new_graph(context, "g", &graph));
  REQUIRE_CODE(QNN_CONTEXT_NOT_FINALIZED, binary_size(context, &written));
  REQUIRE_CODE(0, free_context(context));
  REQUIRE_CODE(0, new_context(&context));
  build_block(context, "g", 2, ids, &graph);
  REQUIRE_CODE(0, binary_size(context, &size));
  REQUIRE_CODE(QNN_CONTEXT_GET_BINARY, get_binary(context, blob, size - 1, &written));
  REQUIRE_CODE(QNN_CONTEXT_ARGUMENT, get_binary(context, NULL, size, &written));
  REQUIRE_CODE(0, free_context(context));
  free(want[0]);
  free(want[1]);
  free(blob);
}

static uint32_t loaded, ran;

static void try_mutant(uint8_t *blob, uint64_t size, const block_ids ids[2], float *y) {
  qnn_handle context = NULL, graph = NULL;
  if (from_binary(random_word() % 2 != 0 ? map_it : NULL, blob, size, &context) != QNN_OK) {
    return;
  }
  loaded++;
  for (int i = 0; i < 2; i++) {
    if (retrieve(context, i == 0 ? "long" : "short", &graph) == QNN_OK) {
      uint32_t state = random_word();
      ran += try_block(graph, &ids[i], 3, y) == QNN_OK;
      seed_random(state);
    }
  }
  REQUIRE_CODE(0, free_context(context));
}

/* mutate writes interesting values into one 32-bit word of a binary, or random ones into a few
 * bytes. */
static void mutate(uint8_t *blob, uint64_t size) {
  static const uint32_t values[] = {0, 1, 2, 5, 6, 64, 65, 0x7fffffff, 0x80000000, 0xffffffff};
  if (random_word() % 2 != 0) {
    uint32_t value = values[random_word() % (sizeof values / sizeof values[0])];
    memcpy(blob + random_word() % (size - 3), &value, sizeof value);
    return;
  }
  for (uint32_t n = 1 + random_word() % 3; n > 0; n--) {
    blob[random_word() % size] ^= (uint8_t)(1u << random_word() % 8);
  }
}

/* The first run of a graph that reads a damaged constant must report it, whichever bit is wrong. */
void test_flipped_elements(void) {
  block_ids ids[2];
  float *want[2], y[9 * BLOCK_OUT];
  uint64_t size = 0;
  uint8_t *blob = build_both(&size, ids, want);
  api_binary_header header;
  memcpy(&header, blob, sizeof header);
  uint64_t chunk[3];
  for (uint32_t i = 0; i < header.n_chunks; i++) {
    memcpy(chunk, blob + sizeof header + (size_t)i * API_CHUNK_ENTRY, sizeof chunk);
    for (uint64_t at = 0; at < chunk[1]; at += 1 + chunk[1] / 50) {
      qnn_handle context = NULL, graph = NULL;
      uint8_t *mapped = mapped_copy(blob, size);
      mapped[chunk[0] + at] ^= (uint8_t)(1u << at % 8);
      REQUIRE_CODE(QNN_CONTEXT_FROM_BINARY, from_binary(NULL, mapped, size, &context));
      REQUIRE(strstr(last_line, "not those that were saved") != NULL);
      qnn_status status = from_binary(map_it, mapped, size, &context);
      REQUIRE(status == QNN_OK || status == QNN_CONTEXT_FROM_BINARY);
      for (int run = 0; status == QNN_OK && run < 2; run++) {
        REQUIRE_CODE(0, retrieve(context, "long", &graph));
        REQUIRE_CODE(QNN_CONTEXT_FROM_BINARY, try_block(graph, &ids[0], 3, y));
      }
      if (status == QNN_OK) {
        REQUIRE_CODE(0, free_context(context));
      }
      free(mapped);
    }
  }
  free(want[0]);
  free(want[1]);
  free(blob);
}

void test_mutations(void) {
  block_ids ids[2];
  float *want[2], y[9 * BLOCK_OUT];
  uint64_t size = 0;
  uint8_t *blob = build_both(&size, ids, want);
  api_binary_header header;
  memcpy(&header, blob, sizeof header);
  uint64_t head = sizeof header + header.meta_size;
  for (uint64_t length = 0; length < size; length++) {
    uint8_t *mutant = mapped_copy(blob, length); /* the copy of the binary ends where its memory
                                                    ends */
    qnn_handle context = NULL;
    REQUIRE(from_binary(NULL, mutant, length, &context) != QNN_OK);
    free(mutant);
  }
  for (uint32_t i = 0; i < 20000; i++) {
    seed_random(i + 1);
    uint8_t *mutant = mapped_copy(blob, size);
    mutate(mutant, i % 8 == 0 ? size : head); /* most changes are in the metadata */
    if (i % 4 != 0) {
      reseal(mutant, size);
    }
    try_mutant(mutant, size, ids, y);
    free(mutant);
  }
  REQUIRE(loaded > 100 && ran > 100); /* some changed binaries pass the checksum and are still
                                         rejected */
  free(want[0]);
  free(want[1]);
  free(blob);
}

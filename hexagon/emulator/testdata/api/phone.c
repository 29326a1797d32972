/* The test phone.c covers the paced clock: a phone's time in profile events, and its session's
 * memory. For the test phone.c, SDNPU_EMULATOR must name a profile and pace=virtual.
 */
#define _GNU_SOURCE
#include <math.h>
#include <sys/mman.h>
#include <unistd.h>

#include "drive.h"
#include "pace/pace.h"

#define CALL(index, ...) ((qnn_status(*)(__VA_ARGS__))qnn->table[index])

/* The function event returns the value of the profile's only event of a type. */
static uint64_t event(qnn_handle profile, uint32_t type, const char *name) {
  const uint64_t *ids = NULL;
  uint32_t n = 0, found = 0;
  uint64_t value = 0;
  REQUIRE_CODE(0, CALL(30, qnn_handle, const uint64_t **, uint32_t *)(profile, &ids, &n));
  for (uint32_t i = 0; i < n; i++) {
    qnn_event_data data;
    REQUIRE_CODE(0, CALL(32, uint64_t, qnn_event_data *)(ids[i], &data));
    if (data.type == type) {
      REQUIRE(strstr(data.identifier, name) != NULL);
      value = data.value;
      found++;
    }
  }
  REQUIRE(found == 1);
  return value;
}

static void costs(qnn_handle profile, uint32_t whole, double ms) {
  REQUIRE(event(profile, 9100, "sd8gen2 (fitted) as qwen2.5-1.5b") == PACE_VIRTUAL);
  REQUIRE(event(profile, 9101, "Charged") == (uint64_t)llround(ms * 1e6));
  REQUIRE(event(profile, 9102, "beyond") == 0);
  REQUIRE(fabs((double)event(profile, whole, "QNN") - ms * 1e3) < 1.5); /* includes the wait */
}

static int file_of(off_t size) {
  int fd = memfd_create("shared", 0);
  REQUIRE(fd >= 0 && ftruncate(fd, size) == 0);
  return fd;
}

/* In the test phone.c, two thirds of the session's memory are one file; it counts once, however
 * often it is registered. */
static void registered(qnn_handle context) {
  static const uint32_t dims[] = {1, 16};
  int files[] = {file_of(2000000000), file_of(2000000000)};
  qnn_mem_descriptor first = {.rank = 2, .dims = dims, .data_type = EMU_F32, .mem_type = 1, .info.fd = files[0]};
  qnn_mem_descriptor second = first;
  second.info.fd = files[1];
  qnn_handle memory[2], other = NULL;
  for (int i = 0; i < 2; i++) {
    REQUIRE_CODE(0, CALL(35, qnn_handle, const qnn_mem_descriptor *, uint32_t, qnn_handle *)(context, &first, 1, &memory[i]));
  }
  for (int i = 0; i < 2; i++) {
    REQUIRE_CODE(QNN_MEMORY_MAPPING,
                 CALL(35, qnn_handle, const qnn_mem_descriptor *, uint32_t, qnn_handle *)(context, &second, 1, &other));
    REQUIRE(strstr(last_line, "registered memory of 2000.0 MB does not fit") != NULL);
    REQUIRE_CODE(0, CALL(36, const qnn_handle *, uint32_t)(&memory[i], 1));
  }
  REQUIRE_CODE(0, CALL(35, qnn_handle, const qnn_mem_descriptor *, uint32_t, qnn_handle *)(context, &second, 1, &other));
  close(files[0]);
  close(files[1]);
}

void test_pace(void) {
  const pace_settings *s = pace_get();
  qnn_handle built = NULL, context = NULL, graph = NULL, profile = NULL;
  block_ids ids;
  uint64_t size = 0;
  float x[40 * BLOCK_IN] = {0}, y[40 * BLOCK_OUT];
  REQUIRE(s->mode == PACE_VIRTUAL && s->as != NULL);
  REQUIRE_CODE(0, CALL(28, qnn_handle, uint32_t, qnn_handle *)(backend, 1, &profile));
  REQUIRE_CODE(0, new_context(&built));
  build_block(built, "block0_rows40_layers7of28", 40, &ids, &graph);
  void *blob = save(built, &size);
  REQUIRE_CODE(0, free_context(built));
  REQUIRE_CODE(0, CALL(13, qnn_handle, qnn_handle, const qnn_config *const *, const void *, uint64_t, qnn_handle *,
                       qnn_handle)(backend, device, NULL, blob, size, &context, profile));
  costs(profile, 100, 25 + s->as->body_bytes / 4 / 0.917e6);
  REQUIRE_CODE(0, retrieve(context, "block0_rows40_layers7of28", &graph));
  qnn_tensor in = binding(ids.x, x, sizeof x), out = binding(ids.y, y, sizeof y);
  REQUIRE_CODE(0, CALL(21, qnn_handle, qnn_tensor *, uint32_t, qnn_tensor *, uint32_t, qnn_handle, qnn_handle)(
                      graph, &in, 1, &out, 1, profile, NULL));
  /* The graph of the test phone.c computes two tiles of 32 rows. The graph of the test phone.c has
   * no mask, so the profile's reference context counts. */
  costs(profile, 400, (28 * 0.52 + 2 * s->as->tile_ms + 40 * s->as->row_ms) / 4 + 0.3);
  registered(context);
  REQUIRE_CODE(0, CALL(14, qnn_handle, qnn_handle)(context, profile));
  costs(profile, 500, 0);
  free(blob);
  REQUIRE_CODE(0, CALL(34, qnn_handle)(profile));
}

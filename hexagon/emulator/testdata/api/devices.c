/* The test devices.c covers logs, profiles and devices. */
#include "drive.h"

#define CALL(index, ...) ((qnn_status(*)(__VA_ARGS__))qnn->table[index])

void test_logs(void) {
  qnn_handle context = NULL, graph = NULL, none = NULL;
  block_ids ids;
  REQUIRE_CODE(0, new_context(&context));
  build_block(context, "a 100% name", 1, &ids, &graph); /* the client's text must not be used as a
                                                           format of printf */
  REQUIRE(last_level == QNN_LOG_INFO && strstr(last_line, "\"a 100% name\": 5 nodes") != NULL);
  last_line[0] = '\0';
  REQUIRE_CODE(0, CALL(26, qnn_handle, uint32_t)(log_handle, QNN_LOG_ERROR));
  build_block(context, "quiet", 1, &ids, &graph);
  REQUIRE(last_line[0] == '\0');
  REQUIRE_CODE(QNN_GRAPH_NAME, retrieve(context, "nowhere", &none));
  REQUIRE(last_level == QNN_LOG_ERROR && strstr(last_line, "nowhere") != NULL);
  REQUIRE_CODE(QNN_LOG_ARGUMENT, CALL(26, qnn_handle, uint32_t)(log_handle, 9));
  REQUIRE_CODE(QNN_LOG_ARGUMENT, CALL(26, qnn_handle, uint32_t)(NULL, 1));
  REQUIRE_CODE(QNN_LOG_ARGUMENT, CALL(25, qnn_log_callback, uint32_t, qnn_handle *)(NULL, 6, &none));
  REQUIRE_CODE(0, free_context(context));
  const char *text = "";
  REQUIRE_CODE(0, CALL(48, uint64_t, const char **)(6004, &text));
  REQUIRE(strstr(text, "tensor") != NULL);
  REQUIRE_CODE(QNN_ERROR_UNKNOWN, CALL(48, uint64_t, const char **)(30010, &text));
  REQUIRE(text == NULL);
}

static uint64_t event_value(uint64_t id, uint32_t type, uint32_t unit, const char *name) {
  qnn_event_data data;
  qnn_extended_event_data extended;
  REQUIRE_CODE(0, CALL(32, uint64_t, qnn_event_data *)(id, &data));
  REQUIRE(data.type == type && data.unit == unit && strstr(data.identifier, name) != NULL);
  REQUIRE_CODE(0, CALL(33, uint64_t, qnn_extended_event_data *)(id, &extended));
  REQUIRE(extended.version == 1 && extended.type == type && extended.value.value.u64 == data.value);
  return data.value;
}

void test_profiles(void) {
  qnn_handle context = NULL, graph = NULL, basic = NULL, detailed = NULL;
  block_ids ids;
  const uint64_t *events = NULL;
  uint32_t n = 0;
  float x[2 * BLOCK_IN] = {0}, y[2 * BLOCK_OUT];
  REQUIRE_CODE(0, CALL(28, qnn_handle, uint32_t, qnn_handle *)(backend, 1, &basic));
  REQUIRE_CODE(0, CALL(28, qnn_handle, uint32_t, qnn_handle *)(backend, 2, &detailed));
  REQUIRE_CODE(QNN_INVALID_ARGUMENT, CALL(28, qnn_handle, uint32_t, qnn_handle *)(backend, 3, &basic));
  REQUIRE_CODE(0, new_context(&context));
  build_block(context, "g", 2, &ids, &graph);
  qnn_tensor in = binding(ids.x, x, sizeof x), out = binding(ids.y, y, sizeof y);
  qnn_handle profiles[] = {basic, detailed, (qnn_handle)(uintptr_t)77};
  for (int i = 0; i < 3; i++) {
    REQUIRE_CODE(i < 2 ? 0 : QNN_PROFILE_HANDLE,
                 CALL(21, qnn_handle, qnn_tensor *, uint32_t, qnn_tensor *, uint32_t, qnn_handle, qnn_handle)(
                     graph, &in, 1, &out, 1, profiles[i], NULL));
  }
  REQUIRE_CODE(0, CALL(30, qnn_handle, const uint64_t **, uint32_t *)(basic, &events, &n));
  REQUIRE(n == 3);
  event_value(events[0], 8001, 4, "threads");
  event_value(events[1], 3004, 1, "Accelerator (execute)");
  event_value(events[2], 400, 1, "QNN (execute)");
  REQUIRE_CODE(0, CALL(31, uint64_t, const uint64_t **, uint32_t *)(events[0], &events, &n));
  REQUIRE(n == 0);
  REQUIRE_CODE(0, CALL(30, qnn_handle, const uint64_t **, uint32_t *)(detailed, &events, &n));
  REQUIRE(n == 7);
  uint64_t total = event_value(events[4], 3003, 3, "cycles"), sum = 0;
  REQUIRE_CODE(0, CALL(31, uint64_t, const uint64_t **, uint32_t *)(events[4], &events, &n));
  REQUIRE(n == 5);
  static const char *const names[] = {"fc", "act", "there", "scale", "back"};
  for (uint32_t i = 0; i < n; i++) {
    sum += event_value(events[i], 404, 3, names[i]);
  }
  REQUIRE(sum == total);
  REQUIRE_CODE(QNN_INVALID_ARGUMENT, CALL(32, uint64_t, qnn_event_data *)(0, (qnn_event_data[1]){{0}}));
  REQUIRE_CODE(0, CALL(14, qnn_handle, qnn_handle)(context, basic));
  REQUIRE_CODE(0, CALL(30, qnn_handle, const uint64_t **, uint32_t *)(basic, &events, &n));
  REQUIRE(n == 2);
  event_value(events[0], 4003, 1, "deinit");
  event_value(events[1], 500, 1, "deinit");
  REQUIRE_CODE(0, CALL(34, qnn_handle)(basic));
  REQUIRE_CODE(0, CALL(34, qnn_handle)(detailed));
  REQUIRE_CODE(QNN_PROFILE_HANDLE, CALL(34, qnn_handle)(basic));
}

static qnn_status create_device(uint32_t option, uint32_t word0, uint32_t word1, qnn_handle *out) {
  qnn_htp_config custom = {.option = option, .word0 = word0, .word1 = word1};
  qnn_config config = {.value.custom = &custom};
  const qnn_config *configs[] = {&config, NULL};
  return CALL(40, qnn_handle, const qnn_config *const *, qnn_handle *)(log_handle, configs, out);
}

static void power_votes(void) {
  const qnn_infrastructure *power = NULL;
  uint32_t id = 0;
  qnn_power_config burst = {.option = 1}, unknown = {.option = 99};
  const void *const good[] = {&burst, NULL}, *const bad[] = {&unknown, NULL};
  REQUIRE_CODE(0, CALL(39, const qnn_infrastructure **)(&power));
  REQUIRE(power->type == 0);
  REQUIRE_CODE(0, power->create_power_config_id(0, 0, &id));
  REQUIRE_CODE(0, power->set_power_config(id, good));
  REQUIRE(last_level == QNN_LOG_VERBOSE && strstr(last_line, "power vote") != NULL);
  REQUIRE_CODE(QNN_PERF_OPTION, power->set_power_config(id, bad));
  burst.words[3] = 0x10;
  REQUIRE_CODE(0, power->set_power_config(id, good));
  REQUIRE(api_power_vote(id, 1)->words[3] == 0x10 && api_power_vote(id, 2) == NULL);
  REQUIRE_CODE(QNN_PERF_INPUT, power->set_power_config(id + 1, good));
  REQUIRE_CODE(0, power->destroy_power_config_id(id));
  REQUIRE_CODE(0, power->destroy_power_config_id(id));
  REQUIRE_CODE(QNN_PERF_INPUT, power->set_power_config(id, good));
}

void test_devices(void) {
  static const uint32_t chips[][2] = {{30, 68}, {36, 69}, {43, 73}, {57, 75}, {60, 73}, {69, 79}, {87, 81}};
  const qnn_platform_info *info = NULL;
  qnn_handle handle = NULL;
  for (size_t i = 0; i < sizeof chips / sizeof chips[0]; i++) {
    REQUIRE_CODE(0, create_device(0, chips[i][0], 0, &handle));
    REQUIRE_CODE(0, CALL(42, qnn_handle, const qnn_platform_info **)(handle, &info));
    REQUIRE(info->devices[0].extension->soc_model == chips[i][0]);
    REQUIRE(info->devices[0].extension->arch == chips[i][1]);
    REQUIRE_CODE(0, CALL(43, qnn_handle)(handle));
  }
  REQUIRE_CODE(0, create_device(1, 0, 75, &handle));
  REQUIRE(last_level == QNN_LOG_WARN && strstr(last_line, "deprecated") != NULL);
  REQUIRE_CODE(0, CALL(43, qnn_handle)(handle));
  REQUIRE_CODE(QNN_DEVICE_HANDLE, CALL(43, qnn_handle)(handle));
  REQUIRE_CODE(QNN_DEVICE_CONFIG, create_device(0, 0, 57, &handle)); /* a wrong struct layout */
  REQUIRE_CODE(QNN_DEVICE_CONFIG, create_device(9, 57, 0, &handle));
  power_votes();
  REQUIRE_CODE(0, CALL(0, uint32_t)(202));
  REQUIRE_CODE(QNN_NOT_SUPPORTED, CALL(0, uint32_t)(503));
  REQUIRE_CODE(QNN_UNKNOWN_PROPERTY, CALL(0, uint32_t)(4242));
  static const int unused[] = {2, 3, 6, 10, 17, 22, 29, 37, 44, 49, 54, 56, 62, 63, 68, 70};
  for (size_t i = 0; i < sizeof unused / sizeof unused[0]; i++) {
    REQUIRE_CODE(QNN_NOT_SUPPORTED, CALL(unused[i], qnn_handle)(NULL));
  }
  static const uint32_t vendor_says[][2] = {{107, 0}, {108, 1}, {206, 0}, {207, 0}, {208, 0}, {212, 1},
                                            {217, 1}, {220, 1}, {304, 1}, {308, 0}, {322, 0}, {504, 1}};
  for (size_t i = 0; i < sizeof vendor_says / sizeof vendor_says[0]; i++) {
    REQUIRE_CODE(vendor_says[i][1] != 0 ? QNN_NOT_SUPPORTED : QNN_OK, CALL(0, uint32_t)(vendor_says[i][0]));
  }
  const char *build = NULL;
  REQUIRE_CODE(0, CALL(4, const char **)(&build));
  REQUIRE(strncmp(build, "sdnpu-emulator v", 16) == 0 && strstr(build, emu_code_path()) != NULL);
}

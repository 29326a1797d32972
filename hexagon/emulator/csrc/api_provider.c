/* api_provider.c: the one exported symbol and the table behind it. The name
 * says what this library is, so nobody takes its answers for a phone's.
 */
#define _POSIX_C_SOURCE 200809L
#include "api.h"

static qnn_status not_supported(void) { return QNN_NOT_SUPPORTED; }

/* Keys of the property groups: backend 101, context 201, graph 301, tensor 501. */
qnn_status api_property(uint32_t key) {
  static const uint32_t supported[] = {
      107, /* graph composition */
      202, /* context binaries */
      205, /* context configuration */
      206, /* graph enablement */
      208, /* persistent binaries */
      311, /* execution */
      313, /* profiling per call */
      322, /* compiling graphs on the device */
  };
  static const struct {
    uint32_t first, last;
  } known[] = {{105, 108}, {202, 220}, {302, 322}, {401, 404}, {502, 508}};
  for (size_t i = 0; i < sizeof supported / sizeof supported[0]; i++) {
    if (supported[i] == key) {
      return QNN_OK;
    }
  }
  for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
    if (key >= known[i].first && key <= known[i].last) {
      return QNN_NOT_SUPPORTED;
    }
  }
  return QNN_UNKNOWN_PROPERTY;
}

static const struct {
  uint32_t code;
  const char *text;
} messages[] = {
    {QNN_OK, "no error"},
    {QNN_NOT_SUPPORTED, "not supported"},
    {QNN_MEMORY, "memory could not be allocated"},
    {QNN_SYSTEM, "system error"},
    {QNN_INVALID_ARGUMENT, "invalid argument"},
    {QNN_GENERAL, "general error"},
    {QNN_UNKNOWN_PROPERTY, "unknown property key"},
    {QNN_OP_VALIDATION, "operator validation failed"},
    {QNN_BACKEND_ARGUMENT, "backend: invalid argument"},
    {QNN_BACKEND_NO_OP, "backend: no such operator or package"},
    {QNN_BACKEND_HANDLE, "backend: invalid handle"},
    {QNN_BACKEND_CONFIG, "backend: invalid configuration"},
    {QNN_CONTEXT_ARGUMENT, "context: invalid argument"},
    {QNN_CONTEXT_HANDLE, "context: invalid handle"},
    {QNN_CONTEXT_NOT_FINALIZED, "context: its graphs are not finalized"},
    {QNN_CONTEXT_VERSION, "context: the binary is of another version"},
    {QNN_CONTEXT_FROM_BINARY, "context: the binary is damaged or of another chip"},
    {QNN_CONTEXT_GET_BINARY, "context: the binary could not be written"},
    {QNN_CONTEXT_CONFIG, "context: invalid configuration"},
    {QNN_GRAPH_ARGUMENT, "graph: invalid argument"},
    {QNN_GRAPH_HANDLE, "graph: invalid handle"},
    {QNN_GRAPH_NAME, "graph: invalid, duplicate or unknown name"},
    {QNN_GRAPH_TENSOR, "graph: invalid tensor"},
    {QNN_GRAPH_OP_CONFIG, "graph: invalid op config"},
    {QNN_GRAPH_UNCONNECTED, "graph: unconnected node or tensor"},
    {QNN_GRAPH_CREATE, "graph: it could not be created"},
    {QNN_GRAPH_FINALIZE, "graph: it could not be finalized"},
    {QNN_GRAPH_NOT_FINALIZED, "graph: it is not finalized"},
    {QNN_GRAPH_FINALIZED, "graph: it is finalized and cannot change"},
    {QNN_TENSOR_HANDLE, "tensor: invalid graph handle"},
    {QNN_TENSOR_EXISTS, "tensor: the name exists"},
    {QNN_TENSOR_PARAMETER, "tensor: invalid description or data"},
    {QNN_ERROR_UNKNOWN, "no such error code"},
    {QNN_LOG_ARGUMENT, "log: invalid argument"},
    {QNN_LOG_HANDLE, "log: invalid handle"},
    {QNN_PROFILE_HANDLE, "profile: invalid handle"},
    {QNN_PROFILE_EVENT, "profile: no such event"},
    {QNN_PERF_INPUT, "power: invalid id or configuration"},
    {QNN_DEVICE_HANDLE, "device: invalid handle"},
    {QNN_DEVICE_CONFIG, "device: invalid configuration"},
};

qnn_status api_error_message(qnn_status code, const char **message) {
  if (message == NULL) {
    return QNN_INVALID_ARGUMENT;
  }
  for (size_t i = 0; i < sizeof messages / sizeof messages[0]; i++) {
    if (messages[i].code == (code & 0xffff)) {
      *message = messages[i].text;
      return QNN_OK;
    }
  }
  *message = NULL;
  return QNN_ERROR_UNKNOWN;
}

static qnn_interface provider = {
    .backend_id = QNN_BACKEND_HTP,
    .provider_name = "HTP_EMULATOR_SDNPU",
    .core_version = {QNN_CORE_MAJOR, QNN_CORE_MINOR, QNN_CORE_PATCH},
    .backend_version = {QNN_HTP_MAJOR, QNN_HTP_MINOR, QNN_HTP_PATCH},
};
static const qnn_interface *const providers[] = {&provider};

#define ENTRY(index, function) provider.table[index] = (qnn_fn)(function)

static void fill_table(void) {
  for (uint32_t i = 0; i < QNN_TABLE_USED; i++) {
    ENTRY(i, not_supported);
  }
  ENTRY(0, api_property);
  ENTRY(1, api_backend_create);
  ENTRY(3, api_backend_version);
  ENTRY(4, api_backend_build_id);
  ENTRY(6, api_backend_operations);
  ENTRY(7, api_backend_validate);
  ENTRY(8, api_backend_free);
  ENTRY(9, api_context_create);
  ENTRY(11, api_context_binary_size);
  ENTRY(12, api_context_binary);
  ENTRY(13, api_context_from_binary);
  ENTRY(14, api_context_free);
  ENTRY(15, api_graph_create);
  ENTRY(18, api_graph_node);
  ENTRY(19, api_graph_finalize);
  ENTRY(20, api_graph_retrieve);
  ENTRY(21, api_graph_execute);
  ENTRY(24, api_graph_create_tensor);
  ENTRY(25, api_log_create);
  ENTRY(26, api_log_set_level);
  ENTRY(27, api_log_free);
  ENTRY(28, api_profile_create);
  ENTRY(30, api_profile_events);
  ENTRY(31, api_profile_sub_events);
  ENTRY(32, api_profile_event_data);
  ENTRY(34, api_profile_free);
  ENTRY(37, api_platform_info);
  ENTRY(38, api_free_platform_info);
  ENTRY(39, api_device_infrastructure);
  ENTRY(40, api_device_create);
  ENTRY(42, api_device_info);
  ENTRY(43, api_device_free);
  ENTRY(48, api_error_message);
}

__attribute__((visibility("default"))) qnn_status QnnInterface_getProviders(
    const qnn_interface *const **list, uint32_t *n);

qnn_status QnnInterface_getProviders(const qnn_interface *const **list, uint32_t *n) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  if (list == NULL || n == NULL) {
    return QNN_INVALID_ARGUMENT;
  }
  pthread_once(&once, fill_table);
  *list = providers;
  *n = 1;
  return QNN_OK;
}

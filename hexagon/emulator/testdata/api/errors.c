/* The test errors.c makes wrong calls and checks each code, and that the log names the place. */
#include "drive.h"

static const uint32_t two_by_four[] = {2, 4}, four[] = {4};

typedef struct {
  qnn_handle context, graph;
  qnn_tensor x, y;
} scene;

/* Each test in errors.c uses a graph with an input and an output of [2,4] and no node. */
static scene set(void) {
  scene s = {.x = tensor("x", EMU_APP_WRITE, EMU_F32, 2, two_by_four),
             .y = tensor("y", EMU_APP_READ, EMU_F32, 2, two_by_four)};
  REQUIRE_CODE(0, new_context(&s.context));
  REQUIRE_CODE(0, new_graph(s.context, "scene", &s.graph));
  REQUIRE_CODE(0, new_tensor(s.graph, &s.x));
  REQUIRE_CODE(0, new_tensor(s.graph, &s.y));
  return s;
}

/* require_named checks that the last rejection logged an error that contains both texts. */
static void require_named(const char *first, const char *second) {
  REQUIRE(last_level == QNN_LOG_ERROR);
  if (strstr(last_line, first) == NULL || strstr(last_line, second) == NULL) {
    fprintf(stderr, "the log line %s names not both %s and %s\n", last_line, first, second);
    exit(1);
  }
}

static void handles(void) {
  qnn_handle bad = (qnn_handle)(uintptr_t)12345, out = NULL, good_backend = backend;
  qnn_tensor t = tensor("t", EMU_NATIVE, EMU_F32, 1, four);
  uint64_t size = 0;
  scene s = set();
  backend = bad;
  REQUIRE_CODE(QNN_CONTEXT_HANDLE, new_context(&out));
  REQUIRE_CODE(QNN_BACKEND_HANDLE, validate(node("n", "Sigmoid", &s.x, 1, &s.y, 1)));
  backend = good_backend;
  REQUIRE_CODE(QNN_GRAPH_HANDLE, new_graph(bad, "g", &out));
  REQUIRE_CODE(QNN_GRAPH_HANDLE, retrieve(bad, "g", &out));
  REQUIRE_CODE(QNN_GRAPH_HANDLE, add_node(bad, node("n", "Sigmoid", &s.x, 1, &s.y, 1)));
  REQUIRE_CODE(QNN_GRAPH_HANDLE, finalize(bad));
  REQUIRE_CODE(QNN_GRAPH_HANDLE, execute(bad, NULL, 0, NULL, 0));
  REQUIRE_CODE(QNN_TENSOR_HANDLE, new_tensor(bad, &t));
  REQUIRE_CODE(QNN_TENSOR_HANDLE, new_tensor(NULL, &t));
  REQUIRE_CODE(QNN_CONTEXT_HANDLE, binary_size(bad, &size));
  REQUIRE_CODE(0, free_context(s.context));
  REQUIRE_CODE(QNN_CONTEXT_HANDLE, free_context(s.context));
  REQUIRE_CODE(QNN_GRAPH_HANDLE, finalize(s.graph)); /* the handle is unknown, because the graph was
                                                        freed with its context */
}

static void names(void) {
  scene s = set();
  qnn_handle out = NULL;
  REQUIRE_CODE(QNN_GRAPH_NAME, new_graph(s.context, "scene", &out));
  require_named("scene", "exists");
  REQUIRE_CODE(QNN_GRAPH_NAME, new_graph(s.context, "", &out));
  REQUIRE_CODE(QNN_GRAPH_NAME, retrieve(s.context, "missing", &out));
  require_named("missing", "no such graph");
  qnn_tensor again = tensor("x", EMU_NATIVE, EMU_F32, 2, two_by_four);
  REQUIRE_CODE(QNN_TENSOR_EXISTS, new_tensor(s.graph, &again));
  require_named("scene", "\"x\"");
  REQUIRE_CODE(0, free_context(s.context));
}

static void refuse_tensor(qnn_tensor t, const char *reason) {
  scene s = set();
  REQUIRE_CODE(QNN_TENSOR_PARAMETER, new_tensor(s.graph, &t));
  require_named("scene", reason);
  REQUIRE_CODE(0, free_context(s.context));
}

static void tensors(void) {
  static const uint32_t zero[] = {2, 0}, six[] = {1, 1, 1, 1, 1, 1}, huge[] = {1u << 31, 1u << 31, 4};
  float data[8] = {0};
  qnn_tensor t = tensor("odd", EMU_NATIVE, EMU_F32, 2, two_by_four);
  refuse_tensor(constant("odd", EMU_F32, 2, two_by_four, NULL, 32), "without data");
  refuse_tensor(constant("odd", EMU_F32, 2, two_by_four, data, 31), "31 bytes, its shape needs 32");
  refuse_tensor(constant("odd", EMU_F32, 2, two_by_four, data, 33), "33 bytes, its shape needs 32");
  refuse_tensor(tensor("odd", EMU_NATIVE, 0x0264, 2, two_by_four), "0x0264");
  refuse_tensor(tensor("odd", EMU_NATIVE, 0x0304, 2, two_by_four), "0x0304");
  refuse_tensor(tensor("odd", EMU_NATIVE, 0x7777, 2, two_by_four), "0x7777");
  refuse_tensor(tensor("odd", EMU_NATIVE, EMU_F32, 0, two_by_four), "rank 0");
  refuse_tensor(tensor("odd", EMU_NATIVE, EMU_F32, 6, six), "rank 6");
  refuse_tensor(tensor("odd", EMU_NATIVE, EMU_F32, 2, zero), "zero dim");
  refuse_tensor(tensor("odd", EMU_NATIVE, EMU_F32, 3, huge), "4 GiB");
  refuse_tensor(tensor("odd", EMU_NATIVE, EMU_F32, 2, NULL), "no dimensions");
  refuse_tensor(tensor("odd", 5, EMU_F32, 2, two_by_four), "type 5");
  refuse_tensor(tensor(NULL, EMU_NATIVE, EMU_F32, 2, two_by_four), "no name");
  t.version = 3;
  refuse_tensor(t, "version");
  t.version = 1;
  t.mem_type = 1;
  refuse_tensor(t, "memory handles");
  t.mem_type = 0;
  t.data_format = 1;
  refuse_tensor(t, "data format");
}

static void refuse_node(qnn_status added, qnn_status validated, qnn_op_config config, const char *reason) {
  scene s = set();
  qnn_tensor n = tensor("native", EMU_NATIVE, EMU_F32, 2, two_by_four), in[3];
  REQUIRE_CODE(0, new_tensor(s.graph, &n));
  for (uint32_t i = 0; i < config.n_inputs; i++) {
    in[i] = config.inputs[i];
    in[i].id = in[i].name == NULL ? 0 : strcmp(in[i].name, "x") == 0 ? s.x.id : n.id;
  }
  qnn_tensor y = s.y;
  config.inputs = in;
  config.outputs = &y;
  REQUIRE_CODE(validated, validate(config));
  REQUIRE_CODE(added, add_node(s.graph, config));
  require_named("scene", reason);
  require_named("\"n\"", reason);
  REQUIRE_CODE(0, free_context(s.context));
}

static void nodes(void) {
  static const uint32_t two_by_three[] = {2, 3};
  qnn_tensor x[3], y = tensor("y", EMU_APP_READ, EMU_F32, 2, two_by_four);
  for (int i = 0; i < 3; i++) {
    x[i] = tensor("x", EMU_APP_WRITE, EMU_F32, 2, two_by_four);
  }
  qnn_op_config good = node("n", "Sigmoid", x, 1, &y, 1), bad = good;
  bad.type = "Sigmund";
  refuse_node(QNN_GRAPH_OP_CONFIG, QNN_BACKEND_NO_OP, bad, "Sigmund");
  bad = good;
  bad.package = "other";
  refuse_node(QNN_GRAPH_UNCONNECTED, QNN_BACKEND_NO_OP, bad, "other");
  bad = good;
  bad.n_inputs = 0;
  refuse_node(QNN_GRAPH_OP_CONFIG, QNN_OP_VALIDATION, bad, "0 inputs");
  qnn_param param = boolean("unheard", true), twice[] = {boolean("transpose_in1", true), boolean("transpose_in1", true)};
  bad = good;
  bad.n_params = 1;
  bad.params = &param;
  refuse_node(QNN_GRAPH_OP_CONFIG, QNN_OP_VALIDATION, bad, "unheard");
  param = boolean("transpose_in1", true);
  param.value.scalar.data_type = EMU_F32;
  bad = node("n", "MatMul", x, 2, &y, 1);
  bad.n_params = 1;
  bad.params = &param;
  refuse_node(QNN_GRAPH_OP_CONFIG, QNN_OP_VALIDATION, bad, "transpose_in1");
  bad.n_params = 2;
  bad.params = twice;
  refuse_node(QNN_GRAPH_OP_CONFIG, QNN_OP_VALIDATION, bad, "twice");
  param = tensor_param("axes", &x[0]);
  bad.n_params = 1;
  bad.params = &param;
  scene s = set();
  param.value.tensor.id = s.x.id;
  x[0].id = x[1].id = s.x.id;
  y.id = s.y.id;
  REQUIRE_CODE(QNN_GRAPH_OP_CONFIG, add_node(s.graph, bad));
  require_named("axes", "not a static tensor");
  bad = good;
  x[0].id = 0;
  REQUIRE_CODE(QNN_GRAPH_OP_CONFIG, add_node(s.graph, bad));
  require_named("\"n\"", "id 0");
  y = tensor("small", EMU_APP_READ, EMU_F32, 2, two_by_three);
  REQUIRE_CODE(QNN_OP_VALIDATION, validate(good)); /* the output y has fewer bytes than the input
                                                      x */
  REQUIRE_CODE(0, free_context(s.context));
}

static void order(void) {
  scene s = set();
  qnn_tensor n = tensor("between", EMU_NATIVE, EMU_F32, 2, two_by_four);
  REQUIRE_CODE(QNN_GRAPH_FINALIZE, finalize(s.graph));
  REQUIRE_CODE(0, new_tensor(s.graph, &n));
  REQUIRE_CODE(QNN_GRAPH_UNCONNECTED, add_node(s.graph, node("n", "Sigmoid", &n, 1, &s.y, 1)));
  require_named("between", "before");
  REQUIRE_CODE(QNN_GRAPH_OP_CONFIG, add_node(s.graph, node("n", "Sigmoid", &s.x, 1, &s.x, 1)));
  REQUIRE_CODE(0, add_node(s.graph, node("n", "Sigmoid", &s.x, 1, &s.y, 1)));
  REQUIRE_CODE(QNN_GRAPH_OP_CONFIG, add_node(s.graph, node("m", "Sigmoid", &s.x, 1, &s.y, 1)));
  require_named("\"y\"", "twice");
  REQUIRE_CODE(QNN_GRAPH_NAME, add_node(s.graph, node("n", "Sigmoid", &s.x, 1, &n, 1)));
  REQUIRE_CODE(QNN_GRAPH_UNCONNECTED, finalize(s.graph));
  require_named("between", "no node writes");
  REQUIRE_CODE(0, add_node(s.graph, node("m", "Sigmoid", &s.x, 1, &n, 1)));
  REQUIRE_CODE(QNN_GRAPH_UNCONNECTED, finalize(s.graph));
  require_named("\"m\"", "nothing reads");
  qnn_tensor z = tensor("z", EMU_APP_READ, EMU_F32, 2, two_by_four);
  REQUIRE_CODE(0, new_tensor(s.graph, &z));
  REQUIRE_CODE(0, add_node(s.graph, node("o", "Sigmoid", &n, 1, &z, 1)));
  qnn_tensor idle = tensor("idle", EMU_APP_WRITE, EMU_F32, 2, two_by_four);
  REQUIRE_CODE(0, finalize(s.graph));
  REQUIRE_CODE(QNN_NOT_SUPPORTED, finalize(s.graph));
  REQUIRE_CODE(QNN_GRAPH_FINALIZED, new_tensor(s.graph, &idle));
  REQUIRE_CODE(QNN_GRAPH_FINALIZED, add_node(s.graph, node("p", "Sigmoid", &s.x, 1, &n, 1)));
  REQUIRE_CODE(0, free_context(s.context));
  s = set();
  REQUIRE_CODE(0, new_tensor(s.graph, &idle));
  REQUIRE_CODE(0, add_node(s.graph, node("n", "Sigmoid", &s.x, 1, &s.y, 1)));
  REQUIRE_CODE(QNN_GRAPH_UNCONNECTED, finalize(s.graph));
  require_named("idle", "no node reads");
  REQUIRE_CODE(0, free_context(s.context));
}

void test_errors(void) {
  handles();
  names();
  tensors();
  nodes();
  order();
}

static void refuse_run(const scene *s, qnn_tensor in, qnn_tensor out, const char *reason) {
  REQUIRE_CODE(QNN_GRAPH_TENSOR, execute(s->graph, &in, 1, &out, 1));
  require_named("scene", reason);
}

void test_execute_errors(void) {
  static const uint32_t flat[] = {8, 1};
  float x[9] = {0}, y[9] = {0};
  scene s = set();
  qnn_tensor in = binding(s.x.id, x, 32), out = binding(s.y.id, y, 32), odd;
  REQUIRE_CODE(0, add_node(s.graph, node("n", "Sigmoid", &s.x, 1, &s.y, 1)));
  REQUIRE_CODE(QNN_GRAPH_NOT_FINALIZED, execute(s.graph, &in, 1, &out, 1));
  REQUIRE_CODE(0, finalize(s.graph));
  REQUIRE_CODE(QNN_GRAPH_ARGUMENT, execute(s.graph, NULL, 0, &out, 1));
  REQUIRE_CODE(QNN_GRAPH_ARGUMENT, execute(s.graph, &in, 1, NULL, 0));
  refuse_run(&s, binding(s.x.id, NULL, 32), out, "no raw buffer");
  refuse_run(&s, binding(99, x, 32), out, "id 99");
  refuse_run(&s, binding(s.y.id, x, 32), out, "not an input");
  refuse_run(&s, in, binding(s.x.id, y, 32), "not an output");
  refuse_run(&s, binding(s.x.id, x, 31), out, "31 bytes");
  refuse_run(&s, in, binding(s.y.id, y, 36), "36 bytes");
  refuse_run(&s, binding(s.x.id, (char *)x + 2, 32), out, "aligned");
  refuse_run(&s, in, binding(s.y.id, x + 1, 32), "overlaps");
  odd = in;
  odd.data_type = EMU_F16;
  refuse_run(&s, odd, out, "data type");
  odd = in;
  odd.rank = 2;
  odd.dimensions = flat;
  refuse_run(&s, odd, out, "shape");
  odd = in;
  odd.mem_type = 2;
  refuse_run(&s, odd, out, "raw buffer");
  REQUIRE_CODE(0, execute(s.graph, &in, 1, &out, 1));
  REQUIRE(y[0] == 0.5f && y[7] == 0.5f && y[8] == 0);
  REQUIRE_CODE(0, free_context(s.context));
  REQUIRE_CODE(QNN_GRAPH_HANDLE, execute(s.graph, &in, 1, &out, 1));
}

/* The test quant.c compares quantizations as clients give them and as the graph stores them. */
#include <math.h>

#include "drive.h"

enum { ROWS = 4, COLUMNS = 24, BLOCKS = 3 };
static const uint32_t shape[] = {ROWS, COLUMNS};

/* The arrays below are random contents for everything to which an encoding may point. */
typedef struct {
  qnn_scale_offset pairs[ROWS * BLOCKS];
  qnn_float_scale_offset float_pairs[ROWS * BLOCKS];
  float scales[ROWS];
  int32_t offsets[ROWS];
  uint32_t block[2];
  uint8_t narrow[ROWS * BLOCKS];
  uint16_t wide[ROWS * BLOCKS];
  qnn_blockwise_expansion expansion;
} arrays;

static float random_scale(void) { return 0.001f + fabsf(random_float()); }

static void fill(arrays *a) {
  for (int i = 0; i < ROWS * BLOCKS; i++) {
    a->pairs[i] = (qnn_scale_offset){random_scale(), (int32_t)(random_word() % 256) - 128};
    a->float_pairs[i] = (qnn_float_scale_offset){random_scale(), random_float()};
    a->narrow[i] = (uint8_t)(1 + random_word() % 16);
    a->wide[i] = (uint16_t)(1 + random_word() % 16);
  }
  for (int i = 0; i < ROWS; i++) {
    a->scales[i] = random_scale();
    a->offsets[i] = (int32_t)(random_word() % 256) - 128;
  }
  a->block[0] = 1;
  a->block[1] = COLUMNS / BLOCKS;
  a->expansion = (qnn_blockwise_expansion){.axis = 0,
                                           .pairs = a->pairs,
                                           .blocks_per_axis = BLOCKS,
                                           .block_scale_bits = 4,
                                           .storage = random_word() % 2};
  a->expansion.block_scales = a->expansion.storage == 0 ? (const void *)a->narrow : a->wide;
}

static qnn_quantize_params form(uint32_t encoding, const arrays *a) {
  qnn_quantize_params q = {.definition = 1, .encoding = encoding};
  switch (encoding) {
    case EMU_Q_SCALE_OFFSET:
      memcpy(q.encoding_body, a->pairs, sizeof a->pairs[0]);
      break;
    case EMU_Q_AXIS_SCALE_OFFSET:
      memcpy(q.encoding_body, &(qnn_axis_scale_offset){0, ROWS, a->pairs}, sizeof(qnn_axis_scale_offset));
      break;
    case EMU_Q_BW_SCALE_OFFSET:
      memcpy(q.encoding_body, &(qnn_bw_scale_offset){4, a->pairs[0].scale, a->pairs[0].offset},
             sizeof(qnn_bw_scale_offset));
      break;
    case EMU_Q_BW_AXIS_SCALE_OFFSET:
      memcpy(q.encoding_body, &(qnn_bw_axis_scale_offset){4, 0, ROWS, 0, a->scales, a->offsets},
             sizeof(qnn_bw_axis_scale_offset));
      break;
    case EMU_Q_BLOCK:
      memcpy(q.encoding_body, &(qnn_block){a->block, a->pairs}, sizeof(qnn_block));
      break;
    case EMU_Q_LPBQ:
      q.encoding_body[0] = (uint64_t)(uintptr_t)&a->expansion;
      break;
    case EMU_Q_FLOAT_BLOCK:
      memcpy(q.encoding_body, &(qnn_float_block){a->block, a->float_pairs}, sizeof(qnn_float_block));
      break;
    default:
      memcpy(q.encoding_body, &(qnn_bw_float_block){4, 0, a->block, a->float_pairs},
             sizeof(qnn_bw_float_block));
  }
  return q;
}

static void require_kept(const emu_tensor *t, uint32_t encoding, const arrays *a) {
  const emu_quant *q = &t->quant;
  bool one = encoding == EMU_Q_SCALE_OFFSET || encoding == EMU_Q_BW_SCALE_OFFSET;
  bool real = encoding == EMU_Q_FLOAT_BLOCK || encoding == EMU_Q_BW_FLOAT_BLOCK;
  bool blocks = real || encoding == EMU_Q_BLOCK, split = encoding == EMU_Q_BW_AXIS_SCALE_OFFSET;
  bool bits = one ? encoding == EMU_Q_BW_SCALE_OFFSET : split || encoding == EMU_Q_BW_FLOAT_BLOCK;
  REQUIRE(q->encoding == encoding && q->axis == 0 && q->bitwidth == (bits ? 4 : 0));
  REQUIRE(q->count == (one ? 1 : blocks ? ROWS * BLOCKS : ROWS));
  REQUIRE(q->block[1] == (blocks ? COLUMNS / BLOCKS : 0));
  REQUIRE((q->zeros != NULL) == real && (q->block_scales != NULL) == (encoding == EMU_Q_LPBQ));
  for (uint32_t i = 0; i < q->count; i++) {
    REQUIRE(q->scales[i] == (split ? a->scales[i] : real ? a->float_pairs[i].scale : a->pairs[i].scale));
    int32_t offset = split ? a->offsets[i] : a->pairs[i].offset;
    REQUIRE(real ? q->zeros[i] == a->float_pairs[i].offset
                 : offset == (q->offsets != NULL ? q->offsets[i] : 0));
  }
  for (uint32_t i = 0; encoding == EMU_Q_LPBQ && i < ROWS * BLOCKS; i++) {
    REQUIRE(q->block_scales[i] == (a->expansion.storage == 0 ? a->narrow[i] : a->wide[i]));
    REQUIRE(q->blocks_per_axis == BLOCKS && q->block_scale_bits == 4);
  }
}

static const uint32_t forms[] = {EMU_Q_SCALE_OFFSET, EMU_Q_AXIS_SCALE_OFFSET, EMU_Q_BW_SCALE_OFFSET,
                                 EMU_Q_BW_AXIS_SCALE_OFFSET, EMU_Q_BLOCK, EMU_Q_LPBQ,
                                 EMU_Q_FLOAT_BLOCK, EMU_Q_BW_FLOAT_BLOCK};

void test_quantization(void) {
  static const uint32_t types[] = {EMU_QS8, EMU_QU8, EMU_QS16, EMU_QU16, EMU_QS32};
  int8_t data[ROWS * COLUMNS * 4] = {0};
  for (uint32_t i = 0; i < 200; i++) {
    qnn_handle context = NULL, graph = NULL;
    seed_random(i + 1);
    arrays a, given;
    fill(&a);
    memcpy(&given, &a, sizeof a);
    given.expansion.pairs = given.pairs;
    given.expansion.block_scales = a.expansion.storage == 0 ? (const void *)given.narrow : given.wide;
    uint32_t encoding = forms[i % 8], type = types[random_word() % 5];
    REQUIRE_CODE(0, new_context(&context));
    REQUIRE_CODE(0, new_graph(context, "g", &graph));
    qnn_tensor t = constant("w", type, 2, shape, data, ROWS * COLUMNS * (uint32_t)emu_dtype_size(type));
    t.quantize = form(encoding, &given);
    REQUIRE_CODE(0, new_tensor(graph, &t));
    memset(&given, 0xff, sizeof given); /* the arrays are overwritten, because the library must not
                                           read the client's arrays again */
    api_graph *held = api_acquire(API_GRAPH, graph);
    require_kept(&api_graph_tensor(held, t.id)->t, encoding, &a);
    api_release(held);
    REQUIRE_CODE(0, free_context(context));
  }
}

static qnn_handle scene_graph;

static void refuse(uint32_t type, qnn_quantize_params q, const char *reason) {
  int8_t data[ROWS * COLUMNS * 4] = {0};
  qnn_tensor t = constant("odd", type, 2, shape, data, ROWS * COLUMNS * (uint32_t)emu_dtype_size(type));
  t.quantize = q;
  REQUIRE_CODE(QNN_TENSOR_PARAMETER, new_tensor(scene_graph, &t));
  if (strstr(last_line, "\"odd\"") == NULL || strstr(last_line, reason) == NULL) {
    fprintf(stderr, "the log line %s does not name %s\n", last_line, reason);
    exit(1);
  }
}

static void refuse_axes(arrays *a) {
  qnn_quantize_params q = form(EMU_Q_AXIS_SCALE_OFFSET, a);
  qnn_axis_scale_offset *axis = &q.axis;
  axis->n = ROWS - 1;
  refuse(EMU_QS8, q, "one scale per index");
  axis->n = 0;
  refuse(EMU_QS8, q, "no scales");
  axis->n = UINT32_MAX; /* never read */
  refuse(EMU_QS8, q, "one scale per index");
  axis->n = ROWS;
  axis->axis = 2;
  refuse(EMU_QS8, q, "none of its dimensions");
  axis->axis = -1;
  refuse(EMU_QS8, q, "none of its dimensions");
  axis->axis = 0;
  axis->pairs = NULL;
  refuse(EMU_QS8, q, "no scales");
  q = form(EMU_Q_BW_AXIS_SCALE_OFFSET, a);
  q.bw_axis.bitwidth = 9;
  refuse(EMU_QS8, q, "bit width");
  q.bw_axis.bitwidth = 0;
  refuse(EMU_QS8, q, "bit width");
}

static void refuse_blocks(arrays *a) {
  qnn_quantize_params q = form(EMU_Q_BW_FLOAT_BLOCK, a);
  static const uint32_t sizes[][2] = {{0, 8}, {1, 0}, {1, 7}, {3, 8}, {1, UINT32_MAX}};
  for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
    memcpy(a->block, sizes[i], sizeof a->block);
    refuse(EMU_QS8, q, "blocks that do not fill it");
  }
  a->block[0] = 1;
  a->block[1] = COLUMNS / BLOCKS;
  q.bw_float_block.block_size = NULL;
  refuse(EMU_QS8, q, "no block sizes");
  q = form(EMU_Q_LPBQ, a);
  a->expansion.blocks_per_axis = 5;
  refuse(EMU_QS8, q, "do not divide");
  a->expansion.blocks_per_axis = 0;
  refuse(EMU_QS8, q, "do not divide");
  a->expansion.blocks_per_axis = BLOCKS;
  a->expansion.block_scale_bits = 17;
  refuse(EMU_QS8, q, "1 to 16 bits");
  a->expansion.block_scale_bits = 4;
  a->expansion.axis = -1;
  refuse(EMU_QS8, q, "none of its dimensions");
  a->expansion.axis = 0;
  a->expansion.storage = 2;
  refuse(EMU_QS8, q, "8 or 16 bits");
  a->expansion.storage = 0;
  a->expansion.block_scales = NULL;
  refuse(EMU_QS8, q, "8 or 16 bits");
  q.encoding_body[0] = 0;
  refuse(EMU_QS8, q, "8 or 16 bits");
}

void test_quantization_errors(void) {
  static const float bad[] = {0, -0.0f, -1, INFINITY, NAN};
  const qnn_quantize_params none = {QNN_UNDEFINED, QNN_UNDEFINED, {{0}}};
  qnn_handle context = NULL;
  arrays a;
  seed_random(3);
  fill(&a);
  REQUIRE_CODE(0, new_context(&context));
  REQUIRE_CODE(0, new_graph(context, "scene", &scene_graph));
  refuse(EMU_QU8, none, "without a quantization");
  refuse(EMU_QU8, (qnn_quantize_params){0}, "without a quantization");
  for (int i = 0; i < 8; i++) {
    refuse(i % 2 == 0 ? EMU_F16 : EMU_I32, form(forms[i], &a), "fixed-point data only");
  }
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
    arrays b;
    fill(&b);
    b.pairs[2].scale = bad[i];
    refuse(EMU_QS8, form(EMU_Q_AXIS_SCALE_OFFSET, &b), "positive and finite");
    b.pairs[0].scale = bad[i];
    refuse(EMU_QS16, form(EMU_Q_SCALE_OFFSET, &b), "positive and finite");
    b.float_pairs[ROWS * BLOCKS - 1].offset = bad[i] < 0 || bad[i] == 0 ? INFINITY : bad[i];
    refuse(EMU_QS8, form(EMU_Q_FLOAT_BLOCK, &b), "positive and finite");
  }
  qnn_quantize_params q = form(EMU_Q_SCALE_OFFSET, &a);
  q.definition = 5;
  refuse(EMU_QS8, q, "neither defined nor undefined");
  q.definition = 1;
  for (uint32_t encoding = 8; encoding < 20; encoding++) {
    q.encoding = encoding;
    if (encoding != EMU_Q_BW_FLOAT_BLOCK) {
      refuse(EMU_QS8, q, "encoding is not supported");
    }
  }
  refuse_axes(&a);
  refuse_blocks(&a);
  REQUIRE_CODE(0, free_context(context));
}

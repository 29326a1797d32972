/* api_node.h: an op config turned into a node, for addNode and for validation. */
#ifndef SDNPU_API_NODE_H
#define SDNPU_API_NODE_H

#include "api.h"

/* A parsed node borrows every string; `described` holds tensors that belong to no graph, and
 * `quant` the arrays of their quantizations, which api_forget_node frees. */
typedef struct {
  emu_node node;
  emu_tensor *in[EMU_MAX_PORTS], *out[EMU_MAX_PORTS];
  emu_param params[EMU_MAX_PARAMS];
  emu_tensor described[2 * EMU_MAX_PORTS + EMU_MAX_PARAMS];
  void *quant[2 * EMU_MAX_PORTS + EMU_MAX_PARAMS];
  uint32_t n_described;
} api_parsed_node;

/* With a graph, tensors are looked up by id; without one, they are taken as described. */
qnn_status api_parse_node(uint32_t log, const char *where, const qnn_op_config *config,
                          const api_graph *graph, api_parsed_node *out);
void api_forget_node(api_parsed_node *parsed); /* NULL: nothing happens */
/* api_check_node asks the operator, after what holds for all of them. Without a context (at
 * validation) no chip is known. What only finalize refuses passes; api_check_prepared refuses it. */
qnn_status api_check_node(uint32_t log, const char *where, const emu_node *node,
                          const api_context *context);
qnn_status api_check_prepared(const api_graph *graph, const emu_node *node);

#endif

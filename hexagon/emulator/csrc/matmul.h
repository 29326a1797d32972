/* matmul.h: what the float and the whole-number forms of MatMul share. */
#ifndef SDNPU_MATMUL_H
#define SDNPU_MATMUL_H

#include "kernels.h"
#include "ops.h"

/* The product's sizes; each operand may be turned, and repeated over batches. */
typedef struct emu_product {
  const emu_tensor *a, *b, *bias, *y; /* bias: NULL without one */
  bool turn_a, turn_b, half;
  uint32_t m, n, k, batches;
  size_t element; /* bytes of the float forms' elements */
} emu_product;

emu_product emu_product_of(const emu_node *node);

/* emu_batch_of is the batch of operand t that belongs to batch i of the output. */
uint32_t emu_batch_of(const emu_tensor *t, const emu_tensor *y, uint32_t i);
uint32_t emu_batches_of(const emu_tensor *t);

static inline uint32_t emu_product_panels(const emu_product *p) {
  return (p->n + EMU_LANES - 1) / EMU_LANES;
}

/* emu_product_parts is the number of tasks along the columns for each batch and row block: more
 * than one when there are few rows. */
uint32_t emu_product_parts(const emu_product *p, uint32_t blocks);

/* op_matmul_whole.c */
int emu_check_product_whole(const emu_product *p, emu_why why);
size_t emu_scratch_product_whole(const emu_product *p);
void emu_run_product_whole(const emu_product *p, void *scratch);

#endif

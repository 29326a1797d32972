/* api_binary.h: the emulator's context binary, shared by writer and reader.
 *
 *   header, 128 bytes | metadata | chunks
 *
 * Each part starts at a multiple of 64 bytes. There are offsets from the start
 * and no addresses, so a binary is used where it is mapped. The metadata is a
 * stream of little-endian numbers and strings (length, bytes, NUL):
 *
 *   chunk table: u64 offset, u64 size, u64 hash, each
 *   graphs:      u32 bytes of this graph, then
 *     name, u32 tensors, u32 nodes
 *     tensor: u32 id, name, u32 kind, dtype, rank, dims[rank], quantization, chunk or none
 *     quantization: u32 scales; unless 0: u32 encoding, bits, axis, block[5], blocks, scale bits,
 *             which arrays, chunk of the arrays or none, then the arrays themselves
 *     node:   name, operator, u32 inputs, ids, u32 outputs, ids,
 *             u32 parameters, each: name, u32 kind, dtype and value, or tensor id,
 *             chunk of the packed constants or none
 *
 * Arena places are planned anew by the reader, from checked shapes. What is
 * checked when: the header and the metadata, with the chunks' hashes, before
 * anything is used; a chunk that is copied, at once; one that is used in place,
 * before the first run of a graph that reads it, because to sum a mapped model
 * when it is loaded would read it from end to end for graphs that may never run.
 */
#ifndef SDNPU_API_BINARY_H
#define SDNPU_API_BINARY_H

#include <stdint.h>

enum { API_BINARY_FORMAT = 3, API_BINARY_HEADER = 128 };
#define API_BINARY_MAGIC "SDNPUEMU"
#define API_NO_CHUNK UINT32_MAX
enum { API_CHUNK_ENTRY = 24 }; /* bytes of one in the table */
enum { API_HAS_OFFSETS = 1, API_HAS_ZEROS = 2 };

typedef struct {
  char magic[8];
  uint32_t format;
  uint32_t packing;    /* EMU_PACKING_VERSION of the writer */
  uint32_t core_minor; /* of the ABI */
  uint32_t soc;
  uint64_t total_size;
  uint64_t meta_size; /* right behind the header */
  uint64_t checksum;  /* computed with zero here */
  uint32_t n_chunks, n_graphs;
  uint8_t reserved[72]; /* zero */
} api_binary_header;

_Static_assert(sizeof(api_binary_header) == API_BINARY_HEADER, "the header has no holes");

#endif

/* rpcmem.c replaces a phone's libcdsprpc.so in tests. rpcmem.c allocates FastRPC memory as
 * anonymous files, and accepts only the heap and the flags that a phone's DSP accepts.
 */
#define _GNU_SOURCE
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

enum { SLOTS = 16, HEAP_SYSTEM = 25, DEFAULT_FLAGS = 1 };
static struct {
  void *at;
  int fd, size;
} slots[SLOTS];

void *rpcmem_alloc(int heap, uint32_t flags, int size) {
  for (int i = 0; i < SLOTS && heap == HEAP_SYSTEM && flags == DEFAULT_FLAGS && size > 0; i++) {
    if (slots[i].at != NULL) {
      continue;
    }
    int fd = memfd_create("rpcmem", 0);
    if (fd < 0 || ftruncate(fd, size) != 0) {
      return NULL;
    }
    void *at = mmap(NULL, (size_t)size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (at == MAP_FAILED) {
      return NULL;
    }
    *(char *)at = 1; /* the memory is filled, because FastRPC does not promise zeros */
    slots[i].at = at;
    slots[i].fd = fd;
    slots[i].size = size;
    return at;
  }
  return NULL;
}

int rpcmem_to_fd(void *at) {
  for (int i = 0; i < SLOTS; i++) {
    if (slots[i].at == at) {
      return slots[i].fd;
    }
  }
  return -1;
}

void rpcmem_free(void *at) {
  for (int i = 0; i < SLOTS; i++) {
    if (slots[i].at == at && at != NULL) {
      munmap(at, (size_t)slots[i].size);
      close(slots[i].fd);
      slots[i].at = NULL;
    }
  }
}

/* rpcmem_live, which FastRPC does not have, returns how many allocations have not been freed. */
int rpcmem_live(void) {
  int live = 0;
  for (int i = 0; i < SLOTS; i++) {
    live += slots[i].at != NULL;
  }
  return live;
}

#include "settings.h"

#include <stdlib.h>
#include <string.h>

bool emu_setting(const char *key, char *value, size_t size) {
  const char *at = getenv("SDNPU_EMULATOR");
  size_t key_size = strlen(key);
  while (at != NULL && *at != '\0') {
    size_t length = strcspn(at, ",");
    if (length > key_size && at[key_size] == '=' && strncmp(at, key, key_size) == 0) {
      size_t n = length - key_size - 1;
      n = n < size ? n : size - 1;
      memcpy(value, at + key_size + 1, n);
      value[n] = '\0';
      return true;
    }
    at += length;
    at += *at == ',';
  }
  return false;
}

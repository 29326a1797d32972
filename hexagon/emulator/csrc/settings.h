/* settings.h: the environment variable SDNPU_EMULATOR, "key=value,key=value". */
#ifndef SDNPU_SETTINGS_H
#define SDNPU_SETTINGS_H

#include <stdbool.h>
#include <stddef.h>

/* emu_setting copies the value of key, cut to size, and returns whether key is there. */
bool emu_setting(const char *key, char *value, size_t size);

#endif

/* settings.h: the environment variable SDNPU_EMULATOR, "key=value,key=value". */
#ifndef SDNPU_SETTINGS_H
#define SDNPU_SETTINGS_H

#include <stdbool.h>
#include <stddef.h>

/* emu_setting copies the value of key, cut to size, and returns whether key is there. */
bool emu_setting(const char *key, char *value, size_t size);
bool emu_setting_of(const char *setting, const char *key, char *value, size_t size);

/* emu_setting_unknown names the first key that nobody reads, cut to size; false: there is none. */
bool emu_setting_unknown(const char *setting, char *key, size_t size);
extern const char emu_setting_keys[];

/* emu_fault does the harm that tests ask for: crash_WHERE=PART and hang_WHERE=PART, when PART is in
 * name; print_WHERE=TEXT writes a line to stdout, as libraries do that nobody taught better. */
void emu_fault(const char *where, const char *name);

#endif

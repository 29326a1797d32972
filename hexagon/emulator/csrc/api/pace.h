/* api/pace.h: simulates a phone's time and memory, for calls that take time or memory there.
 * Without a profile in SDNPU_EMULATOR, these functions do nothing.
 */
#ifndef SDNPU_API_PACE_H
#define SDNPU_API_PACE_H

#include <stdlib.h>

#include "api/api.h"
#include "pace/pace.h"

/* api_charge holds the cost of a call on the phone, before the scale of wall time is applied, and
 * the time when the call began here. */
typedef struct {
  double ms;
  uint64_t start_ns;
} api_charge;

api_charge api_pace_begin(void);
/* api_pace_begin_run requires that the caller holds the device lock and has bound the graph's
 * tensors. */
api_charge api_pace_begin_run(const api_graph *graph);
/* api_pace_end sleeps until the charge is over and returns the duration of the call in µs: on
 * this machine's clock, or on the phone's clock with pace=virtual. Without a profile it returns
 * took_us. */
uint64_t api_pace_end(const api_charge *charge, uint64_t took_us);
void api_pace_events(const api_charge *charge, api_profile *profile, uint64_t took_us);

/* Only one load runs at a time, between these two calls. */
void api_pace_begin_load(void);
void api_pace_end_load(void);
/* api_pace_reserve reserves the context's memory in the session and sets the charge of its load.
 * api_pace_release returns the memory. */
qnn_status api_pace_reserve(api_context *context, api_charge *charge);
void api_pace_release(api_context *context);
void api_pace_unload(api_charge *charge);

/* A file of registered memory. */
typedef struct {
  uint64_t device, inode, size;
} api_file;
qnn_status api_pace_map(uint32_t log, const api_file *file);
void api_pace_unmap(const api_file *file);

#endif

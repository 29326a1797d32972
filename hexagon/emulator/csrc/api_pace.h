/* api_pace.h: a phone's time and memory for the calls that have some. All of it
 * does nothing unless SDNPU_EMULATOR names a profile.
 */
#ifndef SDNPU_API_PACE_H
#define SDNPU_API_PACE_H

#include <stdlib.h>

#include "api.h"
#include "pace.h"

/* What a call costs on the phone, without the scale of wall time, and when it began here. */
typedef struct {
  double ms;
  uint64_t start_ns;
} api_charge;

api_charge api_pace_begin(void);
/* The lane is held, the graph's tensors are bound. */
api_charge api_pace_begin_run(const api_graph *graph);
/* api_pace_end waits until the charge is over and returns what the call took, in µs: that much
 * on this machine's clock, or on the phone's with pace=virtual. Not paced: took_us. */
uint64_t api_pace_end(const api_charge *charge, uint64_t took_us);
void api_pace_events(const api_charge *charge, api_profile *profile, uint64_t took_us);

/* One load at a time: between begin and end the loader is this call's. */
void api_pace_begin_load(void);
void api_pace_end_load(void);
/* api_pace_admit takes the context's place in the session and sets the charge; leave gives it back. */
qnn_status api_pace_admit(api_context *context, api_charge *charge);
void api_pace_leave(api_context *context);
void api_pace_unload(api_charge *charge);

/* A file of registered memory. */
typedef struct {
  uint64_t device, inode, size;
} api_file;
qnn_status api_pace_map(uint32_t log, const api_file *file);
void api_pace_unmap(const api_file *file);

#endif

/* pace.h: a phone's time, as the device cost model has it: what a graph and a
 * load cost on the phone that SDNPU_EMULATOR names, and which one that is.
 * Nothing here knows the ABI or a clock.
 *
 * Times are in milliseconds and sizes in bytes, as in the profiles.
 */
#ifndef SDNPU_PACE_H
#define SDNPU_PACE_H

#include <stdbool.h>
#include <stdint.h>

/* What a model costs on a phone; hidden in elements. */
typedef struct {
  const char *name; /* "qwen2.5-1.5b" */
  uint32_t layers, hidden;
  double body_bytes, head_bytes;
  double dispatch_ms_per_layer, tile_ms, row_ms, head_tile_ms, head_row_ms;
} pace_model;

/* A phone. The generic costs are for a model that has none of its own. */
typedef struct {
  const char *id;   /* "sd8gen2", "sd8gen2/fast-load" */
  const char *kind; /* "fitted" to published figures, "estimated" by a compiler, "measured" */
  double tile_rows, rpc_ms, row_context_share, row_context_ref;
  double generic_dispatch_ms_per_layer, generic_stream_gbps, generic_row_us_per_layer_per_khidden;
  double load_latency_ms, load_bandwidth_gbps, unload_ms, slowdown_while_loading;
  double session_window_gb;
  const pace_model *models;
  uint32_t n_models;
} pace_profile;

/* pace_profiles.c, generated from graphswap/devices */
extern const pace_profile pace_profiles[];
extern const uint32_t pace_n_profiles;

typedef enum { PACE_OFF, PACE_WALL, PACE_VIRTUAL } pace_mode;

typedef struct {
  pace_mode mode;
  const pace_profile *profile; /* NULL: off */
  const pace_model *as;        /* NULL: a model is what its own shapes say */
  double scale;                /* of wall time */
  double slowdown;             /* of runs that start while a load goes on */
  char name[96];               /* "sd8gen2 (fitted) as qwen2.5-1.5b": whose time it is */
  char wrong[512];             /* why the settings cannot be followed, or empty */
} pace_settings;

/* pace_get reads the environment once. */
const pace_settings *pace_get(void);

/* pace_read reads the keys profile, as, pace, scale and slowdown of one setting. */
void pace_read(pace_settings *settings, const char *setting);

/* What part of a model a graph is. */
typedef enum { PACE_OTHER, PACE_BODY, PACE_HEAD } pace_kind;
typedef struct {
  pace_kind kind;
  uint32_t first;         /* body: its first layer, which tells blocks apart */
  uint32_t layers, total; /* body: its layers, of how many; total 0: not said */
  uint32_t rows;          /* of the graph, padding included */
  uint32_t hidden;
  double bytes; /* of its constants */
} pace_part;

/* pace_execute is one run of the graph at a context of so many tokens. */
double pace_execute(const pace_settings *settings, const pace_part *part, double context);
/* pace_bytes is what the part takes on the phone. */
double pace_bytes(const pace_settings *settings, const pace_part *part);
double pace_load(const pace_settings *settings, double bytes);

#endif

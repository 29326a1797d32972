/* api_restart.c: failures of the connection to the DSP, which tests ask for by
 * fail_execute=CODE@N: the N-th execute of the process returns CODE. 1007 is a
 * restart of the DSP: contexts made before are lost, and so are power votes.
 * 1011 is its end for this process. Any other code is returned that once.
 */
#define _POSIX_C_SOURCE 200809L
#include <stdlib.h>

#include "api.h"
#include "settings.h"

static atomic_uint executes, restarts;
static atomic_bool gone;

uint32_t api_session(void) { return atomic_load(&restarts); }

qnn_status api_connection(uint32_t log, uint32_t session) {
  if (atomic_load(&gone)) {
    return api_fail(log, QNN_FATAL_COMMUNICATION, "the DSP is out of reach for this process");
  }
  if (session != atomic_load(&restarts)) {
    return api_fail(log, QNN_COMMUNICATION, "the DSP has restarted since the context was made");
  }
  return QNN_OK;
}

qnn_status api_connection_execute(uint32_t log, uint32_t session) {
  char value[32], *rest = value;
  uint32_t nth = atomic_fetch_add(&executes, 1) + 1;
  qnn_status status = api_connection(log, session);
  if (status != QNN_OK || !emu_setting("fail_execute", value, sizeof value)) {
    return status;
  }
  unsigned long code = strtoul(value, &rest, 10);
  if (*rest != '@' || strtoul(rest + 1, NULL, 10) != nth) {
    return QNN_OK;
  }
  if (code == QNN_COMMUNICATION) {
    atomic_fetch_add(&restarts, 1);
    api_power_lost();
  }
  atomic_store(&gone, code == QNN_FATAL_COMMUNICATION);
  return api_fail(log, (qnn_status)code, "execute %u fails as asked", nth);
}

/* connection.c keeps the state of the connection to the DSP, and makes it fail when tests ask for a
 * failure.
 *
 * The setting fail_execute=CODE@N makes the N-th execute of the process return CODE. Code 1007
 * simulates a restart of the DSP: existing contexts and power votes are lost. Code 1011 simulates
 * that this process has lost the DSP for good. With any code except 1007 and 1011, fail_execute
 * makes one execute return the code, without further effect.
 */
#define _POSIX_C_SOURCE 200809L
#include <stdlib.h>

#include "api/api.h"
#include "settings.h"

static atomic_uint executes, restarts;
static atomic_bool gone;

uint32_t api_connection_number(void) { return atomic_load(&restarts); }

qnn_status api_check_connection(uint32_t log, uint32_t session) {
  if (atomic_load(&gone)) {
    return api_fail(log, QNN_FATAL_COMMUNICATION, "the DSP is out of reach for this process");
  }
  if (session != atomic_load(&restarts)) {
    return api_fail(log, QNN_COMMUNICATION, "the DSP has restarted since the context was created");
  }
  return QNN_OK;
}

qnn_status api_check_execute(uint32_t log, uint32_t session) {
  char value[32], *rest = value;
  uint32_t nth = atomic_fetch_add(&executes, 1) + 1;
  qnn_status status = api_check_connection(log, session);
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
  return api_fail(log, (qnn_status)code, "execute %u fails as requested", nth);
}

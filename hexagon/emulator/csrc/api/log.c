/* log.c implements the loggers, which receive the library's messages.
 *
 * The client's log callback receives the format and a real va_list, as from the vendor's library.
 * Without a logger, error messages go to stderr, so that no rejection is silent.
 */
#define _POSIX_C_SOURCE 200809L
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "api/api.h"

uint64_t api_now_us(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000000u + (uint64_t)now.tv_nsec / 1000u;
}

static void to_stderr(const char *format, va_list args) {
  char line[1024];
  vsnprintf(line, sizeof line, format, args);
  fprintf(stderr, "sdnpu-emulator: %s\n", line);
}

/* emit sends a message to a logger. For a log id of 0, which means that the caller knows no logger,
 * the newest logger receives the message. */
static void emit(uint32_t log, uint32_t level, const char *format, va_list args) {
  api_logger *logger =
      log != 0 ? api_acquire(API_LOG, (qnn_handle)(uintptr_t)log) : api_acquire_newest(API_LOG);
  if (logger == NULL) {
    if (level == QNN_LOG_ERROR) {
      to_stderr(format, args);
    }
    return;
  }
  if (level <= atomic_load_explicit(&logger->level, memory_order_relaxed)) {
    if (logger->callback != NULL) {
      logger->callback(format, level, api_now_us(), args);
    } else {
      to_stderr(format, args);
    }
  }
  api_release(logger);
}

void api_log(uint32_t log, uint32_t level, const char *format, ...) {
  va_list args;
  va_start(args, format);
  emit(log, level, format, args);
  va_end(args);
}

qnn_status api_fail(uint32_t log, qnn_status code, const char *format, ...) {
  va_list args;
  va_start(args, format);
  emit(log, QNN_LOG_ERROR, format, args);
  va_end(args);
  return code;
}

/* At log level 0, nothing is logged. */
static bool known_level(uint32_t level) { return level <= QNN_LOG_DEBUG; }

qnn_status api_log_create(qnn_log_callback callback, uint32_t level, qnn_handle *out) {
  if (out == NULL || !known_level(level)) {
    return api_fail(0, QNN_LOG_ARGUMENT,
                    "logCreate: level %u is above 5, or the output pointer is NULL", level);
  }
  api_logger *logger = calloc(1, sizeof *logger);
  if (logger == NULL) {
    return QNN_MEMORY;
  }
  logger->callback = callback;
  atomic_init(&logger->level, level);
  *out = api_register(API_LOG, &logger->base);
  if (*out == NULL) {
    free(logger);
    return QNN_MEMORY;
  }
  return QNN_OK;
}

qnn_status api_log_set_level(qnn_handle log, uint32_t level) {
  api_logger *logger = api_acquire(API_LOG, log);
  if (logger == NULL) {
    return api_fail(0, QNN_LOG_ARGUMENT, "logSetLogLevel: unknown log handle %p", log);
  }
  qnn_status status = QNN_OK;
  if (known_level(level)) {
    atomic_store_explicit(&logger->level, level, memory_order_relaxed);
  } else {
    status = QNN_LOG_ARGUMENT;
  }
  api_release(logger);
  return status;
}

qnn_status api_log_free(qnn_handle log) {
  api_logger *logger = api_unregister(API_LOG, log);
  if (logger == NULL) {
    return api_fail(0, QNN_LOG_ARGUMENT, "logFree: unknown log handle %p", log);
  }
  free(logger);
  return QNN_OK;
}

/* pool_test.c checks that the thread pool runs every task once, from any thread and in a forked
 * child, and sleeps when idle.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <pthread.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "harness.h"

enum { MOST = 1000 };

typedef struct {
  atomic_uint runs[MOST];
  uint32_t plain[MOST]; /* plain is not atomic, because the return of the call must order it for the
                           caller */
} record;

static void note(void *arg, uint32_t task) {
  record *r = arg;
  atomic_fetch_add(&r->runs[task], 1);
  r->plain[task] = task + 1;
}

static bool each_once(uint32_t n) {
  record *r = calloc(1, sizeof *r);
  bool right = true;
  emu_parallel(n, note, r);
  for (uint32_t i = 0; i < MOST; i++) {
    right = right && atomic_load(&r->runs[i]) == (i < n) && r->plain[i] == (i < n ? i + 1 : 0);
  }
  free(r);
  return right;
}

static void every_task_runs_once(void) {
  for (int round = 0; round < 3000; round++) {
    if (round % 50 == 0) {
      emu_pool_enter();
    }
    uint32_t n = round % 3 ? random_below(8) : random_below(MOST);
    CHECK(each_once(n), "round %d with %u tasks", round, n);
    if (round % 50 == 25) {
      emu_pool_leave();
    }
  }
  for (int i = 0; i < 30; i++) {
    emu_pool_leave();
  }
}

static void *call_often(void *arg) {
  for (int i = 0; i < 500; i++) {
    if (!each_once((uint32_t)i % 40)) {
      atomic_fetch_add((atomic_uint *)arg, 1);
    }
  }
  return NULL;
}

static void calls_from_several_threads_do_not_mix(void) {
  pthread_t callers[3];
  atomic_uint wrong = 0;
  for (int i = 0; i < 3; i++) {
    pthread_create(&callers[i], NULL, call_often, &wrong);
  }
  for (int i = 0; i < 3; i++) {
    pthread_join(callers[i], NULL);
  }
  CHECK(atomic_load(&wrong) == 0, "%u calls went wrong", atomic_load(&wrong));
}

static void call_inside(void *arg, uint32_t task) {
  (void)task;
  if (!each_once(20)) {
    atomic_fetch_add((atomic_uint *)arg, 1);
  }
}

static void a_task_may_call_the_pool(void) {
  atomic_uint wrong = 0;
  emu_parallel(30, call_inside, &wrong);
  CHECK(atomic_load(&wrong) == 0, "%u inner calls went wrong", atomic_load(&wrong));
}

static void a_forked_child_has_a_working_pool(void) {
#if defined(__SANITIZE_THREAD__)
  return; /* the thread sanitizer does not start threads in a forked child */
#endif
  each_once(100);
  pid_t child = fork();
  if (child == 0) {
    bool right = true;
    for (int i = 0; i < 200; i++) {
      right = right && each_once(50);
    }
    _exit(right ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0, "the child ended with %d", status);
  CHECK(each_once(100), "the parent's pool broke");
}

static double processor_seconds(void) {
  struct timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void idle_threads_use_no_processor(void) {
  struct timespec moment = {0, 100 * 1000 * 1000};
  for (int inside = 0; inside < 2; inside++) { /* the pool is asleep between calls, and soon after
                                                  the last call of an execute */
    emu_pool_enter();
    each_once(100);
    if (!inside) {
      emu_pool_leave();
    }
    double before = processor_seconds();
    nanosleep(&moment, NULL);
    double used = processor_seconds() - before;
    CHECK(used < 0.02, "%g s of processor time in 0.1 s of nothing", used);
    if (inside) {
      emu_pool_leave();
    }
  }
}

const test pool_tests[] = {
    {"every_task_runs_once", every_task_runs_once},
    {"calls_from_several_threads_do_not_mix", calls_from_several_threads_do_not_mix},
    {"a_task_may_call_the_pool", a_task_may_call_the_pool},
    {"a_forked_child_has_a_working_pool", a_forked_child_has_a_working_pool},
    {"idle_threads_use_no_processor", idle_threads_use_no_processor},
    {NULL, NULL},
};

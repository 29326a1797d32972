/* The test unload.c loads the library that its argument names, uses its pool, unloads it, and
 * checks that none of its threads is left; twice.
 */
#include <dirent.h>
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <unistd.h>

static void nothing(void *arg, uint32_t task) {
  (void)arg;
  (void)task;
}

static int threads(void) {
  int n = 0;
  DIR *tasks = opendir("/proc/self/task");
  for (struct dirent *d; (d = readdir(tasks)) != NULL;) {
    n += d->d_name[0] != '.';
  }
  closedir(tasks);
  return n;
}

/* threads_after returns the number of threads once only one is left, or after a second. The
 * kernel may list a thread for a moment after pthread_join has returned.
 */
static int threads_after(void) {
  for (int ms = 0; ms < 1000 && threads() > 1; ms++) {
    usleep(1000);
  }
  return threads();
}

int main(int argc, char **argv) {
  for (int round = 0; argc == 2 && round < 50; round++) {
    void *library = dlopen(argv[1], RTLD_NOW);
    if (library == NULL) {
      printf("%s\n", dlerror());
      return 1;
    }
    void (*parallel)(uint32_t, void (*)(void *, uint32_t), void *);
    *(void **)&parallel = dlsym(library, "emu_parallel");
    parallel(20, nothing, NULL);
    int running = threads();
    dlclose(library);
    int left = threads_after();
    if (running < 2 || left != 1) {
      printf("%d threads while loaded, %d after\n", running, left);
      return 1;
    }
  }
  return argc == 2 ? 0 : 2;
}

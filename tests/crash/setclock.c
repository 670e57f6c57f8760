/* setclock: a wall clock that is set forward and back on command, for one process.
 *
 * Preloaded into a broker (LD_PRELOAD), it intercepts the calls with which a process reads the time
 * of day, and adds the number in the file SETCLOCK_CONTROL: nanoseconds, signed. The file is mapped
 * by both sides: a test writes a number there, and the next call obeys. Monotonic clocks are not
 * changed, because setting the time does not change them either.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define SECOND 1000000000LL

static volatile int64_t *offset;
static int (*real_gettime)(clockid_t, struct timespec *);

__attribute__((constructor)) static void start(void)
{
    real_gettime = dlsym(RTLD_NEXT, "clock_gettime");
    const char *path = getenv("SETCLOCK_CONTROL");
    int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (file < 0)
        return;
    void *mapped = mmap(NULL, sizeof *offset, PROT_READ, MAP_SHARED, file, 0);
    close(file);
    if (mapped != MAP_FAILED)
        offset = mapped;
}

int clock_gettime(clockid_t id, struct timespec *now)
{
    if (!real_gettime)
        start();
    int result = real_gettime(id, now);
    if (result == 0 && offset && (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE)) {
        int64_t all = now->tv_sec * SECOND + now->tv_nsec + *offset;
        int64_t part = (all % SECOND + SECOND) % SECOND;
        now->tv_sec = (all - part) / SECOND;
        now->tv_nsec = part;
    }
    return result;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone)
{
    (void)zone;
    struct timespec exact;
    int result = clock_gettime(CLOCK_REALTIME, &exact);
    now->tv_sec = exact.tv_sec;
    now->tv_usec = exact.tv_nsec / 1000;
    return result;
}

time_t time(time_t *now)
{
    struct timespec exact;
    clock_gettime(CLOCK_REALTIME, &exact);
    if (now)
        *now = exact.tv_sec;
    return exact.tv_sec;
}

/* failfs: a disk that fails, fills up or hangs on command, for one process.
 *
 * Preloaded into a broker (LD_PRELOAD), it stands before the calls by which a store reaches the
 * disk. It looks only at files under the directory FAILFS_PATH, and obeys the file FAILFS_CONTROL,
 * which holds the struct below and is mapped by both sides: whoever tests writes a number there and
 * the next call obeys.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

struct control {
    volatile uint32_t sync_error;  /* errno of every sync; 0 = none */
    volatile uint32_t write_error; /* errno of every write */
    volatile uint32_t full_bytes;  /* ENOSPC for writes that end beyond this; 0 = never */
    volatile uint32_t stall;       /* not 0: syncs wait until it is */
    volatile uint32_t syncs;       /* calls so far, counted by us */
    volatile uint32_t writes;
    volatile uint32_t failures;
};

static struct control *control;
static const char *watched;

__attribute__((constructor)) static void begin(void) {
    const char *path = getenv("FAILFS_CONTROL");
    watched = getenv("FAILFS_PATH");
    int fd = path && watched ? open(path, O_RDWR | O_CLOEXEC) : -1;
    if (fd < 0) return;
    void *mapped = mmap(NULL, sizeof *control, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (mapped != MAP_FAILED) control = mapped;
    close(fd);
}

static int concerns(int fd) {
    char link[64], path[4096];
    if (!control) return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t size = readlink(link, path, sizeof path - 1);
    return size > 0 && !strncmp(path, watched, strlen(watched));
}

static int fail(uint32_t error) {
    __atomic_add_fetch(&control->failures, 1, __ATOMIC_RELAXED);
    errno = (int)error;
    return -1;
}

static int sync_fails(int fd) {
    if (!concerns(fd)) return 0;
    __atomic_add_fetch(&control->syncs, 1, __ATOMIC_RELAXED);
    while (control->stall) usleep(1000);
    return control->sync_error ? fail(control->sync_error) : 0;
}

/* A write through a descriptor with O_DSYNC is a sync as well: it is on disk when it returns. */
static int write_fails(int fd, size_t bytes, off64_t at) {
    if (!concerns(fd)) return 0;
    if (fcntl(fd, F_GETFL) & O_DSYNC && sync_fails(fd)) return -1;
    __atomic_add_fetch(&control->writes, 1, __ATOMIC_RELAXED);
    if (control->write_error) return fail(control->write_error);
    if (control->full_bytes && (uint64_t)at + bytes > control->full_bytes) return fail(ENOSPC);
    return 0;
}

static size_t total(const struct iovec *parts, int count) {
    size_t bytes = 0;
    for (int i = 0; i < count; i++) bytes += parts[i].iov_len;
    return bytes;
}

#define REAL(name) static __typeof__(&name) real; if (!real) real = (__typeof__(&name))dlsym(RTLD_NEXT, #name)

int fdatasync(int fd) { REAL(fdatasync); return sync_fails(fd) ? -1 : real(fd); }
int fsync(int fd) { REAL(fsync); return sync_fails(fd) ? -1 : real(fd); }
ssize_t pwrite64(int fd, const void *data, size_t size, off64_t at) { REAL(pwrite64); return write_fails(fd, size, at) ? -1 : real(fd, data, size, at); }
ssize_t pwritev64(int fd, const struct iovec *parts, int count, off64_t at) { REAL(pwritev64); return write_fails(fd, total(parts, count), at) ? -1 : real(fd, parts, count, at); }
ssize_t pwrite(int fd, const void *data, size_t size, off_t at) { REAL(pwrite); return write_fails(fd, size, at) ? -1 : real(fd, data, size, at); }
ssize_t pwritev(int fd, const struct iovec *parts, int count, off_t at) { REAL(pwritev); return write_fails(fd, total(parts, count), at) ? -1 : real(fd, parts, count, at); }
ssize_t write(int fd, const void *data, size_t size) { REAL(write); return write_fails(fd, size, lseek64(fd, 0, SEEK_CUR)) ? -1 : real(fd, data, size); }
ssize_t writev(int fd, const struct iovec *parts, int count) { REAL(writev); return write_fails(fd, total(parts, count), lseek64(fd, 0, SEEK_CUR)) ? -1 : real(fd, parts, count); }

/* failfs: a disk that fails, fills up, hangs or loses its power on command, for one process.
 *
 * Preloaded into a broker (LD_PRELOAD), it intercepts the calls with which a store accesses the
 * disk. It affects only files under the directory FAILFS_PATH, and is controlled by the file
 * FAILFS_CONTROL, which holds the struct below and is mapped by both sides: a test writes a number
 * there, and the next call obeys.
 *
 * A power cut ends the process, and all or part of what it wrote without flushing is lost, at
 * random: the earlier contents are restored first. A sector is written completely or not at all.
 * A write past the page cache (O_DIRECT) is not a sync: it reaches the disk, which may delay it.
 * Only a write that is synchronous as well (O_DSYNC) is on disk when it returns.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
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
    volatile uint32_t cut_after;   /* the power goes in this write or sync from now; 0 = never */
    volatile uint32_t cut_seed;    /* of the dice that say what is lost */
    volatile uint32_t cuts;
};

#define SECTOR 512

struct piece { /* a write that was not flushed, and what it wrote over */
    struct piece *before;
    dev_t device;
    ino_t file;
    int fd;
    off64_t at;
    size_t size;
    int stays;
    char old[];
};

static struct control *control;
static const char *watched;
static struct piece *unflushed; /* the newest first */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

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

/* Where a write is kept, the contents that it replaced must not be restored. */
static int is_covered(const struct piece *piece) {
    for (struct piece *newer = unflushed; newer != piece; newer = newer->before)
        if (newer->stays && newer->file == piece->file && newer->device == piece->device &&
            newer->at < piece->at + (off64_t)piece->size && piece->at < newer->at + (off64_t)newer->size)
            return 1;
    return 0;
}

static __typeof__(&pwrite64) real_pwrite(void) {
    static __typeof__(&pwrite64) real;
    if (!real) real = (__typeof__(&pwrite64))dlsym(RTLD_NEXT, "pwrite64");
    return real;
}

/* The same file, opened for any number of bytes: through a descriptor with O_DIRECT the system
 * accepts only whole sectors. */
static int any_bytes(int fd, int flags) {
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    int same = open(link, flags | O_CLOEXEC);
    if (same < 0) abort();
    return same;
}

static void write_anywhere(int fd, const char *data, size_t size, off64_t at) {
    int same = any_bytes(fd, O_WRONLY);
    if (real_pwrite()(same, data, size, at) != (ssize_t)size) abort();
    close(same);
}

static void cut_power(void) {
    int chance = control->cut_seed % 3; /* everything is lost, half of it, nothing */
    for (struct piece *piece = unflushed; piece; piece = piece->before) {
        piece->stays = rand() % 2 < chance || is_covered(piece);
        if (!piece->stays) write_anywhere(piece->fd, piece->old, piece->size, piece->at);
    }
    control->cuts++;
    kill(getpid(), SIGKILL);
    for (;;) pause();
}

static int is_cut_now(void) {
    if (control->cut_after != 1) return control->cut_after && (control->cut_after--, 0);
    srand(control->cut_seed);
    return 1;
}

static void remember(int fd, size_t size, off64_t at) {
    struct stat status;
    struct piece *piece = fstat(fd, &status) ? NULL : malloc(sizeof *piece + size);
    if (!piece) abort();
    int readable = any_bytes(fd, O_RDONLY);
    ssize_t found = pread64(readable, piece->old, size, at);
    if (found < 0) abort();
    memset(piece->old + found, 0, size - (size_t)found);
    close(readable);
    *piece = (struct piece){unflushed, status.st_dev, status.st_ino, fd, at, size, 0};
    unflushed = piece;
}

/* Of a write in progress some sectors are on disk, in no particular order. */
static void write_some_sectors(int fd, const char *data, size_t size, off64_t at) {
    for (size_t done = 0; done < size;) {
        size_t part = SECTOR - (size_t)(at + (off64_t)done) % SECTOR;
        if (part > size - done) part = size - done;
        if (rand() % 2) write_anywhere(fd, data + done, part, at + (off64_t)done);
        done += part;
    }
}

static void before_write(int fd, const void *data, size_t size, off64_t at) {
    if (!control || !control->cut_after || !concerns(fd)) return;
    pthread_mutex_lock(&lock);
    int is_flushed = fcntl(fd, F_GETFL) & O_DSYNC;
    if (is_cut_now()) {
        if (is_flushed && data) write_some_sectors(fd, data, size, at);
        cut_power();
    }
    if (!is_flushed) remember(fd, size, at);
    pthread_mutex_unlock(&lock);
}

static void before_sync(int fd) {
    if (!control || !control->cut_after || !concerns(fd)) return;
    pthread_mutex_lock(&lock);
    if (is_cut_now()) cut_power();
    pthread_mutex_unlock(&lock);
}

static int after_sync(int fd, int result) {
    struct stat status;
    if (!control || !unflushed || result || fstat(fd, &status)) return result;
    pthread_mutex_lock(&lock);
    for (struct piece **link = &unflushed; *link;) {
        struct piece *piece = *link;
        if (piece->file != status.st_ino || piece->device != status.st_dev) {
            link = &piece->before;
            continue;
        }
        *link = piece->before;
        free(piece);
    }
    pthread_mutex_unlock(&lock);
    return result;
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

#define SYNC(name) \
    int name(int fd) { REAL(name); if (sync_fails(fd)) return -1; before_sync(fd); return after_sync(fd, real(fd)); }
#define WRITE_AT(name, type) \
    ssize_t name(int fd, const void *data, size_t size, type at) { REAL(name); if (write_fails(fd, size, at)) return -1; before_write(fd, data, size, at); return real(fd, data, size, at); }
#define WRITE_PARTS_AT(name, type) \
    ssize_t name(int fd, const struct iovec *parts, int count, type at) { REAL(name); size_t size = total(parts, count); if (write_fails(fd, size, at)) return -1; before_write(fd, NULL, size, at); return real(fd, parts, count, at); }

SYNC(fdatasync)
SYNC(fsync)
WRITE_AT(pwrite64, off64_t)
WRITE_AT(pwrite, off_t)
WRITE_PARTS_AT(pwritev64, off64_t)
WRITE_PARTS_AT(pwritev, off_t)

ssize_t write(int fd, const void *data, size_t size) {
    REAL(write);
    if (!control) return real(fd, data, size);
    off64_t at = lseek64(fd, 0, SEEK_CUR);
    if (write_fails(fd, size, at)) return -1;
    before_write(fd, data, size, at);
    return real(fd, data, size);
}

ssize_t writev(int fd, const struct iovec *parts, int count) {
    REAL(writev);
    if (!control) return real(fd, parts, count);
    off64_t at = lseek64(fd, 0, SEEK_CUR);
    if (write_fails(fd, total(parts, count), at)) return -1;
    before_write(fd, NULL, total(parts, count), at);
    return real(fd, parts, count);
}

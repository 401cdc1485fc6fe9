/* Overrides functions of the C library to inject machine faults into the server under test. Loaded with LD_PRELOAD.
 *
 * FAULTS_SWITCHES names a file of 64-bit words that the test and the server share:
 *   [0] nanoseconds added to the wall clock (CLOCK_REALTIME and functions that use it; never the monotonic clock)
 *   [1] 1: the file system is read-only below FAULTS_DIRECTORY; 2: it becomes so at the next write of a table root
 *   [2] not 0: unsynced writes to the log and the tables can be reverted, as by a power failure
 *   [3] not 0: a sync reports success and does nothing
 *   [4] counts writes that a power failure would revert    [5] counts syncs
 * Directory entries, renames and file lengths always survive.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

enum { CLOCK, READ_ONLY, VOLATILE, LIES, HELD, SYNCED, SWITCHES };

static volatile int64_t off[SWITCHES];
static volatile int64_t *switches = off;
static const char *directory = NULL;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static int journal = -1;

__attribute__((constructor)) static void begin(void) {
    const char *path = getenv("FAULTS_SWITCHES");
    directory = getenv("FAULTS_DIRECTORY");
    if (!path) return;
    int file = syscall(SYS_openat, AT_FDCWD, path, O_RDWR | O_CLOEXEC, 0);
    if (file < 0) return;
    void *map = mmap(NULL, SWITCHES * 8, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    syscall(SYS_close, file);
    if (map != MAP_FAILED) switches = map;
    path = getenv("FAULTS_JOURNAL");
    if (path) journal = syscall(SYS_openat, AT_FDCWD, path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
}

/* The wall clock. */

int clock_gettime(clockid_t clock, struct timespec *now) {
    int result = syscall(SYS_clock_gettime, clock, now);
    if (result == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE) && switches[CLOCK] != 0) {
        int64_t moved = (int64_t)now->tv_sec * 1000000000 + now->tv_nsec + switches[CLOCK];
        now->tv_sec = moved / 1000000000;
        now->tv_nsec = moved % 1000000000;
    }
    return result;
}

int gettimeofday(struct timeval *now, void *zone) {
    (void)zone;
    struct timespec exact;
    int result = clock_gettime(CLOCK_REALTIME, &exact);
    if (result == 0) {
        now->tv_sec = exact.tv_sec;
        now->tv_usec = exact.tv_nsec / 1000;
    }
    return result;
}

time_t time(time_t *at) {
    struct timespec exact;
    clock_gettime(CLOCK_REALTIME, &exact);
    if (at) *at = exact.tv_sec;
    return exact.tv_sec;
}

/* The read-only file system. */

static int below(const char *path) {
    return directory && path && strncmp(path, directory, strlen(directory)) == 0;
}

static int path_of(int file, char *path, size_t room) {
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    ssize_t length = syscall(SYS_readlinkat, AT_FDCWD, link, path, room - 1);
    if (length < 0) return 0;
    path[length] = 0;
    return 1;
}

static int refused(const char *path) {
    if (switches[READ_ONLY] != 1 || !below(path)) return 0;
    errno = EROFS;
    return 1;
}

/* With 2, the file system becomes read-only when the engine of the tables writes its root page. LMDB cannot recover from
 * that without a reopen. */
static int refused_file(int file) {
    char path[4096];
    if (switches[READ_ONLY] == 2 && path_of(file, path, sizeof path) && below(path) &&
        strstr(path, "/tables/data.mdb") && (fcntl(file, F_GETFL) & O_DSYNC)) {
        switches[READ_ONLY] = 1;
    }
    return switches[READ_ONLY] && path_of(file, path, sizeof path) && refused(path);
}

static int open_at(int at, const char *path, int flags, mode_t mode) {
    int writes = (flags & O_ACCMODE) != O_RDONLY || (flags & (O_CREAT | O_TRUNC));
    if (writes && refused(path)) return -1;
    return syscall(SYS_openat, at, path, flags, mode);
}

#define MODE(flags, mode) \
    mode_t mode = 0; \
    if (flags & (O_CREAT | O_TMPFILE)) { va_list more; va_start(more, flags); mode = va_arg(more, mode_t); va_end(more); }

int open(const char *path, int flags, ...) { MODE(flags, mode) return open_at(AT_FDCWD, path, flags, mode); }
int open64(const char *path, int flags, ...) { MODE(flags, mode) return open_at(AT_FDCWD, path, flags | O_LARGEFILE, mode); }
int openat(int at, const char *path, int flags, ...) { MODE(flags, mode) return open_at(at, path, flags, mode); }
int openat64(int at, const char *path, int flags, ...) { MODE(flags, mode) return open_at(at, path, flags | O_LARGEFILE, mode); }
int rename(const char *from, const char *to) { return refused(from) ? -1 : syscall(SYS_renameat, AT_FDCWD, from, AT_FDCWD, to); }
int unlink(const char *path) { return refused(path) ? -1 : syscall(SYS_unlinkat, AT_FDCWD, path, 0); }
int mkdir(const char *path, mode_t mode) { return refused(path) ? -1 : syscall(SYS_mkdirat, AT_FDCWD, path, mode); }
int ftruncate(int file, off_t length) { return refused_file(file) ? -1 : syscall(SYS_ftruncate, file, length); }
int ftruncate64(int file, off64_t length) { return ftruncate(file, length); }

/* The disk that loses unsynced writes. Before a write, the shim appends the replaced bytes to the file FAULTS_JOURNAL. After
 * a power failure, the test restores the bytes of unsynced writes (world.rs). Until then, readers see the new bytes. */

struct entry {
    uint64_t kind, inode, at, length;
};
enum { REPLACED = 1, LASTING = 2, SYNC = 3 };

static int is_volatile(int file) {
    char path[4096];
    if (!switches[VOLATILE] || journal < 0 || !path_of(file, path, sizeof path) || !below(path)) return 0;
    return strstr(path, "/log/") || strstr(path, "/tables/data.mdb");
}

static uint64_t inode_of(int file) {
    struct stat about;
    if (fstat(file, &about) != 0) abort();
    return about.st_ino;
}

static void note(struct entry entry, const void *bytes) {
    struct iovec parts[2] = { { &entry, sizeof entry }, { (void *)bytes, bytes ? entry.length : 0 } };
    size_t all = sizeof entry + parts[1].iov_len;
    if (syscall(SYS_writev, journal, parts, 2) != (ssize_t)all) abort();
}

static ssize_t write_volatile(int file, const struct iovec *parts, int count, off_t at) {
    size_t length = 0;
    for (int part = 0; part < count; part++) length += parts[part].iov_len;
    char *bytes = calloc(1, length ? length : 1);
    if (!bytes) abort();
    pthread_mutex_lock(&lock);
    struct entry entry = { .inode = inode_of(file), .at = at, .length = length };
    if (fcntl(file, F_GETFL) & O_DSYNC) {
        /* The write itself is synchronous, so it survives. */
        size_t filled = 0;
        for (int part = 0; part < count; part++) {
            memcpy(bytes + filled, parts[part].iov_base, parts[part].iov_len);
            filled += parts[part].iov_len;
        }
        entry.kind = LASTING;
    } else {
        char own[64];
        snprintf(own, sizeof own, "/proc/self/fd/%d", file);
        int reading = syscall(SYS_openat, AT_FDCWD, own, O_RDONLY | O_CLOEXEC, 0);
        if (reading < 0) abort();
        syscall(SYS_pread64, reading, bytes, length, at);
        syscall(SYS_close, reading);
        entry.kind = REPLACED;
        switches[HELD]++;
    }
    note(entry, bytes);
    ssize_t written = syscall(SYS_pwritev, file, parts, count, (long)at, 0L);
    pthread_mutex_unlock(&lock);
    free(bytes);
    return written;
}

static int sync_volatile(int file) {
    if (switches[LIES]) return 0;
    /* The duration of a disk sync, in microseconds, so that power failures hit writes before their sync. */
    usleep(4000);
    pthread_mutex_lock(&lock);
    note((struct entry){ .kind = SYNC, .inode = inode_of(file) }, NULL);
    switches[SYNCED]++;
    pthread_mutex_unlock(&lock);
    return 0;
}

ssize_t pwritev(int file, const struct iovec *parts, int count, off_t at) {
    if (refused_file(file)) return -1;
    if (is_volatile(file)) return write_volatile(file, parts, count, at);
    return syscall(SYS_pwritev, file, parts, count, (long)at, 0L);
}

ssize_t pwrite(int file, const void *bytes, size_t length, off_t at) {
    struct iovec part = { .iov_base = (void *)bytes, .iov_len = length };
    if (refused_file(file)) return -1;
    if (is_volatile(file)) return write_volatile(file, &part, 1, at);
    return syscall(SYS_pwrite64, file, bytes, length, at);
}

ssize_t write(int file, const void *bytes, size_t length) {
    if (refused_file(file)) return -1;
    return syscall(SYS_write, file, bytes, length);
}

ssize_t pwritev64(int file, const struct iovec *parts, int count, off64_t at) { return pwritev(file, parts, count, at); }
ssize_t pwrite64(int file, const void *bytes, size_t length, off64_t at) { return pwrite(file, bytes, length, at); }
int fdatasync(int file) { return is_volatile(file) ? sync_volatile(file) : (int)syscall(SYS_fdatasync, file); }
int fsync(int file) { return is_volatile(file) ? sync_volatile(file) : (int)syscall(SYS_fsync, file); }

/* Faults at the boundary to the operating system, for tests: LD_PRELOAD this library and map the same page as it does.

Calls that touch a path below `under` are counted, over all processes of a command; the ones from number `first` to
number `last` fail with `error`, or end the process group as kill -9 does. `ahead_ns` is added to the wall clock. */

#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

enum { WRITE = 1, CREATE = 2, SYNC = 4, RENAME = 8, REMOVE = 16, READ = 32, ALL = 6 };
enum { KILL = -9 };

struct page { /* as in faults.py */
    int64_t armed, count, first, last, error, kinds, half, ahead_ns;
    int64_t counts[ALL]; /* of each kind, also of those that never fail */
    char under[2048];
};

static struct page *page;

__attribute__((constructor)) static void map_page(void)
{
    const char *name = getenv("FAULTS_PAGE");
    int file = name ? open(name, O_RDWR | O_CLOEXEC) : -1;
    if (file < 0)
        return;
    void *found = mmap(NULL, sizeof(struct page), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    if (found != MAP_FAILED)
        page = found;
}

#define REAL(name) \
    static __typeof__(&name) real; \
    if (!real) \
        real = (__typeof__(&name))dlsym(RTLD_NEXT, #name)

/* The path that `path`, seen from folder `dir`, stands for; links are not followed. */
static int below(int dir, const char *path)
{
    char full[PATH_MAX * 2], link[64];
    ssize_t size = 0;
    if (!page || !page->armed || !path)
        return 0;
    if (path[0] != '/') {
        if (dir == AT_FDCWD) {
            if (!getcwd(full, PATH_MAX))
                return 0;
            size = (ssize_t)strlen(full);
        } else {
            snprintf(link, sizeof link, "/proc/self/fd/%d", dir);
            size = readlink(link, full, PATH_MAX - 1);
            if (size < 0)
                return 0;
        }
        full[size++] = '/';
    }
    snprintf(full + size, sizeof full - (size_t)size, "%s", path);
    size_t length = strlen(page->under);
    return strncmp(full, page->under, length) == 0 && (full[length] == '/' || full[length] == 0);
}

static int below_file(int file)
{
    char link[64], full[PATH_MAX];
    if (!page || !page->armed)
        return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    ssize_t size = readlink(link, full, sizeof full - 1);
    if (size < 0)
        return 0;
    full[size] = 0;
    return below(AT_FDCWD, full);
}

/* Counts a call; its number if it is to fail, else 0. */
static int64_t due(int kind)
{
    __atomic_add_fetch(&page->counts[__builtin_ctz(kind)], 1, __ATOMIC_SEQ_CST);
    if (!(page->kinds & kind))
        return 0;
    int64_t number = __atomic_add_fetch(&page->count, 1, __ATOMIC_SEQ_CST);
    return number < page->first || number > page->last ? 0 : number;
}

static void fail(void)
{
    if (page->error == KILL) {
        kill(0, SIGKILL);
        pause();
    }
    errno = (int)page->error;
}

static int fails(int kind)
{
    if (!due(kind))
        return 0;
    fail();
    return 1;
}

/* -- writing */

ssize_t write(int file, const void *data, size_t size)
{
    REAL(write);
    int64_t number = below_file(file) ? due(WRITE) : 0;
    if (!number)
        return real(file, data, size);
    ssize_t done = -1;
    if (page->half && number == page->first && size > 1)
        done = real(file, data, size / 2); /* as much as there was room for */
    if (page->error == KILL || done < 0)
        fail();
    return done;
}

ssize_t sendfile64(int to, int from, off64_t *at, size_t size);
ssize_t sendfile64(int to, int from, off64_t *at, size_t size)
{
    REAL(sendfile64);
    return below_file(to) && fails(WRITE) ? -1 : real(to, from, at, size);
}

ssize_t sendfile(int to, int from, off_t *at, size_t size);
ssize_t sendfile(int to, int from, off_t *at, size_t size)
{
    REAL(sendfile);
    return below_file(to) && fails(WRITE) ? -1 : real(to, from, at, size);
}

int fsync(int file)
{
    REAL(fsync);
    return below_file(file) && fails(SYNC) ? -1 : real(file);
}

/* -- opening */

#define OPEN(name) \
    int name(const char *path, int flags, ...) \
    { \
        REAL(name); \
        mode_t mode = 0; \
        if (flags & (O_CREAT | O_TMPFILE)) { \
            va_list rest; \
            va_start(rest, flags); \
            mode = va_arg(rest, mode_t); \
            va_end(rest); \
        } \
        int kind = (flags & O_ACCMODE) == O_RDONLY ? READ : CREATE; \
        return below(AT_FDCWD, path) && fails(kind) ? -1 : real(path, flags, mode); \
    }
OPEN(open)
OPEN(open64)

#define OPENAT(name) \
    int name(int dir, const char *path, int flags, ...) \
    { \
        REAL(name); \
        mode_t mode = 0; \
        if (flags & (O_CREAT | O_TMPFILE)) { \
            va_list rest; \
            va_start(rest, flags); \
            mode = va_arg(rest, mode_t); \
            va_end(rest); \
        } \
        int kind = (flags & O_ACCMODE) == O_RDONLY ? READ : CREATE; \
        return below(dir, path) && fails(kind) ? -1 : real(dir, path, flags, mode); \
    }
OPENAT(openat)
OPENAT(openat64)

DIR *opendir(const char *path)
{
    REAL(opendir);
    return below(AT_FDCWD, path) && fails(READ) ? NULL : real(path);
}

int mkdir(const char *path, mode_t mode)
{
    REAL(mkdir);
    return below(AT_FDCWD, path) && fails(CREATE) ? -1 : real(path, mode);
}

/* -- renaming and removing */

int rename(const char *from, const char *to)
{
    REAL(rename);
    return below(AT_FDCWD, to) && fails(RENAME) ? -1 : real(from, to);
}

int unlink(const char *path)
{
    REAL(unlink);
    return below(AT_FDCWD, path) && fails(REMOVE) ? -1 : real(path);
}

int unlinkat(int dir, const char *path, int flags)
{
    REAL(unlinkat);
    return below(dir, path) && fails(REMOVE) ? -1 : real(dir, path, flags);
}

int rmdir(const char *path)
{
    REAL(rmdir);
    return below(AT_FDCWD, path) && fails(REMOVE) ? -1 : real(path);
}

/* -- the clock on the wall */

int clock_gettime(clockid_t clock, struct timespec *now)
{
    REAL(clock_gettime);
    int result = real(clock, now);
    if (result == 0 && clock == CLOCK_REALTIME && page && page->ahead_ns) {
        int64_t ns = (int64_t)now->tv_sec * 1000000000 + now->tv_nsec + page->ahead_ns;
        now->tv_sec = ns / 1000000000;
        now->tv_nsec = ns % 1000000000;
    }
    return result;
}

time_t time(time_t *now)
{
    struct timespec found;
    clock_gettime(CLOCK_REALTIME, &found);
    if (now)
        *now = found.tv_sec;
    return found.tv_sec;
}

int gettimeofday(struct timeval *now, void *zone)
{
    struct timespec found;
    (void)zone;
    clock_gettime(CLOCK_REALTIME, &found);
    now->tv_sec = found.tv_sec;
    now->tv_usec = found.tv_nsec / 1000;
    return 0;
}

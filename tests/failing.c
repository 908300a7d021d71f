/* A library to preload: the system calls that change files below a folder are counted, and one of them fails.

   FAIL_BELOW: the folder. FAIL_AT: the number of the call, from 1. FAIL_WITH: its errno; 0: the process is killed
   before it. FAIL_ON: whether all later calls fail too. FAIL_COUNT: a file that gets one byte for each call.
   A forked process can set them for itself: they are read at each call. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

static int calls;

static int below(const char *path) {
    const char *folder = getenv("FAIL_BELOW");
    return folder && path && !strncmp(path, folder, strlen(folder));
}

static int fails(int watched) {
    if (!watched) return 0;
    int number = __atomic_add_fetch(&calls, 1, __ATOMIC_SEQ_CST);
    const char *at = getenv("FAIL_AT"), *with = getenv("FAIL_WITH"), *count = getenv("FAIL_COUNT");
    if (count) {
        ssize_t (*real)(int, const void *, size_t) = dlsym(RTLD_NEXT, "write");
        int (*opened)(const char *, int, ...) = dlsym(RTLD_NEXT, "open");
        int file = opened(count, O_WRONLY | O_APPEND | O_CREAT, 0600);
        real(file, "x", 1);
        close(file);
    }
    if (!at || number < atoi(at)) return 0;
    if (number > atoi(at) && !getenv("FAIL_ON")) return 0;
    if (!with || !atoi(with)) raise(SIGKILL);
    errno = atoi(with);
    return 1;
}

static int path_fails(const char *path) {
    char whole[2 * PATH_MAX];
    if (!path || path[0] == '/') return fails(below(path));
    if (!getcwd(whole, PATH_MAX)) return 0;
    strcat(whole, "/");
    strncat(whole, path, PATH_MAX - 2);
    return fails(below(whole));
}

static int file_fails(int file) {
    char link[64], path[PATH_MAX];
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length < 0) return 0;
    path[length] = 0;
    return fails(below(path));
}

#define ON_FILE(type, name, declared, passed) \
    type name declared { \
        type(*real) declared = dlsym(RTLD_NEXT, #name); \
        return file_fails(file) ? -1 : real passed; \
    }
#define ON_PATH(name, declared, passed) \
    int name declared { \
        int(*real) declared = dlsym(RTLD_NEXT, #name); \
        return path_fails(path) ? -1 : real passed; \
    }
#define OPENS(name, declared, passed) \
    int name declared { \
        int(*real) declared = dlsym(RTLD_NEXT, #name); \
        va_list rest; \
        va_start(rest, flags); \
        mode_t mode = flags & O_CREAT ? va_arg(rest, mode_t) : 0; \
        va_end(rest); \
        struct stat found; \
        int makes = flags & O_CREAT && stat(path, &found); \
        return (makes || flags & O_TRUNC) && path_fails(path) ? -1 : real passed; \
    }

ON_FILE(ssize_t, write, (int file, const void *data, size_t size), (file, data, size))
ON_FILE(ssize_t, pwrite, (int file, const void *data, size_t size, off_t at), (file, data, size, at))
ON_FILE(ssize_t, pwrite64, (int file, const void *data, size_t size, off64_t at), (file, data, size, at))
ON_FILE(ssize_t, writev, (int file, const struct iovec *data, int count), (file, data, count))
ON_FILE(int, ftruncate, (int file, off_t size), (file, size))
ON_FILE(int, ftruncate64, (int file, off64_t size), (file, size))
ON_FILE(int, fsync, (int file), (file))
ON_FILE(int, fdatasync, (int file), (file))
ON_PATH(mkdir, (const char *path, mode_t mode), (path, mode))
ON_PATH(rmdir, (const char *path), (path))
ON_PATH(unlink, (const char *path), (path))
ON_PATH(rename, (const char *path, const char *to), (path, to))
ON_PATH(symlink, (const char *target, const char *path), (target, path))
ON_PATH(link, (const char *path, const char *to), (path, to))
OPENS(open, (const char *path, int flags, ...), (path, flags, mode))
OPENS(open64, (const char *path, int flags, ...), (path, flags, mode))
OPENS(openat, (int folder, const char *path, int flags, ...), (folder, path, flags, mode))
OPENS(openat64, (int folder, const char *path, int flags, ...), (folder, path, flags, mode))

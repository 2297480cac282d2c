/* A slow disk, for LD_PRELOAD: what waits for the disk waits longer, and a new name takes its time. SLOW_DISK_MS, 20 by default.

   cc -shared -fPIC -o slow_disk.so slow_disk.c -ldl */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <time.h>

static void wait_for_the_disk(void) {
    const char *text = getenv("SLOW_DISK_MS");
    long ms = text ? atol(text) : 20;
    struct timespec pause = {ms / 1000, ms % 1000 * 1000000};
    nanosleep(&pause, NULL);
}

#define NEXT(type, name) ((type)dlsym(RTLD_NEXT, name))

int fsync(int file) {
    wait_for_the_disk();
    return NEXT(int (*)(int), "fsync")(file);
}

int fdatasync(int file) {
    wait_for_the_disk();
    return NEXT(int (*)(int), "fdatasync")(file);
}

int rename(const char *from, const char *to) {
    wait_for_the_disk();
    return NEXT(int (*)(const char *, const char *), "rename")(from, to);
}

int renameat(int a, const char *from, int b, const char *to) {
    wait_for_the_disk();
    return NEXT(int (*)(int, const char *, int, const char *), "renameat")(a, from, b, to);
}

/* Many streams and many operations of the CPU device: what they cost, and that memory stays flat.
 *
 *   cc -O2 -std=c11 -Iinclude benches/crowd.c -Ltarget/release -lllaisys_runtime -Wl,-rpath,$PWD/target/release -o target/crowd
 *   target/crowd [STREAMS] [OPERATIONS]
 *
 * Prints the objects of `llaisys-rt bench --json`, a line each, without a goal and without a peer. Ends with 1 when a call
 * fails, when memory grew by more than 64 MiB during the operations, or when there are more than 64 threads
 * beside one for each processor.
 *
 * Rule: memory is what the kernel counts as resident, before and after; threads are those of the process. */
#define _POSIX_C_SOURCE 200809L
#include "llaisys/backend.h"
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static const LlaisysBackendAPI *api;
static atomic_long calls;

static void check(int status, const char *what) {
    if (status != 0) {
        fprintf(stderr, "%s: status %d\n", what, status);
        exit(1);
    }
}

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

/* A number of /proc/self/status. */
static long kernel_says(const char *name) {
    char line[256];
    long value = -1;
    FILE *file = fopen("/proc/self/status", "r");
    while (file && fgets(line, sizeof line, file)) {
        if (strncmp(line, name, strlen(name)) == 0) {
            value = strtol(line + strlen(name) + 1, NULL, 10);
        }
    }
    if (file) {
        fclose(file);
    }
    return value;
}

static void row(const char *bench, const char *unit, double ours) {
    printf("{\"goal\":null,\"bench\":\"%s\",\"backend\":\"cpu\",\"device\":\"%ld processors\",\"unit\":\"%s\","
           "\"ours\":%.3f,\"peer\":null,\"theirs\":null,\"ratio\":null,\"p50\":%.3f,\"p99\":null,\"runs\":1}\n",
           bench, sysconf(_SC_NPROCESSORS_ONLN), unit, ours, ours);
    fflush(stdout);
}

static void count(void *data) {
    (void)data;
    atomic_fetch_add(&calls, 1);
}

/* Long enough that the caller fills the queue. */
static void a_while(void *data) {
    double end = now() + 1e8;
    (void)data;
    while (now() < end) {
    }
}

int main(int argc, char **argv) {
    long streams = argc > 1 ? atol(argv[1]) : 10000, operations = argc > 2 ? atol(argv[2]) : 10000000;
    api = llaisysGetBackendAPI(LLAISYS_DEVICE_CPU);
    llaisysStream_t *all = calloc((size_t)streams, sizeof *all);
    void *memory = NULL;
    if (!api || !all) {
        return 1;
    }
    check(api->malloc_device(api->self_, 0, 4096, &memory), "malloc_device");

    long before = kernel_says("VmRSS:");
    double start = now();
    for (long i = 0; i < streams; ++i) {
        check(api->create_stream(api->self_, 0, &all[i]), "create_stream");
    }
    double created = now() - start;
    row("live streams", "streams", (double)streams);
    row("creation of a stream", "ns", created / (double)streams);
    row("memory of an unused stream", "KiB", (double)(kernel_says("VmRSS:") - before) / (double)streams);
    for (long i = 0; i < streams; ++i) {
        check(api->launch_host_function(api->self_, 0, all[i], count, NULL), "launch_host_function");
    }
    check(api->device_synchronize(api->self_, 0), "device_synchronize");
    long threads = kernel_says("Threads:");
    row("memory of a stream that ran a host function", "KiB",
        (double)(kernel_says("VmRSS:") - before) / (double)streams);
    row("threads, with work on every stream", "threads", (double)threads);
    start = now();
    for (long i = 0; i < streams; ++i) {
        check(api->destroy_stream(api->self_, 0, all[i]), "destroy_stream");
    }
    row("destruction of a stream", "ns", (now() - start) / (double)streams);

    llaisysStream_t stream = NULL;
    check(api->create_stream(api->self_, 0, &stream), "create_stream");
    before = kernel_says("VmRSS:");
    long most = before;
    start = now();
    for (long i = 0; i < operations; ++i) {
        if (i % 1000000 == 0) {
            /* The queue is full again and again. */
            check(api->launch_host_function(api->self_, 0, stream, a_while, NULL), "launch_host_function");
            long resident = kernel_says("VmRSS:");
            most = resident > most ? resident : most;
        }
        check(api->memset_async(api->self_, 0, memory, "\x5a", 1, 4096, stream), "memset_async");
    }
    long after = kernel_says("VmRSS:");
    most = after > most ? after : most;
    double enqueued = now() - start;
    check(api->stream_synchronize(api->self_, 0, stream), "stream_synchronize");
    row("operations without a synchronize", "operations", (double)operations);
    row("such an operation, a fill of 4 KiB", "ns", enqueued / (double)operations);
    row("growth of memory meanwhile", "MiB", (double)(most - before) / 1024);
    row("memory of the process afterwards", "MiB", (double)kernel_says("VmRSS:") / 1024);
    int is_flat = most - before < 64 * 1024 && atomic_load(&calls) == streams;
    return is_flat && threads <= sysconf(_SC_NPROCESSORS_ONLN) + 64 ? 0 : 1;
}

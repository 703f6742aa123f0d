/* copy_two_streams: host to device, device to device and back, on two streams, checked and timed.
 *
 * An example of LLAISYS's twelve-function table, and a test of it: the program ends with 0 only
 * when every call worked and every byte arrived. The C++ twin is
 * tests/clients/cpp/copy_two_streams.cpp.
 *
 *     cc -std=c99 -Iinclude copy_two_streams.c -lllaisys_runtime -o copy_two_streams
 *     ./copy_two_streams --device nvidia --mib 256
 *
 * Half of the data goes through each stream. First all three legs are enqueued at once, so that the
 * order within a stream is what makes the data right; then each leg is timed by itself.
 */
#define _POSIX_C_SOURCE 200112L

#include "llaisys/runtime.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { STREAMS = 2, LEGS = 3 };

static const char *const LEG_NAMES[LEGS] = {"H2D", "D2D", "D2H"};

struct options {
    const char *device_name;
    llaisysDeviceType_t device_type;
    int ordinal;
    size_t bytes;
    int repeat;
    int json;
};

/* Two device buffers, and the source and the destination on the host. */
struct buffers {
    void *device[2];
    unsigned char *source;
    unsigned char *destination;
};

static const char USAGE[] =
    "usage: copy_two_streams [--device cpu|nvidia] [--ordinal N] [--mib N] [--repeat N] [--json]\n";

static int number(const char *text, long least, long most, long *value) {
    char *end;
    errno = 0;
    *value = strtol(text, &end, 10);
    return errno == 0 && end != text && *end == '\0' && *value >= least && *value <= most;
}

static int parse(int argc, char **argv, struct options *options) {
    const struct options defaults = {"cpu", LLAISYS_DEVICE_CPU, 0, (size_t)64 << 20, 5, 0};
    int i;
    *options = defaults;
    for (i = 1; i < argc; ++i) {
        const char *name = argv[i];
        const char *value = i + 1 < argc ? argv[i + 1] : "";
        long n = 0;
        if (strcmp(name, "--json") == 0) {
            options->json = 1;
            continue;
        }
        if (strcmp(name, "--device") == 0 && strcmp(value, "cpu") == 0) {
            options->device_name = "cpu";
            options->device_type = LLAISYS_DEVICE_CPU;
        } else if (strcmp(name, "--device") == 0 && strcmp(value, "nvidia") == 0) {
            options->device_name = "nvidia";
            options->device_type = LLAISYS_DEVICE_NVIDIA;
        } else if (strcmp(name, "--ordinal") == 0 && number(value, 0, 1023, &n)) {
            options->ordinal = (int)n;
        } else if (strcmp(name, "--mib") == 0 && number(value, 1, 1L << 20, &n)) {
            options->bytes = (size_t)n << 20;
        } else if (strcmp(name, "--repeat") == 0 && number(value, 1, 1000, &n)) {
            options->repeat = (int)n;
        } else {
            return 0;
        }
        ++i;
    }
    return 1;
}

/* Whether a call of this thread failed; says which one. */
static int failed(void) {
    char text[1024];
    if (llaisysCopyLastError(text, sizeof text, NULL) == LLAISYS_STATUS_SUCCESS) {
        return 0;
    }
    fprintf(stderr, "copy_two_streams: %s\n", text);
    return 1;
}

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

/* Fills the source with data that no other round has, and the destination with something else. */
static void prepare(const struct buffers *buffers, size_t bytes, unsigned round) {
    size_t i;
    uint64_t state = UINT64_C(0x9E3779B97F4A7C15) * (round + 1);
    for (i = 0; i < bytes; i += sizeof state) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        memcpy(buffers->source + i, &state, sizeof state);
    }
    memset(buffers->destination, 0xA5, bytes);
}

static void enqueue(const LlaisysRuntimeAPI *api, const struct buffers *buffers, int leg,
                    size_t bytes, llaisysStream_t *streams) {
    const size_t half = bytes / STREAMS;
    int i;
    for (i = 0; i < STREAMS; ++i) {
        const size_t offset = (size_t)i * half;
        char *a = (char *)buffers->device[0] + offset;
        char *b = (char *)buffers->device[1] + offset;
        switch (leg) {
        case 0:
            api->memcpy_async(a, buffers->source + offset, half, LLAISYS_MEMCPY_H2D, streams[i]);
            break;
        case 1:
            api->memcpy_async(b, a, half, LLAISYS_MEMCPY_D2D, streams[i]);
            break;
        default:
            api->memcpy_async(buffers->destination + offset, b, half, LLAISYS_MEMCPY_D2H,
                              streams[i]);
        }
    }
}

static void wait_for(const LlaisysRuntimeAPI *api, llaisysStream_t *streams) {
    int i;
    for (i = 0; i < STREAMS; ++i) {
        api->stream_synchronize(streams[i]);
    }
}

static int is_right(const struct buffers *buffers, size_t bytes) {
    return memcmp(buffers->source, buffers->destination, bytes) == 0;
}

static int by_value(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void report(const struct options *options, const char *memory, int leg, double seconds,
                   int right) {
    const double rate = (double)options->bytes / seconds / 1e9;
    if (options->json) {
        printf(
            "{\"client\":\"c\",\"backend\":\"%s\",\"device\":%d,\"leg\":\"%s\",\"memory\":\"%s\","
            "\"bytes\":%zu,\"seconds\":%.9f,\"gb_per_s\":%.3f,\"right\":%s}\n",
            options->device_name, options->ordinal, LEG_NAMES[leg], memory, options->bytes, seconds,
            rate, right ? "true" : "false");
    } else {
        printf("  %s  %-8s  %9.3f ms  %8.2f GB/s  %s\n", LEG_NAMES[leg], memory, seconds * 1e3,
               rate, right ? "right" : "WRONG");
    }
}

/* Copies and reports with one kind of host memory. Returns whether everything worked. */
static int run(const LlaisysRuntimeAPI *api, const struct options *options, const char *memory,
               const struct buffers *buffers, llaisysStream_t *streams) {
    double *seconds = malloc(sizeof *seconds * LEGS * (size_t)options->repeat);
    int right, round, leg;
    if (seconds == NULL) {
        fprintf(stderr, "copy_two_streams: out of memory\n");
        return 0;
    }
    prepare(buffers, options->bytes, 0);
    for (leg = 0; leg < LEGS; ++leg) {
        enqueue(api, buffers, leg, options->bytes, streams);
    }
    wait_for(api, streams);
    right = is_right(buffers, options->bytes);

    for (round = 0; round < options->repeat; ++round) {
        prepare(buffers, options->bytes, (unsigned)round + 1);
        for (leg = 0; leg < LEGS; ++leg) {
            const double start = now();
            enqueue(api, buffers, leg, options->bytes, streams);
            wait_for(api, streams);
            seconds[leg * options->repeat + round] = now() - start;
        }
        right = right && is_right(buffers, options->bytes);
    }
    if (failed()) {
        free(seconds);
        return 0;
    }
    for (leg = 0; leg < LEGS; ++leg) {
        double *of_leg = seconds + leg * options->repeat;
        qsort(of_leg, (size_t)options->repeat, sizeof *of_leg, by_value);
        report(options, memory, leg, of_leg[options->repeat / 2], right);
    }
    free(seconds);
    if (!right) {
        fprintf(stderr, "copy_two_streams: the data that came back is wrong (%s memory)\n", memory);
    }
    return right;
}

int main(int argc, char **argv) {
    struct options options;
    const LlaisysRuntimeAPI *api;
    struct buffers pinned, pageable;
    llaisysStream_t streams[STREAMS] = {NULL, NULL};
    int i, worked;

    if (!parse(argc, argv, &options)) {
        fputs(USAGE, stderr);
        return 2;
    }
    api = llaisysGetRuntimeAPI(options.device_type);
    api->set_device(options.ordinal);
    if (failed()) {
        return 1;
    }
    for (i = 0; i < STREAMS; ++i) {
        streams[i] = api->create_stream();
        pinned.device[i] = pageable.device[i] = api->malloc_device(options.bytes);
    }
    pinned.source = api->malloc_host(options.bytes);
    pinned.destination = api->malloc_host(options.bytes);
    pageable.source = malloc(options.bytes);
    pageable.destination = malloc(options.bytes);

    /* One look for all that was asked for above. */
    worked = !failed();
    if (worked && (pageable.source == NULL || pageable.destination == NULL)) {
        fprintf(stderr, "copy_two_streams: out of memory\n");
        worked = 0;
    }
    if (worked) {
        if (!options.json) {
            printf("%s device %d: %zu MiB on two streams, median of %d\n", options.device_name,
                   options.ordinal, options.bytes >> 20, options.repeat);
        }
        worked = run(api, &options, "pinned", &pinned, streams);
        worked = run(api, &options, "pageable", &pageable, streams) && worked;
    }

    /* NULL is fine everywhere here, so nothing must be told apart when something failed above. */
    for (i = 0; i < STREAMS; ++i) {
        api->free_device(pinned.device[i]);
        api->destroy_stream(streams[i]);
    }
    api->free_host(pinned.source);
    api->free_host(pinned.destination);
    free(pageable.source);
    free(pageable.destination);
    return worked && !failed() ? 0 : 1;
}

/* The CPU's streams of PoCL, measured as `llaisys-rt bench stream|copy --json` measures ours, and
 * printed as the same objects, without ours (`ours` and `ratio` are null).
 *
 *   apt-get install pocl-opencl-icd ocl-icd-opencl-dev
 *   cc -O2 -std=c11 benches/peers/pocl.c -lOpenCL -o /tmp/pocl
 *   POCL_DEVICES=basic /tmp/pocl    # its synchronous device
 *   POCL_DEVICES=pthread /tmp/pocl  # the one with threads
 *
 * Rule: all memory was written first; the median of the runs counts. */
#define CL_TARGET_OPENCL_VERSION 120
#define _POSIX_C_SOURCE 199309L
#include <CL/cl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { RUNS = 40, ROUNDS = 200, MANY = 2000 };

static cl_context context;
static cl_command_queue queues[2];
static cl_mem from, to;
static const size_t SIZE = (size_t)256 << 20;
static char device_name[128], version[128];

static void check(cl_int status, const char *what) {
    if (status != CL_SUCCESS) {
        fprintf(stderr, "%s: OpenCL status %d\n", what, status);
        exit(1);
    }
}

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

/* What `bench stream` enqueues: a fill of one byte, behind an event if there is one. */
static void fill(cl_command_queue queue, const cl_event *before, cl_event *event) {
    static const unsigned char byte = 0x5a;
    check(clEnqueueFillBuffer(queue, to, &byte, 1, 0, 1, before != NULL, before, event),
          "clEnqueueFillBuffer");
}

static void round_trip(void) {
    for (int i = 0; i < ROUNDS; ++i) {
        fill(queues[0], NULL, NULL);
        check(clFinish(queues[0]), "clFinish");
    }
}

static void pipelined(void) {
    for (int i = 0; i < MANY; ++i) {
        fill(queues[0], NULL, NULL);
    }
    check(clFinish(queues[0]), "clFinish");
}

static void hops(void) {
    cl_event before = NULL;
    for (int i = 0; i < MANY; ++i) {
        cl_event next;
        fill(queues[i % 2], before ? &before : NULL, &next);
        check(clFlush(queues[i % 2]), "clFlush");
        if (before) {
            clReleaseEvent(before);
        }
        before = next;
    }
    check(clFinish(queues[0]), "clFinish");
    check(clFinish(queues[1]), "clFinish");
    clReleaseEvent(before);
}

static void copy(void) {
    check(clEnqueueCopyBuffer(queues[0], from, to, 0, 0, SIZE, 0, NULL, NULL), "clEnqueueCopyBuffer");
    check(clFinish(queues[0]), "clFinish");
}

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* `bytes` is 0 for a time in nanoseconds, otherwise what a call moves. */
static void measure(const char *goal, const char *bench, void (*run)(void), int calls, double bytes) {
    double times[RUNS];
    fprintf(stderr, "%s: %s\n", goal, bench);
    run();
    for (int i = 0; i < RUNS; ++i) {
        double start = now();
        run();
        times[i] = (now() - start) / calls;
    }
    qsort(times, RUNS, sizeof times[0], ascending);
    double middle = times[RUNS / 2], late = times[RUNS - 1];
    printf("{\"goal\":\"%s\",\"bench\":\"%s\",\"backend\":\"pocl\",\"device\":\"%s\",\"unit\":\"%s\","
           "\"ours\":null,\"peer\":\"%s\",\"theirs\":%.2f,\"ratio\":null,\"p50\":%.2f,\"p99\":%.2f,"
           "\"runs\":%d}\n",
           goal, bench, device_name, bytes > 0 ? "GB/s" : "ns", version,
           bytes > 0 ? bytes / middle : middle, bytes > 0 ? bytes / middle : middle,
           bytes > 0 ? bytes / late : late, RUNS);
    fflush(stdout);
}

int main(void) {
    cl_platform_id platform;
    cl_device_id device;
    cl_int status;
    check(clGetPlatformIDs(1, &platform, NULL), "clGetPlatformIDs");
    check(clGetDeviceIDs(platform, CL_DEVICE_TYPE_CPU, 1, &device, NULL), "clGetDeviceIDs");
    clGetDeviceInfo(device, CL_DEVICE_NAME, sizeof device_name, device_name, NULL);
    clGetDeviceInfo(device, CL_DEVICE_VERSION, sizeof version, version, NULL);
    context = clCreateContext(NULL, 1, &device, NULL, NULL, &status);
    check(status, "clCreateContext");
    for (int i = 0; i < 2; ++i) {
        queues[i] = clCreateCommandQueue(context, device, 0, &status);
        check(status, "clCreateCommandQueue");
    }
    from = clCreateBuffer(context, CL_MEM_READ_WRITE, SIZE, NULL, &status);
    check(status, "clCreateBuffer");
    to = clCreateBuffer(context, CL_MEM_READ_WRITE, SIZE, NULL, &status);
    check(status, "clCreateBuffer");
    unsigned char byte = 1;
    check(clEnqueueFillBuffer(queues[0], from, &byte, 1, 0, SIZE, 0, NULL, NULL), "clEnqueueFillBuffer");
    check(clEnqueueFillBuffer(queues[0], to, &byte, 1, 0, SIZE, 0, NULL, NULL), "clEnqueueFillBuffer");
    measure("G12", "fill of 1 byte + finish", round_trip, ROUNDS, 0);
    measure("G13", "fill of 1 byte, pipelined", pipelined, MANY, 0);
    measure("G14", "hop: fill of 1 byte behind the other queue's event", hops, MANY, 0);
    measure("G15", "copy of 256 MiB", copy, 1, (double)SIZE);
    return 0;
}

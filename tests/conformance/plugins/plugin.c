/* A backend in C over host memory, synchronous, for cases about plugins.
 *
 * It is right as it stands. Each macro below makes it wrong, or different, in one way; the cases pass
 * them with -D. Sizes with a meaning (see malloc_device) make it fail on demand. It is compiled with
 * -fvisibility=hidden.
 */
#include <llaisys/backend.h>

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifndef NAME
#define NAME "plain"
#endif
#ifndef DEVICE_TYPE
#define DEVICE_TYPE LLAISYS_DEVICE_TYPE_UNASSIGNED
#endif
#ifndef DEVICES
#define DEVICES 2
#endif
#ifndef MAGIC
#define MAGIC LLAISYS_DESCRIPTOR_MAGIC
#endif
#ifndef MAJOR
#define MAJOR LLAISYS_ABI_MAJOR
#endif
#ifndef TABLE_MAJOR
#define TABLE_MAJOR MAJOR
#endif
#ifndef MINOR
#define MINOR LLAISYS_ABI_MINOR
#endif
#ifndef OLDEST_HOST_MINOR
#define OLDEST_HOST_MINOR 0
#endif
#ifndef DESCRIPTOR_SIZE
#define DESCRIPTOR_SIZE sizeof(struct long_descriptor)
#endif
#ifndef TABLE_SIZE
#define TABLE_SIZE sizeof(struct long_table)
#endif
#ifndef TABLE
#define TABLE &table.known
#endif
#ifndef CAPABILITIES
#define CAPABILITIES                                                                           \
    (LLAISYS_CAPABILITY_DEVICE_MEMORY_IS_HOST_MEMORY | LLAISYS_CAPABILITY_DEVICE_INFORMATION |      \
     LLAISYS_CAPABILITY_STREAM_QUERY | LLAISYS_CAPABILITY_HOST_FUNCTIONS)
#endif
#ifndef SANITIZER
#define SANITIZER 0
#endif
#ifndef TARGET
#define TARGET ""
#endif
#ifndef DESCRIPTOR_NAME
#define DESCRIPTOR_NAME NAME
#endif
#ifndef HELPER
#define HELPER 1
#endif
#ifndef QUERY
#define QUERY llaisysBackendQuery
#endif
#ifndef ANSWER
#define ANSWER &descriptor.known
#endif
/* What every operation does first. */
#ifndef ENTER
#define ENTER(device)                                                                          \
    if ((device) == lost) abort()
#endif

#ifdef CONSTRUCTOR /* what runs before anybody can look at the descriptor */
#include <sys/stat.h>
#include <unistd.h>
__attribute__((constructor)) static void construct(void) {
    CONSTRUCTOR;
}
#endif

#ifdef EXPORTED /* one symbol too many */
__attribute__((visibility("default"))) int EXPORTED(void);
int EXPORTED(void) {
    return 0;
}
#endif

#ifdef UNDEFINED /* a symbol that nobody has */
int UNDEFINED(void);
int use(void);
int use(void) {
    return UNDEFINED();
}
#endif

/* Names that another plugin has too. */
int helper_state = HELPER;
int helper(void);
int helper(void) {
    return helper_state;
}

static int lost = -1;

static _Thread_local struct {
    int32_t status;
    int64_t native;
    char message[2000];
} failure;

static int32_t fail(int32_t status, const char *format, ...) {
    va_list arguments;
    failure.status = status;
    failure.native = 4242;
    va_start(arguments, format);
    vsnprintf(failure.message, sizeof failure.message, format, arguments);
    va_end(arguments);
    return status;
}

static int32_t get_last_error(void *self, int64_t *code, char *name, uint64_t name_capacity,
                              char *message, uint64_t capacity) {
    int32_t status = failure.status;
    (void)self;
    if (status == 0) {
        return 0;
    }
    *code = failure.native;
    snprintf(name, name_capacity, "FAKE_NATIVE");
    snprintf(message, capacity, "%s", failure.message);
    failure.status = 0;
    return status;
}

static int32_t get_device_count(void *self, int32_t *count) {
    (void)self;
    ENTER(-2);
#ifdef COUNT_STATUS
    return fail(COUNT_STATUS, "no device, on purpose");
#endif
    *count = DEVICES;
    return 0;
}

static int32_t set_device(void *self, int32_t device) {
    (void)self;
    ENTER(device);
    return 0;
}

static int32_t device_synchronize(void *self, int32_t device) {
    (void)self;
    ENTER(device);
    return 0;
}

static int32_t create_stream(void *self, int32_t device, llaisysStream_t *stream) {
    (void)self;
    ENTER(device);
#ifdef NULL_STREAMS
    *stream = NULL;
    return 0;
#endif
    *stream = malloc(16);
    return 0;
}

static int32_t destroy_stream(void *self, int32_t device, llaisysStream_t stream) {
    (void)self;
    ENTER(device);
    free(stream);
    return 0;
}

static int32_t stream_synchronize(void *self, int32_t device, llaisysStream_t stream) {
    (void)self;
    (void)stream;
    ENTER(device);
    return 0;
}

static int32_t malloc_device(void *self, int32_t device, uint64_t size, void **pointer) {
    (void)self;
    ENTER(device);
    if (size > 1000 && size < 1100) { /* 1000 + status */
        if (size == 1000 + LLAISYS_STATUS_DEVICE_LOST) {
            lost = device;
        }
        return fail((int32_t)size - 1000, "asked for %d on device %d", (int)size, (int)device);
    }
    if (size == 2000) { /* success, and no pointer */
        return 0;
    }
    if (size == 2001) { /* a number that is no status */
        return 9999;
    }
    if (size == 2002) { /* success, with a failure of somebody else's left unread */
        fail(LLAISYS_STATUS_DRIVER_ERROR, "not of this call");
    }
    if (size == 2003) { /* a text longer than any buffer */
        memset(failure.message, 'x', sizeof failure.message - 1);
        failure.status = LLAISYS_STATUS_INTERNAL;
        return failure.status;
    }
    if (size == 2004) { /* a status, and no text */
        return LLAISYS_STATUS_OUT_OF_MEMORY;
    }
    if (size == 2005) { /* a negative number */
        return -5;
    }
    *pointer = aligned_alloc(256, (size + 255) / 256 * 256);
    return *pointer == NULL ? fail(LLAISYS_STATUS_OUT_OF_MEMORY, "no memory") : 0;
}

static int32_t free_device(void *self, int32_t device, void *pointer) {
    (void)self;
    ENTER(device);
    free(pointer);
    return 0;
}

static int32_t memcpy_async(void *self, int32_t device, void *dst, const void *src, uint64_t size,
                            uint32_t kind, llaisysStream_t stream, uint32_t flags) {
    (void)self;
    ENTER(device);
    if (size == 777) { /* says what it got */
        return fail(LLAISYS_STATUS_INVALID_VALUE,
                    "device=%d dst=%llu src=%llu size=%llu kind=%u stream=%llu flags=%u", (int)device,
                    (unsigned long long)(uintptr_t)dst, (unsigned long long)(uintptr_t)src,
                    (unsigned long long)size, (unsigned)kind, (unsigned long long)(uintptr_t)stream,
                    (unsigned)flags);
    }
    memmove(dst, src, size);
    return 0;
}

static int32_t memcpy_sync(void *self, int32_t device, void *dst, const void *src, uint64_t size,
                           uint32_t kind, uint32_t flags) {
    return memcpy_async(self, device, dst, src, size, kind, NULL, flags);
}

static int32_t get_device_properties(void *self, int32_t device,
                                     LlaisysDeviceProperties *properties) {
    LlaisysDeviceProperties value = {0};
    uint32_t size = properties->struct_size;
    (void)self;
    ENTER(device);
    value.struct_size = size;
    value.processor_count = (uint32_t)helper();
    value.total_memory = 1 << 30;
    snprintf(value.name, sizeof value.name, "%s %d", NAME, (int)device);
    memcpy(properties, &value, size < sizeof value ? size : sizeof value);
    return 0;
}

static int32_t get_memory_info(void *self, int32_t device, LlaisysMemoryInfo *info) {
    (void)self;
    ENTER(device);
    info->free = info->total = 1 << 30;
    return 0;
}

static int32_t stream_query(void *self, int32_t device, llaisysStream_t stream, int32_t *ready) {
    (void)self;
    (void)stream;
    ENTER(device);
#ifdef READY
    *ready = READY;
#else
    *ready = 1;
#endif
    return 0;
}

static int32_t launch_host_function(void *self, int32_t device, llaisysStream_t stream,
                                    LlaisysHostFunction function, void *data) {
    (void)self;
    (void)stream;
    ENTER(device);
    function(data);
    return 0;
}

/* Each entry can be taken out with -DENTRY_name=NULL. */
#ifndef ENTRY_get_last_error
#define ENTRY_get_last_error get_last_error
#endif
#ifndef ENTRY_memcpy_sync
#define ENTRY_memcpy_sync memcpy_sync
#endif
#ifndef ENTRY_get_device_properties
#define ENTRY_get_device_properties get_device_properties
#endif
#ifndef ENTRY_stream_query
#define ENTRY_stream_query stream_query
#endif
#ifndef ENTRY_launch_host_function
#define ENTRY_launch_host_function launch_host_function
#endif

/* Longer than any host knows: what follows the known part must never be called. */
struct long_table {
    LlaisysBackendAPI known;
    void (*future[8])(void);
};

static const struct long_table table = {
    .known = {
        .struct_size = TABLE_SIZE,
        .abi_major = TABLE_MAJOR,
        .abi_minor = MINOR,
        .self_ = (void *)&lost,
        .get_last_error = ENTRY_get_last_error,
        .get_device_count = get_device_count,
        .set_device = set_device,
        .device_synchronize = device_synchronize,
        .create_stream = create_stream,
        .destroy_stream = destroy_stream,
        .stream_synchronize = stream_synchronize,
        .malloc_device = malloc_device,
        .free_device = free_device,
        .malloc_host = malloc_device,
        .free_host = free_device,
        .memcpy_sync = ENTRY_memcpy_sync,
        .memcpy_async = memcpy_async,
        .get_device_properties = ENTRY_get_device_properties,
        .get_memory_info = get_memory_info,
        .stream_query = ENTRY_stream_query,
        .launch_host_function = ENTRY_launch_host_function,
    },
    .future = {abort, abort, abort, abort, abort, abort, abort, abort},
};

struct long_descriptor {
    LlaisysBackendDescriptor known;
    uint64_t future[4];
};

/* No NUL within any length that a name may have. */
#define N16 'n','n','n','n','n','n','n','n','n','n','n','n','n','n','n','n'
static const char unended[64] __attribute__((unused)) = {N16, N16, N16, N16};

static const struct long_descriptor descriptor = {
    .known = {
        .magic = MAGIC,
        .struct_size = DESCRIPTOR_SIZE,
        .abi_major = MAJOR,
        .abi_minor = MINOR,
        .oldest_host_minor = OLDEST_HOST_MINOR,
        .device_type = DEVICE_TYPE,
        .sanitizer = SANITIZER,
        .capabilities = CAPABILITIES,
        .name = DESCRIPTOR_NAME,
        .vendor = "nobody",
        .version = "1.2.3",
        .target = TARGET,
        .api = TABLE,
    },
    .future = {~(uint64_t)0, ~(uint64_t)0, ~(uint64_t)0, ~(uint64_t)0},
};

/* For ANSWER: a descriptor on the heap, a pointer into the middle, another one at the second question. */
static inline const LlaisysBackendDescriptor *on_the_heap(void) {
    static struct long_descriptor *copy;
    if (copy == NULL) {
        copy = malloc(sizeof descriptor);
        memcpy(copy, &descriptor, sizeof descriptor);
    }
    return &copy->known;
}
static inline const LlaisysBackendDescriptor *in_the_middle(void) {
    return (const LlaisysBackendDescriptor *)(const void *)((const char *)&descriptor + 4);
}
static inline const LlaisysBackendDescriptor *another_each_time(void) {
    static struct long_descriptor copies[2];
    static int questions;
    copies[0] = copies[1] = descriptor;
    return &copies[questions++ % 2].known;
}

const LlaisysBackendDescriptor *QUERY(uint32_t major, uint32_t minor);
const LlaisysBackendDescriptor *QUERY(uint32_t major, uint32_t minor) {
    (void)major;
    (void)minor;
    (void)table;
    (void)descriptor;
    return ANSWER;
}

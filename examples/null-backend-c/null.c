/* The smallest backend that passes the conformance suite, in C: copy it and replace its parts.
 *
 * It has one device, whose memory is 512 MiB of the host's; every operation is done in the calling thread
 * before it returns, so a stream has nothing to remember. With NULL_BACKEND_DEVICES=0 it has none and says
 * why. docs/adding-a-backend.md goes on from here.
 *
 * Who checks what: the runtime has looked at every argument before it calls (see "Plugins" at the end of
 * llaisys/backend.h). What only the driver can know is checked here.
 */
#include <llaisys/backend.h>

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MEMORY ((uint64_t)512 << 20)
#define ALIGNMENT 256 /* device memory needs 256, pinned memory 64 */

/* A bit for each group of entries that is filled in below. The loader refuses a bit whose entries are not
 * there. The first one is gone with the first line that puts memory somewhere else. */
#define CAPABILITIES                                                                               \
    (LLAISYS_CAPABILITY_DEVICE_MEMORY_IS_HOST_MEMORY | LLAISYS_CAPABILITY_DEVICE_INFORMATION |     \
     LLAISYS_CAPABILITY_STREAM_QUERY)

/* ---- Errors: kept for the thread until the runtime asks, which it does after each failure ---------- */

static _Thread_local struct {
    int32_t status;
    char message[256];
} failure;

static int32_t fail(int32_t status, const char *format, ...) {
    va_list arguments;
    failure.status = status;
    va_start(arguments, format);
    vsnprintf(failure.message, sizeof failure.message, format, arguments);
    va_end(arguments);
    return status;
}

/* Where a driver has a number and a name for what went wrong, they go to the first two. */
static int32_t get_last_error(void *self, int64_t *native_code, char *native_name, uint64_t name_capacity,
                              char *message, uint64_t message_capacity) {
    int32_t status = failure.status;
    (void)self;
    *native_code = 0;
    snprintf(native_name, name_capacity, "%s", "");
    snprintf(message, message_capacity, "%s", status == 0 ? "" : failure.message);
    failure.status = 0;
    return status;
}

/* ---- Devices ---------------------------------------------------------------------------------------- */

/* Touches no device. No device is success, or a failure that says what a user can do about it. */
static int32_t get_device_count(void *self, int32_t *count) {
    const char *wanted = getenv("NULL_BACKEND_DEVICES");
    (void)self;
    if (wanted != NULL && strcmp(wanted, "0") == 0) {
        return fail(LLAISYS_STATUS_DRIVER_UNAVAILABLE, "NULL_BACKEND_DEVICES is 0; unset it to have one");
    }
    *count = 1;
    return LLAISYS_STATUS_SUCCESS;
}

/* What the thread's native state is for: kernels that a user launches without this runtime. */
static int32_t set_device(void *self, int32_t device) {
    (void)self, (void)device;
    return LLAISYS_STATUS_SUCCESS;
}

static int32_t device_synchronize(void *self, int32_t device) {
    (void)self, (void)device;
    return LLAISYS_STATUS_SUCCESS;
}

/* ---- Streams ---------------------------------------------------------------------------------------- */

static int32_t create_stream(void *self, int32_t device, llaisysStream_t *stream) {
    void *made = malloc(1); /* an address of its own is all that it needs */
    (void)self, (void)device;
    if (made == NULL) {
        return fail(LLAISYS_STATUS_OUT_OF_MEMORY, "no memory for another stream");
    }
    *stream = made;
    return LLAISYS_STATUS_SUCCESS;
}

/* Returns at once; what was enqueued completes. Here nothing is left to complete. */
static int32_t destroy_stream(void *self, int32_t device, llaisysStream_t stream) {
    (void)self, (void)device;
    free(stream);
    return LLAISYS_STATUS_SUCCESS;
}

/* NULL is the default stream of the device, here and everywhere. */
static int32_t stream_synchronize(void *self, int32_t device, llaisysStream_t stream) {
    (void)self, (void)device, (void)stream;
    return LLAISYS_STATUS_SUCCESS;
}

static int32_t stream_query(void *self, int32_t device, llaisysStream_t stream, int32_t *ready) {
    (void)self, (void)device, (void)stream;
    *ready = 1;
    return LLAISYS_STATUS_SUCCESS;
}

/* ---- Memory ----------------------------------------------------------------------------------------- */

static _Atomic uint64_t used;

/* In front of each block, so that a free knows how much comes back. */
struct head {
    uint64_t size;
};

static int32_t malloc_device(void *self, int32_t device, uint64_t size, void **pointer) {
    (void)self, (void)device;
    /* In this order no sum can wrap, however large the request is. */
    if (size > MEMORY || atomic_fetch_add(&used, size) > MEMORY - size) {
        if (size <= MEMORY) {
            atomic_fetch_sub(&used, size);
        }
        return fail(LLAISYS_STATUS_OUT_OF_MEMORY, "%llu bytes were asked for; %llu of %llu are in use",
                    (unsigned long long)size, (unsigned long long)used, (unsigned long long)MEMORY);
    }
    char *block = aligned_alloc(ALIGNMENT, ALIGNMENT + (size + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT);
    if (block == NULL) {
        atomic_fetch_sub(&used, size);
        return fail(LLAISYS_STATUS_OUT_OF_MEMORY, "the host has no %llu bytes", (unsigned long long)size);
    }
    ((struct head *)block)->size = size;
    *pointer = block + ALIGNMENT; /* outputs are written on success only */
    return LLAISYS_STATUS_SUCCESS;
}

/* Does not wait. A device that still works on the block keeps it until it has done. */
static int32_t free_device(void *self, int32_t device, void *pointer) {
    char *block = (char *)pointer - ALIGNMENT;
    (void)self, (void)device;
    atomic_fetch_sub(&used, ((struct head *)block)->size);
    free(block);
    return LLAISYS_STATUS_SUCCESS;
}

static int32_t malloc_host(void *self, int32_t device, uint64_t size, void **pointer) {
    void *block = size > SIZE_MAX - ALIGNMENT
                      ? NULL
                      : aligned_alloc(ALIGNMENT, (size + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT);
    (void)self, (void)device;
    if (block == NULL) {
        return fail(LLAISYS_STATUS_OUT_OF_MEMORY, "the host has no %llu bytes", (unsigned long long)size);
    }
    *pointer = block;
    return LLAISYS_STATUS_SUCCESS;
}

static int32_t free_host(void *self, int32_t device, void *pointer) {
    (void)self, (void)device;
    free(pointer);
    return LLAISYS_STATUS_SUCCESS;
}

/* ---- Copies ----------------------------------------------------------------------------------------- */

/* `kind` says which side is the device's; the flags say which side is pageable host memory. */
static int32_t memcpy_sync(void *self, int32_t device, void *dst, const void *src, uint64_t size,
                           uint32_t kind, uint32_t flags) {
    (void)self, (void)device, (void)kind, (void)flags;
    memcpy(dst, src, size);
    return LLAISYS_STATUS_SUCCESS;
}

static int32_t memcpy_async(void *self, int32_t device, void *dst, const void *src, uint64_t size,
                            uint32_t kind, llaisysStream_t stream, uint32_t flags) {
    (void)stream;
    return memcpy_sync(self, device, dst, src, size, kind, flags);
}

/* ---- What a device is --------------------------------------------------------------------------------- */

/* The caller may be older or newer than this file: no more is written than it has room for. */
static void write_up_to(uint32_t room, void *to, const void *from, size_t size) {
    memcpy(to, from, room < size ? room : size);
}

static int32_t get_device_properties(void *self, int32_t device, LlaisysDeviceProperties *properties) {
    LlaisysDeviceProperties value = {.struct_size = properties->struct_size,
                                     .processor_count = 1,
                                     .total_memory = MEMORY,
                                     .name = "null device",
                                     .vendor = "nobody",
                                     .integrated = 1,
                                     .capabilities = CAPABILITIES};
    (void)self, (void)device;
    write_up_to(value.struct_size, properties, &value, sizeof value);
    return LLAISYS_STATUS_SUCCESS;
}

static int32_t get_memory_info(void *self, int32_t device, LlaisysMemoryInfo *info) {
    LlaisysMemoryInfo value = {.struct_size = info->struct_size, .free = MEMORY - used, .total = MEMORY};
    (void)self, (void)device;
    write_up_to(value.struct_size, info, &value, sizeof value);
    return LLAISYS_STATUS_SUCCESS;
}

/* ---- What the loader reads ---------------------------------------------------------------------------- */

/* Entries that are not named are NULL: not there. */
static const LlaisysBackendAPI API = {
    .struct_size = sizeof(LlaisysBackendAPI),
    .abi_major = LLAISYS_ABI_MAJOR,
    .abi_minor = LLAISYS_ABI_MINOR,
    .self_ = NULL, /* comes back as the first argument of every entry */
    .get_last_error = get_last_error,
    .get_device_count = get_device_count,
    .set_device = set_device,
    .device_synchronize = device_synchronize,
    .create_stream = create_stream,
    .destroy_stream = destroy_stream,
    .stream_synchronize = stream_synchronize,
    .malloc_device = malloc_device,
    .free_device = free_device,
    .malloc_host = malloc_host,
    .free_host = free_host,
    .memcpy_sync = memcpy_sync,
    .memcpy_async = memcpy_async,
    .get_device_properties = get_device_properties,
    .get_memory_info = get_memory_info,
    .stream_query = stream_query,
};

static const LlaisysBackendDescriptor DESCRIPTOR = {
    .magic = LLAISYS_DESCRIPTOR_MAGIC,
    .struct_size = sizeof(LlaisysBackendDescriptor),
    .abi_major = LLAISYS_ABI_MAJOR,
    .abi_minor = LLAISYS_ABI_MINOR,
    .oldest_host_minor = 0,
    .device_type = LLAISYS_DEVICE_TYPE_UNASSIGNED, /* or a vendor's reserved number */
    .sanitizer = LLAISYS_SANITIZER,
    .capabilities = CAPABILITIES,
    .name = "null",
    .vendor = "nobody",
    .version = "1.0.0",
    .target = LLAISYS_TARGET,
    .api = &API,
};

/* Pure: touches nothing, may be called again, and answers the same. */
const LlaisysBackendDescriptor *llaisysBackendQuery(uint32_t host_abi_major, uint32_t host_abi_minor) {
    (void)host_abi_minor;
    return host_abi_major == LLAISYS_ABI_MAJOR ? &DESCRIPTOR : NULL;
}

/* A backend as its author begins it: nothing but the header, each entry with the type that the
 * header gives it. It has no device. */
#include "llaisys/backend.h"

#include <string.h>

static int32_t none(void) {
    return LLAISYS_STATUS_INVALID_DEVICE;
}

static int32_t get_last_error(void *self, int64_t *native_code, char *native_name,
                              uint64_t name_capacity, char *message, uint64_t message_capacity) {
    static const char TEXT[] = "this backend has no device";
    (void)self;
    *native_code = 0;
    if (name_capacity > 0) {
        native_name[0] = '\0';
    }
    if (message_capacity >= sizeof TEXT) {
        memcpy(message, TEXT, sizeof TEXT);
    }
    return LLAISYS_STATUS_INVALID_DEVICE;
}
static int32_t get_device_count(void *self, int32_t *count) {
    (void)self;
    *count = 0;
    return LLAISYS_STATUS_SUCCESS;
}
static int32_t on_device(void *self, int32_t device) {
    (void)self, (void)device;
    return none();
}
static int32_t create_stream(void *self, int32_t device, llaisysStream_t *stream) {
    (void)self, (void)device, (void)stream;
    return none();
}
static int32_t on_stream(void *self, int32_t device, llaisysStream_t stream) {
    (void)self, (void)device, (void)stream;
    return none();
}
static int32_t allocate(void *self, int32_t device, uint64_t size, void **pointer) {
    (void)self, (void)device, (void)size, (void)pointer;
    return none();
}
static int32_t release(void *self, int32_t device, void *pointer) {
    (void)self, (void)device, (void)pointer;
    return none();
}
static int32_t memcpy_sync(void *self, int32_t device, void *dst, const void *src, uint64_t size,
                           uint32_t kind, uint32_t flags) {
    (void)self, (void)device, (void)dst, (void)src, (void)size, (void)kind, (void)flags;
    return none();
}
static int32_t memcpy_async(void *self, int32_t device, void *dst, const void *src, uint64_t size,
                            uint32_t kind, llaisysStream_t stream, uint32_t flags) {
    (void)stream;
    return memcpy_sync(self, device, dst, src, size, kind, flags);
}

static const LlaisysBackendAPI API = {
    /* The rest of the table is not there: the table ends before the first entry that is missing. */
    .struct_size = offsetof(LlaisysBackendAPI, get_device_properties),
    .abi_major = LLAISYS_ABI_MAJOR,
    .abi_minor = LLAISYS_ABI_MINOR,
    .self_ = NULL,
    .get_last_error = get_last_error,
    .get_device_count = get_device_count,
    .set_device = on_device,
    .device_synchronize = on_device,
    .create_stream = create_stream,
    .destroy_stream = on_stream,
    .stream_synchronize = on_stream,
    .malloc_device = allocate,
    .free_device = release,
    .malloc_host = allocate,
    .free_host = release,
    .memcpy_sync = memcpy_sync,
    .memcpy_async = memcpy_async,
};

static const LlaisysBackendDescriptor DESCRIPTOR = {
    .magic = LLAISYS_DESCRIPTOR_MAGIC,
    .struct_size = sizeof(LlaisysBackendDescriptor),
    .abi_major = LLAISYS_ABI_MAJOR,
    .abi_minor = LLAISYS_ABI_MINOR,
    .oldest_host_minor = 0,
    .device_type = LLAISYS_DEVICE_TYPE_UNASSIGNED,
    .sanitizer = LLAISYS_SANITIZER,
    .capabilities = LLAISYS_CAPABILITY_NONE,
    .name = "nothing",
    .vendor = "nobody",
    .version = "1.0",
    .target = LLAISYS_TARGET,
    .api = &API,
};

const LlaisysBackendDescriptor *llaisysBackendQuery(uint32_t host_abi_major,
                                                    uint32_t host_abi_minor) {
    (void)host_abi_minor;
    return host_abi_major == LLAISYS_ABI_MAJOR ? &DESCRIPTOR : NULL;
}

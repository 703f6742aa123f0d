// A backend in C++ as its author begins it: the standard library and exceptions behind the entries, none of
// which lets one out. It has no device, and says why.
#include "llaisys/backend.h"

#include <cstdio>
#include <map>
#include <new>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

thread_local std::string reason;

// What every entry does with what its body throws.
template <class Body> int32_t guarded(Body body) noexcept {
    try {
        body();
        return LLAISYS_STATUS_SUCCESS;
    } catch (const std::bad_alloc &) {
        return LLAISYS_STATUS_OUT_OF_MEMORY;
    } catch (const std::exception &error) {
        try {
            reason = error.what();
        } catch (...) { // the text is lost, the status is not
        }
        return LLAISYS_STATUS_DRIVER_UNAVAILABLE;
    }
}

std::map<std::string, std::vector<int>> found() {
    std::map<std::string, std::vector<int>> devices;
    devices["none"].push_back(0);
    devices.erase("none");
    return devices;
}

int32_t get_last_error(void *, int64_t *code, char *name, uint64_t name_room, char *message, uint64_t room) {
    *code = 0;
    std::snprintf(name, name_room, "%s", "");
    std::snprintf(message, room, "%s", reason.c_str());
    return LLAISYS_STATUS_DRIVER_UNAVAILABLE;
}

int32_t get_device_count(void *, int32_t *count) {
    return guarded([&] {
        auto devices = found();
        if (devices.empty()) {
            throw std::runtime_error("thrown in C++ and caught there");
        }
        *count = static_cast<int32_t>(devices.size());
    });
}

template <class... Arguments> int32_t none(void *, Arguments...) {
    return LLAISYS_STATUS_INVALID_DEVICE;
}

LlaisysBackendAPI table() {
    LlaisysBackendAPI api = {};
    api.struct_size = offsetof(LlaisysBackendAPI, get_device_properties);
    api.abi_major = LLAISYS_ABI_MAJOR;
    api.abi_minor = LLAISYS_ABI_MINOR;
    api.get_last_error = get_last_error;
    api.get_device_count = get_device_count;
    api.set_device = none;
    api.device_synchronize = none;
    api.create_stream = none;
    api.destroy_stream = none;
    api.stream_synchronize = none;
    api.malloc_device = none;
    api.free_device = none;
    api.malloc_host = none;
    api.free_host = none;
    api.memcpy_sync = none;
    api.memcpy_async = none;
    return api;
}

} // namespace

const LlaisysBackendDescriptor *llaisysBackendQuery(uint32_t host_abi_major, uint32_t) {
    static const LlaisysBackendAPI API = table();
    static const LlaisysBackendDescriptor DESCRIPTOR = [] {
        LlaisysBackendDescriptor descriptor = {};
        descriptor.magic = LLAISYS_DESCRIPTOR_MAGIC;
        descriptor.struct_size = sizeof descriptor;
        descriptor.abi_major = LLAISYS_ABI_MAJOR;
        descriptor.abi_minor = LLAISYS_ABI_MINOR;
        descriptor.device_type = LLAISYS_DEVICE_TYPE_UNASSIGNED;
        descriptor.sanitizer = LLAISYS_SANITIZER;
        descriptor.name = "nothing-cpp";
        descriptor.vendor = "nobody";
        descriptor.version = "1.0";
        descriptor.target = LLAISYS_TARGET;
        descriptor.api = &API;
        return descriptor;
    }();
    return host_abi_major == LLAISYS_ABI_MAJOR ? &DESCRIPTOR : nullptr;
}

// Code as LLAISYS's users write it: their own table of functions with LLAISYS's signatures, a
// switch over the device type, and an engine that only knows the twelve functions. It must compile
// with LLAISYS's own llaisys/runtime.h and with this project's, unchanged.

#include "llaisys/runtime.h"

#include <cstdlib>
#include <cstring>
#include <vector>

namespace engine {
namespace own {

int getDeviceCount() {
    return 1;
}
void setDevice(int) {}
void deviceSynchronize() {}
llaisysStream_t createStream() {
    return (llaisysStream_t)0;
}
void destroyStream(llaisysStream_t) {}
void streamSynchronize(llaisysStream_t) {}
void *mallocDevice(size_t size) {
    return std::malloc(size);
}
void freeDevice(void *ptr) {
    std::free(ptr);
}
void *mallocHost(size_t size) {
    return mallocDevice(size);
}
void freeHost(void *ptr) {
    freeDevice(ptr);
}
void memcpySync(void *dst, const void *src, size_t size, llaisysMemcpyKind_t) {
    std::memcpy(dst, src, size);
}
void memcpyAsync(void *dst, const void *src, size_t size, llaisysMemcpyKind_t kind,
                 llaisysStream_t) {
    memcpySync(dst, src, size, kind);
}

static const LlaisysRuntimeAPI API = {&getDeviceCount, &setDevice,     &deviceSynchronize,
                                      &createStream,   &destroyStream, &streamSynchronize,
                                      &mallocDevice,   &freeDevice,    &mallocHost,
                                      &freeHost,       &memcpySync,    &memcpyAsync};

} // namespace own

const LlaisysRuntimeAPI *api(llaisysDeviceType_t type) {
    switch (type) {
    case LLAISYS_DEVICE_CPU:
        return llaisysGetRuntimeAPI(LLAISYS_DEVICE_CPU);
    case LLAISYS_DEVICE_NVIDIA:
        return llaisysGetRuntimeAPI(LLAISYS_DEVICE_NVIDIA);
    default:
        return &own::API;
    }
}

class Context {
public:
    Context() {
        for (int type = 0; type < LLAISYS_DEVICE_TYPE_COUNT; type++) {
            int count = api(static_cast<llaisysDeviceType_t>(type))->get_device_count();
            std::vector<void *> runtimes(static_cast<size_t>(count));
            for (int device = 0; device < count; device++) {
                runtimes[static_cast<size_t>(device)] = nullptr;
            }
        }
    }
    ~Context() = default;
};

bool round_trip(const struct LlaisysRuntimeAPI *runtime) {
    std::vector<float> in(1000, 2.5f), out(1000);
    const size_t bytes = in.size() * sizeof(float);
    llaisysStream_t stream = runtime->create_stream();
    void *device = runtime->malloc_device(bytes);
    runtime->memcpy_sync(device, in.data(), bytes, LLAISYS_MEMCPY_H2D);
    runtime->memcpy_async(out.data(), device, bytes, LLAISYS_MEMCPY_D2H, stream);
    runtime->stream_synchronize(stream);
    runtime->free_device(device);
    runtime->destroy_stream(stream);
    return in == out;
}

} // namespace engine

int main() {
    engine::Context context;
    llaisysSetContextRuntime(LLAISYS_DEVICE_CPU, 0);
    malloc_device_api allocate = engine::api(LLAISYS_DEVICE_CPU)->malloc_device;
    free_device_api release = engine::api(LLAISYS_DEVICE_CPU)->free_device;
    release(allocate(16));
    return engine::round_trip(engine::api(LLAISYS_DEVICE_CPU)) &&
                   engine::round_trip(&engine::own::API)
               ? 0
               : 1;
}

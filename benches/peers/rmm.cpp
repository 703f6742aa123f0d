/* RAPIDS Memory Manager's resources: arena, pool, and the one over cudaMallocAsync. */
#include "lib/gpu.hpp"

#include <rmm/mr/arena_memory_resource.hpp>
#include <rmm/mr/cuda_async_memory_resource.hpp>
#include <rmm/mr/cuda_memory_resource.hpp>
#include <rmm/mr/pool_memory_resource.hpp>
#include <rmm/version_config.hpp>

#include <cuda/stream_ref>
#include <cuda_runtime_api.h>
#include <functional>

namespace {

/// A resource; `hold` tells what it has taken from CUDA.
template <class Resource> class Rmm {
public:
    static constexpr bool COUNTS_OTHERS = false;
    Rmm(const std::string &kind, std::function<Resource()> make,
        std::function<double(const Resource &)> hold)
        : name_("RMM " RMM_VERSION " " + kind), make_(std::move(make)), hold_(std::move(hold)),
          resource_(make_()) {}
    const std::string &name() const { return name_; }
    void enter() const { cudaSetDevice(0); }
    void *allocate(std::size_t size, void *stream) {
        return resource_->allocate(cuda::stream_ref(static_cast<cudaStream_t>(stream)), size, 256);
    }
    void free(void *pointer, std::size_t size, void *stream) {
        resource_->deallocate(cuda::stream_ref(static_cast<cudaStream_t>(stream)), pointer, size, 256);
    }
    double reserved() const { return hold_(*resource_); }
    /// A resource gives nothing back while it lives.
    void reset() {
        cudaDeviceSynchronize();
        resource_.reset();
        resource_.emplace(make_());
    }

private:
    std::string name_;
    std::function<Resource()> make_;
    std::function<double(const Resource &)> hold_;
    std::optional<Resource> resource_;
};

} // namespace

int main(int count, char **values) {
    using namespace peers;
    return main_on_gpu(count, values, [](const Options &options, Ours &ours, const Driver &driver) {
        bool well = true;
        auto measure = [&](auto &resource) { well &= compare_on_gpu(options, ours, driver, resource); };
        auto kind = [&](const std::string &name, const std::function<void()> &measured) {
            if (options.wants(name)) {
                well &= attempt("RMM", name, measured);
            }
        };
        kind("arena", [&] {
            using Arena = rmm::mr::arena_memory_resource;
            // It takes all of its memory at once, so what it holds says nothing.
            Rmm<Arena> arena(
                "arena of 16 GiB",
                [] { return Arena(rmm::mr::cuda_memory_resource{}, std::size_t{16} << 30); },
                [](const Arena &) { return -1.0; });
            measure(arena);
        });
        kind("pool", [&] {
            using Pool = rmm::mr::pool_memory_resource;
            Rmm<Pool> pool(
                "pool", [] { return Pool(rmm::mr::cuda_memory_resource{}, std::size_t{0}); },
                [](const Pool &one) { return static_cast<double>(one.pool_size()); });
            measure(pool);
        });
        kind("async", [&] {
            using Async = rmm::mr::cuda_async_memory_resource;
            Rmm<Async> async(
                "async", [] { return Async(); },
                [](const Async &one) {
                    std::uint64_t now = 0;
                    cudaMemPoolGetAttribute(one.pool_handle(), cudaMemPoolAttrReservedMemCurrent, &now);
                    return static_cast<double>(now);
                });
            measure(async);
        });
        return well;
    });
}

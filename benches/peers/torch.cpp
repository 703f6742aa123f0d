/* PyTorch's caching allocator of a GPU's memory, c10::cuda::CUDACachingAllocator, called from C++. */
#include "lib/gpu.hpp"

#include <c10/cuda/CUDACachingAllocator.h>
#include <torch/headeronly/version.h>

namespace {

using namespace c10::cuda;

/// Its calls that name a stream. NULL is CUDA's default stream.
class Torch {
public:
    static constexpr bool COUNTS_OTHERS = false;
    Torch() { CUDACachingAllocator::init(1); }
    std::string name() const { return std::string("PyTorch ") + TORCH_VERSION + " c10"; }
    void enter() const { cudaSetDevice(0); }
    void *allocate(std::size_t size, void *stream) const {
        return CUDACachingAllocator::raw_alloc_with_stream(size, static_cast<cudaStream_t>(stream));
    }
    void free(void *pointer, std::size_t, void *) const { CUDACachingAllocator::raw_delete(pointer); }
    double reserved() const {
        const auto statistics = CUDACachingAllocator::getDeviceStats(0);
        // 0 is StatType::AGGREGATE.
        return static_cast<double>(statistics.reserved_bytes[0].current);
    }
    void reset() const {
        cudaDeviceSynchronize();
        CUDACachingAllocator::emptyCache();
    }
};

} // namespace

int main(int count, char **values) {
    using namespace peers;
    return main_on_gpu(count, values, [](const Options &options, Ours &ours, const Driver &driver) {
        Torch torch;
        return compare_on_gpu(options, ours, driver, torch);
    });
}

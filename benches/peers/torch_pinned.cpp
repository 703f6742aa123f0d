/* PyTorch's caching allocator of pinned host memory, called from C++. */
#include "lib/gpu.hpp"

#include <ATen/core/CachingHostAllocator.h>
#include <cuda_runtime_api.h>
#include <torch/headeronly/version.h>

namespace {

/// A freed block is handed out again at once when no stream has used it, as here.
class TorchPinned {
public:
    TorchPinned() : allocator_(at::getHostAllocator(at::kCUDA)) {}
    std::string name() const { return std::string("PyTorch ") + TORCH_VERSION + " CachingHostAllocator"; }
    void enter() const { cudaSetDevice(0); }
    /// What a pair needs is in one slot of each thread, for the block has an owner of a C++ type.
    void *allocate(std::size_t size, void *) const {
        slot() = allocator_->allocate(size);
        return slot().get();
    }
    void free(void *, std::size_t, void *) const { slot().clear(); }

private:
    static at::DataPtr &slot() {
        thread_local at::DataPtr slot;
        return slot;
    }
    at::HostAllocator *allocator_;
};

} // namespace

int main(int count, char **values) {
    using namespace peers;
    return main_on_gpu(count, values, [](const Options &options, Ours &ours, const Driver &) {
        TorchPinned torch;
        return compare_pairs(options, ours, Pinned{ours}, torch, "G4",
                             "pinned alloc+free 64 MiB, 1 thread", 64 << 20, 1, false);
    });
}

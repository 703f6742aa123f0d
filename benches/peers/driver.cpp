/* NVIDIA's driver: cuMemAlloc, cuMemAllocAsync, and cuMemHostAlloc for pinned memory. */
#include "lib/gpu.hpp"

int main(int count, char **values) {
    using namespace peers;
    return main_on_gpu(count, values, [](const Options &options, Ours &ours, const Driver &driver) {
        bool well = true;
        if (options.wants("async")) {
            AsyncDriver async(driver);
            well &= compare_on_gpu(options, ours, driver, async);
        }
        if (options.wants("nothing")) {
            NoAllocation nothing(driver);
            well &= compare_pattern(options, ours, driver, nothing);
        }
        if (options.wants("pinned")) {
            PinnedDriver pinned(driver);
            well &= compare_pairs(options, ours, Pinned{ours}, pinned, "G4",
                                  "pinned alloc+free 64 MiB, 1 thread", 64 << 20, 1, false);
        }
        if (options.wants("plain")) {
            PlainDriver plain(driver);
            well &= compare_on_gpu(options, ours, driver, plain);
        }
        return well;
    });
}

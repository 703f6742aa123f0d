/* Device memory of the CPU, beside the malloc of this process: glibc's, or the one that is preloaded
 * (LD_PRELOAD=libjemalloc.so.2, libmimalloc.so.2, libtcmalloc_minimal.so.4), as these are used. */
#include "lib/allocator.hpp"

#include <cstdint>
#include <dlfcn.h>
#include <gnu/libc-version.h>
#include <malloc.h>
#include <sys/wait.h>
#include <unistd.h>

namespace {

/// A function of the preloaded library's; NULL when it is another one.
template <class Function> Function *find(const char *name) {
    return reinterpret_cast<Function *>(dlsym(RTLD_DEFAULT, name));
}

using Mallctl = int(const char *, void *, std::size_t *, void *, std::size_t);
using MallocInfo = void(std::size_t *, std::size_t *, std::size_t *, std::size_t *, std::size_t *,
                        std::size_t *, std::size_t *, std::size_t *);
using MallocExtension = int(const char *, std::size_t *);

/// malloc and free, whoever's they are.
class Malloc {
public:
    static constexpr bool COUNTS_OTHERS = true;
    Malloc() {
        if (mallctl_ != nullptr) {
            const char *text = nullptr;
            std::size_t size = sizeof text;
            mallctl_("version", &text, &size, nullptr, 0);
            const std::string version = text == nullptr ? "" : text;
            name_ = "jemalloc " + version.substr(0, version.find('-'));
        } else if (auto *version = find<int()>("mi_version")) {
            const int number = version();
            name_ = "mimalloc " + std::to_string(number / 100) + "." + std::to_string(number / 10 % 10) +
                    "." + std::to_string(number % 10);
        } else if (auto *tc = find<const char *(int *, int *, const char **)>("tc_version")) {
            int major = 0, minor = 0;
            const char *patch = nullptr;
            tc(&major, &minor, &patch);
            name_ = "tcmalloc (gperftools " + std::to_string(major) + "." + std::to_string(minor) + ")";
        } else {
            name_ = std::string("glibc ") + gnu_get_libc_version() + " malloc";
            is_glibc_ = true;
        }
    }

    const std::string &name() const { return name_; }
    void enter() const {}
    void *allocate(std::size_t size, void *) const {
        void *pointer = std::malloc(size);
        // Keeps the compiler from leaving the pair out.
        asm volatile("" : "+r"(pointer) : : "memory");
        return pointer;
    }
    void free(void *pointer, std::size_t, void *) const { std::free(pointer); }

    /// What it has mapped and may use; pages that it gave back with madvise are not counted.
    double reserved() const {
        if (mallctl_ != nullptr) {
            std::uint64_t epoch = 1;
            std::size_t size = sizeof epoch, value = 0;
            mallctl_("epoch", &epoch, &size, &epoch, sizeof epoch);
            size = sizeof value;
            return mallctl_("stats.mapped", &value, &size, nullptr, 0) == 0 ? static_cast<double>(value)
                                                                           : -1;
        }
        if (auto *info = find<MallocInfo>("mi_process_info")) {
            std::size_t commit = 0;
            info(nullptr, nullptr, nullptr, nullptr, nullptr, &commit, nullptr, nullptr);
            return static_cast<double>(commit);
        }
        if (auto *property = find<MallocExtension>("MallocExtension_GetNumericProperty")) {
            std::size_t heap = 0, unmapped = 0;
            property("generic.heap_size", &heap);
            property("tcmalloc.pageheap_unmapped_bytes", &unmapped);
            return static_cast<double>(heap - unmapped);
        }
        const struct mallinfo2 info = mallinfo2();
        return static_cast<double>(info.arena + info.hblkhd);
    }

    void reset() const {
        if (is_glibc_) {
            malloc_trim(0);
        } else if (mallctl_ != nullptr) {
            mallctl_("thread.tcache.flush", nullptr, nullptr, nullptr, 0);
            // 4096 is MALLCTL_ARENAS_ALL.
            mallctl_("arena.4096.purge", nullptr, nullptr, nullptr, 0);
        } else if (auto *collect = find<void(bool)>("mi_collect")) {
            collect(true);
        } else if (auto *release = find<void()>("MallocExtension_ReleaseFreeMemory")) {
            release();
        }
    }

private:
    Mallctl *mallctl_ = find<Mallctl>("mallctl");
    std::string name_;
    bool is_glibc_ = false;
};

/// Does it in a process of its own, which has a heap that is new.
bool elsewhere(const std::function<bool()> &job) {
    const pid_t child = fork();
    if (child == 0) {
        bool well = false;
        try {
            well = job();
        } catch (const std::exception &error) {
            std::fprintf(stderr, "not measured: %s\n", peers::first_line(error).c_str());
        }
        std::fflush(nullptr);
        _exit(well ? 0 : 1);
    }
    int status = 1;
    waitpid(child, &status, 0);
    return child > 0 && status == 0;
}

} // namespace

int main(int count, char **values) try {
    const peers::Options options = peers::Options::read(count, values);
    std::vector<peers::Trace> traces;
    for (const std::string &path : options.traces) {
        traces.push_back(peers::Trace::read(path, options.live_gib));
    }
    Malloc peer;
    bool well = true;
    for (const peers::Trace &trace : traces) {
        well &= elsewhere([&] {
            peers::Ours ours(LLAISYS_DEVICE_CPU);
            return peers::compare_memory(ours, peer, trace, "G3");
        });
    }
    peers::Ours ours(LLAISYS_DEVICE_CPU);
    well &= peers::compare_all_pairs(options, ours, peer, "G11", "G11", {1, 2});
    for (const peers::Trace &trace : traces) {
        well &= peers::compare_times(options, ours, peer, trace, "G3");
    }
    return well ? 0 : 1;
} catch (const std::exception &error) {
    std::fprintf(stderr, "not measured: %s\n", peers::first_line(error).c_str());
    return 1;
}

/* Our side for peers that are called from Python: the loops are C++, as a program of ours has them. */
#include "lib/allocator.hpp"

#include <memory>

namespace {

std::unique_ptr<peers::Ours> ours;
std::string failure;

/// A negative answer is a failure, which `ours_failure` tells.
template <class Job> double guarded(Job job) {
    try {
        return job();
    } catch (const std::exception &error) {
        failure = error.what();
        return -1;
    }
}

} // namespace

extern "C" {

const char *ours_failure() { return failure.c_str(); }

/// Opens the first NVIDIA device.
double ours_open() {
    return guarded([] {
        ours = std::make_unique<peers::Ours>(LLAISYS_DEVICE_NVIDIA);
        return 0.0;
    });
}

const char *ours_device() { return ours->place.device.c_str(); }

/// Makes it so many streams.
double ours_streams(int count) {
    return guarded([count] {
        ours->set_streams(count);
        peers::Ours::check();
        return 0.0;
    });
}

void *ours_stream(int index) { return ours->lanes.at(static_cast<std::size_t>(index)); }

/// The nanoseconds of so many pairs on each of so many threads, with a stream each, or without.
double ours_pairs(std::size_t size, int threads, int with_stream, long calls) {
    return guarded([=] {
        auto job = [&](int thread) {
            if (with_stream != 0) {
                peers::Ordered mine{*ours};
                peers::pairs(mine, size, ours_stream(thread), calls);
            } else {
                peers::Plain mine{*ours};
                peers::pairs(mine, size, nullptr, calls);
            }
        };
        peers::Team team(threads, [] { ours->twelve->set_device(0); });
        team.run(job);
        return team.run(job);
    });
}

/// The nanoseconds of an operation of a trace.
double ours_trace(const char *path, double live_gib, int from_nothing) {
    return guarded([=] {
        const peers::Trace trace = peers::Trace::read(path, live_gib);
        peers::Ordered mine{*ours};
        if (from_nothing != 0) {
            mine.reset();
        }
        return peers::play(trace, *ours, mine, [](std::size_t) {}) / static_cast<double>(trace.operations.size());
    });
}

/// What is held over what is live.
double ours_overhead(const char *path, double live_gib) {
    return guarded([=] {
        peers::Ordered mine{*ours};
        const double share = peers::overhead(peers::Trace::read(path, live_gib), *ours, mine);
        mine.reset();
        return share;
    });
}

/// Memory of the device, or pinned memory; NULL is a failure.
void *ours_allocate(std::size_t size, int pinned) {
    void *memory = nullptr;
    guarded([&] {
        memory = pinned != 0 ? ours->twelve->malloc_host(size) : ours->twelve->malloc_device(size);
        peers::Ours::check();
        return 0.0;
    });
    return memory;
}

/// Frees what `ours_allocate` gave.
void ours_free(void *memory, int pinned) {
    pinned != 0 ? ours->twelve->free_host(memory) : ours->twelve->free_device(memory);
}

/// The nanoseconds of a copy that is complete then: by the call that waits, or enqueued on the first stream.
double ours_copy(void *to, const void *from, std::size_t size, int to_device, int enqueued) {
    return guarded([=] {
        const auto kind = to_device != 0 ? LLAISYS_MEMCPY_H2D : LLAISYS_MEMCPY_D2H;
        const double begin = peers::now();
        if (enqueued != 0) {
            ours->twelve->memcpy_async(to, from, size, kind, ours->lanes.at(0));
            ours->twelve->stream_synchronize(ours->lanes.at(0));
        } else {
            ours->twelve->memcpy_sync(to, from, size, kind);
        }
        const double time = peers::now() - begin;
        peers::Ours::check();
        return time;
    });
}

} // extern "C"

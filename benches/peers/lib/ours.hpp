/* This library, called as any C program calls it: through its two tables.
 *
 * Rule: what fails throws, with the operation and the sentence that the library left. */
#pragma once

#include "llaisys/backend.h"
#include "llaisys/runtime.h"
#include "row.hpp"

#include <stdexcept>
#include <vector>

namespace peers {

/// A device, its tables, and streams that both sides use.
class Ours {
public:
    /// The first device of a type.
    explicit Ours(llaisysDeviceType_t type)
        : twelve(llaisysGetRuntimeAPI(type)), table(llaisysGetBackendAPI(type)) {
        if (table == nullptr) {
            check();
            throw std::runtime_error("there is no such backend");
        }
        twelve->set_device(0);
        check();
        LlaisysDeviceProperties properties{};
        properties.struct_size = sizeof properties;
        table->get_device_properties(table->self_, 0, &properties);
        check();
        place = {type == LLAISYS_DEVICE_CPU ? "cpu" : "nvidia", properties.name};
    }

    ~Ours() { set_streams(0); }

    Ours(const Ours &) = delete;
    Ours &operator=(const Ours &) = delete;

    /// Makes it so many streams: what a measurement needs, and no more. A program that uses a device has one
    /// at least.
    void set_streams(int count) {
        for (; static_cast<int>(lanes.size()) > count; lanes.pop_back()) {
            twelve->destroy_stream(lanes.back());
        }
        while (static_cast<int>(lanes.size()) < count) {
            lanes.push_back(twelve->create_stream());
        }
    }

    /// Throws what the calls of this thread left since the last check.
    static void check() {
        const LlaisysError *error = nullptr;
        if (llaisysGetLastError(&error) != LLAISYS_STATUS_SUCCESS) {
            throw std::runtime_error(std::string(error->operation) + ": " + error->message);
        }
    }

    /// Bytes held from the system now.
    double reserved() const {
        LlaisysMemoryStatistics statistics{};
        statistics.struct_size = sizeof statistics;
        table->get_memory_statistics(table->self_, 0, &statistics);
        check();
        return static_cast<double>(statistics.reserved_bytes);
    }

    /// Waits for all work, and gives all that is cached back.
    void reset() const {
        twelve->device_synchronize();
        table->trim_memory(table->self_, 0, 0);
        check();
    }

    const LlaisysRuntimeAPI *twelve;
    const LlaisysBackendAPI *table;
    Place place;
    /// On NVIDIA these are `CUstream`s.
    std::vector<llaisysStream_t> lanes;
};

/// LLAISYS's own calls, which name no stream. Both this and the next are sides: see `allocator.hpp`.
struct Plain {
    static constexpr bool COUNTS_OTHERS = false;
    const Ours &ours;
    void enter() const { ours.twelve->set_device(0); }
    void *allocate(std::size_t size, void *) const { return ours.twelve->malloc_device(size); }
    void free(void *pointer, std::size_t, void *) const { ours.twelve->free_device(pointer); }
    double reserved() const { return ours.reserved(); }
    void reset() const { ours.reset(); }
};

/// The calls in a stream's order; without a stream they are the plain ones, as a program would do it.
struct Ordered {
    static constexpr bool COUNTS_OTHERS = false;
    const Ours &ours;
    void enter() const { ours.twelve->set_device(0); }
    void *allocate(std::size_t size, void *stream) const {
        if (stream == nullptr) {
            return ours.twelve->malloc_device(size);
        }
        void *pointer = nullptr;
        ours.table->malloc_async(ours.table->self_, 0, size, static_cast<llaisysStream_t>(stream),
                                 &pointer);
        return pointer;
    }
    void free(void *pointer, std::size_t, void *stream) const {
        if (stream == nullptr) {
            ours.twelve->free_device(pointer);
        } else {
            ours.table->free_async(ours.table->self_, 0, pointer, static_cast<llaisysStream_t>(stream));
        }
    }
    double reserved() const { return ours.reserved(); }
    void reset() const { ours.reset(); }
};

/// LLAISYS's own calls for pinned host memory.
struct Pinned {
    const Ours &ours;
    void enter() const { ours.twelve->set_device(0); }
    void *allocate(std::size_t size, void *) const { return ours.twelve->malloc_host(size); }
    void free(void *pointer, std::size_t, void *) const { ours.twelve->free_host(pointer); }
};

} // namespace peers

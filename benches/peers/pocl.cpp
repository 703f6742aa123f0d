/* The CPU's streams and copies beside PoCL's CPU devices: POCL_DEVICES=basic is its synchronous one,
 * POCL_DEVICES=pthread the one with threads.
 *
 * Rules: the work is a fill of one byte, the least that both can enqueue. All memory was written first. */
#define CL_TARGET_OPENCL_VERSION 120
#include "lib/options.hpp"
#include "lib/ours.hpp"

#include <CL/cl.h>
#include <cstring>
#include <functional>

namespace {

using peers::Ours;

/// What a copy moves.
constexpr std::size_t SIZE = std::size_t{256} << 20;

void check(cl_int status, const char *what) {
    if (status != CL_SUCCESS) {
        throw std::runtime_error(std::string(what) + " answered " + std::to_string(status));
    }
}

/// What is measured, on one side.
class Side {
public:
    virtual ~Side() = default;
    /// Work on a queue.
    virtual void fill(int queue) = 0;
    /// Waits for a queue.
    virtual void finish(int queue) = 0;
    /// Work on a queue, behind all that the other one has.
    virtual void hop(int queue) = 0;
    /// Copies all bytes and waits.
    virtual void copy() = 0;
};

/// PoCL's device, through OpenCL.
class Pocl final : public Side {
public:
    Pocl() {
        cl_platform_id platform;
        cl_device_id device;
        cl_int status;
        check(clGetPlatformIDs(1, &platform, nullptr), "clGetPlatformIDs");
        check(clGetDeviceIDs(platform, CL_DEVICE_TYPE_CPU, 1, &device, nullptr), "clGetDeviceIDs");
        char text[128] = "", version[128] = "";
        clGetDeviceInfo(device, CL_DRIVER_VERSION, sizeof version, version, nullptr);
        clGetDeviceInfo(device, CL_DEVICE_VERSION, sizeof text, text, nullptr);
        // "OpenCL 3.0 PoCL HSTR: basic-x86_64-…".
        const std::string kind = std::strstr(text, "pthread") != nullptr ? "pthread" : "basic";
        name = std::string("PoCL ") + version + " " + kind;
        context_ = clCreateContext(nullptr, 1, &device, nullptr, nullptr, &status);
        check(status, "clCreateContext");
        for (cl_command_queue &queue : queues_) {
            queue = clCreateCommandQueue(context_, device, 0, &status);
            check(status, "clCreateCommandQueue");
        }
        for (cl_mem *memory : {&from_, &to_}) {
            *memory = clCreateBuffer(context_, CL_MEM_READ_WRITE, SIZE, nullptr, &status);
            check(status, "clCreateBuffer");
            const unsigned char byte = 1;
            check(clEnqueueFillBuffer(queues_[0], *memory, &byte, 1, 0, SIZE, 0, nullptr, nullptr),
                  "clEnqueueFillBuffer");
        }
        finish(0);
    }

    void fill(int queue) override { enqueue(queue, nullptr, nullptr); }
    void finish(int queue) override {
        check(clFinish(queues_[queue]), "clFinish");
        if (before_ != nullptr) {
            clReleaseEvent(before_);
            before_ = nullptr;
        }
    }
    void hop(int queue) override {
        cl_event next;
        enqueue(queue, before_, &next);
        check(clFlush(queues_[queue]), "clFlush");
        if (before_ != nullptr) {
            clReleaseEvent(before_);
        }
        before_ = next;
    }
    void copy() override {
        check(clEnqueueCopyBuffer(queues_[0], from_, to_, 0, 0, SIZE, 0, nullptr, nullptr),
              "clEnqueueCopyBuffer");
        finish(0);
    }

    std::string name;

private:
    void enqueue(int queue, cl_event before, cl_event *event) {
        static const unsigned char byte = 0x5a;
        check(clEnqueueFillBuffer(queues_[queue], to_, &byte, 1, 0, 1, before != nullptr ? 1 : 0,
                                  before != nullptr ? &before : nullptr, event),
              "clEnqueueFillBuffer");
    }

    cl_context context_;
    cl_command_queue queues_[2];
    cl_mem from_, to_;
    cl_event before_ = nullptr;
};

/// Our CPU device.
class Mine final : public Side {
public:
    explicit Mine(Ours &ours) : ours_(ours), table_(ours.table), own_(ours.table->self_) {
        ours.set_streams(2);
        for (llaisysEvent_t &event : events_) {
            table_->create_event(own_, 0, 0, &event);
        }
        for (void **block : {&from_, &to_}) {
            table_->malloc_device(own_, 0, SIZE, block);
            Ours::check();
            std::memset(*block, 1, SIZE);
        }
    }
    ~Mine() override {
        for (llaisysEvent_t event : events_) {
            table_->destroy_event(own_, 0, event);
        }
        table_->free_device(own_, 0, from_);
        table_->free_device(own_, 0, to_);
    }
    Mine(const Mine &) = delete;
    Mine &operator=(const Mine &) = delete;

    void fill(int queue) override {
        static const unsigned char byte = 0x5a;
        table_->memset_async(own_, 0, to_, &byte, 1, 1, stream(queue));
    }
    void finish(int queue) override { table_->stream_synchronize(own_, 0, stream(queue)); }
    void hop(int queue) override {
        table_->stream_wait_event(own_, 0, stream(queue), events_[1 - queue]);
        fill(queue);
        table_->record_event(own_, 0, events_[queue], stream(queue));
    }
    void copy() override {
        table_->memcpy_async(own_, 0, to_, from_, SIZE, LLAISYS_MEMCPY_D2D, stream(0), LLAISYS_COPY_NONE);
        finish(0);
    }

private:
    llaisysStream_t stream(int queue) const { return ours_.lanes[static_cast<std::size_t>(queue)]; }

    Ours &ours_;
    const LlaisysBackendAPI *table_;
    void *own_, *from_ = nullptr, *to_ = nullptr;
    llaisysEvent_t events_[2] = {};
};

/// The nanoseconds of so many calls.
double timed(long calls, const std::function<void(long)> &call) {
    const double begin = peers::now();
    call(calls);
    return peers::now() - begin;
}

} // namespace

int main(int count, char **values) try {
    const peers::Options options = peers::Options::read(count, values);
    Ours ours(LLAISYS_DEVICE_CPU);
    Pocl pocl;
    Mine mine(ours);
    bool well = true;
    auto compare = [&](const char *goal, const char *bench, double bytes, long batch,
                       const std::function<void(Side &, long)> &run) {
        well &= peers::attempt(pocl.name, bench, [&] {
            peers::Plan plan;
            plan.seconds = 2 * options.seconds;
            plan.batch = batch;
            auto summary = peers::interleave(
                plan, [&](long calls) { return timed(calls, [&](long n) { run(mine, n); }); },
                [&](long calls) { return timed(calls, [&](long n) { run(pocl, n); }); });
            Ours::check();
            if (bytes > 0) {
                peers::print_rates(ours.place, goal, bench, pocl.name, summary, bytes);
            } else {
                peers::print_row(ours.place, goal, bench, "ns", pocl.name, summary);
            }
        });
    };
    compare("G12", "fill of 1 byte + synchronize", 0, 500, [](Side &side, long calls) {
        for (long i = 0; i < calls; ++i) {
            side.fill(0);
            side.finish(0);
        }
    });
    compare("G13", "fill of 1 byte, pipelined", 0, 10000, [](Side &side, long calls) {
        for (long i = 0; i < calls; ++i) {
            side.fill(0);
        }
        side.finish(0);
    });
    compare("G14", "hop: fill, record, wait on the other stream", 0, 10000, [](Side &side, long calls) {
        for (long i = 0; i < calls; ++i) {
            side.hop(static_cast<int>(i % 2));
        }
        side.finish(0);
        side.finish(1);
    });
    compare("G15", "copy of 256 MiB", static_cast<double>(SIZE), 1, [](Side &side, long calls) {
        for (long i = 0; i < calls; ++i) {
            side.copy();
        }
    });
    return well ? 0 : 1;
} catch (const std::exception &error) {
    std::fprintf(stderr, "not measured: %s\n", peers::first_line(error).c_str());
    return 1;
}

/* The pattern of LLAISYS's operators, over many steps on one stream: allocate, launch kernels that use the
 * memory, free it while they run, allocate again.
 *
 * Rules: a step has two kernels of about five microseconds, so the device is what it waits for, unless a
 * call waits for the device: that shows in the time of a step, and in the longest free. */
#pragma once

#include "allocator.hpp"
#include "driver.hpp"

namespace peers {

/// Writes one float to each 4 KiB of a buffer, then spins.
constexpr const char *KERNEL = R"(.version 7.0
.target sm_75
.address_size 64
.visible .entry work(.param .u64 to, .param .u64 pages, .param .u64 cycles)
{
    .reg .pred %p<3>;
    .reg .b32 %r<5>;
    .reg .b64 %d<10>;
    ld.param.u64 %d1, [to];
    ld.param.u64 %d2, [pages];
    ld.param.u64 %d3, [cycles];
    cvta.to.global.u64 %d1, %d1;
    mov.u64 %d4, %clock64;
    mov.u32 %r1, %ctaid.x;
    mov.u32 %r2, %ntid.x;
    mov.u32 %r3, %tid.x;
    mad.lo.s32 %r4, %r1, %r2, %r3;
    cvt.u64.u32 %d5, %r4;
    setp.ge.u64 %p1, %d5, %d2;
    @%p1 bra wait;
    shl.b64 %d6, %d5, 12;
    add.s64 %d6, %d1, %d6;
    st.global.u32 [%d6], %r4;
wait:
    mov.u64 %d7, %clock64;
    sub.s64 %d8, %d7, %d4;
    setp.lt.u64 %p2, %d8, %d3;
    @%p2 bra wait;
    ret;
}
)";

/// A kernel, ready to be launched.
class Kernel {
public:
    explicit Kernel(const Driver &driver) {
        int (*load_data)(void **, const void *);
        int (*get_function)(void **, void *, const char *);
        driver.load(load_data, "cuModuleLoadData");
        driver.load(get_function, "cuModuleGetFunction");
        driver.load(launch_, "cuLaunchKernel");
        void *module = nullptr;
        Driver::check(load_data(&module, KERNEL), "cuModuleLoadData");
        Driver::check(get_function(&function_, module, "work"), "cuModuleGetFunction");
    }

    /// Enqueues one that uses the buffer.
    void launch(void *buffer, std::size_t size, void *stream) const {
        std::uint64_t to = reinterpret_cast<std::uint64_t>(buffer), pages = size / 4096, cycles = 9000;
        void *arguments[] = {&to, &pages, &cycles};
        const auto blocks = static_cast<unsigned>((pages + 127) / 128);
        Driver::check(launch_(function_, blocks, 1, 1, 128, 1, 1, 0, stream, arguments, nullptr),
                      "cuLaunchKernel");
    }

private:
    int (*launch_)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *,
                   void **, void **);
    void *function_ = nullptr;
};

/// What a slice of steps took, in nanoseconds.
struct Steps {
    std::vector<double> of_a_step;
    std::vector<double> of_a_free;
    std::vector<double> of_an_allocation;
};

/// So many steps, then waits for the stream.
template <class Side>
void play_pattern(const Driver &driver, const Kernel &kernel, Side &side, void *stream, int steps,
                  Steps &times) {
    const double begin = now();
    for (int step = 0; step < steps; ++step) {
        // Scratch of three operators.
        const std::size_t size = static_cast<std::size_t>(256 << 10) << step % 3 * 2;
        const double start = now();
        void *buffer = side.allocate(size, stream);
        times.of_an_allocation.push_back(now() - start);
        if (buffer == nullptr) {
            Ours::check();
            throw std::runtime_error("an allocation of the peer's failed");
        }
        kernel.launch(buffer, size, stream);
        kernel.launch(buffer, size, stream);
        const double end = now();
        side.free(buffer, size, stream);
        times.of_a_free.push_back(now() - end);
    }
    Driver::check(driver.synchronize(stream), "cuStreamSynchronize");
    times.of_a_step.push_back((now() - begin) / steps);
}

/// One buffer for all steps: what a step takes when nothing is allocated.
class NoAllocation {
public:
    explicit NoAllocation(const Driver &driver) : driver_(driver) {
        Driver::check(driver.allocate(&address_, 4 << 20), "cuMemAlloc");
    }
    ~NoAllocation() { driver_.free(address_); }
    NoAllocation(const NoAllocation &) = delete;
    NoAllocation &operator=(const NoAllocation &) = delete;
    std::string name() const { return "one buffer, no allocation, " + driver_.version; }
    void enter() const { driver_.enter(); }
    void *allocate(std::size_t, void *) const { return reinterpret_cast<void *>(address_); }
    void free(void *, std::size_t, void *) const {}

private:
    const Driver &driver_;
    Driver::Address address_ = 0;
};

/// 10^5 steps of ours and of a peer, in ten slices in turn.
template <class Peer>
bool compare_pattern(const Options &options, Ours &ours, const Driver &driver, Peer &peer) {
    const std::string goal = "LLAISYS", bench = "allocate, 2 kernels, free while they run";
    return attempt(peer.name(), bench, [&] {
        ours.set_streams(1);
        const Kernel kernel(driver);
        Plain mine{ours};
        mine.enter();
        peer.enter();
        void *stream = ours.lanes.at(0);
        Steps warm_up, our_steps, their_steps;
        const int steps = static_cast<int>(10000 * std::clamp(4 * options.seconds, 0.001, 1.0));
        play_pattern(driver, kernel, mine, stream, steps / 10, warm_up);
        play_pattern(driver, kernel, peer, stream, steps / 10, warm_up);
        for (int slice = 0; slice < 10; ++slice) {
            for (int turn = 0; turn < 2; ++turn) {
                if ((slice + turn) % 2 == 0) {
                    play_pattern(driver, kernel, mine, stream, steps, our_steps);
                } else {
                    play_pattern(driver, kernel, peer, stream, steps, their_steps);
                }
            }
        }
        Ours::check();
        const std::string end = " (" + std::to_string(10 * steps) + " steps)";
        auto row = [&](const std::string &what, std::vector<double> &mine_, std::vector<double> &theirs,
                       int percent) {
            print_row(ours.place, goal, bench + what + end, "ns", peer.name(),
                      {percentile(mine_, percent), percentile(theirs, percent), percentile(mine_, 50),
                       percentile(mine_, 99), 10});
        };
        row(", a step", our_steps.of_a_step, their_steps.of_a_step, 50);
        row(", an allocation", our_steps.of_an_allocation, their_steps.of_an_allocation, 50);
        row(", a free", our_steps.of_a_free, their_steps.of_a_free, 50);
        row(", the longest allocation", our_steps.of_an_allocation, their_steps.of_an_allocation, 100);
        row(", the longest free", our_steps.of_a_free, their_steps.of_a_free, 100);
    });
}

} // namespace peers

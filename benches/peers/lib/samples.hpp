/* Two ways of doing one thing, timed fairly.
 *
 * Rules: both are timed in turn in one run, and who is first alternates, so that a change of the clock
 * rate or a noisy neighbour meets both. A batch is timed as a whole and is long enough for the clock.
 * Medians count. These are the rules of `llaisys-rt bench`. */
#pragma once

#include <algorithm>
#include <chrono>
#include <cmath>
#include <vector>

namespace peers {

/// Nanoseconds of a clock that only goes forward.
inline double now() {
    using namespace std::chrono;
    return duration<double, std::nano>(steady_clock::now().time_since_epoch()).count();
}

/// The smallest value that `percent` of 100 do not exceed.
inline double percentile(std::vector<double> times, int percent) {
    std::sort(times.begin(), times.end());
    std::size_t rank = (times.size() * static_cast<std::size_t>(percent) + 99) / 100;
    return times.empty() ? 0 : std::max(times[rank == 0 ? 0 : rank - 1], 0.01);
}

/// How much is done.
struct Plan {
    /// After so long no further run begins, once there are `least`.
    double seconds = 1.0;
    int least = 5;
    int most = 200;
    /// The most calls of a batch.
    long batch = 20000;
};

/// What came of it, in nanoseconds a call.
struct Summary {
    double ours, theirs, p50, p99;
    int runs;
};

/// So many calls that a batch takes a millisecond, which warms the side up too.
template <class Side> long calls_of_a_batch(Side &side, long most) {
    long calls = 1;
    double time = side(1);
    while (calls < most && time < 1e6) {
        calls = std::min(most, calls * 4);
        time = side(calls);
    }
    return calls;
}

/// Times two sides; each does so many calls and answers the nanoseconds that all of them took.
template <class Ours, class Theirs> Summary interleave(const Plan &plan, Ours ours, Theirs theirs) {
    const long our_calls = calls_of_a_batch(ours, plan.batch);
    const long their_calls = calls_of_a_batch(theirs, plan.batch);
    std::vector<double> our_times, their_times;
    const double begin = now();
    for (int run = 0; run < plan.most; ++run) {
        if (run >= plan.least && now() - begin > plan.seconds * 1e9) {
            break;
        }
        for (int turn = 0; turn < 2; ++turn) {
            if ((run + turn) % 2 == 0) {
                our_times.push_back(ours(our_calls) / static_cast<double>(our_calls));
            } else {
                their_times.push_back(theirs(their_calls) / static_cast<double>(their_calls));
            }
        }
    }
    return {percentile(our_times, 50), percentile(their_times, 50), percentile(our_times, 50),
            percentile(our_times, 99), static_cast<int>(our_times.size())};
}

} // namespace peers

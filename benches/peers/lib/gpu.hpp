/* What is measured of every allocator of a GPU's memory. */
#pragma once

#include "pattern.hpp"

namespace peers {

/// Memory and time of both traces, the pairs of G1 and G2, and the pattern of LLAISYS's operators.
template <class Peer>
bool compare_on_gpu(const Options &options, Ours &ours, const Driver &driver, Peer &peer) {
    std::vector<Trace> traces;
    for (const std::string &path : options.traces) {
        traces.push_back(Trace::read(path, options.live_gib));
    }
    bool well = true;
    for (const Trace &trace : traces) {
        well &= compare_memory(ours, peer, trace, "G3");
    }
    well &= compare_all_pairs(options, ours, peer, "G1", "G2", {1, 8, 16});
    for (const Trace &trace : traces) {
        well &= compare_times(options, ours, peer, trace, "G3");
    }
    well &= compare_pattern(options, ours, driver, peer);
    return well;
}

/// Runs a peer's measurements with what they need; the exit code.
template <class Measure> int main_on_gpu(int count, char **values, Measure measure) try {
    const Options options = Options::read(count, values);
    Ours ours(LLAISYS_DEVICE_NVIDIA);
    const Driver driver;
    return measure(options, ours, driver) ? 0 : 1;
} catch (const std::exception &error) {
    std::fprintf(stderr, "not measured: %s\n", first_line(error).c_str());
    return 1;
}

} // namespace peers

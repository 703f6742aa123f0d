/* One result, printed as a line of JSON with the fields that every measurement of this project has.
 *
 * Rule: a ratio above 1 means that we are better, whatever the unit. */
#pragma once

#include "samples.hpp"

#include <cstdio>
#include <exception>
#include <functional>
#include <string>

namespace peers {

/// What went wrong; some peers go on with where.
inline std::string first_line(const std::exception &error) {
    const std::string text = error.what();
    return text.substr(0, text.find('\n'));
}

/// A text as JSON has it.
inline std::string quoted(const std::string &text) {
    std::string out = "\"";
    for (unsigned char c : text) {
        if (c == '"' || c == '\\') {
            out += '\\';
        }
        out += c < 0x20 ? ' ' : static_cast<char>(c);
    }
    return out + "\"";
}

/// Where something is measured.
struct Place {
    /// `cpu` or `nvidia`.
    std::string backend;
    /// The device's name.
    std::string device;
};

/// Prints a row.
inline void print_row(const Place &place, const std::string &goal, const std::string &bench,
                      const char *unit, const std::string &peer, const Summary &summary) {
    std::printf("{\"goal\":%s,\"bench\":%s,\"backend\":%s,\"device\":%s,\"unit\":\"%s\",\"ours\":%.4g,"
                "\"peer\":%s,\"theirs\":%.4g,\"ratio\":%.4g,\"p50\":%.4g,\"p99\":%.4g,\"runs\":%d}\n",
                quoted(goal).c_str(), quoted(bench).c_str(), quoted(place.backend).c_str(),
                quoted(place.device).c_str(), unit, summary.ours, quoted(peer).c_str(), summary.theirs,
                summary.theirs / summary.ours, summary.p50, summary.p99, summary.runs);
    std::fflush(stdout);
}

/// The same for what moves bytes, which is better when it is more; the p99 is what 99 of 100 reach.
inline void print_rates(const Place &place, const std::string &goal, const std::string &bench,
                        const std::string &peer, const Summary &times, double bytes) {
    std::printf("{\"goal\":%s,\"bench\":%s,\"backend\":%s,\"device\":%s,\"unit\":\"GB/s\",\"ours\":%.4g,"
                "\"peer\":%s,\"theirs\":%.4g,\"ratio\":%.4g,\"p50\":%.4g,\"p99\":%.4g,\"runs\":%d}\n",
                quoted(goal).c_str(), quoted(bench).c_str(), quoted(place.backend).c_str(),
                quoted(place.device).c_str(), bytes / times.ours, quoted(peer).c_str(),
                bytes / times.theirs, times.theirs / times.ours, bytes / times.p50, bytes / times.p99,
                times.runs);
    std::fflush(stdout);
}

/// Runs one measurement; what fails is said and the next one goes on.
inline bool attempt(const std::string &peer, const std::string &bench,
                    const std::function<void()> &measure) {
    std::fprintf(stderr, "%s: %s\n", peer.c_str(), bench.c_str());
    try {
        measure();
        return true;
    } catch (const std::exception &error) {
        std::fprintf(stderr, "not measured: %s: %s: %s\n", peer.c_str(), bench.c_str(), first_line(error).c_str());
        return false;
    }
}

} // namespace peers

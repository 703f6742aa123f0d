/* The arguments that every peer's program takes: [--trace FILE]… [--live-gib N] [--seconds N]
 * [--only KIND], of a peer that has several. */
#pragma once

#include <cstdlib>
#include <stdexcept>
#include <string>
#include <vector>

namespace peers {

/// What was asked for.
struct Options {
    /// Files in RMM's format.
    std::vector<std::string> traces;
    /// Traces are scaled down to so much live memory; 0 leaves them as they are.
    double live_gib = 0;
    /// How long a measurement goes on, about.
    double seconds = 1;
    /// Of several kinds of a peer only this one; empty: all.
    std::string only;

    bool wants(const std::string &kind) const { return only.empty() || only == kind; }

    static Options read(int count, char **values) {
        Options options;
        for (int i = 1; i < count; i += 2) {
            const std::string name = values[i];
            if (i + 1 == count) {
                throw std::invalid_argument(name + " needs a value");
            }
            const std::string value = values[i + 1];
            if (name == "--trace") {
                options.traces.push_back(value);
            } else if (name == "--live-gib") {
                options.live_gib = std::stod(value);
            } else if (name == "--seconds") {
                options.seconds = std::stod(value);
            } else if (name == "--only") {
                options.only = value;
            } else {
                throw std::invalid_argument("unknown argument " + name);
            }
        }
        return options;
    }
};

} // namespace peers

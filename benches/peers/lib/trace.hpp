/* A trace of allocations and frees, in RMM's CSV format: Thread,Time,Action,Pointer,Size,Stream.
 *
 * Rules: it is played in the file's order by one thread, whatever `Thread` says; each `Stream` but 0 is
 * a stream of its own, and 0 is calls that name none. `tools/src/trace.rs` reads the same. */
#pragma once

#include <algorithm>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <string>
#include <unordered_map>
#include <vector>

namespace peers {

/// One step: `size` bytes for a block, or its end.
struct Operation {
    bool is_allocation;
    int lane;
    std::size_t block, size;
};

/// The steps.
struct Trace {
    std::string name;
    std::vector<Operation> operations;
    std::size_t blocks = 0;
    /// Without lane 0, which is no stream.
    int streams = 0;
    /// The most bytes that are live at a time.
    double peak = 0;
    /// Whether an operation makes more live than there was before.
    std::vector<bool> is_high;

    /// Reads a file; its sizes are scaled so that at most so many GiB are live (0: as they are).
    static Trace read(const std::string &path, double live_gib) {
        std::ifstream file(path);
        if (!file) {
            throw std::runtime_error(path + ": cannot be read");
        }
        Trace trace;
        trace.name = path.substr(path.find_last_of('/') + 1);
        trace.name = trace.name.substr(0, trace.name.find('.'));
        std::unordered_map<std::string, std::size_t> live;
        std::unordered_map<std::string, int> lanes;
        std::vector<std::size_t> sizes;
        std::string line;
        std::getline(file, line);
        for (long number = 2; std::getline(file, line); ++number) {
            if (!line.empty() && line.back() == '\r') {
                line.pop_back();
            }
            std::vector<std::string> fields;
            std::stringstream text(line);
            for (std::string field; std::getline(text, field, ',');) {
                fields.push_back(field);
            }
            if (line.empty() || (fields.size() == 6 && fields[2] == "allocate failure")) {
                continue;
            }
            auto wrong = [&](const std::string &why) {
                return std::runtime_error(path + ", line " + std::to_string(number) + ": " + why);
            };
            if (fields.size() != 6) {
                throw wrong("not the six fields Thread,Time,Action,Pointer,Size,Stream");
            }
            const std::string &pointer = fields[3];
            int lane = 0;
            if (std::stoull(fields[5], nullptr, 0) != 0) {
                lane = lanes.try_emplace(fields[5], static_cast<int>(lanes.size()) + 1).first->second;
            }
            if (fields[2] == "allocate") {
                if (!live.try_emplace(pointer, sizes.size()).second) {
                    throw wrong("allocates what is live");
                }
                sizes.push_back(std::stoull(fields[4]));
                trace.operations.push_back({true, lane, sizes.size() - 1, sizes.back()});
            } else if (fields[2] == "free") {
                auto found = live.find(pointer);
                if (found == live.end()) {
                    throw wrong("frees what is not live");
                }
                trace.operations.push_back({false, lane, found->second, sizes[found->second]});
                live.erase(found);
            } else {
                throw wrong("the action is neither allocate nor free");
            }
        }
        trace.blocks = sizes.size();
        trace.streams = static_cast<int>(lanes.size());
        trace.scale(live_gib * (1 << 30));
        return trace;
    }

private:
    void scale(double most) {
        measure();
        if (most <= 0 || peak <= most) {
            return;
        }
        for (Operation &operation : operations) {
            const double size = static_cast<double>(operation.size) * most / peak;
            operation.size = std::max<std::size_t>(1, static_cast<std::size_t>(size));
        }
        measure();
        char text[64];
        std::snprintf(text, sizeof text, " scaled to %.3g GiB live", peak / (1 << 30));
        name += text;
    }

    void measure() {
        double used = 0;
        peak = 0;
        is_high.clear();
        for (const Operation &operation : operations) {
            used += (operation.is_allocation ? 1 : -1) * static_cast<double>(operation.size);
            is_high.push_back(used > peak);
            peak = std::max(peak, used);
        }
    }
};

} // namespace peers

// copy_two_streams: host to device, device to device and back, on two streams, checked and timed.
//
// An example of llaisys.hpp, and a test of it: the program ends with 0 only when every call worked
// and every byte arrived. The C twin, over LLAISYS's own table, is
// tests/clients/c/copy_two_streams.c.
//
//     c++ -std=c++17 -Iinclude copy_two_streams.cpp -lllaisys_runtime -o copy_two_streams
//     ./copy_two_streams --device nvidia --mib 256
//
// Half of the data goes through each stream. First all three legs are enqueued at once, so that the
// order within a stream is what makes the data right; then each leg is timed by itself.

#include "llaisys.hpp"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <exception>
#include <string>
#include <vector>

namespace {

struct Options {
    std::string device = "cpu";
    int ordinal = 0;
    std::size_t bytes = std::size_t{64} << 20;
    int repeat = 5;
    bool json = false;
};

struct UsageError {};

int number(const std::string &text, int least, int most) {
    try {
        std::size_t end = 0;
        const int value = std::stoi(text, &end);
        if (end == text.size() && value >= least && value <= most) {
            return value;
        }
    } catch (const std::exception &) {
    }
    throw UsageError{};
}

Options parse(const std::vector<std::string> &arguments) {
    Options options;
    for (std::size_t i = 0; i < arguments.size(); ++i) {
        const std::string &name = arguments[i];
        if (name == "--json") {
            options.json = true;
            continue;
        }
        if (++i == arguments.size()) {
            throw UsageError{};
        }
        const std::string &value = arguments[i];
        if (name == "--device" && (value == "cpu" || value == "nvidia")) {
            options.device = value;
        } else if (name == "--ordinal") {
            options.ordinal = number(value, 0, 1023);
        } else if (name == "--mib") {
            options.bytes = static_cast<std::size_t>(number(value, 1, 1 << 20)) << 20;
        } else if (name == "--repeat") {
            options.repeat = number(value, 1, 1000);
        } else {
            throw UsageError{};
        }
    }
    return options;
}

// Fills the source with data that no other round has, and the destination with something else.
void prepare(llaisys::HostRange source, llaisys::HostRange destination, unsigned round) {
    std::uint64_t state = UINT64_C(0x9E3779B97F4A7C15) * (round + 1);
    for (std::size_t i = 0; i < source.size; i += sizeof state) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        std::memcpy(static_cast<char *>(source.data) + i, &state, sizeof state);
    }
    std::memset(destination.data, 0xA5, destination.size);
}

bool same(llaisys::ConstHostRange a, llaisys::ConstHostRange b) {
    return a.size == b.size && std::memcmp(a.data, b.data, a.size) == 0;
}

const char *const LEG_NAMES[] = {"H2D", "D2D", "D2H"};

class Copies {
public:
    explicit Copies(const Options &options)
        : options_(options), device_{type(options.device), options.ordinal}, first_(device_),
          second_(device_), a_(device_, options.bytes), b_(device_, options.bytes) {}

    bool run() {
        if (!options_.json) {
            std::printf("%s device %d: %zu MiB on two streams, median of %d\n",
                        options_.device.c_str(), options_.ordinal, options_.bytes >> 20,
                        options_.repeat);
        }
        llaisys::HostBuffer pinned_source(device_, options_.bytes);
        llaisys::HostBuffer pinned_destination(device_, options_.bytes);
        std::vector<unsigned char> source(options_.bytes), destination(options_.bytes);
        const bool pinned = run("pinned", pinned_source, pinned_destination);
        const bool pageable = run("pageable", source, destination);
        return pinned && pageable;
    }

private:
    static std::int32_t type(const std::string &name) {
        return name == "cpu" ? LLAISYS_DEVICE_CPU : LLAISYS_DEVICE_NVIDIA;
    }

    void enqueue(int leg, llaisys::HostRange source, llaisys::HostRange destination) {
        const std::size_t half = options_.bytes / 2;
        std::size_t offset = 0;
        for (const llaisys::Stream *stream : {&first_, &second_}) {
            const llaisys::ConstHostRange from(static_cast<char *>(source.data) + offset, half);
            const llaisys::HostRange to(static_cast<char *>(destination.data) + offset, half);
            const llaisys::DeviceRange a(a_, offset, half), b(b_, offset, half);
            switch (leg) {
            case 0:
                llaisys::copy_async(a, from, *stream);
                break;
            case 1:
                llaisys::copy_async(b, a, *stream);
                break;
            default:
                llaisys::copy_async(to, b, *stream);
            }
            offset += half;
        }
    }

    void wait() {
        first_.synchronize();
        second_.synchronize();
    }

    bool run(const char *memory, llaisys::HostRange source, llaisys::HostRange destination) {
        using Clock = std::chrono::steady_clock;
        prepare(source, destination, 0);
        for (int leg = 0; leg < 3; ++leg) {
            enqueue(leg, source, destination);
        }
        wait();
        bool right = same(source, destination);

        std::vector<double> seconds[3];
        for (int round = 1; round <= options_.repeat; ++round) {
            prepare(source, destination, static_cast<unsigned>(round));
            for (int leg = 0; leg < 3; ++leg) {
                const auto start = Clock::now();
                enqueue(leg, source, destination);
                wait();
                seconds[leg].push_back(std::chrono::duration<double>(Clock::now() - start).count());
            }
            right = right && same(source, destination);
        }
        for (int leg = 0; leg < 3; ++leg) {
            std::sort(seconds[leg].begin(), seconds[leg].end());
            report(memory, leg, seconds[leg][seconds[leg].size() / 2], right);
        }
        if (!right) {
            std::fprintf(stderr, "copy_two_streams: the data that came back is wrong (%s memory)\n",
                         memory);
        }
        return right;
    }

    void report(const char *memory, int leg, double seconds, bool right) {
        const double rate = static_cast<double>(options_.bytes) / seconds / 1e9;
        if (options_.json) {
            std::printf("{\"client\":\"c++\",\"backend\":\"%s\",\"device\":%d,\"leg\":\"%s\","
                        "\"memory\":\"%s\",\"bytes\":%zu,\"seconds\":%.9f,\"gb_per_s\":%.3f,"
                        "\"right\":%s}\n",
                        device_.type_name().c_str(), device_.ordinal, LEG_NAMES[leg], memory,
                        options_.bytes, seconds, rate, right ? "true" : "false");
        } else {
            std::printf("  %s  %-8s  %9.3f ms  %8.2f GB/s  %s\n", LEG_NAMES[leg], memory,
                        seconds * 1e3, rate, right ? "right" : "WRONG");
        }
    }

    Options options_;
    llaisys::Device device_;
    llaisys::Stream first_, second_;
    llaisys::Buffer a_, b_;
};

} // namespace

int main(int argc, char **argv) {
    try {
        return Copies(parse(std::vector<std::string>(argv + 1, argv + argc))).run() ? 0 : 1;
    } catch (const UsageError &) {
        std::fputs("usage: copy_two_streams [--device cpu|nvidia] [--ordinal N] [--mib N] "
                   "[--repeat N] [--json]\n",
                   stderr);
        return 2;
    } catch (const std::exception &error) {
        std::fprintf(stderr, "copy_two_streams: %s\n", error.what());
        return 1;
    }
}

/* What is measured of an allocator: ours beside a peer.
 *
 * A side has: enter() once on each thread; allocate(size, stream) and free(pointer, size, stream), where
 * a stream is one of ours (on NVIDIA a CUstream) or NULL; reserved(), the bytes that it holds from the
 * system (negative when it cannot tell), and COUNTS_OTHERS, whether these hold more than the allocator's own;
 * reset(), after which it caches nothing; and a peer has name().
 *
 * Rules: no side touches the memory, so all are measured without page faults. On several threads all do
 * the same loop at the same time, each with its own stream; the slowest one counts. */
#pragma once

#include "options.hpp"
#include "ours.hpp"
#include "team.hpp"
#include "trace.hpp"

namespace peers {

/// So many pairs, timed.
template <class Side> double pairs(Side &side, std::size_t size, void *stream, long calls) {
    bool failed = false;
    const double begin = now();
    for (long i = 0; i < calls; ++i) {
        void *pointer = side.allocate(size, stream);
        failed |= pointer == nullptr;
        side.free(pointer, size, stream);
    }
    const double time = now() - begin;
    if (failed) {
        Ours::check();
        throw std::runtime_error("an allocation of the peer's failed");
    }
    return time;
}

/// Pairs of one size on so many threads.
template <class Mine, class Peer>
bool compare_pairs(const Options &options, Ours &ours, Mine mine, Peer &peer,
                   const std::string &goal, const std::string &bench, std::size_t size, int threads,
                   bool with_stream) {
    return attempt(peer.name(), bench, [&] {
        ours.set_streams(threads);
        Ours::check();
        auto stream = [&](int thread) {
            return with_stream ? ours.lanes[static_cast<std::size_t>(thread)] : nullptr;
        };
        Plan plan;
        plan.seconds = options.seconds;
        Summary summary{};
        if (threads == 1) {
            mine.enter();
            peer.enter();
            summary = interleave(
                plan, [&](long calls) { return pairs(mine, size, stream(0), calls); },
                [&](long calls) { return pairs(peer, size, stream(0), calls); });
        } else {
            Team team(threads, [&] {
                mine.enter();
                peer.enter();
            });
            summary = interleave(
                plan,
                [&](long calls) {
                    return team.run([&](int thread) { pairs(mine, size, stream(thread), calls); });
                },
                [&](long calls) {
                    return team.run([&](int thread) { pairs(peer, size, stream(thread), calls); });
                });
        }
        Ours::check();
        print_row(ours.place, goal, bench, "ns", peer.name(), summary);
    });
}

/// Plays a trace; `look` is called after each operation, with its number. Answers the nanoseconds that it took.
template <class Side, class Look>
double play(const Trace &trace, const Ours &ours, Side &side, Look look) {
    std::vector<void *> live(trace.blocks, nullptr);
    std::vector<std::pair<std::size_t, void *>> of(trace.blocks);
    std::size_t number = 0;
    bool failed = false;
    const double begin = now();
    for (const Operation &operation : trace.operations) {
        void *stream =
            operation.lane == 0
                ? nullptr
                : ours.lanes[static_cast<std::size_t>(operation.lane - 1)];
        void *&pointer = live[operation.block];
        if (operation.is_allocation) {
            pointer = side.allocate(operation.size, stream);
            of[operation.block] = {operation.size, stream};
            failed |= pointer == nullptr;
        } else {
            side.free(pointer, operation.size, stream);
            pointer = nullptr;
        }
        look(number++);
    }
    const double time = now() - begin;
    for (std::size_t block = 0; block < live.size(); ++block) {
        if (live[block] != nullptr) {
            side.free(live[block], of[block].first, of[block].second);
        }
    }
    if (failed) {
        Ours::check();
        throw std::runtime_error("an allocation of the peer's failed");
    }
    return time;
}

/// The most that a side holds while a trace is played, over what the trace has live. What the side could not
/// give back before counts; what is not the allocator's does not.
template <class Side> double overhead(const Trace &trace, const Ours &ours, Side &side) {
    side.reset();
    const double before = side.reserved();
    if (before < 0) {
        return -1;
    }
    const double others = Side::COUNTS_OTHERS ? before : 0;
    double most = 0;
    play(trace, ours, side, [&](std::size_t number) {
        if (number % 100 == 0 || trace.is_high[number]) {
            most = std::max(most, side.reserved() - others);
        }
    });
    return most / trace.peak;
}

/// The memory that a trace takes. It must come before anything else: not all peers give all of it back.
template <class Peer>
bool compare_memory(Ours &ours, Peer &peer, const Trace &trace, const std::string &goal) {
    const std::string bench = "trace " + trace.name + ", reserved over peak live";
    return attempt(peer.name(), bench, [&] {
        ours.set_streams(std::max(1, trace.streams));
        Ordered mine{ours};
        mine.enter();
        peer.enter();
        // Theirs first: what ours holds could be counted as theirs, and be gone while they play.
        const double theirs_share = overhead(trace, ours, peer);
        peer.reset();
        const double ours_share = overhead(trace, ours, mine);
        mine.reset();
        Ours::check();
        if (theirs_share < 0) {
            throw std::runtime_error("the peer does not tell what it holds");
        }
        print_row(ours.place, goal, bench, "x", peer.name(),
                  {ours_share, theirs_share, ours_share, ours_share, 1});
    });
}

/// The time that a trace takes: an operation from nothing, and when the caches are warm.
template <class Peer>
bool compare_times(const Options &options, Ours &ours, Peer &peer, const Trace &trace,
                   const std::string &goal) {
    ours.set_streams(std::max(1, trace.streams));
    Ordered mine{ours};
    mine.enter();
    peer.enter();
    const std::string name = "trace " + trace.name;
    const double operations = static_cast<double>(trace.operations.size());
    const auto nothing = [](std::size_t) {};
    bool well = true;
    well &= attempt(peer.name(), name + ", from nothing, an op", [&] {
        std::vector<double> our_times, their_times;
        const double begin = now();
        for (int run = 0; run < 3 && (run == 0 || now() - begin < 2e9 * options.seconds); ++run) {
            mine.reset();
            our_times.push_back(play(trace, ours, mine, nothing) / operations);
            mine.reset();
            peer.reset();
            their_times.push_back(play(trace, ours, peer, nothing) / operations);
            peer.reset();
        }
        Ours::check();
        print_row(ours.place, goal, name + ", from nothing, an op", "ns", peer.name(),
                  {percentile(our_times, 50), percentile(their_times, 50), percentile(our_times, 50),
                   percentile(our_times, 99), static_cast<int>(our_times.size())});
    });
    well &= attempt(peer.name(), name + ", an op", [&] {
        Plan plan;
        plan.seconds = 2 * options.seconds;
        plan.least = 3;
        plan.most = 50;
        plan.batch = 1;
        Summary summary = interleave(
            plan, [&](long) { return play(trace, ours, mine, nothing) / operations; },
            [&](long) { return play(trace, ours, peer, nothing) / operations; });
        Ours::check();
        print_row(ours.place, goal, name + ", an op", "ns", peer.name(), summary);
    });
    peer.reset();
    mine.reset();
    return well;
}

/// The size of the goals' pairs.
constexpr std::size_t PAIR = 64 << 10;

/// Pairs on one thread and on several, without a stream and on devices in a stream's order.
template <class Peer>
bool compare_all_pairs(const Options &options, Ours &ours, Peer &peer,
                       const std::string &goal_of_one, const std::string &goal_of_many,
                       const std::vector<int> &threads) {
    bool well = true;
    for (int count : threads) {
        const std::string goal = count == 1 ? goal_of_one : goal_of_many;
        const std::string end = count == 1 ? ", 1 thread" : ", " + std::to_string(count) + " threads";
        well &= compare_pairs(options, ours, Plain{ours}, peer, goal, "alloc+free 64 KiB" + end, PAIR,
                              count, false);
        if (ours.place.backend != "cpu") {
            well &= compare_pairs(options, ours, Ordered{ours}, peer, goal,
                                  "alloc+free 64 KiB in a stream's order" + end, PAIR, count, true);
        }
    }
    return well;
}

} // namespace peers

/* Threads that do one job at the same time.
 *
 * Rule: they start together, and the time ends with the last of them. The caller is one of them. */
#pragma once

#include "samples.hpp"

#include <atomic>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace peers {

/// So many threads, waiting for jobs.
class Team {
public:
    /// `enter` is called once on each.
    Team(int size, std::function<void()> enter) : size_(size) {
        enter();
        for (int index = 1; index < size; ++index) {
            threads_.emplace_back([this, index, enter] {
                guarded([&] { enter(); });
                for (long round = 1;; ++round) {
                    while (round_.load(std::memory_order_acquire) < round) {
                        std::this_thread::yield();
                    }
                    if (is_over_) {
                        return;
                    }
                    meet(round);
                    guarded([&] { (*job_)(index); });
                    done_.fetch_add(1, std::memory_order_release);
                }
            });
        }
    }

    ~Team() {
        is_over_ = true;
        round_.fetch_add(1, std::memory_order_release);
        for (std::thread &thread : threads_) {
            thread.join();
        }
    }

    Team(const Team &) = delete;
    Team &operator=(const Team &) = delete;

    /// Has all of them do it; answers the nanoseconds from the start to the last one's end.
    double run(const std::function<void(int)> &job) {
        job_ = &job;
        done_ = 0;
        const long round = round_.load() + 1;
        round_.store(round, std::memory_order_release);
        meet(round);
        const double begin = now();
        guarded([&] { job(0); });
        while (done_.load(std::memory_order_acquire) < size_ - 1) {
            std::this_thread::yield();
        }
        const double time = now() - begin;
        if (failure_) {
            std::rethrow_exception(failure_);
        }
        return time;
    }

private:
    void meet(long round) {
        ready_.fetch_add(1);
        while (ready_.load(std::memory_order_acquire) < round * size_) {
            std::this_thread::yield();
        }
    }

    template <class Job> void guarded(Job job) {
        try {
            job();
        } catch (...) {
            const std::lock_guard<std::mutex> guard(mutex_);
            failure_ = std::current_exception();
        }
    }

    const int size_;
    std::vector<std::thread> threads_;
    const std::function<void(int)> *job_ = nullptr;
    std::atomic<long> round_{0}, ready_{0};
    std::atomic<int> done_{0};
    bool is_over_ = false;
    std::mutex mutex_;
    std::exception_ptr failure_;
};

} // namespace peers

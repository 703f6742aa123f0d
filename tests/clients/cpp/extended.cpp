// extended: what llaisys.hpp promises beyond copying: events, memory of other kinds, pitched and
// batched copies, fills, accounting, slots. Each function is one promise; the program ends with 0
// when all are kept. It runs on the CPU.

#include "llaisys.hpp"

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstring>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <type_traits>
#include <vector>

namespace {

const llaisys::Device CPU{LLAISYS_DEVICE_CPU, 0};

int failures = 0;

#define REQUIRE(condition)                                                                         \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            std::fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);                   \
            ++failures;                                                                            \
        }                                                                                          \
    } while (false)

// Runs `body`, which must throw an Error with this status, and leave the slot empty.
template <class Body> void expect_error(std::int32_t status, Body body) {
    try {
        body();
    } catch (const llaisys::Error &error) {
        if (error.status() != status) {
            std::fprintf(stderr, "%s was wanted, not: %s\n", llaisysStatusName(status),
                         error.what());
            ++failures;
        }
        REQUIRE(llaisysPeekLastError(nullptr) == LLAISYS_STATUS_SUCCESS);
        return;
    }
    std::fprintf(stderr, "%s was wanted, and nothing was thrown\n", llaisysStatusName(status));
    ++failures;
}

// Whether a group of operations is there. If not, `body` must say so.
template <class Body> bool there(const std::string &operation, Body body) {
    if (CPU.supports(operation)) {
        return true;
    }
    std::printf("skipped: the backend has no %s\n", operation.c_str());
    expect_error(LLAISYS_STATUS_NOT_SUPPORTED, body);
    return false;
}

// Holds a stream up until it is opened.
class Gate {
public:
    void hold_up(const llaisys::Stream &stream) {
        llaisys::launch(stream, [this] {
            std::unique_lock<std::mutex> lock(mutex_);
            changed_.wait(lock, [this] { return open_; });
        });
    }
    void open() {
        const std::lock_guard<std::mutex> lock(mutex_);
        open_ = true;
        changed_.notify_all();
    }

private:
    std::mutex mutex_;
    std::condition_variable changed_;
    bool open_ = false;
};

template <class Owner> void cannot_be_copied_only_moved() {
    static_assert(!std::is_copy_constructible<Owner>::value, "copying would free twice");
    static_assert(!std::is_copy_assignable<Owner>::value, "copying would free twice");
    static_assert(std::is_nothrow_move_constructible<Owner>::value, "vectors want that");
    static_assert(std::is_nothrow_move_assignable<Owner>::value, "vectors want that");
    static_assert(std::is_nothrow_destructible<Owner>::value, "destructors never throw");
}

void owners_are_moved_and_never_copied_nor_sliced() {
    cannot_be_copied_only_moved<llaisys::Event>();
    cannot_be_copied_only_moved<llaisys::ManagedBuffer>();
    cannot_be_copied_only_moved<llaisys::RegisteredHost>();
    static_assert(!std::is_constructible<llaisys::detail::Block, llaisys::Buffer>::value,
                  "a base alone would free what is still owned");
    static_assert(!std::is_assignable<llaisys::Buffer &, llaisys::HostBuffer>::value,
                  "each owner frees what it allocated");

    if (there("create_event", [] { llaisys::Event event(CPU); })) {
        llaisys::Event first(CPU), second(CPU);
        const llaisysEvent_t handle = second.handle();
        first = std::move(second);
        REQUIRE(first.handle() == handle && second.handle() == nullptr); // NOLINT: that is meant
    }
}

void a_device_tells_what_it_is_and_has() {
    const llaisys::DeviceProperties properties = CPU.properties();
    REQUIRE(!properties.vendor.empty() && properties.processor_count > 0);
    REQUIRE((CPU.capabilities() & LLAISYS_CAPABILITY_DEVICE_MEMORY_IS_HOST_MEMORY) != 0);
    REQUIRE(CPU.support("memcpy_sync") == LLAISYS_SUPPORT_NATIVE);
    REQUIRE(CPU.supports("memset_async"));
    expect_error(LLAISYS_STATUS_INVALID_VALUE, [] { CPU.supports("cudaMemset"); });

    const llaisys::PeerLink link = CPU.peer_link(CPU);
    REQUIRE(link.kind == LLAISYS_LINK_SAME_DEVICE && link.can_access && link.enabled);
    const llaisys::Device other{LLAISYS_DEVICE_CPU, 4096};
    expect_error(LLAISYS_STATUS_INVALID_DEVICE, [&] { CPU.peer_link(other); });
    expect_error(LLAISYS_STATUS_INVALID_VALUE, [] { CPU.enable_peer_access(CPU); });
    expect_error(LLAISYS_STATUS_INVALID_VALUE,
                 [] { CPU.peer_link(llaisys::Device{LLAISYS_DEVICE_NVIDIA, 0}); });
}

void streams_have_flags_and_priorities() {
    if (!there("create_stream_with",
               [] { llaisys::Stream stream(CPU, LLAISYS_STREAM_NON_BLOCKING); })) {
        return;
    }
    const llaisys::PriorityRange range = CPU.priority_range();
    REQUIRE(range.greatest <= range.least);
    llaisys::Stream urgent(CPU, LLAISYS_STREAM_NON_BLOCKING, -1000000);
    REQUIRE(urgent.native() != nullptr && urgent.device() == CPU);

    // It does not wait for the default stream.
    const llaisys::Stream all = llaisys::Stream::default_stream(CPU);
    Gate gate;
    gate.hold_up(all);
    llaisys::launch(urgent, [] {});
    urgent.synchronize();
    gate.open();
    all.synchronize(); // nobody is inside the gate when it goes
    expect_error(LLAISYS_STATUS_INVALID_VALUE, [] { llaisys::Stream stream(CPU, 1u << 9); });
}

void a_stream_that_is_known_is_not_owned_twice() {
    llaisys::Stream owner(CPU);
    {
        const llaisys::Stream guest = llaisys::Stream::adopt(CPU.type, owner.native());
        REQUIRE(guest.native() == owner.native() && guest.device() == CPU);
        guest.synchronize();
    }
    owner.synchronize(); // still there
    REQUIRE(llaisysPeekLastError(nullptr) == LLAISYS_STATUS_SUCCESS);
    expect_error(CPU.supports("adopt_stream") ? LLAISYS_STATUS_INVALID_VALUE
                                              : LLAISYS_STATUS_NOT_SUPPORTED,
                 [] { llaisys::Stream::adopt(LLAISYS_DEVICE_CPU, nullptr); });
}

void an_event_orders_streams_and_measures() {
    if (!CPU.supports("create_event")) {
        return; // skipped above
    }
    llaisys::Stream first(CPU), second(CPU);
    llaisys::Event start(CPU, LLAISYS_EVENT_TIMING);
    llaisys::Event end(CPU, LLAISYS_EVENT_TIMING | LLAISYS_EVENT_BLOCKING_WAIT);
    llaisys::Event untimed(CPU);
    std::vector<int> order;
    Gate gate;

    REQUIRE(end.ready());
    second.wait(end); // never recorded: nothing to wait for
    expect_error(LLAISYS_STATUS_NOT_RECORDED, [&] { llaisys::elapsed(start, end); });
    expect_error(LLAISYS_STATUS_TIMING_DISABLED, [&] { llaisys::elapsed(untimed, end); });

    start.record(first);
    gate.hold_up(first);
    llaisys::launch(first, [&] { order.push_back(1); });
    end.record(first);
    second.wait(end);
    llaisys::launch(second, [&] { order.push_back(2); });
    start.synchronize();
    REQUIRE(!end.ready() && !second.ready());
    expect_error(LLAISYS_STATUS_NOT_READY, [&] { llaisys::elapsed(start, end); });
    std::this_thread::sleep_for(std::chrono::milliseconds(3));
    gate.open();
    end.synchronize();
    second.synchronize();
    REQUIRE(end.ready() && (order == std::vector<int>{1, 2}));
    REQUIRE(llaisys::elapsed(start, end) >= std::chrono::milliseconds(3));
    REQUIRE(llaisys::elapsed(end, start) == -llaisys::elapsed(start, end));
    REQUIRE(end.native() != nullptr && end.device() == CPU);
}

void a_buffer_of_a_stream_comes_and_goes_in_its_order() {
    const std::vector<int> out{1, 2, 3, 4};
    std::vector<int> back(4);
    auto stream = std::make_unique<llaisys::Stream>(CPU);
    llaisys::Buffer longest(CPU, 16);
    {
        llaisys::Buffer memory(*stream, out.size() * sizeof(int));
        REQUIRE(stream->statistics().used == 16);
        llaisys::copy_async(memory, out, *stream);
        llaisys::copy_async(back, memory, *stream);
        longest = std::move(memory); // plain memory goes, stream-ordered memory stays
    }
    REQUIRE(longest.size() == 16 && stream->statistics().used == 16);
    stream->synchronize();
    REQUIRE(back == out);
    stream.reset();
    const std::uint64_t used = CPU.statistics().used;
    longest = llaisys::Buffer(CPU, 0); // its stream is gone
    REQUIRE(CPU.statistics().used == used - 16);
    REQUIRE(llaisysPeekLastError(nullptr) == LLAISYS_STATUS_SUCCESS);
}

void managed_memory_is_the_hosts_and_the_devices() {
    if (!there("malloc_managed", [] { llaisys::ManagedBuffer memory(CPU, 16); })) {
        return;
    }
    llaisys::Stream stream(CPU);
    llaisys::ManagedBuffer memory(CPU, 1024 * sizeof(float));
    memory.prefetch(0, stream);
    llaisys::fill_async(memory, 2.5f, stream);
    memory.prefetch(LLAISYS_LOCATION_HOST, stream, 0, 512);
    stream.synchronize();
    REQUIRE(memory.as<float>()[0] == 2.5f && memory.as<float>()[1023] == 2.5f);
    memory.as<float>()[1] = 7;
    std::vector<float> back(1024);
    llaisys::copy(back, memory);
    REQUIRE(back[1] == 7);
    memory.advise(LLAISYS_ADVICE_SET_READ_MOSTLY);
    memory.advise(LLAISYS_ADVICE_SET_PREFERRED_LOCATION, 0, 0, 512);
    expect_error(LLAISYS_STATUS_INVALID_VALUE, [&] { memory.prefetch(0, stream, 4000, 4096); });
    REQUIRE(llaisys::pointer_attributes(CPU.type, memory.data()).kind == LLAISYS_MEMORY_MANAGED);
}

void registered_memory_is_let_go_of() {
    std::vector<char> mine(1 << 16);
    if (!there("register_host",
               [&] { llaisys::RegisteredHost pinned(CPU, mine.data(), mine.size()); })) {
        return;
    }
    {
        llaisys::RegisteredHost pinned(CPU, mine.data(), mine.size());
        const llaisys::PointerAttributes known =
            llaisys::pointer_attributes(CPU.type, mine.data() + 7);
        REQUIRE(known.kind == LLAISYS_MEMORY_REGISTERED && known.ours);
        REQUIRE(known.device && *known.device == CPU && known.size == mine.size());
        expect_error(LLAISYS_STATUS_INVALID_VALUE, [&] {
            llaisys::RegisteredHost again(CPU, mine.data(), 16);
        });
        llaisys::RegisteredHost moved(std::move(pinned));
    }
    const llaisys::PointerAttributes unknown = llaisys::pointer_attributes(CPU.type, mine.data());
    REQUIRE(unknown.kind == LLAISYS_MEMORY_PAGEABLE && !unknown.device && !unknown.ours);
}

void fills_take_values_of_five_sizes() {
    struct Sixteen {
        std::uint64_t a, b;
    };
    llaisys::Buffer memory(CPU, 1600);
    std::vector<unsigned char> back(1600);
    const auto repeats = [&](const void *value, std::size_t size) {
        llaisys::copy(back, memory);
        for (std::size_t i = 0; i < back.size(); i += size) {
            if (std::memcmp(back.data() + i, value, size) != 0) {
                return false;
            }
        }
        return true;
    };
    const char c = 'x';
    llaisys::fill(memory, c);
    REQUIRE(repeats(&c, 1));
    const std::uint16_t s = 0xbeef;
    llaisys::fill(memory, s);
    REQUIRE(repeats(&s, 2));
    const float f = 1.25f;
    llaisys::fill(memory, f);
    REQUIRE(repeats(&f, 4));
    const double d = -3.5;
    llaisys::fill(memory, d);
    REQUIRE(repeats(&d, 8));
    const Sixteen x{1, 2};
    llaisys::Stream stream(CPU);
    llaisys::fill_async(memory, x, stream);
    stream.synchronize();
    REQUIRE(repeats(&x, 16));

    llaisys::fill(llaisys::DeviceRange(memory, 0, 800), c);
    llaisys::copy(back, memory);
    REQUIRE(back[799] == 'x' && std::memcmp(back.data() + 800, &x, 16) == 0);
    expect_error(LLAISYS_STATUS_INVALID_VALUE,
                 [&] { llaisys::fill(llaisys::DeviceRange(memory, 2, 8), f); });
}

void rows_with_gaps_are_copied_in_each_direction() {
    std::vector<int> image(8 * 6), part(4 * 3), back(8 * 6, -1);
    for (std::size_t i = 0; i < image.size(); ++i) {
        image[i] = static_cast<int>(i);
    }
    const std::size_t row = 8 * sizeof(int), width = 4 * sizeof(int);
    llaisys::Buffer small(CPU, part.size() * sizeof(int)), large(CPU, image.size() * sizeof(int));
    llaisys::Stream stream(CPU);

    // Rows 1 to 3, columns 2 to 5.
    const llaisys::ConstHostRange corner(image.data() + 8 + 2, (image.size() - 10) * sizeof(int));
    llaisys::copy_2d(small, width, corner, row, width, 3);
    llaisys::copy(part, small);
    REQUIRE(part[0] == 10 && part[3] == 13 && part[4] == 18 && part[11] == 29);

    llaisys::fill(large, -1);
    llaisys::copy_2d_async(llaisys::DeviceRange(large, row, 5 * row), row, small, width, width, 3,
                           stream);                                              // D2D
    llaisys::copy_2d_async(back, row, large, row, row, 6, stream);               // D2H
    stream.synchronize();
    REQUIRE(back[7] == -1 && back[8] == 10 && back[11] == 13 && back[12] == -1 && back[16] == 18);

    // As three slices of two rows, of which the first row is taken.
    std::vector<int> first(8 * 3);
    llaisys::copy(large, image);
    const llaisys::Layout dense{row, 1}, every_other{row, 2};
    llaisys::copy_3d(first, dense, large, every_other, llaisys::Extent{row, 1, 3});
    REQUIRE(first[0] == 0 && first[8] == 16 && first[16] == 32);
    std::vector<int> again(8 * 3);
    llaisys::copy_3d_async(again, dense, first, dense, llaisys::Extent{row, 1, 3}, stream); // H2H
    stream.synchronize();
    REQUIRE(again == first);
    llaisys::copy_2d(back, row, image, row, row, 0); // nothing

    const auto invalid = [](auto body) { expect_error(LLAISYS_STATUS_INVALID_VALUE, body); };
    invalid([&] { llaisys::copy_2d(small, width, image, row, width, 4); });
    invalid([&] { llaisys::copy_2d(large, row, image, row, row, 7); });
    invalid([&] { llaisys::copy_2d(large, width, image, row, row, 2); });
    const std::size_t most = static_cast<std::size_t>(-1);
    invalid([&] { llaisys::copy_2d(large, most, image, row, width, 3); });
    invalid([&] { llaisys::copy_2d(large, row, image, row, most, 1); });
    invalid([&] {
        llaisys::copy_3d(large, llaisys::Layout{row, most}, image, dense,
                         llaisys::Extent{width, 2, most});
    });
}

void a_batch_is_copied_as_a_whole() {
    std::vector<std::vector<int>> out;
    std::vector<std::pair<llaisys::DeviceRange, llaisys::ConstHostRange>> pairs;
    llaisys::Buffer memory(CPU, 10 * 100 * sizeof(int));
    llaisys::Stream stream(CPU);
    out.reserve(10);
    for (int i = 0; i < 10; ++i) {
        out.emplace_back(100, i);
        pairs.emplace_back(llaisys::DeviceRange(memory, (9 - std::size_t(i)) * 400, 400),
                           out.back());
    }
    llaisys::copy_batch_async(pairs, stream);
    std::vector<int> back(1000);
    llaisys::copy_async(back, memory, stream);
    stream.synchronize();
    REQUIRE(back[0] == 9 && back[450] == 5 && back[999] == 0);

    pairs.emplace_back(llaisys::DeviceRange(memory, 0, 8), out[0]);
    expect_error(LLAISYS_STATUS_INVALID_VALUE, [&] { llaisys::copy_batch_async(pairs, stream); });
    llaisys::copy_batch_async(
        std::vector<std::pair<llaisys::HostRange, llaisys::ConstDeviceRange>>{}, stream);
}

void memory_is_limited_and_accounted_for() {
    const llaisys::MemoryStatistics before = CPU.statistics();
    REQUIRE(!before.limit);
    {
        llaisys::Buffer memory(CPU, 100000);
        CPU.reset_peak();
        REQUIRE(CPU.statistics().used == before.used + 100000);
        REQUIRE(CPU.statistics().live == before.live + 1);
        REQUIRE(CPU.reserved_memory() >= 100000);
        CPU.set_limit(before.used + 100001);
        REQUIRE(*CPU.statistics().limit == before.used + 100001);
        expect_error(LLAISYS_STATUS_OUT_OF_MEMORY, [] { llaisys::Buffer more(CPU, 2); });
        llaisys::Buffer fits(CPU, 1);
        CPU.set_limit(std::nullopt);
    }
    const llaisys::MemoryStatistics after = CPU.statistics();
    REQUIRE(after.used == before.used && after.failures == before.failures + 1 && !after.limit);
    REQUIRE(after.peak == before.used + 100001);
    CPU.trim();
    CPU.trim(1 << 20);
}

void a_callback_makes_room_and_is_kept_alive_while_it_is_set() {
    const std::shared_ptr<int> token = std::make_shared<int>(0);
    std::unique_ptr<llaisys::Buffer> reserve = std::make_unique<llaisys::Buffer>(CPU, 5000);
    CPU.set_limit(CPU.statistics().used + 1000);
    llaisys::set_out_of_memory_callback(
        CPU.type, [token, &reserve](llaisys::Device device, std::uint64_t requested) {
            REQUIRE(device == CPU && requested == 4000);
            ++*token;
            const bool some = reserve != nullptr;
            reserve.reset();
            return some;
        });
    REQUIRE(token.use_count() == 2);
    llaisys::Buffer memory(CPU, 4000);
    REQUIRE(*token == 1 && reserve == nullptr);
    expect_error(LLAISYS_STATUS_OUT_OF_MEMORY, [] { llaisys::Buffer more(CPU, 4000); });
    REQUIRE(*token == 2);

    // One that replaces itself while it runs is destroyed when it has returned.
    llaisys::set_out_of_memory_callback(CPU.type, [token](llaisys::Device, std::uint64_t) -> bool {
        llaisys::set_out_of_memory_callback(token.use_count() > 0 ? CPU.type : -1, {});
        ++*token;
        throw std::runtime_error("means no");
    });
    REQUIRE(token.use_count() == 2);
    expect_error(LLAISYS_STATUS_OUT_OF_MEMORY, [] { llaisys::Buffer more(CPU, 4000); });
    REQUIRE(*token == 3 && token.use_count() == 1);
    expect_error(LLAISYS_STATUS_OUT_OF_MEMORY, [] { llaisys::Buffer more(CPU, 4000); });
    REQUIRE(*token == 3);
    CPU.set_limit(std::nullopt);
    expect_error(LLAISYS_STATUS_BACKEND_UNAVAILABLE, [] {
        llaisys::set_out_of_memory_callback(LLAISYS_DEVICE_TYPE_ASCEND,
                                            [](llaisys::Device, std::uint64_t) { return false; });
    });
}

struct Counted {
    explicit Counted(std::atomic<int> &counter) : count(&counter) { ++*count; }
    Counted(const Counted &) = delete;
    Counted &operator=(const Counted &) = delete;
    ~Counted() { --*count; }
    std::atomic<int> *count;
};

// A handle of a C library, which is destroyed by a function of its own.
struct CloseHandle {
    void operator()(int *handle) const {
        *handle = -1;
        throw std::runtime_error("dropped");
    }
};

void slots_keep_values_for_a_thread_and_for_a_stream() {
    static const char key = 0;
    const auto mine = reinterpret_cast<std::uintptr_t>(&key);
    std::atomic<int> alive{0};
    std::thread([&] {
        REQUIRE(llaisys::thread_slot<Counted>(CPU, mine) == nullptr);
        llaisys::set_thread_slot(CPU, mine, std::make_unique<Counted>(alive));
        llaisys::set_thread_slot(CPU, mine, std::make_unique<Counted>(alive));
        REQUIRE(alive == 1 && llaisys::thread_slot<Counted>(CPU, mine)->count == &alive);
        expect_error(LLAISYS_STATUS_INVALID_DEVICE, [&] {
            llaisys::set_thread_slot(llaisys::Device{LLAISYS_DEVICE_CPU, 99}, mine,
                                     std::make_unique<Counted>(alive));
        });
        REQUIRE(alive == 1); // the one that was refused is gone
    }).join();
    REQUIRE(alive == 0 && llaisys::thread_slot<Counted>(CPU, mine) == nullptr);

    int handle = 5;
    {
        llaisys::Stream stream(CPU);
        stream.set_slot(mine, std::make_unique<Counted>(alive));
        stream.set_slot(mine + 1, std::unique_ptr<int, CloseHandle>(&handle));
        REQUIRE(stream.slot<Counted>(mine) != nullptr && *stream.slot<int>(mine + 1) == 5);
        stream.set_slot(mine, std::unique_ptr<Counted>());
        REQUIRE(alive == 0 && stream.slot<Counted>(mine) == nullptr);
        stream.set_slot(mine, std::make_unique<Counted>(alive));
    }
    REQUIRE(alive == 0 && handle == -1);
    const llaisys::Stream all = llaisys::Stream::default_stream(CPU);
    expect_error(LLAISYS_STATUS_INVALID_HANDLE,
                 [&] { all.set_slot(mine, std::make_unique<Counted>(alive)); });
    REQUIRE(alive == 0);
}

} // namespace

int main() {
    try {
        owners_are_moved_and_never_copied_nor_sliced();
        a_device_tells_what_it_is_and_has();
        streams_have_flags_and_priorities();
        a_stream_that_is_known_is_not_owned_twice();
        an_event_orders_streams_and_measures();
        a_buffer_of_a_stream_comes_and_goes_in_its_order();
        managed_memory_is_the_hosts_and_the_devices();
        registered_memory_is_let_go_of();
        fills_take_values_of_five_sizes();
        rows_with_gaps_are_copied_in_each_direction();
        a_batch_is_copied_as_a_whole();
        memory_is_limited_and_accounted_for();
        a_callback_makes_room_and_is_kept_alive_while_it_is_set();
        slots_keep_values_for_a_thread_and_for_a_stream();
    } catch (const std::exception &error) {
        std::fprintf(stderr, "extended: %s\n", error.what());
        return 1;
    }
    return failures == 0 ? 0 : 1;
}

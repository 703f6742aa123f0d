// owners: what llaisys.hpp promises beyond copying. Each function is one promise; the program ends
// with 0 when all are kept. It runs on the CPU.

#include "llaisys.hpp"

#include <array>
#include <atomic>
#include <cstdio>
#include <cstring>
#include <stdexcept>
#include <string>
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

// Runs `body` and hands the Error that it must throw to `look`.
template <class Body, class Look> void expect_error(Body body, Look look) {
    try {
        body();
    } catch (const llaisys::Error &error) {
        look(error);
        REQUIRE(llaisysPeekLastError(nullptr) == LLAISYS_STATUS_SUCCESS); // the slot was read
        return;
    }
    REQUIRE(!"an Error is thrown");
}

template <class Owner> void cannot_be_copied_only_moved() {
    static_assert(!std::is_copy_constructible<Owner>::value, "copying would free twice");
    static_assert(!std::is_copy_assignable<Owner>::value, "copying would free twice");
    static_assert(std::is_nothrow_move_constructible<Owner>::value, "vectors want that");
    static_assert(std::is_nothrow_move_assignable<Owner>::value, "vectors want that");
    static_assert(std::is_nothrow_destructible<Owner>::value, "destructors never throw");
}

void owners_move_and_a_moved_from_one_is_empty() {
    cannot_be_copied_only_moved<llaisys::Stream>();
    cannot_be_copied_only_moved<llaisys::Buffer>();
    cannot_be_copied_only_moved<llaisys::HostBuffer>();

    llaisys::Buffer a(CPU, 1000);
    const void *address = a.data();
    llaisys::Buffer b(std::move(a));
    REQUIRE(b.data() == address && b.size() == 1000);
    REQUIRE(a.data() == nullptr && a.size() == 0); // NOLINT: that is the promise
    a = std::move(b);
    REQUIRE(a.data() == address);

    std::vector<llaisys::Buffer> many;
    for (std::size_t i = 0; i < 20; ++i) {
        many.emplace_back(CPU, i * 100);
    }
    REQUIRE(many[0].data() == nullptr && many[19].size() == 1900);

    llaisys::Stream first(CPU), second(CPU);
    llaisysStream_t native = second.native();
    REQUIRE(native != nullptr && native != first.native());
    first = std::move(second);
    REQUIRE(first.native() == native && second.native() == nullptr); // NOLINT: as above
    a = std::move(many[19]);
    REQUIRE(a.size() == 1900 && many[19].data() == nullptr);
}

void copies_deduce_their_direction() {
    const std::vector<int> out{1, 2, 3, 4};
    std::array<int, 4> back{};
    llaisys::Buffer a(CPU, sizeof back), b(CPU, sizeof back);
    llaisys::HostBuffer pinned(CPU, sizeof back);
    llaisys::Stream stream(CPU);

    llaisys::copy(a, out);       // H2D
    llaisys::copy(b, a);         // D2D
    llaisys::copy(pinned, b);    // D2H
    llaisys::copy(back, pinned); // H2H
    REQUIRE(std::memcmp(back.data(), out.data(), sizeof back) == 0);
    REQUIRE(pinned.as<int>()[3] == 4);

    int one = 0;
    llaisys::copy_async(llaisys::HostRange(&one, sizeof one),
                        llaisys::ConstDeviceRange(a, 2 * sizeof one, sizeof one), stream);
    stream.synchronize();
    REQUIRE(one == 3);
    REQUIRE(stream.ready());

    const llaisys::Stream all = llaisys::Stream::default_stream(CPU);
    llaisys::copy_async(b, out, all, LLAISYS_COPY_HOST_BUFFER_PROMISED);
    all.synchronize();
    REQUIRE(all.native() == nullptr);
}

void an_error_tells_status_operation_and_reason() {
    expect_error([] { llaisys::Buffer(llaisys::Device{LLAISYS_DEVICE_CPU, 99}, 16); },
                 [](const llaisys::Error &error) {
                     REQUIRE(error.status() == LLAISYS_STATUS_INVALID_DEVICE);
                     REQUIRE(error.operation() == "malloc_device");
                     REQUIRE(error.native_code() == 0 && error.native_name().empty());
                     REQUIRE(std::string(error.what()).find("malloc_device: INVALID_DEVICE: ") ==
                             0);
                 });
    expect_error([] { llaisys::Buffer(CPU, static_cast<std::size_t>(-1)); },
                 [](const llaisys::Error &error) {
                     REQUIRE(error.status() == LLAISYS_STATUS_OUT_OF_MEMORY);
                 });
    expect_error([] { llaisys::Stream(llaisys::Device{LLAISYS_DEVICE_TYPE_ASCEND, 0}); },
                 [](const llaisys::Error &error) {
                     REQUIRE(error.status() == LLAISYS_STATUS_BACKEND_UNAVAILABLE);
                 });
    expect_error([] { llaisys::load_backend("/nowhere/libllaisys_backend_none.so"); },
                 [](const llaisys::Error &error) {
                     REQUIRE(error.status() == LLAISYS_STATUS_BACKEND_REFUSED);
                 });
    // It is a std::runtime_error to whoever knows no better.
    try {
        llaisys::Device{LLAISYS_DEVICE_CPU, -1}.synchronize();
        REQUIRE(!"an Error is thrown");
    } catch (const std::runtime_error &error) {
        REQUIRE(std::strstr(error.what(), "device -1") != nullptr);
    }
}

void sides_that_do_not_fit_are_an_error_before_anything_is_copied() {
    llaisys::Buffer memory(CPU, 8);
    std::vector<char> long_one(9, 'x'), back(8, 'y');
    llaisys::copy(memory, back);
    expect_error([&] { llaisys::copy(memory, long_one); },
                 [](const llaisys::Error &error) {
                     REQUIRE(error.status() == LLAISYS_STATUS_INVALID_VALUE);
                 });
    expect_error([&] { llaisys::DeviceRange(memory, 4, static_cast<std::size_t>(-2)); },
                 [](const llaisys::Error &error) {
                     REQUIRE(error.status() == LLAISYS_STATUS_INVALID_VALUE);
                 });
    llaisys::copy(back, memory);
    REQUIRE(back == std::vector<char>(8, 'y'));
}

void an_unread_failure_of_c_code_is_told_and_not_taken_for_ours() {
    const LlaisysRuntimeAPI *api = llaisysGetRuntimeAPI(LLAISYS_DEVICE_CPU);
    api->set_device(1234);
    expect_error([] { llaisys::Buffer(CPU, static_cast<std::size_t>(-1)); },
                 [](const llaisys::Error &error) {
                     REQUIRE(error.status() == LLAISYS_STATUS_OUT_OF_MEMORY);
                     REQUIRE(error.operation() == "malloc_device");
                     REQUIRE(std::string(error.what()).find("set_device") != std::string::npos);
                 });
}

void a_host_function_runs_once_in_order_and_its_exception_is_contained() {
    llaisys::Stream stream(CPU);
    std::vector<int> order;
    std::atomic<int> alive{0};
    struct Counted {
        explicit Counted(std::atomic<int> &counter) : count(&counter) { ++*count; }
        Counted(const Counted &other) : count(other.count) { ++*count; }
        Counted &operator=(const Counted &) = delete;
        ~Counted() { --*count; }
        std::atomic<int> *count;
    };
    {
        Counted counted(alive);
        llaisys::launch(stream, [&order, counted] { order.push_back(1); });
        llaisys::launch(stream, [] { throw std::runtime_error("dropped"); });
        llaisys::launch(stream,
                        [&order, owned = std::make_unique<int>(3)] { order.push_back(*owned); });
    }
    stream.synchronize();
    REQUIRE((order == std::vector<int>{1, 3}));
    REQUIRE(alive == 0);

    // A call that waits is refused inside, and says so there.
    std::int32_t status = LLAISYS_STATUS_SUCCESS;
    llaisys::launch(stream, [&] {
        try {
            CPU.synchronize();
        } catch (const llaisys::Error &error) {
            status = error.status();
        }
    });
    stream.synchronize();
    REQUIRE(status == LLAISYS_STATUS_NOT_PERMITTED);
}

void devices_and_backends_can_be_listed() {
    const std::vector<llaisys::Device> all = llaisys::Device::all();
    REQUIRE(!all.empty() && all[0] == CPU);
    REQUIRE(llaisysPeekLastError(nullptr) == LLAISYS_STATUS_SUCCESS);
    REQUIRE(llaisys::Device::count(LLAISYS_DEVICE_CPU) >= 1);

    const llaisys::DeviceProperties properties = CPU.properties();
    REQUIRE(!CPU.name().empty() && properties.processor_count > 0 && properties.total_memory > 0);
    const llaisys::MemoryInfo memory = CPU.memory_info();
    REQUIRE(memory.free && *memory.free <= memory.total);
    REQUIRE(CPU.type_name() == "cpu");

    const std::vector<llaisys::Candidate> candidates = llaisys::candidates();
    REQUIRE(!candidates.empty() && candidates[0].in_use() && candidates[0].name == "cpu");
    for (const llaisys::Candidate &candidate : candidates) {
        REQUIRE(!candidate.reason.empty());
    }
}

void a_current_device_is_kept_when_another_cannot_be_made_current() {
    CPU.set_current();
    REQUIRE(llaisys::Device::current() == CPU);
    expect_error([] { llaisys::Device{LLAISYS_DEVICE_CPU, 4096}.set_current(); },
                 [](const llaisys::Error &error) {
                     REQUIRE(error.status() == LLAISYS_STATUS_INVALID_DEVICE);
                 });
    REQUIRE(llaisys::Device::current() == CPU);
}

void owners_may_outlive_the_work_and_be_destroyed_while_it_runs() {
    llaisys::HostBuffer out(CPU, 1 << 20);
    std::memset(out.data(), 7, out.size());
    for (int i = 0; i < 50; ++i) {
        llaisys::Stream stream(CPU);
        llaisys::Buffer memory(CPU, out.size());
        llaisys::copy_async(memory, out, stream);
    }
    CPU.synchronize();
}

} // namespace

int main() {
    try {
        owners_move_and_a_moved_from_one_is_empty();
        copies_deduce_their_direction();
        an_error_tells_status_operation_and_reason();
        sides_that_do_not_fit_are_an_error_before_anything_is_copied();
        an_unread_failure_of_c_code_is_told_and_not_taken_for_ours();
        a_host_function_runs_once_in_order_and_its_exception_is_contained();
        devices_and_backends_can_be_listed();
        a_current_device_is_kept_when_another_cannot_be_made_current();
        owners_may_outlive_the_work_and_be_destroyed_while_it_runs();
    } catch (const std::exception &error) {
        std::fprintf(stderr, "owners: %s\n", error.what());
        return 1;
    }
    return failures == 0 ? 0 : 1;
}

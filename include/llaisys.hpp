/* llaisys.hpp - llaisys-runtime for C++17
 *
 * Header-only. What C tells by a status is an exception here, what C frees by hand is owned, and
 * the direction of a copy follows from the types of its two sides. Nothing is hidden: each owner
 * gives its native handle, and the C functions may be used beside these.
 *
 * Contents
 *
 *   Error                       what failed, with the status and the driver's own code
 *   candidates                  every backend that was looked at, and why one is not in use
 *   Device                      a type and an ordinal; what it is, its memory, its links
 *   Stream                      owns a stream, or uses one that somebody else made
 *   Event, elapsed              a point in a stream: asked about, waited for, measured between
 *   Buffer, HostBuffer          own device memory, pinned host memory
 *   ManagedBuffer               owns memory with one address for the host and every device
 *   RegisteredHost              pins host memory of yours for as long as it lives
 *   pointer_attributes          what an address is
 *   DeviceRange, HostRange ...  a part of a buffer; any host memory
 *   copy, copy_async            direction deduced
 *   copy_2d, copy_3d ...        rows with gaps between them
 *   copy_batch_async            many ranges with one call
 *   fill, fill_async            a value of 1, 2, 4, 8 or 16 bytes, repeated
 *   launch                      a callable inside a stream
 *   set_thread_slot ...         a value of yours per thread and device; Stream has its own
 *   set_out_of_memory_callback  asked when an allocation does not fit
 *
 * Example: a vector to a device and back
 *
 *     #include "llaisys.hpp"
 *     #include <iostream>
 *
 *     int main() {
 *         try {
 *             llaisys::Device device{LLAISYS_DEVICE_CPU, 0};
 *             llaisys::Stream stream(device);
 *             std::vector<float> out(1024, 1.5f), back(1024);
 *             llaisys::Buffer memory(device, out.size() * sizeof(float));
 *
 *             llaisys::copy_async(memory, out, stream);
 *             llaisys::copy_async(back, memory, stream);
 *             stream.synchronize();
 *             return back == out ? 0 : 1;
 *         } catch (const llaisys::Error &error) {
 *             std::cerr << error.what() << '\n';
 *             return 1;
 *         }
 *     }
 *
 * Rules
 *
 *   Threads   Any function may be called from any thread, on any object; two threads must not move
 *             or destroy the same object. A failure is thrown where it happened.
 *   Sizes     are bytes, as in C.
 *   Owners    Stream, Event, the buffers and RegisteredHost can be moved and not copied. A
 *             moved-from one is empty and may only be destroyed or assigned to. Destructors return
 *             at once, whatever the device is still doing with the memory or the stream, and never
 *             throw.
 *   Errors    Every function throws Error when it fails, and changes nothing then, unless it is
 *             noexcept. Running out of memory in C++ itself is std::bad_alloc.
 *
 * Needs exceptions, does not need RTTI. Link with llaisys_runtime.
 */
#ifndef LLAISYS_HPP
#define LLAISYS_HPP

#include "llaisys.h"
#include "llaisys/backend.h"
#include "llaisys/runtime.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

namespace llaisys {

// ---- Errors -------------------------------------------------------------------------------------

/// A call that failed. what() is one line: "memcpy_async: INVALID_VALUE: what was asked and found",
/// with the driver's name and number in brackets at the end where a driver was asked.
class Error : public std::runtime_error {
public:
    Error(std::int32_t status, std::string operation, const std::string &message,
          std::int64_t native_code = 0, std::string native_name = {})
        : std::runtime_error(line(status, operation, message, native_code, native_name)),
          status_(status), native_code_(native_code), operation_(std::move(operation)),
          native_name_(std::move(native_name)) {}

    /// What kind of failure it was: one of LLAISYS_STATUS_*.
    std::int32_t status() const noexcept { return status_; }
    /// The function that failed, for example "memcpy_async".
    const std::string &operation() const noexcept { return operation_; }
    /// The driver's number (a CUresult, an errno); 0 where no driver was asked.
    std::int64_t native_code() const noexcept { return native_code_; }
    /// The driver's name for its number; empty where no driver was asked.
    const std::string &native_name() const noexcept { return native_name_; }

private:
    static std::string line(std::int32_t status, const std::string &operation,
                            const std::string &message, std::int64_t native_code,
                            const std::string &native_name) {
        std::string text = operation + ": " + llaisysStatusName(status) + ": " + message;
        if (native_code != 0 || !native_name.empty()) {
            text += " (" + native_name + " " + std::to_string(native_code) + ")";
        }
        return text;
    }

    std::int32_t status_;
    std::int64_t native_code_;
    std::string operation_;
    std::string native_name_;
};

namespace detail {

/// Throws what the failed call left in this thread's slot. The slot keeps the first failure, so it
/// may hold an older one, of C code that nobody checked; then both are told.
[[noreturn]] inline void fail(std::int32_t status, const char *operation) {
    const LlaisysError *slot = nullptr;
    llaisysGetLastError(&slot);
    if (slot->status == status && operation == std::string(slot->operation)) {
        throw Error(status, operation, slot->message, slot->native_code, slot->native_name);
    }
    std::string message = llaisysStatusText(status);
    if (slot->status != LLAISYS_STATUS_SUCCESS) {
        message += std::string("; unread before it: ") + slot->operation + ": " + slot->message;
    }
    throw Error(status, operation, message);
}

inline void check(std::int32_t status, const char *operation) {
    if (status != LLAISYS_STATUS_SUCCESS) {
        fail(status, operation);
    }
}

/// The table of a device type.
inline const LlaisysBackendAPI &table(std::int32_t device_type) {
    const LlaisysBackendAPI *api = llaisysGetBackendAPI(device_type);
    if (api == nullptr) {
        const char *operation = "llaisysGetBackendAPI";
        const LlaisysError *slot = nullptr;
        llaisysPeekLastError(&slot);
        const bool ours = operation == std::string(slot->operation);
        fail(ours ? slot->status : LLAISYS_STATUS_BACKEND_UNAVAILABLE, operation);
    }
    if (api->struct_size < sizeof *api) {
        throw Error(LLAISYS_STATUS_ABI_MISMATCH, "llaisysGetBackendAPI",
                    std::string("the library is ") + llaisysGetVersion() +
                        ", older than this header, " LLAISYS_RUNTIME_VERSION);
    }
    return *api;
}

/// For a call whose failure is no failure of ours: takes it out of the slot again, and leaves an
/// older one that nobody read.
class Unheard {
public:
    Unheard() noexcept : unread_(llaisysPeekLastError(nullptr) != LLAISYS_STATUS_SUCCESS) {}
    Unheard(const Unheard &) = delete;
    Unheard &operator=(const Unheard &) = delete;
    ~Unheard() {
        if (!unread_) {
            llaisysGetLastError(nullptr);
        }
    }

private:
    bool unread_;
};

/// Calls the deleter of a std::unique_ptr on a value that the runtime kept.
template <class Pointer, class Deleter> void destroy_slot(void *value) noexcept {
    try {
        Deleter{}(static_cast<Pointer>(value));
    } catch (...) { // nobody is there to catch it
    }
}

template <class T, class Deleter> constexpr void check_slot() {
    static_assert(std::is_pointer<typename std::unique_ptr<T, Deleter>::pointer>::value,
                  "a slot keeps a pointer");
    static_assert(std::is_empty<Deleter>::value && std::is_default_constructible<Deleter>::value,
                  "a slot keeps no deleter; give its state a place in the value");
}

} // namespace detail

// ---- Backends -----------------------------------------------------------------------------------

/// One backend that was looked at: what it is, and why it is in use or is not.
struct Candidate {
    /// LLAISYS_STATUS_SUCCESS when it is in use; otherwise the kind of refusal.
    std::int32_t status;
    /// The device type that it serves; -1 when it did not come so far as to tell.
    std::int32_t device_type;
    /// Its name in lower case; empty when unknown.
    std::string name;
    /// The file; empty for a backend that is built in.
    std::string path;
    /// Its own version; empty when unknown.
    std::string version;
    /// Who made the devices; empty when unknown.
    std::string vendor;
    /// How it was found, or why it was refused.
    std::string reason;

    /// Whether the backend is in use.
    bool in_use() const noexcept { return status == LLAISYS_STATUS_SUCCESS; }
};

/// Every backend that was looked at, in that order, those that are built in and those that were
/// refused included.
inline std::vector<Candidate> candidates() {
    std::vector<Candidate> all;
    const std::int32_t count = llaisysGetCandidateCount();
    for (std::int32_t index = 0; index < count; ++index) {
        LlaisysCandidate one = {};
        one.struct_size = sizeof one;
        detail::check(llaisysGetCandidate(index, &one), "llaisysGetCandidate");
        all.push_back(Candidate{one.status, one.device_type, one.name, one.path, one.version,
                                one.vendor, one.reason});
    }
    return all;
}

/// Loads a backend from a file and returns the device type that it serves. See llaisysLoadBackend.
inline std::int32_t load_backend(const std::string &path) {
    std::int32_t device_type = 0;
    detail::check(llaisysLoadBackend(path.c_str(), &device_type), "llaisysLoadBackend");
    return device_type;
}

// ---- Devices ------------------------------------------------------------------------------------

/// What a device is. What is not known is 0 or empty.
struct DeviceProperties {
    /// The name, for people.
    std::string name;
    /// The vendor's name.
    std::string vendor;
    /// The PCI address as dddd:bb:dd.f.
    std::string pci_address;
    /// The vendor's identifier of this very device.
    std::array<std::uint8_t, 16> uuid;
    /// Streaming multiprocessors of a GPU, usable logical processors of a CPU.
    std::uint32_t processor_count;
    /// Memory in bytes; on a CPU what the process may use.
    std::uint64_t total_memory;
    /// The driver's version as 1000 * major + 10 * minor.
    std::int32_t driver_version;
    /// The compute capability of a CUDA device.
    std::int32_t compute_capability_major;
    std::int32_t compute_capability_minor;
    /// The version of the vendor's runtime library in this process, as driver_version.
    std::int32_t runtime_version;
    /// Size of the last-level cache (L2 of a GPU) in bytes.
    std::uint64_t l2_cache_size;
    /// The processors' top clock in kHz.
    std::uint32_t clock_rate;
    /// Whether the device shares the host's memory physically.
    bool integrated;
    /// What this very device has: bits of LLAISYS_CAPABILITY_*.
    std::uint64_t capabilities;
    /// What a CPU can compute with, for example "avx2 avx512f"; empty on a GPU.
    std::string cpu_features;
};

/// How one device reaches the memory of another.
struct PeerLink {
    /// Whether the device can read and write the peer's memory directly.
    bool can_access;
    /// Whether that is switched on.
    bool enabled;
    /// What a copy between the two takes: one of LLAISYS_LINK_*.
    std::uint32_t kind;
    /// The vendor's rank of the link, 0 is best; only to compare links of one machine.
    std::int32_t performance_rank;
    /// Whether atomic operations work over the link.
    bool native_atomics;
};

/// The priorities that streams of a device can have. A lower number is served first.
struct PriorityRange {
    /// The number of those who are served last.
    std::int32_t least;
    /// The number of those who are served first; never above `least`.
    std::int32_t greatest;
};

/// Where the memory of a device, or of a stream, went. Sizes in bytes.
struct MemoryStatistics {
    /// Handed out and not freed.
    std::uint64_t used;
    /// Held from the driver, used or cached; at least `used`.
    std::uint64_t reserved;
    /// The most that `used` was since the last reset.
    std::uint64_t peak;
    /// The number of blocks that are handed out.
    std::uint64_t live;
    /// Allocations, frees, and allocations that failed for want of memory, since the start.
    std::uint64_t allocations;
    std::uint64_t frees;
    std::uint64_t failures;
    /// The limit that was set; nothing without one.
    std::optional<std::uint64_t> limit;
};

namespace detail {

inline MemoryStatistics statistics_of(const LlaisysMemoryStatistics &s) {
    MemoryStatistics result{s.used,        s.reserved_bytes, s.peak,     s.live,
                            s.allocations, s.frees,          s.failures, std::nullopt};
    if (s.limit != LLAISYS_UNKNOWN_BYTES) {
        result.limit = s.limit;
    }
    return result;
}

} // namespace detail

/// The memory of a device now.
struct MemoryInfo {
    /// Bytes that can still be allocated; nothing where that cannot be told without making a
    /// context on a device that nobody uses.
    std::optional<std::uint64_t> free;
    /// Bytes of the device.
    std::uint64_t total;
};

/// A device: a type and an ordinal. A plain value; making one touches nothing.
struct Device {
    /// LLAISYS_DEVICE_CPU, LLAISYS_DEVICE_NVIDIA or another number of llaisys.h.
    std::int32_t type = LLAISYS_DEVICE_CPU;
    /// One of 0..count(type).
    std::int32_t ordinal = 0;

    /// The number of devices of a type. Throws the reason where there is none for one.
    static std::int32_t count(std::int32_t type) {
        std::int32_t count = 0;
        detail::check(llaisysGetDeviceCount(type, &count), "llaisysGetDeviceCount");
        return count;
    }

    /// Every device of every backend that is in use, by type and then by ordinal, in whatever order
    /// the backends were loaded. A backend without a device is left out, whatever the reason.
    static std::vector<Device> all() {
        std::vector<Device> devices;
        for (const Candidate &candidate : candidates()) {
            if (!candidate.in_use()) {
                continue;
            }
            // A count that fails is no failure here.
            const detail::Unheard unheard;
            std::int32_t count = 0;
            if (llaisysGetDeviceCount(candidate.device_type, &count) != LLAISYS_STATUS_SUCCESS) {
                continue;
            }
            for (std::int32_t ordinal = 0; ordinal < count; ++ordinal) {
                devices.push_back(Device{candidate.device_type, ordinal});
            }
        }
        std::sort(devices.begin(), devices.end(), [](const Device &one, const Device &other) {
            return std::tie(one.type, one.ordinal) < std::tie(other.type, other.ordinal);
        });
        return devices;
    }

    /// What the calling thread chose last with set_current or llaisysSetContextRuntime.
    static Device current() {
        Device device;
        detail::check(llaisysGetContextRuntime(&device.type, &device.ordinal),
                      "llaisysGetContextRuntime");
        return device;
    }

    /// The type's name in lower case, for example "cpu".
    std::string type_name() const { return llaisysDeviceTypeName(type); }

    /// The device's name, for people.
    std::string name() const { return properties().name; }

    /// What the device is. Makes no context.
    DeviceProperties properties() const {
        const LlaisysBackendAPI &api = detail::table(type);
        LlaisysDeviceProperties p = {};
        p.struct_size = sizeof p;
        detail::check(api.get_device_properties(api.self_, ordinal, &p), "get_device_properties");
        DeviceProperties result{p.name,
                                p.vendor,
                                p.pci_address,
                                {},
                                p.processor_count,
                                p.total_memory,
                                p.driver_version,
                                p.compute_capability_major,
                                p.compute_capability_minor,
                                p.runtime_version,
                                p.l2_cache_size,
                                p.clock_rate,
                                p.integrated != 0,
                                p.capabilities,
                                p.cpu_features};
        for (std::size_t i = 0; i < result.uuid.size(); ++i) {
            result.uuid[i] = p.uuid[i];
        }
        return result;
    }

    /// The device's memory now. Makes no context.
    MemoryInfo memory_info() const {
        const LlaisysBackendAPI &api = detail::table(type);
        LlaisysMemoryInfo info = {};
        info.struct_size = sizeof info;
        detail::check(api.get_memory_info(api.self_, ordinal, &info), "get_memory_info");
        MemoryInfo result{std::nullopt, info.total};
        if (info.free != LLAISYS_UNKNOWN_BYTES) {
            result.free = info.free;
        }
        return result;
    }

    /// Where the device's memory went.
    MemoryStatistics statistics() const {
        const LlaisysBackendAPI &api = detail::table(type);
        LlaisysMemoryStatistics s = {};
        s.struct_size = sizeof s;
        detail::check(api.get_memory_statistics(api.self_, ordinal, &s), "get_memory_statistics");
        return detail::statistics_of(s);
    }

    /// Bytes that are held from the driver, used or cached.
    std::uint64_t reserved_memory() const {
        const LlaisysBackendAPI &api = detail::table(type);
        std::uint64_t bytes = 0;
        detail::check(api.get_reserved_memory(api.self_, ordinal, &bytes), "get_reserved_memory");
        return bytes;
    }

    /// Begins statistics().peak anew at what is used now.
    void reset_peak() const {
        const LlaisysBackendAPI &api = detail::table(type);
        detail::check(api.reset_peak_memory(api.self_, ordinal), "reset_peak_memory");
    }

    /// Limits what may be used, in bytes; nothing takes the limit away. What is used stays.
    void set_limit(std::optional<std::uint64_t> limit) const {
        const LlaisysBackendAPI &api = detail::table(type);
        detail::check(
            api.set_memory_limit(api.self_, ordinal, limit.value_or(LLAISYS_UNKNOWN_BYTES)),
            "set_memory_limit");
    }

    /// Gives cached memory back until at most `keep` bytes are cached.
    void trim(std::uint64_t keep = 0) const {
        const LlaisysBackendAPI &api = detail::table(type);
        detail::check(api.trim_memory(api.self_, ordinal, keep), "trim_memory");
    }

    /// How the device reaches the memory of another one of its type. Makes no context.
    PeerLink peer_link(Device peer) const {
        check_peer("get_peer_link", peer);
        const LlaisysBackendAPI &api = detail::table(type);
        LlaisysPeerLink link = {};
        link.struct_size = sizeof link;
        detail::check(api.get_peer_link(api.self_, ordinal, peer.ordinal, &link), "get_peer_link");
        return PeerLink{link.can_access != 0, link.enabled != 0, link.kind, link.performance_rank,
                        link.native_atomics != 0};
    }

    /// Lets kernels on the device use the memory of `peer`. Again is fine. Copies need it not.
    void enable_peer_access(Device peer) const {
        check_peer("enable_peer_access", peer);
        const LlaisysBackendAPI &api = detail::table(type);
        detail::check(api.enable_peer_access(api.self_, ordinal, peer.ordinal),
                      "enable_peer_access");
    }

    /// The priorities that streams of the device can have.
    PriorityRange priority_range() const {
        const LlaisysBackendAPI &api = detail::table(type);
        PriorityRange range{};
        detail::check(
            api.get_stream_priority_range(api.self_, ordinal, &range.least, &range.greatest),
            "get_stream_priority_range");
        return range;
    }

    /// What the backend does itself: bits of LLAISYS_CAPABILITY_*.
    std::uint64_t capabilities() const {
        const LlaisysBackendAPI &api = detail::table(type);
        std::uint64_t bits = 0;
        detail::check(api.get_capabilities(api.self_, &bits), "get_capabilities");
        return bits;
    }

    /// How an operation is there; `operation` is the name of an entry of the table, for example
    /// "memset_async".
    LlaisysSupport support(const std::string &operation) const {
        const LlaisysBackendAPI &api = detail::table(type);
        std::int32_t answer = LLAISYS_SUPPORT_UNSUPPORTED;
        detail::check(api.get_operation_support(api.self_, operation.c_str(), &answer),
                      "get_operation_support");
        return static_cast<LlaisysSupport>(answer);
    }
    /// Whether an operation is there, whoever does it.
    bool supports(const std::string &operation) const {
        return support(operation) != LLAISYS_SUPPORT_UNSUPPORTED;
    }

    /// Whether an address is memory of this kind of device, whoever allocated it.
    bool is_device_memory(const void *address) const {
        const LlaisysBackendAPI &api = detail::table(type);
        std::int32_t answer = 0;
        detail::check(api.is_device_memory(api.self_, ordinal, address, &answer),
                      "is_device_memory");
        return answer != 0;
    }

    /// Waits until all work of the device that was enqueued before is done.
    void synchronize() const {
        const LlaisysBackendAPI &api = detail::table(type);
        detail::check(api.device_synchronize(api.self_, ordinal), "device_synchronize");
    }

    /// Makes the device current on the calling thread: for LLAISYS's table, and for the driver, so
    /// that the thread's own kernels run there. Nothing in this header depends on what is current.
    void set_current() const {
        const LlaisysBackendAPI &api = detail::table(type);
        // This one says whether it worked; the other one makes it known.
        detail::check(api.set_device(api.self_, ordinal), "set_device");
        llaisysSetContextRuntime(static_cast<llaisysDeviceType_t>(type), ordinal);
    }

    friend bool operator==(const Device &a, const Device &b) noexcept {
        return a.type == b.type && a.ordinal == b.ordinal;
    }
    friend bool operator!=(const Device &a, const Device &b) noexcept { return !(a == b); }

private:
    void check_peer(const char *operation, const Device &peer) const {
        if (peer.type != type) {
            throw Error(LLAISYS_STATUS_INVALID_VALUE, operation,
                        type_name() + " and " + peer.type_name() + " have no link");
        }
    }
};

namespace detail {

inline void check_types(const char *operation, Device a, Device b) {
    if (a.type != b.type) {
        throw Error(LLAISYS_STATUS_INVALID_VALUE, operation,
                    a.type_name() + " and " + b.type_name() + " cannot work on each other");
    }
}

} // namespace detail

// ---- Streams ------------------------------------------------------------------------------------

class Event;

/// Owns a stream: work that runs in order, independent of other streams.
class Stream {
public:
    /// Makes a stream that is ordered with the device's default stream.
    explicit Stream(Device device) : device_(device), api_(&detail::table(device.type)) {
        detail::check(api_->create_stream(api_->self_, device.ordinal, &handle_), "create_stream");
        owned_ = true;
    }

    /// Makes a stream with LLAISYS_STREAM_* and a priority, which is clamped into the device's
    /// range; a lower number is served first.
    Stream(Device device, std::uint32_t flags, std::int32_t priority = 0)
        : device_(device), api_(&detail::table(device.type)) {
        detail::check(
            api_->create_stream_with(api_->self_, device.ordinal, flags, priority, &handle_),
            "create_stream_with");
        owned_ = true;
    }

    /// The device's default stream. It is owned by nobody.
    static Stream default_stream(Device device) {
        return Stream(device, &detail::table(device.type), nullptr, false);
    }

    /// Takes in a native stream that somebody else made (a cudaStream_t of PyTorch, say) and keeps
    /// alive, longer than the result. The result lets go of it and never destroys it. Where this
    /// runtime knows the stream already, an owner is there already: the result then owns nothing.
    static Stream adopt(std::int32_t type, void *native) {
        const LlaisysBackendAPI &api = detail::table(type);
        Device device{type, 0};
        bool known = false;
        if (native != nullptr) {
            const detail::Unheard unheard;
            known = api.get_stream_device(api.self_, native, &device.ordinal) ==
                    LLAISYS_STATUS_SUCCESS;
        }
        if (!known) {
            detail::check(api.adopt_stream(api.self_, native, &device.ordinal), "adopt_stream");
        }
        return Stream(device, &api, native, !known);
    }

    Stream(Stream &&other) noexcept
        : device_(other.device_), api_(other.api_), handle_(std::exchange(other.handle_, nullptr)),
          owned_(std::exchange(other.owned_, false)) {}
    Stream &operator=(Stream &&other) noexcept {
        Stream taken(std::move(other)); // destroys what was here, at the end
        std::swap(device_, taken.device_);
        std::swap(api_, taken.api_);
        std::swap(handle_, taken.handle_);
        std::swap(owned_, taken.owned_);
        return *this;
    }

    /// Returns at once; work that is already on the stream completes.
    ~Stream() {
        if (owned_) {
            api_->destroy_stream(api_->self_, device_.ordinal, handle_);
        }
    }

    /// Waits until all work that was enqueued before is done.
    void synchronize() const {
        detail::check(api_->stream_synchronize(api_->self_, device_.ordinal, handle_),
                      "stream_synchronize");
    }

    /// Whether all work is done. Never waits.
    bool ready() const {
        std::int32_t ready = 0;
        detail::check(api_->stream_query(api_->self_, device_.ordinal, handle_, &ready),
                      "stream_query");
        return ready != 0;
    }

    /// Has what is enqueued from now on wait for the record that the event has now, also one of
    /// another device. An event that was never recorded is not waited for.
    void wait(const Event &event) const;

    /// Where the memory that was allocated on this stream went.
    MemoryStatistics statistics() const {
        LlaisysMemoryStatistics s = {};
        s.struct_size = sizeof s;
        detail::check(
            api_->get_stream_memory_statistics(api_->self_, device_.ordinal, handle_, &s),
            "get_stream_memory_statistics");
        return detail::statistics_of(s);
    }

    /// Keeps a value with the stream, under a key of yours; what was there is destroyed. The value
    /// is destroyed before the stream is. An empty pointer takes the value away. The default stream
    /// keeps nothing.
    template <class T, class Deleter>
    void set_slot(std::uint64_t key, std::unique_ptr<T, Deleter> value) const {
        detail::check_slot<T, Deleter>();
        using Pointer = typename std::unique_ptr<T, Deleter>::pointer;
        detail::check(api_->set_stream_slot(api_->self_, handle_, key, value.get(),
                                            detail::destroy_slot<Pointer, Deleter>),
                      "set_stream_slot");
        static_cast<void>(value.release()); // it belongs to the stream now
    }
    /// The value that was kept under the key, of the type that was kept; NULL when there is none.
    template <class T> T *slot(std::uint64_t key) const {
        void *value = nullptr;
        detail::check(api_->get_stream_slot(api_->self_, handle_, key, &value), "get_stream_slot");
        return static_cast<T *>(value);
    }

    /// The native handle (on NVIDIA a CUstream); NULL for the default stream. Still owned here.
    llaisysStream_t native() const noexcept { return handle_; }
    /// The device that the stream's work runs on.
    Device device() const noexcept { return device_; }
    /// The table of the device's backend, for what this header does not have.
    const LlaisysBackendAPI &api() const noexcept { return *api_; }

private:
    Stream(Device device, const LlaisysBackendAPI *api, llaisysStream_t handle, bool owned)
        : device_(device), api_(api), handle_(handle), owned_(owned) {}

    Device device_;
    const LlaisysBackendAPI *api_;
    llaisysStream_t handle_ = nullptr;
    bool owned_ = false;
};

// ---- Events -------------------------------------------------------------------------------------

/// Owns an event: a point in a stream that can be asked about, waited for and measured between.
class Event {
public:
    /// Makes an event with LLAISYS_EVENT_*: with timing, or with waits that sleep.
    explicit Event(Device device, std::uint32_t flags = LLAISYS_EVENT_NONE)
        : device_(device), api_(&detail::table(device.type)) {
        detail::check(api_->create_event(api_->self_, device.ordinal, flags, &handle_),
                      "create_event");
    }

    Event(Event &&other) noexcept
        : device_(other.device_), api_(other.api_), handle_(std::exchange(other.handle_, nullptr)) {
    }
    Event &operator=(Event &&other) noexcept {
        Event taken(std::move(other)); // destroys what was here, at the end
        std::swap(device_, taken.device_);
        std::swap(api_, taken.api_);
        std::swap(handle_, taken.handle_);
        return *this;
    }

    /// Returns at once, also when the event is not reached yet.
    ~Event() {
        if (handle_ != nullptr) {
            api_->destroy_event(api_->self_, device_.ordinal, handle_);
        }
    }

    /// Puts the event behind what the stream, one of the event's device, has now. Replaces an
    /// earlier record.
    void record(const Stream &stream) {
        detail::check_types("record_event", device_, stream.device());
        detail::check(api_->record_event(api_->self_, stream.device().ordinal, handle_,
                                         stream.native()),
                      "record_event");
    }

    /// Whether it was reached; an event that was never recorded counts as reached. Never waits.
    bool ready() const {
        std::int32_t answer = 0;
        detail::check(api_->event_query(api_->self_, device_.ordinal, handle_, &answer),
                      "event_query");
        return answer != 0;
    }

    /// Waits until it is reached.
    void synchronize() const {
        detail::check(api_->event_synchronize(api_->self_, device_.ordinal, handle_),
                      "event_synchronize");
    }

    /// The native event (on NVIDIA a CUevent). Still owned here.
    void *native() const {
        void *pointer = nullptr;
        detail::check(api_->get_native_event(api_->self_, handle_, &pointer), "get_native_event");
        return pointer;
    }
    /// The handle, for the C functions. Still owned here.
    llaisysEvent_t handle() const noexcept { return handle_; }
    /// The device on whose streams it may be recorded.
    Device device() const noexcept { return device_; }
    /// The table of the device's backend, for what this header does not have.
    const LlaisysBackendAPI &api() const noexcept { return *api_; }

private:
    Device device_;
    const LlaisysBackendAPI *api_;
    llaisysEvent_t handle_ = nullptr;
};

inline void Stream::wait(const Event &event) const {
    detail::check_types("stream_wait_event", device_, event.device());
    detail::check(
        api_->stream_wait_event(api_->self_, device_.ordinal, handle_, event.handle()),
        "stream_wait_event");
}

/// The time from one event to another, both of one device, made with LLAISYS_EVENT_TIMING, recorded
/// and reached; negative when `end` was reached first. Throws TIMING_DISABLED, NOT_RECORDED or
/// NOT_READY otherwise.
inline std::chrono::nanoseconds elapsed(const Event &start, const Event &end) {
    detail::check_types("event_elapsed", start.device(), end.device());
    const LlaisysBackendAPI &api = start.api();
    std::int64_t nanoseconds = 0;
    detail::check(api.event_elapsed(api.self_, start.device().ordinal, start.handle(),
                                    end.handle(), &nanoseconds),
                  "event_elapsed");
    return std::chrono::nanoseconds(nanoseconds);
}

// ---- Memory -------------------------------------------------------------------------------------

namespace detail {

/// Owns one block of memory. The owners differ in how it is made, in what frees it, and in what
/// they may be passed to.
class Block {
public:
    /// The address. NULL when the size is 0.
    void *data() noexcept { return data_; }
    const void *data() const noexcept { return data_; }
    /// Bytes.
    std::size_t size() const noexcept { return size_; }
    /// The device that it was allocated for.
    Device device() const noexcept { return device_; }

protected:
    /// Frees a block.
    using Release = void (*)(const LlaisysBackendAPI &api, std::int32_t ordinal, void *data,
                             llaisysStream_t stream) noexcept;

    Block(Device device, std::size_t size, Release release, llaisysStream_t stream = nullptr)
        : device_(device), api_(&table(device.type)), size_(size), stream_(stream),
          release_(release) {}
    Block(Block &&other) noexcept
        : device_(other.device_), api_(other.api_), size_(std::exchange(other.size_, 0)),
          data_(std::exchange(other.data_, nullptr)), stream_(other.stream_),
          release_(other.release_) {}
    Block &operator=(Block &&other) noexcept {
        Block taken(std::move(other)); // frees what was here, at the end
        std::swap(device_, taken.device_);
        std::swap(api_, taken.api_);
        std::swap(size_, taken.size_);
        std::swap(data_, taken.data_);
        std::swap(stream_, taken.stream_);
        std::swap(release_, taken.release_);
        return *this;
    }
    ~Block() {
        if (data_ != nullptr) {
            release_(*api_, device_.ordinal, data_, stream_);
        }
    }

    Device device_;
    const LlaisysBackendAPI *api_;
    std::size_t size_;
    void *data_ = nullptr;
    /// For whose stream the memory was made, if for one's.
    llaisysStream_t stream_;
    Release release_;
};

/// A part of `size` bytes out of `whole` bytes.
inline void check_part(std::size_t offset, std::size_t size, std::size_t whole) {
    if (offset > whole || size > whole - offset) {
        throw Error(LLAISYS_STATUS_INVALID_VALUE, "range",
                    std::to_string(size) + " bytes from offset " + std::to_string(offset) +
                        " were asked for; there are " + std::to_string(whole));
    }
}

} // namespace detail

/// Owns device memory, aligned to at least 256 bytes. Its content is arbitrary at first.
class Buffer : public detail::Block {
public:
    Buffer(Device device, std::size_t size) : Block(device, size, free_device) {
        detail::check(api_->malloc_device(api_->self_, device.ordinal, size, &data_),
                      "malloc_device");
    }

    /// Allocates in the order of a stream, and frees in its order: the memory is there for what
    /// comes later on the stream, and other streams must be done with it, by events, when the
    /// buffer is destroyed. If the stream is gone by then, it is freed as any other buffer.
    Buffer(const Stream &stream, std::size_t size)
        : Block(stream.device(), size, free_async, stream.native()) {
        detail::check(
            api_->malloc_async(api_->self_, device_.ordinal, size, stream_, &data_),
            "malloc_async");
    }

private:
    static void free_device(const LlaisysBackendAPI &api, std::int32_t ordinal, void *data,
                            llaisysStream_t) noexcept {
        api.free_device(api.self_, ordinal, data);
    }
    static void free_async(const LlaisysBackendAPI &api, std::int32_t ordinal, void *data,
                           llaisysStream_t stream) noexcept {
        std::int32_t status;
        {
            const detail::Unheard unheard;
            status = api.free_async(api.self_, ordinal, data, stream);
        }
        if (status != LLAISYS_STATUS_SUCCESS) {
            free_device(api, ordinal, data, stream);
        }
    }
};

/// Owns pinned host memory, aligned to at least 64 bytes: copies from and to it are fast and
/// asynchronous on every device of the type.
class HostBuffer : public detail::Block {
public:
    HostBuffer(Device device, std::size_t size) : Block(device, size, free_host) {
        detail::check(api_->malloc_host(api_->self_, device.ordinal, size, &data_), "malloc_host");
    }

    /// The content as elements of a type.
    template <class T> T *as() noexcept { return static_cast<T *>(data()); }
    template <class T> const T *as() const noexcept { return static_cast<const T *>(data()); }

private:
    static void free_host(const LlaisysBackendAPI &api, std::int32_t ordinal, void *data,
                          llaisysStream_t) noexcept {
        api.free_host(api.self_, ordinal, data);
    }
};

/// Owns managed memory: one address for the host and every device of the type, moved as needed. A
/// copy takes it for device memory; the host reads and writes it through as() when no work on a
/// device uses it.
class ManagedBuffer : public detail::Block {
public:
    ManagedBuffer(Device device, std::size_t size) : Block(device, size, free_managed) {
        detail::check(api_->malloc_managed(api_->self_, device.ordinal, size, &data_),
                      "malloc_managed");
    }

    /// The content as elements of a type.
    template <class T> T *as() noexcept { return static_cast<T *>(data()); }
    template <class T> const T *as() const noexcept { return static_cast<const T *>(data()); }

    /// Moves it, in the order of the stream, to a device ordinal or to LLAISYS_LOCATION_HOST.
    void prefetch(std::int32_t location, const Stream &stream) {
        prefetch(location, stream, 0, size_);
    }
    /// Moves a part of it.
    void prefetch(std::int32_t location, const Stream &stream, std::size_t offset,
                  std::size_t bytes) {
        detail::check_part(offset, bytes, size_);
        detail::check_types("prefetch_managed", device_, stream.device());
        detail::check(api_->prefetch_managed(api_->self_, stream.device().ordinal, at(offset),
                                             bytes, location, stream.native()),
                      "prefetch_managed");
    }

    /// Tells the driver how it will be used; the location is a device ordinal or
    /// LLAISYS_LOCATION_HOST, and does not matter for LLAISYS_ADVICE_SET_READ_MOSTLY.
    void advise(LlaisysAdvice advice, std::int32_t location = LLAISYS_LOCATION_HOST) {
        advise(advice, location, 0, size_);
    }
    /// Advises about a part of it.
    void advise(LlaisysAdvice advice, std::int32_t location, std::size_t offset,
                std::size_t bytes) {
        detail::check_part(offset, bytes, size_);
        detail::check(api_->advise_managed(api_->self_, device_.ordinal, at(offset), bytes,
                                           static_cast<std::uint32_t>(advice), location),
                      "advise_managed");
    }

private:
    void *at(std::size_t offset) noexcept { return static_cast<char *>(data_) + offset; }

    static void free_managed(const LlaisysBackendAPI &api, std::int32_t ordinal, void *data,
                             llaisysStream_t) noexcept {
        api.free_managed(api.self_, ordinal, data);
    }
};

/// Pins host memory that somebody else owns, for as long as it lives: copies from and to it are
/// then fast and asynchronous on every device of the type. The memory must live longer, and copies
/// must be done with it when this is destroyed.
class RegisteredHost : public detail::Block {
public:
    RegisteredHost(Device device, void *pointer, std::size_t bytes)
        : Block(device, bytes, unregister) {
        detail::check(api_->register_host(api_->self_, device.ordinal, pointer, bytes),
                      "register_host");
        data_ = pointer;
    }

private:
    static void unregister(const LlaisysBackendAPI &api, std::int32_t ordinal, void *data,
                           llaisysStream_t) noexcept {
        api.unregister_host(api.self_, ordinal, data);
    }
};

/// What is known of an address.
struct PointerAttributes {
    /// One of LLAISYS_MEMORY_*.
    std::uint32_t kind;
    /// The device it is on, or for which it was pinned; nothing for pageable memory.
    std::optional<Device> device;
    /// The first byte and the size of the block; 0 for pageable memory.
    std::uint64_t base;
    std::uint64_t size;
    /// Whether this runtime allocated or registered it.
    bool ours;
};

/// What is known of an address. Memory of this runtime is known whatever `type` is; of other memory
/// the backend of that type is asked.
inline PointerAttributes pointer_attributes(std::int32_t type, const void *address) {
    const LlaisysBackendAPI &api = detail::table(type);
    LlaisysPointerAttributes a = {};
    a.struct_size = sizeof a;
    detail::check(api.get_pointer_attributes(api.self_, address, &a), "get_pointer_attributes");
    PointerAttributes result{a.kind, std::nullopt, a.base, a.size, a.ours != 0};
    if (a.device_type >= 0) {
        result.device = Device{a.device_type, a.device};
    }
    return result;
}

// ---- Ranges -------------------------------------------------------------------------------------

/// Device memory to copy to: a Buffer or a ManagedBuffer, or a part of one. Owns nothing.
struct DeviceRange {
    DeviceRange(Buffer &buffer) noexcept
        : device(buffer.device()), data(buffer.data()), size(buffer.size()) {}
    DeviceRange(ManagedBuffer &buffer) noexcept
        : device(buffer.device()), data(buffer.data()), size(buffer.size()) {}
    DeviceRange(Buffer &buffer, std::size_t offset, std::size_t bytes)
        : DeviceRange(DeviceRange(buffer), offset, bytes) {}
    DeviceRange(ManagedBuffer &buffer, std::size_t offset, std::size_t bytes)
        : DeviceRange(DeviceRange(buffer), offset, bytes) {}
    DeviceRange(const DeviceRange &whole, std::size_t offset, std::size_t bytes)
        : DeviceRange(whole) {
        detail::check_part(offset, bytes, size);
        data = static_cast<char *>(data) + offset;
        size = bytes;
    }
    /// Device memory that something else owns.
    DeviceRange(Device where, void *pointer, std::size_t bytes) noexcept
        : device(where), data(pointer), size(bytes) {}

    Device device;
    void *data;
    std::size_t size;
};

/// Device memory to copy from. Owns nothing.
struct ConstDeviceRange {
    ConstDeviceRange(const Buffer &buffer) noexcept
        : device(buffer.device()), data(buffer.data()), size(buffer.size()) {}
    ConstDeviceRange(const ManagedBuffer &buffer) noexcept
        : device(buffer.device()), data(buffer.data()), size(buffer.size()) {}
    ConstDeviceRange(const Buffer &buffer, std::size_t offset, std::size_t bytes)
        : ConstDeviceRange(ConstDeviceRange(buffer), offset, bytes) {}
    ConstDeviceRange(const ManagedBuffer &buffer, std::size_t offset, std::size_t bytes)
        : ConstDeviceRange(ConstDeviceRange(buffer), offset, bytes) {}
    ConstDeviceRange(const ConstDeviceRange &whole, std::size_t offset, std::size_t bytes)
        : ConstDeviceRange(whole) {
        detail::check_part(offset, bytes, size);
        data = static_cast<const char *>(data) + offset;
        size = bytes;
    }
    ConstDeviceRange(Device where, const void *pointer, std::size_t bytes) noexcept
        : device(where), data(pointer), size(bytes) {}
    ConstDeviceRange(const DeviceRange &range) noexcept
        : device(range.device), data(range.data), size(range.size) {}

    Device device;
    const void *data;
    std::size_t size;
};

namespace detail {

/// What data() of a container points to, when that may be copied as bytes.
template <class Container>
using Element = std::enable_if_t<
    std::is_trivially_copyable<
        std::remove_pointer_t<decltype(std::declval<Container &>().data())>>::value &&
        std::is_convertible<decltype(std::declval<Container &>().size()), std::size_t>::value,
    std::remove_pointer_t<decltype(std::declval<Container &>().data())>>;

} // namespace detail

/// Host memory to copy to: a HostBuffer (pinned), or anything with data() and size() such as a
/// vector, or a pointer and a number of bytes. Owns nothing.
struct HostRange {
    HostRange(HostBuffer &buffer) noexcept : data(buffer.data()), size(buffer.size()) {}
    HostRange(HostBuffer &buffer, std::size_t offset, std::size_t bytes) : HostRange(buffer) {
        detail::check_part(offset, bytes, size);
        data = static_cast<char *>(data) + offset;
        size = bytes;
    }
    template <class Container, class T = detail::Element<Container>,
              class = std::enable_if_t<!std::is_const<T>::value>>
    HostRange(Container &container) : data(container.data()), size(container.size() * sizeof(T)) {}
    HostRange(void *pointer, std::size_t bytes) noexcept : data(pointer), size(bytes) {}

    void *data;
    std::size_t size;
};

/// Host memory to copy from. Owns nothing.
struct ConstHostRange {
    ConstHostRange(const HostBuffer &buffer) noexcept : data(buffer.data()), size(buffer.size()) {}
    ConstHostRange(const HostBuffer &buffer, std::size_t offset, std::size_t bytes)
        : ConstHostRange(buffer) {
        detail::check_part(offset, bytes, size);
        data = static_cast<const char *>(data) + offset;
        size = bytes;
    }
    template <class Container, class T = detail::Element<const Container>>
    ConstHostRange(const Container &container)
        : data(container.data()), size(container.size() * sizeof(T)) {}
    ConstHostRange(const void *pointer, std::size_t bytes) noexcept : data(pointer), size(bytes) {}
    ConstHostRange(const HostRange &range) noexcept : data(range.data), size(range.size) {}

    const void *data;
    std::size_t size;
};

// ---- Copies -------------------------------------------------------------------------------------

namespace detail {

inline void check_sides(const char *operation, std::size_t dst, std::size_t src) {
    if (dst != src) {
        throw Error(LLAISYS_STATUS_INVALID_VALUE, operation,
                    "the destination has " + std::to_string(dst) + " bytes, the source " +
                        std::to_string(src));
    }
}

inline void copy(Device device, void *dst, std::size_t dst_size, const void *src,
                 std::size_t src_size, llaisysMemcpyKind_t kind) {
    check_sides("memcpy_sync", dst_size, src_size);
    const LlaisysBackendAPI &api = table(device.type);
    check(api.memcpy_sync(api.self_, device.ordinal, dst, src, src_size, kind, LLAISYS_COPY_NONE),
          "memcpy_sync");
}

inline void copy_async(const Stream &stream, void *dst, std::size_t dst_size, const void *src,
                       std::size_t src_size, llaisysMemcpyKind_t kind, std::uint32_t flags) {
    check_sides("memcpy_async", dst_size, src_size);
    const LlaisysBackendAPI &api = stream.api();
    check(api.memcpy_async(api.self_, stream.device().ordinal, dst, src, src_size, kind,
                           stream.native(), flags),
          "memcpy_async");
}

} // namespace detail

/// Copies the whole source and waits. Both sides must have the same size. The copy is ordered after
/// earlier work of the device; when it returns the data is there for the host and for every stream.
inline void copy(DeviceRange dst, ConstHostRange src) {
    detail::copy(dst.device, dst.data, dst.size, src.data, src.size, LLAISYS_MEMCPY_H2D);
}
inline void copy(HostRange dst, ConstDeviceRange src) {
    detail::copy(src.device, dst.data, dst.size, src.data, src.size, LLAISYS_MEMCPY_D2H);
}
inline void copy(DeviceRange dst, ConstDeviceRange src) {
    detail::check_types("memcpy_sync", dst.device, src.device);
    detail::copy(dst.device, dst.data, dst.size, src.data, src.size, LLAISYS_MEMCPY_D2D);
}
inline void copy(HostRange dst, ConstHostRange src) {
    detail::copy(Device{}, dst.data, dst.size, src.data, src.size, LLAISYS_MEMCPY_H2H);
}

/// Enqueues a copy of the whole source. Both sides must have the same size. Pinned memory and
/// device memory must stay as they are until the stream has passed. Other host memory may be a
/// local variable: a source has been read, a destination has been written when the call returns,
/// unless `flags` has LLAISYS_COPY_HOST_BUFFER_PROMISED.
inline void copy_async(DeviceRange dst, ConstHostRange src, const Stream &stream,
                       std::uint32_t flags = LLAISYS_COPY_NONE) {
    detail::check_types("memcpy_async", dst.device, stream.device());
    detail::copy_async(stream, dst.data, dst.size, src.data, src.size, LLAISYS_MEMCPY_H2D, flags);
}
inline void copy_async(HostRange dst, ConstDeviceRange src, const Stream &stream,
                       std::uint32_t flags = LLAISYS_COPY_NONE) {
    detail::check_types("memcpy_async", src.device, stream.device());
    detail::copy_async(stream, dst.data, dst.size, src.data, src.size, LLAISYS_MEMCPY_D2H, flags);
}
inline void copy_async(DeviceRange dst, ConstDeviceRange src, const Stream &stream,
                       std::uint32_t flags = LLAISYS_COPY_NONE) {
    detail::check_types("memcpy_async", dst.device, src.device);
    detail::check_types("memcpy_async", dst.device, stream.device());
    detail::copy_async(stream, dst.data, dst.size, src.data, src.size, LLAISYS_MEMCPY_D2D, flags);
}
inline void copy_async(HostRange dst, ConstHostRange src, const Stream &stream,
                       std::uint32_t flags = LLAISYS_COPY_NONE) {
    detail::copy_async(stream, dst.data, dst.size, src.data, src.size, LLAISYS_MEMCPY_H2H, flags);
}

// ---- Pitched copies -----------------------------------------------------------------------------

/// How many bytes a row has, how many rows a slice, and how many slices there are.
struct Extent {
    std::size_t width;
    std::size_t height = 1;
    std::size_t depth = 1;
};

/// How rows lie in memory: row y of slice z begins (z * slice_height + y) * pitch bytes after the
/// first.
struct Layout {
    /// Bytes from one row to the next.
    std::size_t pitch;
    /// Rows from one slice to the next; 0 when the slices follow each other without a gap.
    std::size_t slice_height = 0;
};

namespace detail {

/// Whether the rows stay inside a range of `size` bytes. Empty copies stay inside anything.
inline bool holds(std::size_t size, Layout layout, Extent e) {
    if (e.width == 0 || e.height == 0 || e.depth == 0) {
        return true;
    }
    // Division, because the products may wrap.
    std::size_t rows = e.height - 1;
    if (e.depth > 1) {
        const std::size_t most = static_cast<std::size_t>(-1);
        if (layout.slice_height > (most - rows) / (e.depth - 1)) {
            return false;
        }
        rows += (e.depth - 1) * layout.slice_height;
    }
    return e.width <= size && (rows == 0 || layout.pitch <= (size - e.width) / rows);
}

inline LlaisysCopy3D pitched(const char *operation, void *dst, std::size_t dst_size,
                             Layout dst_layout, const void *src, std::size_t src_size,
                             Layout src_layout, Extent e, llaisysMemcpyKind_t kind) {
    for (Layout *layout : {&dst_layout, &src_layout}) {
        if (layout->slice_height == 0) {
            layout->slice_height = e.height;
        }
    }
    if (!holds(dst_size, dst_layout, e) || !holds(src_size, src_layout, e)) {
        throw Error(LLAISYS_STATUS_INVALID_VALUE, operation,
                    std::to_string(e.depth) + " slices of " + std::to_string(e.height) +
                        " rows of " + std::to_string(e.width) +
                        " bytes do not fit; the destination has " + std::to_string(dst_size) +
                        " bytes, the source " + std::to_string(src_size));
    }
    LlaisysCopy3D c = {};
    c.struct_size = sizeof c;
    c.kind = kind;
    c.dst = dst;
    c.dst_pitch = dst_layout.pitch;
    c.dst_slice_height = dst_layout.slice_height;
    c.src = src;
    c.src_pitch = src_layout.pitch;
    c.src_slice_height = src_layout.slice_height;
    c.width = e.width;
    c.height = e.height;
    c.depth = e.depth;
    return c;
}

/// Which side of a copy each range is, and so the kind.
template <class Range>
using is_device_range =
    std::integral_constant<bool, std::is_same<Range, DeviceRange>::value ||
                                     std::is_same<Range, ConstDeviceRange>::value>;

template <class Dst, class Src> constexpr llaisysMemcpyKind_t kind_of() {
    return is_device_range<Dst>::value
               ? (is_device_range<Src>::value ? LLAISYS_MEMCPY_D2D : LLAISYS_MEMCPY_H2D)
               : (is_device_range<Src>::value ? LLAISYS_MEMCPY_D2H : LLAISYS_MEMCPY_H2H);
}

inline void check_device(const char *operation, const DeviceRange &range, Device device) {
    check_types(operation, range.device, device);
}
inline void check_device(const char *operation, const ConstDeviceRange &range, Device device) {
    check_types(operation, range.device, device);
}
inline void check_device(const char *, const HostRange &, Device) {}
inline void check_device(const char *, const ConstHostRange &, Device) {}

template <class Dst, class Src>
void copy_rows(Device device, const Dst &dst, Layout dst_layout, const Src &src, Layout src_layout,
               Extent extent) {
    const char *operation = "memcpy_3d_sync";
    check_device(operation, dst, device);
    check_device(operation, src, device);
    const LlaisysBackendAPI &api = table(device.type);
    const LlaisysCopy3D c = pitched(operation, dst.data, dst.size, dst_layout, src.data, src.size,
                                    src_layout, extent, kind_of<Dst, Src>());
    check(api.memcpy_3d_sync(api.self_, device.ordinal, &c), operation);
}

template <class Dst, class Src>
void enqueue_rows(const Dst &dst, Layout dst_layout, const Src &src, Layout src_layout,
                  Extent extent, const Stream &stream, std::uint32_t flags) {
    const char *operation = "memcpy_3d_async";
    check_device(operation, dst, stream.device());
    check_device(operation, src, stream.device());
    const LlaisysBackendAPI &api = stream.api();
    const LlaisysCopy3D c = pitched(operation, dst.data, dst.size, dst_layout, src.data, src.size,
                                    src_layout, extent, kind_of<Dst, Src>());
    check(api.memcpy_3d_async(api.self_, stream.device().ordinal, &c, stream.native(), flags),
          operation);
}

} // namespace detail

/// Copies slices of rows that lie apart, and waits; see copy(). Each range must hold its rows.
inline void copy_3d(DeviceRange dst, Layout dst_layout, ConstHostRange src, Layout src_layout,
                    Extent extent) {
    detail::copy_rows(dst.device, dst, dst_layout, src, src_layout, extent);
}
inline void copy_3d(HostRange dst, Layout dst_layout, ConstDeviceRange src, Layout src_layout,
                    Extent extent) {
    detail::copy_rows(src.device, dst, dst_layout, src, src_layout, extent);
}
inline void copy_3d(DeviceRange dst, Layout dst_layout, ConstDeviceRange src, Layout src_layout,
                    Extent extent) {
    detail::copy_rows(dst.device, dst, dst_layout, src, src_layout, extent);
}
inline void copy_3d(HostRange dst, Layout dst_layout, ConstHostRange src, Layout src_layout,
                    Extent extent) {
    detail::copy_rows(Device{}, dst, dst_layout, src, src_layout, extent);
}

/// Enqueues a copy of slices of rows that lie apart; what copy_async() says of host memory holds.
inline void copy_3d_async(DeviceRange dst, Layout dst_layout, ConstHostRange src,
                          Layout src_layout, Extent extent, const Stream &stream,
                          std::uint32_t flags = LLAISYS_COPY_NONE) {
    detail::enqueue_rows(dst, dst_layout, src, src_layout, extent, stream, flags);
}
inline void copy_3d_async(HostRange dst, Layout dst_layout, ConstDeviceRange src,
                          Layout src_layout, Extent extent, const Stream &stream,
                          std::uint32_t flags = LLAISYS_COPY_NONE) {
    detail::enqueue_rows(dst, dst_layout, src, src_layout, extent, stream, flags);
}
inline void copy_3d_async(DeviceRange dst, Layout dst_layout, ConstDeviceRange src,
                          Layout src_layout, Extent extent, const Stream &stream,
                          std::uint32_t flags = LLAISYS_COPY_NONE) {
    detail::enqueue_rows(dst, dst_layout, src, src_layout, extent, stream, flags);
}
inline void copy_3d_async(HostRange dst, Layout dst_layout, ConstHostRange src, Layout src_layout,
                          Extent extent, const Stream &stream,
                          std::uint32_t flags = LLAISYS_COPY_NONE) {
    detail::enqueue_rows(dst, dst_layout, src, src_layout, extent, stream, flags);
}

/// Copies rows that lie `dst_pitch` and `src_pitch` bytes apart, and waits; the sides are those of
/// copy().
template <class Dst, class Src>
void copy_2d(Dst &&dst, std::size_t dst_pitch, Src &&src, std::size_t src_pitch, std::size_t width,
             std::size_t height) {
    llaisys::copy_3d(std::forward<Dst>(dst), Layout{dst_pitch}, std::forward<Src>(src),
                     Layout{src_pitch}, Extent{width, height});
}

/// Enqueues a copy of rows that lie `dst_pitch` and `src_pitch` bytes apart; the sides are those of
/// copy_async().
template <class Dst, class Src>
void copy_2d_async(Dst &&dst, std::size_t dst_pitch, Src &&src, std::size_t src_pitch,
                   std::size_t width, std::size_t height, const Stream &stream,
                   std::uint32_t flags = LLAISYS_COPY_NONE) {
    llaisys::copy_3d_async(std::forward<Dst>(dst), Layout{dst_pitch}, std::forward<Src>(src),
                           Layout{src_pitch}, Extent{width, height}, stream, flags);
}

// ---- Batched copies -----------------------------------------------------------------------------

/// Enqueues many copies with one call, in any order among themselves; either all or, when one
/// cannot be, none. What copy_async() says of host memory holds.
///
///     std::vector<std::pair<llaisys::DeviceRange, llaisys::ConstHostRange>> pairs;
///     pairs.emplace_back(memory, out);
template <class Dst, class Src>
void copy_batch_async(const std::vector<std::pair<Dst, Src>> &pairs, const Stream &stream,
                      std::uint32_t flags = LLAISYS_COPY_NONE) {
    const char *operation = "memcpy_batch_async";
    std::vector<LlaisysCopyRange> ranges;
    ranges.reserve(pairs.size());
    for (const std::pair<Dst, Src> &pair : pairs) {
        detail::check_device(operation, pair.first, stream.device());
        detail::check_device(operation, pair.second, stream.device());
        detail::check_sides(operation, pair.first.size, pair.second.size);
        ranges.push_back(LlaisysCopyRange{pair.first.data, pair.second.data, pair.first.size});
    }
    const LlaisysBackendAPI &api = stream.api();
    detail::check(api.memcpy_batch_async(api.self_, stream.device().ordinal, ranges.data(),
                                         ranges.size(), sizeof(LlaisysCopyRange),
                                         detail::kind_of<Dst, Src>(), stream.native(), flags),
                  operation);
}

// ---- Fills --------------------------------------------------------------------------------------

namespace detail {

template <class T> constexpr void check_pattern() {
    static_assert(std::is_trivially_copyable<T>::value, "a fill copies the bytes of its value");
    static_assert(sizeof(T) == 1 || sizeof(T) == 2 || sizeof(T) == 4 || sizeof(T) == 8 ||
                      sizeof(T) == 16,
                  "a fill repeats 1, 2, 4, 8 or 16 bytes");
}

} // namespace detail

/// Fills device memory with copies of a value, and waits. Address and size of the range must be
/// multiples of the value's size.
template <class T> void fill(DeviceRange dst, const T &value) {
    detail::check_pattern<T>();
    const LlaisysBackendAPI &api = detail::table(dst.device.type);
    detail::check(api.memset_sync(api.self_, dst.device.ordinal, dst.data, &value,
                                  std::uint32_t{sizeof(T)}, dst.size),
                  "memset_sync");
}

/// Enqueues a fill. The value has been read when the call returns.
template <class T> void fill_async(DeviceRange dst, const T &value, const Stream &stream) {
    detail::check_pattern<T>();
    detail::check_types("memset_async", dst.device, stream.device());
    const LlaisysBackendAPI &api = stream.api();
    detail::check(api.memset_async(api.self_, stream.device().ordinal, dst.data, &value,
                                   std::uint32_t{sizeof(T)}, dst.size, stream.native()),
                  "memset_async");
}

// ---- Host functions -----------------------------------------------------------------------------

/// Has the stream call `function()` once, in its order, on a thread of its own; what comes after on
/// the stream waits for it. Calls that wait are errors inside it. An exception that leaves it is
/// contained and dropped: nobody is there to catch it, so catch it inside and tell whom it
/// concerns.
template <class Function> void launch(const Stream &stream, Function &&function) {
    using Stored = std::decay_t<Function>;
    auto stored = std::make_unique<Stored>(std::forward<Function>(function));
    const LlaisysHostFunction call = [](void *data) noexcept {
        std::unique_ptr<Stored> mine(static_cast<Stored *>(data));
        try {
            (*mine)();
        } catch (...) {
        }
    };
    const LlaisysBackendAPI &api = stream.api();
    detail::check(api.launch_host_function(api.self_, stream.device().ordinal, stream.native(),
                                           call, stored.get()),
                  "launch_host_function");
    // It belongs to the stream now. On the way here it may even have run already.
    static_cast<void>(stored.release());
}

// ---- Slots --------------------------------------------------------------------------------------

/// Keeps a value for the calling thread and a device, under a key of yours: a cuBLAS handle, say.
/// What was there is destroyed. The value is destroyed when another one replaces it, when the
/// thread ends, or at exit. An empty pointer takes the value away. Use the address of a variable of
/// yours as the key, so that nobody else has it.
template <class T, class Deleter>
void set_thread_slot(Device device, std::uint64_t key, std::unique_ptr<T, Deleter> value) {
    detail::check_slot<T, Deleter>();
    using Pointer = typename std::unique_ptr<T, Deleter>::pointer;
    const LlaisysBackendAPI &api = detail::table(device.type);
    detail::check(api.set_thread_slot(api.self_, device.ordinal, key, value.get(),
                                      detail::destroy_slot<Pointer, Deleter>),
                  "set_thread_slot");
    static_cast<void>(value.release()); // it belongs to the thread now
}

/// The value that this thread keeps under the key, of the type that was kept; NULL when there is
/// none.
template <class T> T *thread_slot(Device device, std::uint64_t key) {
    const LlaisysBackendAPI &api = detail::table(device.type);
    void *value = nullptr;
    detail::check(api.get_thread_slot(api.self_, device.ordinal, key, &value), "get_thread_slot");
    return static_cast<T *>(value);
}

// ---- Running out of memory ----------------------------------------------------------------------

/// Asked when an allocation of so many bytes does not fit, on the thread that wants it: may free
/// memory, and answers whether the allocation should be tried again.
using OutOfMemoryCallback = std::function<bool(Device, std::uint64_t)>;

namespace detail {

/// The callback of a device type. Never freed: an allocation may ask it at any time, at exit too.
class OutOfMemory {
public:
    static OutOfMemory &of(std::int32_t type) {
        static std::mutex &mutex = *new std::mutex;
        static auto &all = *new std::map<std::int32_t, OutOfMemory>;
        const std::lock_guard<std::mutex> lock(mutex);
        return all[type];
    }

    void set(std::int32_t type, std::shared_ptr<OutOfMemoryCallback> callback) {
        const LlaisysBackendAPI &api = table(type);
        const bool some = callback != nullptr;
        // What was here is destroyed at the end, by whoever uses it last.
        std::shared_ptr<OutOfMemoryCallback> old = exchange(callback);
        const std::int32_t status =
            api.set_out_of_memory_callback(api.self_, some ? ask : nullptr, this);
        if (status != LLAISYS_STATUS_SUCCESS) {
            exchange(std::move(old));
            fail(status, "set_out_of_memory_callback");
        }
    }

private:
    std::shared_ptr<OutOfMemoryCallback> exchange(std::shared_ptr<OutOfMemoryCallback> callback) {
        const std::lock_guard<std::mutex> lock(mutex_);
        callback_.swap(callback);
        return callback;
    }

    static std::int32_t ask(void *data, std::int32_t type, std::int32_t ordinal,
                            std::uint64_t requested) {
        OutOfMemory &self = *static_cast<OutOfMemory *>(data);
        try {
            std::shared_ptr<OutOfMemoryCallback> callback;
            {
                const std::lock_guard<std::mutex> lock(self.mutex_);
                callback = self.callback_;
            }
            return callback && (*callback)(Device{type, ordinal}, requested) ? 1 : 0;
        } catch (...) { // through C it cannot pass
            return 0;
        }
    }

    std::mutex mutex_;
    std::shared_ptr<OutOfMemoryCallback> callback_;
};

} // namespace detail

/// Has `callback` asked when an allocation of this device type does not fit, after the caches were
/// emptied; an empty one takes it away. It is kept alive until another one is set and nobody is
/// inside it. An exception that leaves it means no.
inline void set_out_of_memory_callback(std::int32_t type, OutOfMemoryCallback callback) {
    std::shared_ptr<OutOfMemoryCallback> kept;
    if (callback) {
        kept = std::make_shared<OutOfMemoryCallback>(std::move(callback));
    }
    detail::OutOfMemory::of(type).set(type, std::move(kept));
}

} // namespace llaisys

#endif /* LLAISYS_HPP */

/* llaisys.hpp - llaisys-runtime for C++17
 *
 * Header-only. What C tells by a status is an exception here, what C frees by hand is owned, and
 * the direction of a copy follows from the types of its two sides. Nothing is hidden: each owner
 * gives its native handle, and the C functions may be used beside these.
 *
 * Contents
 *
 *   Error                       what failed, with the status and the driver's own code
 *   Device                      a type and an ordinal; what it is, its memory, waiting for it
 *   Stream                      owns a stream
 *   Buffer, HostBuffer          own device memory, pinned host memory
 *   DeviceRange, HostRange ...  a part of a buffer; any host memory
 *   copy, copy_async            direction deduced
 *   launch                      a callable inside a stream
 *   candidates                  every backend that was looked at, and why one is not in use
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
 *   Owners    Stream, Buffer and HostBuffer can be moved and not copied. A moved-from one is empty
 *             and may only be destroyed or assigned to. Destructors return at once, whatever the
 *             device is still doing with the memory or the stream, and never throw.
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

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
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
    return *api;
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
};

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

    /// Every device of every backend that is in use. A backend without a device is left out,
    /// whatever the reason.
    static std::vector<Device> all() {
        std::vector<Device> devices;
        for (const Candidate &candidate : candidates()) {
            if (!candidate.in_use()) {
                continue;
            }
            // A count that fails is no failure here; an older one that is unread stays unread.
            const bool unread = llaisysPeekLastError(nullptr) != LLAISYS_STATUS_SUCCESS;
            std::int32_t count = 0;
            if (llaisysGetDeviceCount(candidate.device_type, &count) != LLAISYS_STATUS_SUCCESS) {
                if (!unread) {
                    llaisysGetLastError(nullptr);
                }
                continue;
            }
            for (std::int32_t ordinal = 0; ordinal < count; ++ordinal) {
                devices.push_back(Device{candidate.device_type, ordinal});
            }
        }
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
                                p.compute_capability_minor};
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
};

// ---- Streams ------------------------------------------------------------------------------------

/// Owns a stream: work that runs in order, independent of other streams.
class Stream {
public:
    /// Makes a stream that is ordered with the device's default stream.
    explicit Stream(Device device) : device_(device), api_(&detail::table(device.type)) {
        detail::check(api_->create_stream(api_->self_, device.ordinal, &handle_), "create_stream");
    }

    /// The device's default stream. It is owned by nobody.
    static Stream default_stream(Device device) {
        return Stream(device, &detail::table(device.type));
    }

    Stream(Stream &&other) noexcept
        : device_(other.device_), api_(other.api_), handle_(std::exchange(other.handle_, nullptr)) {
    }
    Stream &operator=(Stream &&other) noexcept {
        Stream taken(std::move(other)); // destroys what was here, at the end
        std::swap(device_, taken.device_);
        std::swap(api_, taken.api_);
        std::swap(handle_, taken.handle_);
        return *this;
    }

    /// Returns at once; work that is already on the stream completes.
    ~Stream() {
        if (handle_ != nullptr) {
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

    /// The native handle (on NVIDIA a CUstream); NULL for the default stream. Still owned here.
    llaisysStream_t native() const noexcept { return handle_; }
    /// The device that the stream's work runs on.
    Device device() const noexcept { return device_; }
    /// The table of the device's backend, for what this header does not have.
    const LlaisysBackendAPI &api() const noexcept { return *api_; }

private:
    Stream(Device device, const LlaisysBackendAPI *api) : device_(device), api_(api) {}

    Device device_;
    const LlaisysBackendAPI *api_;
    llaisysStream_t handle_ = nullptr;
};

// ---- Memory -------------------------------------------------------------------------------------

namespace detail {

using Allocate = decltype(LlaisysBackendAPI::malloc_device);
using Free = decltype(LlaisysBackendAPI::free_device);

/// Owns one allocation; Buffer and HostBuffer differ in the two functions and in what they may be
/// passed to.
template <Allocate LlaisysBackendAPI::*allocate, Free LlaisysBackendAPI::*release> class Memory {
public:
    Memory(Device device, std::size_t size, const char *operation)
        : device_(device), api_(&table(device.type)), size_(size) {
        check((api_->*allocate)(api_->self_, device.ordinal, size, &data_), operation);
    }
    Memory(Memory &&other) noexcept
        : device_(other.device_), api_(other.api_), size_(std::exchange(other.size_, 0)),
          data_(std::exchange(other.data_, nullptr)) {}
    Memory &operator=(Memory &&other) noexcept {
        Memory taken(std::move(other)); // frees what was here, at the end
        std::swap(device_, taken.device_);
        std::swap(api_, taken.api_);
        std::swap(size_, taken.size_);
        std::swap(data_, taken.data_);
        return *this;
    }
    ~Memory() {
        if (data_ != nullptr) {
            (api_->*release)(api_->self_, device_.ordinal, data_);
        }
    }

    /// The address. NULL when the size is 0.
    void *data() noexcept { return data_; }
    const void *data() const noexcept { return data_; }
    /// Bytes.
    std::size_t size() const noexcept { return size_; }
    /// The device that it was allocated for.
    Device device() const noexcept { return device_; }

private:
    Device device_;
    const LlaisysBackendAPI *api_;
    std::size_t size_;
    void *data_ = nullptr;
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
class Buffer
    : public detail::Memory<&LlaisysBackendAPI::malloc_device, &LlaisysBackendAPI::free_device> {
public:
    Buffer(Device device, std::size_t size) : Memory(device, size, "malloc_device") {}
};

/// Owns pinned host memory, aligned to at least 64 bytes: copies from and to it are fast and
/// asynchronous on every device of the type.
class HostBuffer
    : public detail::Memory<&LlaisysBackendAPI::malloc_host, &LlaisysBackendAPI::free_host> {
public:
    HostBuffer(Device device, std::size_t size) : Memory(device, size, "malloc_host") {}

    /// The content as elements of a type.
    template <class T> T *as() noexcept { return static_cast<T *>(data()); }
    template <class T> const T *as() const noexcept { return static_cast<const T *>(data()); }
};

// ---- Ranges -------------------------------------------------------------------------------------

/// Device memory to copy to: a Buffer, or a part of one. Owns nothing.
struct DeviceRange {
    DeviceRange(Buffer &buffer) noexcept
        : device(buffer.device()), data(buffer.data()), size(buffer.size()) {}
    DeviceRange(Buffer &buffer, std::size_t offset, std::size_t bytes) : DeviceRange(buffer) {
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
    ConstDeviceRange(const Buffer &buffer, std::size_t offset, std::size_t bytes)
        : ConstDeviceRange(buffer) {
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

inline void check_types(const char *operation, Device a, Device b) {
    if (a.type != b.type) {
        throw Error(LLAISYS_STATUS_INVALID_VALUE, operation,
                    a.type_name() + " and " + b.type_name() +
                        " share no copy; go through the host");
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

} // namespace llaisys

#endif /* LLAISYS_HPP */

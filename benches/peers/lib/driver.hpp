/* NVIDIA's driver, called as a program calls it that has no runtime of ours.
 *
 * Rules: it is opened at run time, so that this compiles without CUDA; the library that the plugin uses is
 * the one. Its context is the primary one, which ours and CUDA's runtime have too. */
#pragma once

#include "ours.hpp"

#include <cstdint>
#include <dlfcn.h>

namespace peers {

/// The entry points that are used. Each answers 0 when all is well.
class Driver {
public:
    using Address = unsigned long long;

    /// Opens it and makes the first device's primary context current.
    Driver() {
        const char *told = std::getenv("LLAISYS_CUDA_DRIVER");
        library_ = dlopen(told != nullptr ? told : "libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
        if (library_ == nullptr) {
            throw std::runtime_error(dlerror());
        }
        load(init, "cuInit");
        load(get_version, "cuDriverGetVersion");
        load(retain, "cuDevicePrimaryCtxRetain");
        load(set_current, "cuCtxSetCurrent");
        load(allocate, "cuMemAlloc_v2");
        load(free, "cuMemFree_v2");
        load(allocate_async, "cuMemAllocAsync");
        load(free_async, "cuMemFreeAsync");
        load(get_memory, "cuMemGetInfo_v2");
        load(get_pool, "cuDeviceGetDefaultMemPool");
        load(get_pool_attribute, "cuMemPoolGetAttribute");
        load(set_pool_attribute, "cuMemPoolSetAttribute");
        load(trim_pool, "cuMemPoolTrimTo");
        load(allocate_host, "cuMemHostAlloc");
        load(free_host, "cuMemFreeHost");
        load(synchronize, "cuStreamSynchronize");
        load(synchronize_context, "cuCtxSynchronize");
        check(init(0), "cuInit");
        int number = 0;
        check(get_version(&number), "cuDriverGetVersion");
        version = "CUDA driver " + std::to_string(number / 1000) + "." + std::to_string(number % 1000 / 10);
        check(retain(&context, 0), "cuDevicePrimaryCtxRetain");
        enter();
        check(get_pool(&pool, 0), "cuDeviceGetDefaultMemPool");
    }

    Driver(const Driver &) = delete;
    Driver &operator=(const Driver &) = delete;

    /// Makes the context current on this thread.
    void enter() const { check(set_current(context), "cuCtxSetCurrent"); }

    /// Throws what is not 0.
    static void check(int answer, const char *entry) {
        if (answer != 0) {
            throw std::runtime_error(std::string(entry) + " answered " + std::to_string(answer));
        }
    }

    /// An entry point of another name.
    template <class Function> void load(Function *&function, const char *name) const {
        function = reinterpret_cast<Function *>(dlsym(library_, name));
        if (function == nullptr) {
            throw std::runtime_error(std::string("the driver has no ") + name);
        }
    }

    int (*init)(unsigned);
    int (*get_version)(int *);
    int (*retain)(void **, int);
    int (*set_current)(void *);
    int (*allocate)(Address *, std::size_t);
    int (*free)(Address);
    int (*allocate_async)(Address *, std::size_t, void *);
    int (*free_async)(Address, void *);
    int (*get_memory)(std::size_t *, std::size_t *);
    int (*get_pool)(void **, int);
    int (*get_pool_attribute)(void *, int, void *);
    int (*set_pool_attribute)(void *, int, void *);
    int (*trim_pool)(void *, std::size_t);
    int (*allocate_host)(void **, std::size_t, unsigned);
    int (*free_host)(void *);
    int (*synchronize)(void *);
    int (*synchronize_context)();

    std::string version;
    void *context = nullptr, *pool = nullptr;

private:
    void *library_;
};

/// cuMemAlloc and cuMemFree, which are what cudaMalloc and cudaFree call.
class PlainDriver {
public:
    static constexpr bool COUNTS_OTHERS = true;
    explicit PlainDriver(const Driver &driver)
        : driver_(driver), name_("cuMemAlloc, " + driver.version) {}
    const std::string &name() const { return name_; }
    void enter() const { driver_.enter(); }
    void *allocate(std::size_t size, void *) const {
        Driver::Address address = 0;
        driver_.allocate(&address, size);
        return reinterpret_cast<void *>(address);
    }
    void free(void *pointer, std::size_t, void *) const {
        driver_.free(reinterpret_cast<Driver::Address>(pointer));
    }
    double reserved() const {
        std::size_t free = 0, total = 0;
        Driver::check(driver_.get_memory(&free, &total), "cuMemGetInfo");
        return static_cast<double>(total - free);
    }
    void reset() const { driver_.synchronize_context(); }

private:
    const Driver &driver_;
    std::string name_;
};

/// cuMemAllocAsync with a pool that keeps what it has, which is cudaMallocAsync at its fastest.
class AsyncDriver {
public:
    static constexpr bool COUNTS_OTHERS = false;
    explicit AsyncDriver(const Driver &driver)
        : driver_(driver), name_("cuMemAllocAsync, " + driver.version) {
        std::uint64_t all = UINT64_MAX;
        // 4 is CU_MEMPOOL_ATTR_RELEASE_THRESHOLD.
        Driver::check(driver.set_pool_attribute(driver.pool, 4, &all), "cuMemPoolSetAttribute");
    }
    const std::string &name() const { return name_; }
    void enter() const { driver_.enter(); }
    void *allocate(std::size_t size, void *stream) const {
        Driver::Address address = 0;
        driver_.allocate_async(&address, size, stream);
        return reinterpret_cast<void *>(address);
    }
    void free(void *pointer, std::size_t, void *stream) const {
        driver_.free_async(reinterpret_cast<Driver::Address>(pointer), stream);
    }
    double reserved() const {
        std::uint64_t now = 0;
        // 5 is CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT.
        Driver::check(driver_.get_pool_attribute(driver_.pool, 5, &now), "cuMemPoolGetAttribute");
        return static_cast<double>(now);
    }
    void reset() const {
        driver_.synchronize_context();
        driver_.trim_pool(driver_.pool, 0);
    }

private:
    const Driver &driver_;
    std::string name_;
};

/// cuMemHostAlloc and cuMemFreeHost.
class PinnedDriver {
public:
    explicit PinnedDriver(const Driver &driver)
        : driver_(driver), name_("cuMemHostAlloc, " + driver.version) {}
    const std::string &name() const { return name_; }
    void enter() const { driver_.enter(); }
    void *allocate(std::size_t size, void *) const {
        void *pointer = nullptr;
        // 1 is CU_MEMHOSTALLOC_PORTABLE.
        driver_.allocate_host(&pointer, size, 1);
        return pointer;
    }
    void free(void *pointer, std::size_t, void *) const { driver_.free_host(pointer); }

private:
    const Driver &driver_;
    std::string name_;
};

} // namespace peers

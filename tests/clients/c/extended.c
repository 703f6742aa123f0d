/* extended: what the whole table promises beyond LLAISYS's twelve functions. Each function is one
 * promise; the program ends with 0 when all are kept. It runs on the CPU.
 *
 * What the backend does not have is skipped, and then the table must say so and every entry of the
 * group must answer NOT_SUPPORTED.
 */
#define _POSIX_C_SOURCE 200809L

#include "llaisys/backend.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static const LlaisysBackendAPI *api;
static void *self_;
static int failures;
static int skipped;

#define REQUIRE(condition)                                                                         \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);                        \
            ++failures;                                                                            \
        }                                                                                          \
    } while (0)

#define OK(call) REQUIRE(succeeds(call))
#define FAILS(status, call) REQUIRE(fails_with(LLAISYS_STATUS_##status, call))

static int succeeds(int32_t status) {
    if (status != LLAISYS_STATUS_SUCCESS) {
        const LlaisysError *error;
        llaisysGetLastError(&error);
        fprintf(stderr, "%s: %s\n", error->operation, error->message);
    }
    return status == LLAISYS_STATUS_SUCCESS;
}

/* The slot must have the same status; it is emptied. */
static int fails_with(int32_t wanted, int32_t status) {
    const LlaisysError *error;
    int32_t slot = llaisysGetLastError(&error);
    if (status != wanted || slot != wanted) {
        fprintf(stderr, "%s was wanted; the call answered %s, the slot has %s: %s: %s\n",
                llaisysStatusName(wanted), llaisysStatusName(status), llaisysStatusName(slot),
                error->operation, error->message);
    }
    return status == wanted && slot == wanted && error->message[0] != '\0';
}

/* Whether an operation is there. */
static int there(const char *operation) {
    int32_t support = -1;
    OK(api->get_operation_support(self_, operation, &support));
    REQUIRE(support >= LLAISYS_SUPPORT_UNSUPPORTED && support <= LLAISYS_SUPPORT_EMULATED);
    return support != LLAISYS_SUPPORT_UNSUPPORTED;
}

/* Skips what is not there, if it says so. */
static void skip(const char *operation, int32_t answer) {
    printf("skipped: the backend has no %s\n", operation);
    ++skipped;
    REQUIRE(fails_with(LLAISYS_STATUS_NOT_SUPPORTED, answer));
}

static void sleep_ms(long ms) {
    struct timespec time = {0, 0};
    time.tv_sec = ms / 1000;
    time.tv_nsec = ms % 1000 * 1000000;
    nanosleep(&time, NULL);
}

/* Holds a stream up until the gate is opened. */
struct gate {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    int open;
};

static void gate_init(struct gate *gate) {
    pthread_mutex_init(&gate->mutex, NULL);
    pthread_cond_init(&gate->changed, NULL);
    gate->open = 0;
}

static void gate_wait(void *data) {
    struct gate *gate = data;
    pthread_mutex_lock(&gate->mutex);
    while (!gate->open) {
        pthread_cond_wait(&gate->changed, &gate->mutex);
    }
    pthread_mutex_unlock(&gate->mutex);
}

static void gate_open(struct gate *gate) {
    pthread_mutex_lock(&gate->mutex);
    gate->open = 1;
    pthread_cond_broadcast(&gate->changed);
    pthread_mutex_unlock(&gate->mutex);
}

static llaisysStream_t make_stream(void) {
    llaisysStream_t stream = NULL;
    OK(api->create_stream(self_, 0, &stream));
    REQUIRE(stream != NULL);
    return stream;
}

static void *make_memory(uint64_t size) {
    void *memory = NULL;
    OK(api->malloc_device(self_, 0, size, &memory));
    return memory;
}

/* ---- Capabilities ---------------------------------------------------------------------------- */

static void a_name_that_is_no_entry_has_no_support(void) {
    uint64_t capabilities = UINT64_MAX;
    int32_t support = 42;
    OK(api->get_capabilities(self_, &capabilities));
    REQUIRE((capabilities & LLAISYS_CAPABILITY_DEVICE_MEMORY_IS_HOST_MEMORY) != 0);
    FAILS(INVALID_VALUE, api->get_operation_support(self_, "memcpy", &support));
    FAILS(INVALID_VALUE, api->get_operation_support(self_, "", &support));
    FAILS(INVALID_VALUE, api->get_operation_support(self_, NULL, &support));
    FAILS(INVALID_VALUE, api->get_operation_support(self_, "memcpy_sync", NULL));
    FAILS(INVALID_VALUE, api->get_capabilities(self_, NULL));
    REQUIRE(support == 42);
    OK(api->get_operation_support(self_, "memcpy_sync", &support));
    REQUIRE(support == LLAISYS_SUPPORT_NATIVE);
}

/* ---- Devices --------------------------------------------------------------------------------- */

static void a_struct_is_written_up_to_the_callers_size(void) {
    union {
        LlaisysDeviceProperties properties;
        LlaisysMemoryInfo info;
        LlaisysMemoryStatistics statistics;
        LlaisysPointerAttributes attributes;
        unsigned char bytes[sizeof(LlaisysDeviceProperties) + 64];
    } u;
    size_t i;
    memset(&u, 0x55, sizeof u);
    u.properties.struct_size = 16;
    OK(api->get_device_properties(self_, 0, &u.properties));
    REQUIRE(u.properties.struct_size == 16 && u.properties.processor_count > 0);
    REQUIRE(u.properties.total_memory > 0);
    for (i = 16; i < sizeof u; ++i) {
        REQUIRE(u.bytes[i] == 0x55);
    }
    u.properties.struct_size = sizeof u;
    OK(api->get_device_properties(self_, 0, &u.properties));
    REQUIRE(u.properties.struct_size == sizeof u && u.properties.name[0] != '\0');
    for (i = sizeof u.properties; i < sizeof u; ++i) {
        REQUIRE(u.bytes[i] == 0x55);
    }
    u.info.struct_size = sizeof u.info;
    OK(api->get_memory_info(self_, 0, &u.info));
    REQUIRE(u.info.free <= u.info.total && u.info.total > 0 && u.info.reserved == 0);
    u.statistics.struct_size = 3;
    FAILS(INVALID_VALUE, api->get_memory_statistics(self_, 0, &u.statistics));
    FAILS(INVALID_VALUE, api->get_memory_statistics(self_, 0, NULL));
    FAILS(INVALID_VALUE, api->get_device_properties(self_, 0, NULL));
    FAILS(INVALID_VALUE, api->get_pointer_attributes(self_, &u, NULL));
    u.info.struct_size = sizeof u.info;
    FAILS(INVALID_DEVICE, api->get_memory_info(self_, 4096, &u.info));
}

static void a_device_has_a_link_to_itself_and_to_no_device_that_is_not_there(void) {
    LlaisysPeerLink link;
    int32_t count = 0;
    memset(&link, 0x55, sizeof link);
    link.struct_size = sizeof link;
    OK(api->initialize(self_, &count));
    REQUIRE(count >= 1);
    OK(api->get_peer_link(self_, 0, 0, &link));
    REQUIRE(link.kind == LLAISYS_LINK_SAME_DEVICE && link.can_access == 1 && link.enabled == 1);
    FAILS(INVALID_DEVICE, api->get_peer_link(self_, 0, count, &link));
    FAILS(INVALID_DEVICE, api->get_peer_link(self_, -1, 0, &link));
    FAILS(INVALID_VALUE, api->get_peer_link(self_, 0, 0, NULL));
    FAILS(INVALID_VALUE, api->enable_peer_access(self_, 0, 0));
    FAILS(INVALID_DEVICE, api->enable_peer_access(self_, 0, count));
    if (count == 1) {
        return;
    }
    if (!there("get_peer_link")) {
        skip("get_peer_link", api->get_peer_link(self_, 0, 1, &link));
    } else {
        OK(api->get_peer_link(self_, 0, 1, &link));
        REQUIRE(link.kind == LLAISYS_LINK_SHARED_MEMORY);
        OK(api->enable_peer_access(self_, 0, 1));
        OK(api->enable_peer_access(self_, 0, 1));
    }
}

/* ---- Streams --------------------------------------------------------------------------------- */

static void streams_are_made_with_flags_and_a_priority(void) {
    static const uint32_t FLAGS[] = {LLAISYS_STREAM_BLOCKING, LLAISYS_STREAM_NON_BLOCKING};
    static const int32_t PRIORITIES[] = {0, -1, 1, INT32_MIN, INT32_MAX};
    llaisysStream_t stream = NULL;
    int32_t least = 7, greatest = 7, device = 7;
    size_t i, j;
    if (!there("create_stream_with")) {
        skip("create_stream_with", api->create_stream_with(self_, 0, 0, 0, &stream));
        return;
    }
    OK(api->get_stream_priority_range(self_, 0, &least, &greatest));
    REQUIRE(greatest <= least);
    for (i = 0; i < sizeof FLAGS / sizeof FLAGS[0]; ++i) {
        for (j = 0; j < sizeof PRIORITIES / sizeof PRIORITIES[0]; ++j) {
            stream = NULL;
            OK(api->create_stream_with(self_, 0, FLAGS[i], PRIORITIES[j], &stream));
            REQUIRE(stream != NULL);
            OK(api->get_stream_device(self_, stream, &device));
            REQUIRE(device == 0);
            OK(api->stream_synchronize(self_, 0, stream));
            OK(api->destroy_stream(self_, 0, stream));
            FAILS(INVALID_HANDLE, api->get_stream_device(self_, stream, &device));
        }
    }
    stream = NULL;
    FAILS(INVALID_VALUE, api->create_stream_with(self_, 0, 2, 0, &stream));
    FAILS(INVALID_VALUE, api->create_stream_with(self_, 0, 0, 0, NULL));
    FAILS(INVALID_DEVICE, api->create_stream_with(self_, 99, 0, 0, &stream));
    FAILS(INVALID_VALUE, api->get_stream_priority_range(self_, 0, NULL, &greatest));
    REQUIRE(stream == NULL);
}

static void a_non_blocking_stream_does_not_wait_for_the_default_stream(void) {
    llaisysStream_t free_one = NULL, bound;
    struct gate gate;
    int32_t ready = -1;
    uint32_t one = 1;
    void *memory;
    if (!there("create_stream_with")) {
        return; /* the test above skips it */
    }
    bound = make_stream();
    memory = make_memory(sizeof one);
    OK(api->create_stream_with(self_, 0, LLAISYS_STREAM_NON_BLOCKING, 0, &free_one));
    gate_init(&gate);
    OK(api->launch_host_function(self_, 0, NULL, gate_wait, &gate));
    OK(api->memset_async(self_, 0, memory, &one, sizeof one, sizeof one, free_one));
    OK(api->stream_synchronize(self_, 0, free_one)); /* it would never return */
    OK(api->memset_async(self_, 0, memory, &one, sizeof one, sizeof one, bound));
    sleep_ms(5);
    OK(api->stream_query(self_, 0, bound, &ready));
    REQUIRE(ready == 0);
    gate_open(&gate);
    OK(api->stream_synchronize(self_, 0, bound));
    OK(api->stream_query(self_, 0, bound, &ready));
    REQUIRE(ready == 1);
    OK(api->destroy_stream(self_, 0, free_one));
    OK(api->destroy_stream(self_, 0, bound));
    OK(api->free_device(self_, 0, memory));
}

static void the_device_of_a_stream_is_known_and_a_known_stream_is_not_adopted_again(void) {
    llaisysStream_t stream = make_stream();
    int32_t device = 7;
    OK(api->get_stream_device(self_, stream, &device));
    REQUIRE(device == 0);
    int32_t support = -1;
    OK(api->get_operation_support(self_, "adopt_stream", &support));
    device = 7;
    if (support == LLAISYS_SUPPORT_UNSUPPORTED) {
        FAILS(NOT_SUPPORTED, api->adopt_stream(self_, stream, &device));
        REQUIRE(device == 7);
    } else {
        OK(api->adopt_stream(self_, stream, &device));
        REQUIRE(device == 0);
        FAILS(INVALID_VALUE, api->adopt_stream(self_, NULL, &device));
    }
    FAILS(INVALID_VALUE, api->adopt_stream(self_, stream, NULL));
    FAILS(INVALID_HANDLE, api->get_stream_device(self_, NULL, &device));
    FAILS(INVALID_HANDLE, api->get_stream_device(self_, &device, &device));
    FAILS(INVALID_VALUE, api->get_stream_device(self_, stream, NULL));
    OK(api->destroy_stream(self_, 0, stream));
    FAILS(INVALID_HANDLE, api->destroy_stream(self_, 0, stream));
}

/* ---- Events ---------------------------------------------------------------------------------- */

static int has_events(void) {
    llaisysEvent_t event = NULL;
    if (!there("create_event")) {
        skip("create_event", api->create_event(self_, 0, LLAISYS_EVENT_NONE, &event));
        return 0;
    }
    return 1;
}

static void an_event_that_was_never_recorded_counts_as_reached(void) {
    llaisysEvent_t event = NULL;
    llaisysStream_t stream = make_stream();
    int32_t answer = 7;
    if (has_events()) {
        OK(api->create_event(self_, 0, LLAISYS_EVENT_NONE, &event));
        OK(api->event_query(self_, 0, event, &answer));
        REQUIRE(answer == 1);
        OK(api->event_synchronize(self_, 0, event));
        OK(api->stream_wait_event(self_, 0, stream, event));
        OK(api->stream_synchronize(self_, 0, stream));
        OK(api->destroy_event(self_, 0, event));
        FAILS(INVALID_HANDLE, api->event_query(self_, 0, event, &answer));
        FAILS(INVALID_HANDLE, api->event_synchronize(self_, 0, event));
        FAILS(INVALID_HANDLE, api->record_event(self_, 0, event, stream));
        FAILS(INVALID_HANDLE, api->stream_wait_event(self_, 0, stream, event));
        FAILS(INVALID_HANDLE, api->destroy_event(self_, 0, event));
        FAILS(INVALID_HANDLE, api->destroy_event(self_, 0, NULL));
        FAILS(INVALID_VALUE, api->create_event(self_, 0, 4, &event));
        FAILS(INVALID_VALUE, api->create_event(self_, 0, LLAISYS_EVENT_NONE, NULL));
        FAILS(INVALID_DEVICE, api->create_event(self_, 99, LLAISYS_EVENT_NONE, &event));
    }
    OK(api->destroy_stream(self_, 0, stream));
}

static void an_event_orders_two_streams(void) {
    llaisysEvent_t event = NULL;
    llaisysStream_t first = make_stream(), second = make_stream();
    uint32_t one = 1, two = 2, result = 0;
    int32_t answer = 7;
    struct gate gate;
    void *memory = make_memory(sizeof one), *native = NULL;
    if (has_events()) {
        gate_init(&gate);
        OK(api->create_event(self_, 0, LLAISYS_EVENT_BLOCKING_WAIT, &event));
        OK(api->launch_host_function(self_, 0, first, gate_wait, &gate));
        OK(api->memset_async(self_, 0, memory, &one, sizeof one, sizeof one, first));
        OK(api->record_event(self_, 0, event, first));
        OK(api->stream_wait_event(self_, 0, second, event));
        OK(api->memset_async(self_, 0, memory, &two, sizeof two, sizeof two, second));
        OK(api->event_query(self_, 0, event, &answer));
        REQUIRE(answer == 0);
        OK(api->stream_query(self_, 0, second, &answer));
        REQUIRE(answer == 0);
        OK(api->get_native_event(self_, event, &native));
        REQUIRE(native != NULL);
        gate_open(&gate);
        OK(api->event_synchronize(self_, 0, event));
        OK(api->event_query(self_, 0, event, &answer));
        REQUIRE(answer == 1);
        OK(api->stream_synchronize(self_, 0, second));
        OK(api->memcpy_sync(self_, 0, &result, memory, sizeof result, LLAISYS_MEMCPY_INFERRED,
                            LLAISYS_COPY_NONE));
        REQUIRE(result == 2);
        OK(api->destroy_event(self_, 0, event));
    }
    OK(api->destroy_stream(self_, 0, first));
    OK(api->destroy_stream(self_, 0, second));
    OK(api->free_device(self_, 0, memory));
}

static void what_cannot_be_measured_has_three_distinct_errors(void) {
    llaisysEvent_t start = NULL, end = NULL, untimed = NULL;
    llaisysStream_t stream = make_stream();
    int64_t nanoseconds = -77, back = 0;
    struct gate gate;
    if (has_events()) {
        gate_init(&gate);
        OK(api->create_event(self_, 0, LLAISYS_EVENT_TIMING, &start));
        OK(api->create_event(self_, 0, LLAISYS_EVENT_TIMING, &end));
        OK(api->create_event(self_, 0, LLAISYS_EVENT_NONE, &untimed));
        FAILS(NOT_RECORDED, api->event_elapsed(self_, 0, start, end, &nanoseconds));
        FAILS(TIMING_DISABLED, api->event_elapsed(self_, 0, untimed, end, &nanoseconds));
        OK(api->record_event(self_, 0, untimed, stream));
        FAILS(TIMING_DISABLED, api->event_elapsed(self_, 0, untimed, end, &nanoseconds));
        OK(api->record_event(self_, 0, start, stream));
        OK(api->launch_host_function(self_, 0, stream, gate_wait, &gate));
        OK(api->record_event(self_, 0, end, stream));
        OK(api->event_synchronize(self_, 0, start));
        FAILS(NOT_READY, api->event_elapsed(self_, 0, start, end, &nanoseconds));
        FAILS(INVALID_VALUE, api->event_elapsed(self_, 0, start, end, NULL));
        REQUIRE(nanoseconds == -77);
        sleep_ms(5);
        gate_open(&gate);
        OK(api->event_synchronize(self_, 0, end));
        OK(api->event_elapsed(self_, 0, start, end, &nanoseconds));
        REQUIRE(nanoseconds >= 5000000 && nanoseconds < INT64_C(60000000000));
        OK(api->event_elapsed(self_, 0, end, start, &back));
        REQUIRE(back == -nanoseconds);
        OK(api->destroy_event(self_, 0, start));
        OK(api->destroy_event(self_, 0, end));
        OK(api->destroy_event(self_, 0, untimed));
    }
    OK(api->destroy_stream(self_, 0, stream));
}

static void a_pending_event_may_be_destroyed_and_outlives_its_stream(void) {
    llaisysEvent_t event = NULL, kept = NULL;
    llaisysStream_t stream = make_stream();
    struct gate gate;
    int32_t answer = 7;
    if (!has_events()) {
        OK(api->destroy_stream(self_, 0, stream));
        return;
    }
    gate_init(&gate);
    OK(api->create_event(self_, 0, LLAISYS_EVENT_NONE, &event));
    OK(api->create_event(self_, 0, LLAISYS_EVENT_NONE, &kept));
    OK(api->launch_host_function(self_, 0, stream, gate_wait, &gate));
    OK(api->record_event(self_, 0, event, stream));
    OK(api->record_event(self_, 0, kept, stream));
    OK(api->destroy_event(self_, 0, event));
    OK(api->destroy_stream(self_, 0, stream));
    OK(api->event_query(self_, 0, kept, &answer));
    REQUIRE(answer == 0);
    gate_open(&gate);
    OK(api->event_synchronize(self_, 0, kept));
    OK(api->destroy_event(self_, 0, kept));
}

/* ---- Memory ---------------------------------------------------------------------------------- */

static void memory_comes_and_goes_in_the_order_of_a_stream(void) {
    llaisysStream_t stream = make_stream();
    void *memory = &stream, *plain = make_memory(64);
    uint64_t pattern = UINT64_C(0x0123456789abcdef), result[512];
    size_t i;
    OK(api->malloc_async(self_, 0, 0, stream, &memory));
    REQUIRE(memory == NULL);
    OK(api->free_async(self_, 0, NULL, stream));
    OK(api->malloc_async(self_, 0, sizeof result, stream, &memory));
    REQUIRE(memory != NULL && (uintptr_t)memory % 256 == 0);
    OK(api->memset_async(self_, 0, memory, &pattern, sizeof pattern, sizeof result, stream));
    OK(api->memcpy_async(self_, 0, result, memory, sizeof result, LLAISYS_MEMCPY_D2H, stream,
                         LLAISYS_COPY_NONE));
    OK(api->free_async(self_, 0, memory, stream));
    FAILS(INVALID_VALUE, api->free_async(self_, 0, memory, stream));
    OK(api->stream_synchronize(self_, 0, stream));
    for (i = 0; i < sizeof result / sizeof result[0]; ++i) {
        REQUIRE(result[i] == pattern);
    }
    /* Either kind is freed by either function. */
    OK(api->free_async(self_, 0, plain, stream));
    OK(api->malloc_async(self_, 0, 64, stream, &memory));
    OK(api->free_device(self_, 0, memory));
    OK(api->malloc_async(self_, 0, 64, NULL, &memory));
    OK(api->free_async(self_, 0, memory, NULL));
    FAILS(INVALID_VALUE, api->malloc_async(self_, 0, 64, stream, NULL));
    FAILS(OUT_OF_MEMORY, api->malloc_async(self_, 0, UINT64_MAX, stream, &memory));
    FAILS(INVALID_VALUE, api->free_async(self_, 0, &stream, stream));
    OK(api->destroy_stream(self_, 0, stream));
    FAILS(INVALID_HANDLE, api->malloc_async(self_, 0, 64, stream, &memory));
}

static void managed_memory_has_one_address_for_host_and_device(void) {
    llaisysStream_t stream = make_stream();
    void *memory = NULL;
    uint32_t four = 4, *words;
    int32_t advice;
    if (!there("malloc_managed")) {
        skip("malloc_managed", api->malloc_managed(self_, 0, 4096, &memory));
    } else {
        OK(api->malloc_managed(self_, 0, 0, &memory));
        REQUIRE(memory == NULL);
        OK(api->malloc_managed(self_, 0, 4096, &memory));
        words = memory;
        OK(api->memset_async(self_, 0, memory, &four, sizeof four, 4096, stream));
        OK(api->stream_synchronize(self_, 0, stream));
        REQUIRE(words[0] == 4 && words[1023] == 4);
        words[7] = 8;
        OK(api->prefetch_managed(self_, 0, memory, 4096, 0, stream));
        OK(api->prefetch_managed(self_, 0, memory, 4096, LLAISYS_LOCATION_HOST, stream));
        OK(api->prefetch_managed(self_, 0, memory, 0, 0, stream));
        OK(api->stream_synchronize(self_, 0, stream));
        REQUIRE(words[7] == 8);
        for (advice = LLAISYS_ADVICE_SET_READ_MOSTLY; advice <= LLAISYS_ADVICE_UNSET_ACCESSED_BY;
             ++advice) {
            OK(api->advise_managed(self_, 0, memory, 4096, (uint32_t)advice, 0));
        }
        FAILS(INVALID_VALUE, api->advise_managed(self_, 0, memory, 4096, 0, 0));
        FAILS(INVALID_VALUE, api->advise_managed(self_, 0, memory, 4096, 7, 0));
        FAILS(INVALID_VALUE, api->advise_managed(self_, 0, memory, 4097,
                                                 LLAISYS_ADVICE_SET_READ_MOSTLY, 0));
        FAILS(INVALID_DEVICE, api->prefetch_managed(self_, 0, memory, 4096, 99, stream));
        FAILS(INVALID_VALUE, api->prefetch_managed(self_, 0, &four, 4, 0, stream));
        FAILS(INVALID_VALUE, api->free_device(self_, 0, memory));
        OK(api->free_managed(self_, 0, memory));
        FAILS(INVALID_VALUE, api->free_managed(self_, 0, memory));
        OK(api->free_managed(self_, 0, NULL));
    }
    OK(api->destroy_stream(self_, 0, stream));
}

static void host_memory_is_registered_once_and_is_then_known(void) {
    LlaisysPointerAttributes attributes;
    const size_t size = 1 << 16;
    char *memory = malloc(size);
    attributes.struct_size = sizeof attributes;
    REQUIRE(memory != NULL);
    if (!there("register_host")) {
        skip("register_host", api->register_host(self_, 0, memory, size));
    } else {
        OK(api->register_host(self_, 0, memory, size));
        OK(api->get_pointer_attributes(self_, memory + 100, &attributes));
        REQUIRE(attributes.kind == LLAISYS_MEMORY_REGISTERED && attributes.ours == 1);
        REQUIRE(attributes.base == (uintptr_t)memory && attributes.size == size);
        FAILS(INVALID_VALUE, api->register_host(self_, 0, memory, size));
        FAILS(INVALID_VALUE, api->register_host(self_, 0, memory + 8, 8));
        FAILS(INVALID_VALUE, api->unregister_host(self_, 0, memory + 8));
        FAILS(INVALID_VALUE, api->free_host(self_, 0, memory));
        OK(api->unregister_host(self_, 0, memory));
        FAILS(INVALID_VALUE, api->unregister_host(self_, 0, memory));
        FAILS(INVALID_VALUE, api->register_host(self_, 0, memory, 0));
        FAILS(INVALID_VALUE, api->register_host(self_, 0, memory, UINT64_MAX));
    }
    free(memory);
}

static void an_address_tells_what_it_is(void) {
    LlaisysPointerAttributes a;
    void *device = make_memory(1000), *pinned = NULL;
    char local = 0;
    int32_t answer = 7;
    a.struct_size = sizeof a;
    OK(api->malloc_host(self_, 0, 500, &pinned));
    OK(api->get_pointer_attributes(self_, (char *)device + 999, &a));
    REQUIRE(a.kind == LLAISYS_MEMORY_DEVICE && a.device_type == LLAISYS_DEVICE_CPU);
    REQUIRE(a.device == 0 && a.base == (uintptr_t)device && a.size == 1000 && a.ours == 1);
    OK(api->get_pointer_attributes(self_, pinned, &a));
    REQUIRE(a.kind == LLAISYS_MEMORY_PINNED && a.size == 500 && a.ours == 1);
    OK(api->get_pointer_attributes(self_, &local, &a));
    REQUIRE(a.kind == LLAISYS_MEMORY_PAGEABLE && a.device_type == -1 && a.device == -1);
    REQUIRE(a.base == 0 && a.size == 0 && a.ours == 0);
    OK(api->get_pointer_attributes(self_, NULL, &a));
    REQUIRE(a.kind == LLAISYS_MEMORY_PAGEABLE);
    OK(api->is_device_memory(self_, 0, device, &answer));
    REQUIRE(answer == 1);
    FAILS(INVALID_VALUE, api->is_device_memory(self_, 0, device, NULL));
    OK(api->free_device(self_, 0, device));
    OK(api->free_host(self_, 0, pinned));
}

/* ---- Copies and fills ------------------------------------------------------------------------ */

static void fills_repeat_each_size_of_pattern(void) {
    enum { SIZE = 1 << 16 };
    static const uint32_t SIZES[] = {1, 2, 4, 8, 16};
    unsigned char pattern[16], *result = malloc(SIZE);
    void *memory = make_memory(SIZE);
    llaisysStream_t stream = make_stream();
    size_t i, j, wrong;
    REQUIRE(result != NULL);
    for (i = 0; i < 16; ++i) {
        pattern[i] = (unsigned char)(17 * i + 3);
    }
    for (i = 0; i < 2 * sizeof SIZES / sizeof SIZES[0]; ++i) {
        uint32_t size = SIZES[i / 2];
        memset(result, 0, SIZE);
        if (i % 2 == 0) {
            OK(api->memset_sync(self_, 0, memory, pattern, size, SIZE));
        } else {
            OK(api->memset_async(self_, 0, memory, pattern, size, SIZE, stream));
            OK(api->stream_synchronize(self_, 0, stream));
        }
        OK(api->memcpy_sync(self_, 0, result, memory, SIZE, LLAISYS_MEMCPY_D2H,
                            LLAISYS_COPY_NONE));
        for (j = wrong = 0; j < SIZE; ++j) {
            wrong += result[j] != pattern[j % size];
        }
        REQUIRE(wrong == 0);
        pattern[0]++;
    }
    OK(api->memset_sync(self_, 0, NULL, pattern, 1, 0));
    FAILS(INVALID_VALUE, api->memset_sync(self_, 0, memory, pattern, 3, 6));
    FAILS(INVALID_VALUE, api->memset_sync(self_, 0, memory, pattern, 0, 6));
    FAILS(INVALID_VALUE, api->memset_sync(self_, 0, memory, pattern, 32, 64));
    FAILS(INVALID_VALUE, api->memset_sync(self_, 0, memory, NULL, 1, 1));
    FAILS(INVALID_VALUE, api->memset_sync(self_, 0, NULL, pattern, 1, 1));
    FAILS(INVALID_VALUE, api->memset_sync(self_, 0, memory, pattern, 4, 6));
    FAILS(INVALID_VALUE, api->memset_sync(self_, 0, (char *)memory + 2, pattern, 4, 8));
    FAILS(INVALID_VALUE, api->memset_sync(self_, 0, memory, pattern, 4, SIZE + 4));
    FAILS(INVALID_VALUE, api->memset_async(self_, 0, memory, pattern, 1, UINT64_MAX, stream));
    OK(api->free_device(self_, 0, memory));
    OK(api->destroy_stream(self_, 0, stream));
    free(result);
}

static LlaisysCopy3D rows(void *dst, uint64_t dst_pitch, const void *src, uint64_t src_pitch,
                          uint64_t width, uint64_t height, uint32_t kind) {
    LlaisysCopy3D copy;
    memset(&copy, 0, sizeof copy);
    copy.struct_size = sizeof copy;
    copy.kind = kind;
    copy.dst = dst;
    copy.dst_pitch = dst_pitch;
    copy.src = src;
    copy.src_pitch = src_pitch;
    copy.width = width;
    copy.height = height;
    copy.depth = 1;
    return copy;
}

static void a_pitched_copy_moves_its_rows_and_nothing_between_them(void) {
    enum { PITCH = 64, WIDTH = 40, HEIGHT = 5, SLICE = 7, DEPTH = 3 };
    static unsigned char source[WIDTH * HEIGHT * DEPTH], result[PITCH * SLICE * DEPTH];
    llaisysStream_t stream = make_stream();
    void *memory = make_memory(sizeof result);
    struct {
        LlaisysCopy3D known;
        uint64_t later;
    } longer;
    LlaisysCopy3D copy;
    unsigned char background = 0xee;
    size_t i, x, y, z, wrong = 0;
    for (i = 0; i < sizeof source; ++i) {
        source[i] = (unsigned char)(i * 7 % 200);
    }
    copy = rows(memory, PITCH, source, WIDTH, WIDTH, HEIGHT, LLAISYS_MEMCPY_H2D);
    copy.depth = DEPTH;
    copy.dst_slice_height = SLICE;
    copy.src_slice_height = HEIGHT;
    OK(api->memset_sync(self_, 0, memory, &background, 1, sizeof result));
    OK(api->memcpy_3d_async(self_, 0, &copy, stream, LLAISYS_COPY_NONE));
    OK(api->memcpy_async(self_, 0, result, memory, sizeof result, LLAISYS_MEMCPY_INFERRED, stream,
                         LLAISYS_COPY_NONE));
    OK(api->stream_synchronize(self_, 0, stream));
    for (i = 0; i < sizeof result; ++i) {
        x = i % PITCH, y = i / PITCH % SLICE, z = i / PITCH / SLICE;
        wrong += result[i] != (x < WIDTH && y < HEIGHT ? source[(z * HEIGHT + y) * WIDTH + x]
                                                       : background);
    }
    REQUIRE(wrong == 0);

    memset(result, 0, sizeof result);
    copy = rows(result, WIDTH, memory, PITCH, WIDTH, HEIGHT, LLAISYS_MEMCPY_INFERRED);
    OK(api->memcpy_3d_sync(self_, 0, &copy));
    REQUIRE(memcmp(result, source, WIDTH * HEIGHT) == 0);

    copy.struct_size = sizeof copy - 1;
    FAILS(INVALID_VALUE, api->memcpy_3d_sync(self_, 0, &copy));
    copy.struct_size = sizeof copy;
    copy.src_pitch = WIDTH - 1;
    FAILS(INVALID_VALUE, api->memcpy_3d_sync(self_, 0, &copy));
    copy.src_pitch = PITCH;
    copy.height = 1000;
    FAILS(INVALID_VALUE, api->memcpy_3d_sync(self_, 0, &copy));
    copy.height = UINT64_MAX;
    FAILS(INVALID_VALUE, api->memcpy_3d_async(self_, 0, &copy, stream, LLAISYS_COPY_NONE));
    copy.height = HEIGHT;
    copy.kind = 5;
    FAILS(INVALID_VALUE, api->memcpy_3d_sync(self_, 0, &copy));
    FAILS(INVALID_VALUE, api->memcpy_3d_sync(self_, 0, NULL));
    copy.kind = LLAISYS_MEMCPY_D2H;
    longer.known = copy;
    longer.known.struct_size = sizeof longer;
    longer.later = 0;
    OK(api->memcpy_3d_sync(self_, 0, &longer.known));
    longer.later = 1;
    FAILS(ABI_MISMATCH, api->memcpy_3d_sync(self_, 0, &longer.known));
    copy.width = 0;
    OK(api->memcpy_3d_sync(self_, 0, &copy));
    OK(api->free_device(self_, 0, memory));
    OK(api->destroy_stream(self_, 0, stream));
}

static void a_batch_copies_all_of_its_ranges_or_none(void) {
    enum { COUNT = 100, BYTES = 48 };
    struct wide {
        LlaisysCopyRange range;
        uint64_t of_ours;
    } wide[COUNT];
    LlaisysCopyRange ranges[COUNT];
    static unsigned char source[COUNT * BYTES], result[COUNT * BYTES];
    llaisysStream_t stream = make_stream();
    char *memory = make_memory(sizeof source);
    unsigned char zero = 0;
    size_t i;
    for (i = 0; i < sizeof source; ++i) {
        source[i] = (unsigned char)(i * 13 % 251 + 1);
    }
    for (i = 0; i < COUNT; ++i) { /* in the opposite order, so that it is no plain copy */
        ranges[i].dst = memory + (COUNT - 1 - i) * BYTES;
        ranges[i].src = source + (COUNT - 1 - i) * BYTES;
        ranges[i].size = i % 10 == 3 ? 0 : BYTES;
        wide[i].range = ranges[i];
        wide[i].range.size = BYTES;
    }
    OK(api->memset_sync(self_, 0, memory, &zero, 1, sizeof source));
    ranges[50].size = BYTES * COUNT;
    FAILS(INVALID_VALUE, api->memcpy_batch_async(self_, 0, ranges, COUNT, sizeof ranges[0],
                                                 LLAISYS_MEMCPY_H2D, stream, LLAISYS_COPY_NONE));
    OK(api->memcpy_sync(self_, 0, result, memory, sizeof result, LLAISYS_MEMCPY_D2H,
                        LLAISYS_COPY_NONE));
    for (i = 0; i < sizeof result; ++i) {
        REQUIRE(result[i] == 0);
    }
    ranges[50].size = BYTES;
    OK(api->memcpy_batch_async(self_, 0, ranges, COUNT, sizeof ranges[0], LLAISYS_MEMCPY_H2D,
                               stream, LLAISYS_COPY_NONE));
    OK(api->stream_synchronize(self_, 0, stream));
    OK(api->memcpy_sync(self_, 0, result, memory, sizeof result, LLAISYS_MEMCPY_D2H,
                        LLAISYS_COPY_NONE));
    for (i = 0; i < COUNT; ++i) {
        const unsigned char *wanted = ranges[i].src;
        const unsigned char *found = result + (COUNT - 1 - i) * BYTES;
        REQUIRE(ranges[i].size == 0 ? found[0] == 0 : memcmp(found, wanted, BYTES) == 0);
    }
    /* A client of a newer header has longer ranges. */
    OK(api->memcpy_batch_async(self_, 0, &wide[0].range, COUNT, sizeof wide[0],
                               LLAISYS_MEMCPY_INFERRED, stream, LLAISYS_COPY_NONE));
    OK(api->stream_synchronize(self_, 0, stream));
    OK(api->memcpy_sync(self_, 0, result, memory, sizeof result, LLAISYS_MEMCPY_D2H,
                        LLAISYS_COPY_NONE));
    REQUIRE(memcmp(result, source, sizeof result) == 0);
    OK(api->memcpy_batch_async(self_, 0, NULL, 0, 0, LLAISYS_MEMCPY_H2D, stream, 0));
    FAILS(INVALID_VALUE, api->memcpy_batch_async(self_, 0, NULL, 1, sizeof ranges[0],
                                                 LLAISYS_MEMCPY_H2D, stream, 0));
    FAILS(INVALID_VALUE,
          api->memcpy_batch_async(self_, 0, ranges, COUNT, 8, LLAISYS_MEMCPY_H2D, stream, 0));
    FAILS(INVALID_VALUE, api->memcpy_batch_async(self_, 0, ranges, COUNT, sizeof ranges[0], 77,
                                                 stream, 0));
    FAILS(INVALID_VALUE, api->memcpy_batch_async(self_, 0, ranges, COUNT, sizeof ranges[0],
                                                 LLAISYS_MEMCPY_H2D, stream, 1u << 30));
    OK(api->free_device(self_, 0, memory));
    OK(api->destroy_stream(self_, 0, stream));
}

static void a_promised_buffer_is_read_when_the_stream_gets_there(void) {
    llaisysStream_t stream = make_stream();
    struct gate gate;
    int promised = 1, result = 0;
    void *memory = make_memory(sizeof promised);
    gate_init(&gate);
    OK(api->launch_host_function(self_, 0, stream, gate_wait, &gate));
    OK(api->memcpy_async(self_, 0, memory, &promised, sizeof promised, LLAISYS_MEMCPY_H2D, stream,
                         LLAISYS_COPY_HOST_BUFFER_PROMISED));
    OK(api->memcpy_async(self_, 0, &result, memory, sizeof result, LLAISYS_MEMCPY_D2H, stream,
                         LLAISYS_COPY_HOST_BUFFER_PROMISED)); /* would wait for ever otherwise */
    gate_open(&gate);
    OK(api->stream_synchronize(self_, 0, stream));
    REQUIRE(result == 1);
    OK(api->free_device(self_, 0, memory));
    OK(api->destroy_stream(self_, 0, stream));
}

/* ---- Host functions -------------------------------------------------------------------------- */

static void wait_inside(void *data) {
    int32_t *statuses = data;
    statuses[0] = api->device_synchronize(self_, 0);
    statuses[1] = api->stream_synchronize(self_, 0, NULL);
    statuses[2] = api->memset_sync(self_, 0, statuses, "x", 1, 1);
    llaisysGetLastError(NULL);
}

static void a_call_that_waits_is_refused_inside_a_host_function(void) {
    llaisysStream_t stream = make_stream();
    int32_t statuses[3] = {0, 0, 0};
    int i;
    OK(api->launch_host_function(self_, 0, stream, wait_inside, statuses));
    OK(api->stream_synchronize(self_, 0, stream));
    for (i = 0; i < 3; ++i) {
        REQUIRE(statuses[i] == LLAISYS_STATUS_NOT_PERMITTED);
    }
    FAILS(INVALID_VALUE, api->launch_host_function(self_, 0, stream, NULL, statuses));
    OK(api->destroy_stream(self_, 0, stream));
}

/* ---- Accounting ------------------------------------------------------------------------------ */

static LlaisysMemoryStatistics statistics(void) {
    LlaisysMemoryStatistics s;
    s.struct_size = sizeof s;
    OK(api->get_memory_statistics(self_, 0, &s));
    return s;
}

static void memory_is_accounted_for(void) {
    const LlaisysMemoryStatistics before = statistics();
    LlaisysMemoryStatistics now, on_stream;
    llaisysStream_t stream = make_stream();
    void *first = make_memory(1 << 20), *second = NULL;
    uint64_t reserved = 0;
    OK(api->malloc_async(self_, 0, 1000, stream, &second));
    now = statistics();
    REQUIRE(now.used == before.used + (1 << 20) + 1000 && now.live == before.live + 2);
    REQUIRE(now.allocations == before.allocations + 2 && now.peak >= now.used);
    REQUIRE(now.reserved_bytes >= now.used && now.limit == LLAISYS_UNKNOWN_BYTES);
    OK(api->get_reserved_memory(self_, 0, &reserved));
    REQUIRE(reserved >= now.used);
    on_stream.struct_size = sizeof on_stream;
    OK(api->get_stream_memory_statistics(self_, 0, stream, &on_stream));
    REQUIRE(on_stream.used == 1000 && on_stream.live == 1 && on_stream.allocations == 1);
    OK(api->free_device(self_, 0, first));
    OK(api->free_async(self_, 0, second, stream));
    now = statistics();
    REQUIRE(now.used == before.used && now.frees == before.frees + 2);
    REQUIRE(now.peak >= before.used + (1 << 20) + 1000);
    OK(api->get_stream_memory_statistics(self_, 0, stream, &on_stream));
    REQUIRE(on_stream.used == 0 && on_stream.frees == 1);
    OK(api->reset_peak_memory(self_, 0));
    REQUIRE(statistics().peak == before.used);
    OK(api->trim_memory(self_, 0, 0));
    FAILS(INVALID_DEVICE, api->trim_memory(self_, 99, 0));
    FAILS(INVALID_DEVICE, api->reset_peak_memory(self_, 99));
    FAILS(INVALID_VALUE, api->get_reserved_memory(self_, 0, NULL));
    OK(api->destroy_stream(self_, 0, stream));
    FAILS(INVALID_HANDLE, api->get_stream_memory_statistics(self_, 0, stream, &on_stream));
}

struct reserve {
    void *memory;
    int asked;
    uint64_t requested;
};

static int32_t give_up_the_reserve(void *data, int32_t type, int32_t device, uint64_t requested) {
    struct reserve *reserve = data;
    REQUIRE(type == LLAISYS_DEVICE_CPU && device == 0);
    reserve->asked++;
    reserve->requested = requested;
    if (reserve->memory == NULL) {
        return 0;
    }
    OK(api->free_device(self_, 0, reserve->memory));
    reserve->memory = NULL;
    return 1;
}

static void a_limit_holds_and_a_callback_may_make_room(void) {
    const LlaisysMemoryStatistics before = statistics();
    struct reserve reserve = {NULL, 0, 0};
    void *memory = NULL, *second = NULL;
    OK(api->set_memory_limit(self_, 0, before.used + 10000));
    REQUIRE(statistics().limit == before.used + 10000);
    FAILS(OUT_OF_MEMORY, api->malloc_device(self_, 0, 10001, &memory));
    REQUIRE(memory == NULL && statistics().failures == before.failures + 1);
    reserve.memory = make_memory(9000);
    OK(api->set_out_of_memory_callback(self_, give_up_the_reserve, &reserve));
    OK(api->malloc_device(self_, 0, 5000, &memory));
    REQUIRE(memory != NULL && reserve.asked == 1 && reserve.requested == 5000);
    FAILS(OUT_OF_MEMORY, api->malloc_device(self_, 0, 5001, &second));
    REQUIRE(reserve.asked == 2 && second == NULL);
    OK(api->set_out_of_memory_callback(self_, NULL, NULL));
    FAILS(OUT_OF_MEMORY, api->malloc_device(self_, 0, 5001, &second));
    REQUIRE(reserve.asked == 2);
    OK(api->malloc_device(self_, 0, 5000, &second)); /* a smaller one works */
    OK(api->set_memory_limit(self_, 0, UINT64_MAX));
    OK(api->free_device(self_, 0, memory));
    OK(api->free_device(self_, 0, second));
    REQUIRE(statistics().used == before.used && statistics().limit == LLAISYS_UNKNOWN_BYTES);
}

/* ---- Slots ----------------------------------------------------------------------------------- */

static int destroyed;

static void destroy(void *value) {
    destroyed += *(int *)value;
}

static void *keep_in_a_thread(void *data) {
    static int one = 1, ten = 10;
    const uint64_t key = (uintptr_t)data;
    void *value = &one;
    OK(api->get_thread_slot(self_, 0, key, &value));
    REQUIRE(value == NULL);
    OK(api->set_thread_slot(self_, 0, key, &one, destroy));
    OK(api->get_thread_slot(self_, 0, key, &value));
    REQUIRE(value == &one && destroyed == 0);
    OK(api->set_thread_slot(self_, 0, key, &ten, destroy));
    REQUIRE(destroyed == 1);
    return NULL;
}

static void a_threads_value_is_destroyed_once_when_the_thread_ends(void) {
    static int key, kept = 100;
    void *value = &key;
    pthread_t thread;
    destroyed = 0;
    REQUIRE(pthread_create(&thread, NULL, keep_in_a_thread, &key) == 0);
    REQUIRE(pthread_join(thread, NULL) == 0);
    REQUIRE(destroyed == 11);
    OK(api->get_thread_slot(self_, 0, (uintptr_t)&key, &value));
    REQUIRE(value == NULL);
    OK(api->set_thread_slot(self_, 0, (uintptr_t)&key, &kept, destroy));
    OK(api->set_thread_slot(self_, 0, (uintptr_t)&key, NULL, NULL));
    REQUIRE(destroyed == 111);
    OK(api->set_thread_slot(self_, 0, (uintptr_t)&key, &kept, NULL));
    OK(api->set_thread_slot(self_, 0, (uintptr_t)&key, NULL, NULL));
    REQUIRE(destroyed == 111);
    FAILS(INVALID_DEVICE, api->set_thread_slot(self_, 99, 1, &kept, destroy));
    FAILS(INVALID_DEVICE, api->get_thread_slot(self_, 99, 1, &value));
    FAILS(INVALID_VALUE, api->get_thread_slot(self_, 0, 1, NULL));
    REQUIRE(destroyed == 111);
}

static void a_streams_value_is_destroyed_once_with_the_stream(void) {
    static int one = 1, ten = 10;
    llaisysStream_t stream = make_stream();
    void *value = &one;
    destroyed = 0;
    OK(api->get_stream_slot(self_, stream, 1, &value));
    REQUIRE(value == NULL);
    OK(api->set_stream_slot(self_, stream, 1, &one, destroy));
    OK(api->set_stream_slot(self_, stream, 2, &ten, destroy));
    OK(api->get_stream_slot(self_, stream, 2, &value));
    REQUIRE(value == &ten && destroyed == 0);
    OK(api->destroy_stream(self_, 0, stream));
    REQUIRE(destroyed == 11);
    FAILS(INVALID_HANDLE, api->set_stream_slot(self_, stream, 1, &one, destroy));
    FAILS(INVALID_HANDLE, api->get_stream_slot(self_, stream, 1, &value));
    FAILS(INVALID_HANDLE, api->set_stream_slot(self_, NULL, 1, &one, destroy));
    FAILS(INVALID_VALUE, api->get_stream_slot(self_, stream, 1, NULL));
    REQUIRE(destroyed == 11);
}

int main(void) {
    api = llaisysGetBackendAPI(LLAISYS_DEVICE_CPU);
    if (api == NULL || api->struct_size < sizeof *api) {
        fprintf(stderr, "no whole table\n");
        return 1;
    }
    self_ = api->self_;

    a_name_that_is_no_entry_has_no_support();
    a_struct_is_written_up_to_the_callers_size();
    a_device_has_a_link_to_itself_and_to_no_device_that_is_not_there();
    streams_are_made_with_flags_and_a_priority();
    a_non_blocking_stream_does_not_wait_for_the_default_stream();
    the_device_of_a_stream_is_known_and_a_known_stream_is_not_adopted_again();
    an_event_that_was_never_recorded_counts_as_reached();
    an_event_orders_two_streams();
    what_cannot_be_measured_has_three_distinct_errors();
    a_pending_event_may_be_destroyed_and_outlives_its_stream();
    memory_comes_and_goes_in_the_order_of_a_stream();
    managed_memory_has_one_address_for_host_and_device();
    host_memory_is_registered_once_and_is_then_known();
    an_address_tells_what_it_is();
    fills_repeat_each_size_of_pattern();
    a_pitched_copy_moves_its_rows_and_nothing_between_them();
    a_batch_copies_all_of_its_ranges_or_none();
    a_promised_buffer_is_read_when_the_stream_gets_there();
    a_call_that_waits_is_refused_inside_a_host_function();
    memory_is_accounted_for();
    a_limit_holds_and_a_callback_may_make_room();
    a_threads_value_is_destroyed_once_when_the_thread_ends();
    a_streams_value_is_destroyed_once_with_the_stream();

    REQUIRE(llaisysPeekLastError(NULL) == LLAISYS_STATUS_SUCCESS);
    printf("%d failures, %d skipped\n", failures, skipped);
    return failures == 0 ? 0 : 1;
}

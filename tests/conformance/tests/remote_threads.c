/* Six threads do everything that the remote backend can on both of its devices, through its own table, so
 * that a sanitizer sees the backend and the threads in one program. Compiled together with remote.c and
 * run by example_backends.rs. With -DPLANTED it has a data race and a leak, which must be reported.
 */
#include <llaisys/backend.h>

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define SIZE 10000
#define EXPECT(condition) ((condition) ? (void)0 : abort())

static const LlaisysBackendAPI *api;
static int functions;
static int planted;

/* Each thread's own stream runs these, so the count is atomic; with PLANTED another one is not. */
static void count(void *data) {
    (void)data;
    __atomic_add_fetch(&functions, 1, __ATOMIC_RELAXED);
#ifdef PLANTED
    planted++;
    *(volatile char *)malloc(16) = 0;
#endif
}

static void once(int device) {
    char out[SIZE], back[SIZE];
    llaisysStream_t stream;
    llaisysEvent_t event;
    void *memory, *pinned;
    int32_t answer;
    memset(out, device + 1, SIZE);
    EXPECT(api->create_stream(NULL, device, &stream) == 0);
    EXPECT(api->create_event(NULL, device, 0, &event) == 0);
    EXPECT(api->malloc_device(NULL, device, SIZE, &memory) == 0);
    EXPECT(api->malloc_host(NULL, device, SIZE, &pinned) == 0);
    EXPECT(api->memcpy_async(NULL, device, memory, out, SIZE, LLAISYS_MEMCPY_H2D, stream,
                             LLAISYS_COPY_SOURCE_PAGEABLE) == 0);
    EXPECT(api->record_event(NULL, device, event, stream) == 0);
    EXPECT(api->stream_wait_event(NULL, device, NULL, event) == 0);
    EXPECT(api->launch_host_function(NULL, device, stream, count, NULL) == 0);
    EXPECT(api->memcpy_async(NULL, device, pinned, memory, SIZE, LLAISYS_MEMCPY_D2H, stream, 0) == 0);
    EXPECT(api->event_query(NULL, device, event, &answer) == 0);
    EXPECT(api->stream_query(NULL, device, stream, &answer) == 0);
    EXPECT(api->memcpy_sync(NULL, device, back, memory, SIZE, LLAISYS_MEMCPY_D2H,
                            LLAISYS_COPY_DESTINATION_PAGEABLE) == 0);
    EXPECT(memcmp(out, back, SIZE) == 0);
    EXPECT(api->event_synchronize(NULL, device, event) == 0);
    EXPECT(api->stream_synchronize(NULL, device, stream) == 0);
    EXPECT(memcmp(out, pinned, SIZE) == 0);
    /* With a record still queued, and a stream that has work. */
    EXPECT(api->record_event(NULL, device, event, stream) == 0);
    EXPECT(api->destroy_event(NULL, device, event) == 0);
    EXPECT(api->destroy_stream(NULL, device, stream) == 0);
    EXPECT(api->free_device(NULL, device, memory) == 0);
    EXPECT(api->free_host(NULL, device, pinned) == 0);
    EXPECT(api->device_synchronize(NULL, device) == 0);
}

static void *work(void *device) {
    for (int i = 0; i < 50; i++) {
        once(*(int *)device);
    }
    return NULL;
}

int main(void) {
    pthread_t threads[6];
    int devices[2] = {0, 1};
    (void)planted;
    api = llaisysBackendQuery(LLAISYS_ABI_MAJOR, LLAISYS_ABI_MINOR)->api;
    /* The servers are forked here: in a child of a process with several threads ThreadSanitizer may wait for
     * a lock of its own for ever. */
    for (int device = 0; device < 2; device++) {
        void *memory;
        EXPECT(api->malloc_device(NULL, device, SIZE, &memory) == 0);
        EXPECT(api->free_device(NULL, device, memory) == 0);
    }
    for (int i = 0; i < 6; i++) {
        EXPECT(pthread_create(&threads[i], NULL, work, &devices[i % 2]) == 0);
    }
    for (int i = 0; i < 6; i++) {
        EXPECT(pthread_join(threads[i], NULL) == 0);
    }
    EXPECT(functions == 300);
    return 0;
}

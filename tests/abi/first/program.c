/* A program as it was written for the first headers, which lie beside it. Kept as it is: every later
 * runtime of the same major ABI version runs it unchanged (docs/abi.md). Both tables, a failure and its
 * texts, an output struct that has grown since, with a guard behind it.
 */
#include <llaisys/backend.h>
#include <llaisys/runtime.h>

#include <stdio.h>
#include <string.h>

#define EXPECT(condition)                                                                          \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "line %d: expected %s\n", __LINE__, #condition);                       \
            return 1;                                                                              \
        }                                                                                          \
    } while (0)

int main(void) {
    char out[256] = "from the first headers", back[256] = "";
    const LlaisysRuntimeAPI *twelve = llaisysGetRuntimeAPI(LLAISYS_DEVICE_CPU);
    const LlaisysBackendAPI *table = llaisysGetBackendAPI(LLAISYS_DEVICE_CPU);
    const LlaisysError *error;
    struct {
        LlaisysDeviceProperties known;
        unsigned char guard[4096];
    } properties;
    struct {
        LlaisysMemoryInfo known;
        unsigned char guard[4096];
    } info;

    EXPECT(llaisysGetAbiVersion() >> 16 == LLAISYS_ABI_MAJOR);
    EXPECT((llaisysGetAbiVersion() & 0xffff) + 1 > LLAISYS_ABI_MINOR);
    EXPECT(twelve->get_device_count() >= 1);
    llaisysStream_t stream = twelve->create_stream();
    void *memory = twelve->malloc_device(sizeof out);
    twelve->memcpy_async(memory, out, sizeof out, LLAISYS_MEMCPY_H2D, stream);
    twelve->memcpy_async(back, memory, sizeof back, LLAISYS_MEMCPY_D2H, stream);
    twelve->stream_synchronize(stream);
    EXPECT(memcmp(out, back, sizeof out) == 0);
    twelve->destroy_stream(stream);
    EXPECT(llaisysGetLastError(&error) == LLAISYS_STATUS_SUCCESS);

    EXPECT(table != NULL && table->struct_size >= sizeof *table);
    memset(&properties, 0xa5, sizeof properties);
    properties.known.struct_size = sizeof properties.known;
    EXPECT(table->get_device_properties(table->self_, 0, &properties.known) == 0);
    EXPECT(properties.known.name[0] != '\0' && properties.known.total_memory > 0);
    for (size_t i = 0; i < sizeof properties.guard; i++) {
        EXPECT(properties.guard[i] == 0xa5);
    }
    memset(&info, 0xa5, sizeof info);
    info.known.struct_size = sizeof info.known;
    EXPECT(table->get_memory_info(table->self_, 0, &info.known) == 0);
    for (size_t i = 0; i < sizeof info.guard; i++) {
        EXPECT(info.guard[i] == 0xa5);
    }
    EXPECT(table->free_device(table->self_, 0, memory) == 0);
    EXPECT(table->free_device(table->self_, 0, memory) == LLAISYS_STATUS_INVALID_VALUE);
    EXPECT(llaisysGetLastError(&error) == LLAISYS_STATUS_INVALID_VALUE);
    EXPECT(error->struct_size >= sizeof *error && strcmp(error->operation, "free_device") == 0);
    return 0;
}

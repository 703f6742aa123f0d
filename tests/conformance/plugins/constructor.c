/* A plugin whose constructor uses the runtime that is just loading it, in every way it can.
 *
 * What it asks of the CPU must work, what it asks about backends must be an error, and nothing may hang.
 * LLAISYS_TEST_RUNTIME and LLAISYS_TEST_PLUGIN name the two files. It ends the process with a code of its
 * own for each answer that is wrong.
 */
#include "plugin.c"

#include <dlfcn.h>
#include <llaisys/runtime.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

static const LlaisysRuntimeAPI *(*table_of)(llaisysDeviceType_t);

static void use_the_cpu(int code) {
    const LlaisysRuntimeAPI *cpu = table_of(LLAISYS_DEVICE_CPU);
    char there[16] = "through the cpu", back[16] = "";
    void *memory = cpu->malloc_device(sizeof there);
    if (memory == NULL) {
        _Exit(code);
    }
    cpu->memcpy_sync(memory, there, sizeof there, LLAISYS_MEMCPY_H2D);
    cpu->memcpy_sync(back, memory, sizeof back, LLAISYS_MEMCPY_D2H);
    cpu->free_device(memory);
    if (memcmp(there, back, sizeof there) != 0) {
        _Exit(code);
    }
}

static void *from_another_thread(void *unused) {
    use_the_cpu(71);
    return unused;
}

__attribute__((constructor)) static void use_the_runtime(void) {
    void *runtime = dlopen(getenv("LLAISYS_TEST_RUNTIME"), RTLD_NOW | RTLD_NOLOAD);
    if (runtime == NULL) {
        _Exit(70);
    }
    *(void **)&table_of = dlsym(runtime, "llaisysGetRuntimeAPI");
    int32_t (*load)(const char *, int32_t *), (*count)(void), (*last_error)(const LlaisysError **);
    *(void **)&load = dlsym(runtime, "llaisysLoadBackend");
    *(void **)&count = dlsym(runtime, "llaisysGetCandidateCount");
    *(void **)&last_error = dlsym(runtime, "llaisysGetLastError");

    use_the_cpu(71);
    pthread_t thread;
    if (pthread_create(&thread, NULL, from_another_thread, NULL) != 0 || pthread_join(thread, NULL) != 0) {
        _Exit(72);
    }
    pid_t child = fork();
    int status = 0;
    if (child == 0) {
        use_the_cpu(73);
        _exit(0);
    }
    if (waitpid(child, &status, 0) != child || status != 0) {
        _Exit(73);
    }
    const LlaisysError *error = NULL;
    if (load(getenv("LLAISYS_TEST_PLUGIN"), NULL) != LLAISYS_STATUS_NOT_PERMITTED) {
        _Exit(74);
    }
    if (last_error(&error) != LLAISYS_STATUS_NOT_PERMITTED || strstr(error->message, "constructor") == NULL) {
        _Exit(75);
    }
    if (table_of((llaisysDeviceType_t)3)->malloc_device(1) != NULL ||
        last_error(NULL) != LLAISYS_STATUS_NOT_PERMITTED) {
        _Exit(76);
    }
    if (count() < 1) {
        _Exit(77);
    }
}

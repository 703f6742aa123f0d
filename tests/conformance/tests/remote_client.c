/* A program that uses the remote backend and has its servers die: what no case of the suite can do, since
 * only this backend has processes to kill. Run by example_backends.rs; ends with 0, or says what was wrong.
 *
 *     remote_client PATH-OF-THE-PLUGIN
 */
#define _GNU_SOURCE
#include <llaisys/backend.h>

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define EXPECT(condition)                                                                          \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "line %d: expected %s\n", __LINE__, #condition);                       \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

static const LlaisysBackendAPI *api;
static volatile sig_atomic_t children_heard_of;

static void on_child(int signal) {
    (void)signal;
    children_heard_of = 1;
}

/* The servers of this process, in no order; 0 where there is none. */
static int servers(pid_t found[8]) {
    DIR *processes = opendir("/proc");
    struct dirent *entry;
    int count = 0;
    memset(found, 0, 8 * sizeof *found);
    while (processes != NULL && (entry = readdir(processes)) != NULL) {
        char path[300], name[64] = "", state = 0;
        int parent = 0;
        snprintf(path, sizeof path, "/proc/%s/stat", entry->d_name);
        FILE *file = entry->d_name[0] >= '0' && entry->d_name[0] <= '9' ? fopen(path, "r") : NULL;
        if (file == NULL) {
            continue;
        }
        int read = fscanf(file, "%*d (%63[^)]) %c %d", name, &state, &parent);
        fclose(file);
        if (read == 3 && parent == getpid() && count < 8) {
            found[count++] = atoi(entry->d_name); /* a zombie counts too */
        }
    }
    closedir(processes);
    return count;
}

static void round_trip(int32_t device) {
    char out[4096], back[4096] = "";
    void *memory = NULL;
    memset(out, 0x5a + device, sizeof out);
    EXPECT(api->malloc_device(api->self_, device, sizeof out, &memory) == 0);
    EXPECT(api->memcpy_sync(api->self_, device, memory, out, sizeof out, LLAISYS_MEMCPY_H2D, 0) == 0);
    EXPECT(api->memcpy_sync(api->self_, device, back, memory, sizeof out, LLAISYS_MEMCPY_D2H, 0) == 0);
    EXPECT(memcmp(out, back, sizeof out) == 0);
    EXPECT(api->free_device(api->self_, device, memory) == 0);
}

/* What becomes of a child that touches device memory as if it were the host's. */
static int signal_of_a_touch(void *memory, int writes) {
    pid_t child = fork();
    int status = 0;
    if (child == 0) {
        signal(SIGSEGV, SIG_DFL);
        if (writes) {
            *(volatile char *)memory = 1;
        } else {
            (void)*(volatile char *)memory;
        }
        _exit(0);
    }
    EXPECT(waitpid(child, &status, 0) == child);
    return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

int main(int argc, char **argv) {
    pid_t all[8], second;
    int32_t type = -1;
    const LlaisysError *error;
    void *memory = NULL, *other = NULL;
    llaisysStream_t stream = NULL;
    const uint64_t size = 64 << 20;
    EXPECT(argc == 2);
    signal(SIGCHLD, on_child);

    EXPECT(llaisysLoadBackend(argv[1], &type) == LLAISYS_STATUS_SUCCESS);
    api = llaisysGetBackendAPI(type);
    EXPECT(api != NULL);
    int32_t count = 0;
    EXPECT(api->get_device_count(api->self_, &count) == 0 && count == 2);
    EXPECT(servers(all) == 0); /* nothing starts before it is used */

    round_trip(1);
    EXPECT(servers(all) == 1);
    second = all[0];
    round_trip(0);
    EXPECT(servers(all) == 2);
    pid_t first = all[0] == second ? all[1] : all[0];
    EXPECT(wait(NULL) == -1 && errno == ECHILD); /* the program has no child that it knows of */

    EXPECT(api->malloc_device(api->self_, 0, size, &memory) == 0);
    EXPECT(api->malloc_device(api->self_, 0, size, &other) == 0);
    EXPECT(signal_of_a_touch(memory, 0) == SIGSEGV);
    EXPECT(signal_of_a_touch(memory, 1) == SIGSEGV);
    EXPECT(signal_of_a_touch(all, 0) == 0); /* the proof that it is not the touching */
    children_heard_of = 0;

    /* A server that dies with work in its queue. */
    EXPECT(api->create_stream(api->self_, 0, &stream) == 0);
    for (int i = 0; i < 200; i++) {
        EXPECT(api->memcpy_async(api->self_, 0, memory, other, size, LLAISYS_MEMCPY_D2D, stream, 0) == 0);
    }
    EXPECT(kill(first, SIGKILL) == 0);
    EXPECT(api->stream_synchronize(api->self_, 0, stream) == LLAISYS_STATUS_DEVICE_LOST);
    EXPECT(llaisysGetLastError(&error) == LLAISYS_STATUS_DEVICE_LOST);
    EXPECT(strstr(error->message, "signal 9") != NULL);
    EXPECT(api->device_synchronize(api->self_, 0) == LLAISYS_STATUS_DEVICE_LOST);
    EXPECT(api->malloc_device(api->self_, 0, 1, &other) == LLAISYS_STATUS_DEVICE_LOST);
    api->free_device(api->self_, 0, memory); /* comes back, whatever it says */
    EXPECT(servers(all) == 1 && all[0] == second); /* reaped, no zombie */
    EXPECT(!children_heard_of);
    round_trip(1);
    api = llaisysGetBackendAPI(LLAISYS_DEVICE_CPU);
    round_trip(0);

    /* The other one ends with this process, though a child of this process lives on with its files. */
    if (fork() == 0) {
        fclose(stdout);
        fclose(stderr);
        sleep(60);
        _exit(0);
    }
    printf("%d\n", (int)second);
    return 0;
}

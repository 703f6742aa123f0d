/* A backend in plain C whose device memory lies in another process.
 *
 * Each of the two devices is a server: a child of this process that alone has the device's memory mapped. Here
 * the same addresses are reserved and closed (PROT_NONE), so a device pointer is a number that both sides
 * understand, and host code that follows one gets a SIGSEGV, as with a GPU. README.md has the why.
 *
 * Rules: one lock (`all.lock`) guards every queue, block and event, and is never held while a copy or a user's
 * function runs. A server that dies is a lost device, never a wait without end. After a fork the child is told
 * so. Nothing runs at load or at exit: no constructor, no atexit, no signal handler. */
#define _GNU_SOURCE
#include <llaisys/backend.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define DEVICES 2
#define ALIGNMENT 256 /* of every block: what device memory needs (contract M2) */
#define BOUNCE_SIZE ((uint64_t)1 << 20)
#define CAPABILITIES                                                                               \
    (LLAISYS_CAPABILITY_DEVICE_INFORMATION | LLAISYS_CAPABILITY_STREAM_QUERY |                     \
     LLAISYS_CAPABILITY_HOST_FUNCTIONS | LLAISYS_CAPABILITY_EVENTS)

/* ---- Errors: of the thread's last failing call, until they are read ---------------------------------- */
static _Thread_local struct { int32_t status; int native; char message[256]; } failure;

__attribute__((format(printf, 3, 4))) static int32_t fail(int32_t status, int native, const char *format, ...) {
    va_list arguments;
    failure.status = status;
    failure.native = native;
    va_start(arguments, format);
    vsnprintf(failure.message, sizeof failure.message, format, arguments);
    va_end(arguments);
    return status;
}

static int32_t no_memory(void) {
    return fail(LLAISYS_STATUS_OUT_OF_MEMORY, ENOMEM, "the host has no memory left for the bookkeeping");
}

static int32_t get_last_error(void *self, int64_t *code, char *name, uint64_t name_capacity, char *message,
                              uint64_t capacity) {
    int32_t status = failure.status;
    const char *known = failure.native == 0 ? NULL : strerrorname_np(failure.native);
    *code = failure.native;
    snprintf(name, name_capacity, "%s", known == NULL ? "" : known);
    snprintf(message, capacity, "%s", status == 0 ? "" : failure.message);
    failure.status = 0;
    return status;
}

/* ---- State -------------------------------------------------------------------------------------------- */
/* Reached when the stream of its newest record has come past that record; never recorded counts as reached (V1). */
struct event {
    uint64_t ticket, stream; /* of the newest record; 0 before */
    int64_t time;            /* when it was reached */
    int pending, destroyed;  /* records in streams that have yet to write the time; the last one frees it */
};

struct item {
    struct item *next;
    uint64_t ticket; /* the order in which everything was enqueued, over all streams */
    enum { COPY, CALL, RECORD, WAIT, NOTHING } operation;
    void *dst, *staged; /* staged: a copy of pageable memory, freed behind the item */
    const void *src;
    uint64_t size;
    struct event *event;
    uint64_t until, of; /* what a WAIT waits for: this ticket, of this stream */
    LlaisysHostFunction function;
    void *data;
};

/* An item stays at the head of its stream until it is done: a stream without a head is idle. */
struct stream {
    struct stream *next;
    struct device *device;
    int destroyed;
    struct item *first, *last;
    uint64_t number; /* the number names it for ever, the address only while it is there */
    pthread_cond_t filled; /* its worker sleeps here while there is nothing to do */
};

/* A piece of a pool, in the order of addresses. LATE is freed, and may be handed out again once everything that
 * was enqueued before the free is done (M4). */
struct block {
    struct block *next;
    char *start;
    uint64_t size, ticket;
    enum { FREE, USED, LATE } state;
};
struct pool { char *start; uint64_t size; struct block *blocks; };

struct device {
    struct pool memory;      /* reserved here, mapped in the server */
    struct stream *standard; /* the default stream */
    int started, error;
    atomic_int lost;
    char cause[128];
    pthread_mutex_t conversation; /* one request at a time */
    int socket, process;
};

static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed; /* something was done; blocked workers and waiting callers look again */
    int sleepers;
    uint64_t tickets, numbers;
    struct stream *streams;
    struct device devices[DEVICES];
    struct pool pinned; /* shared with every server, at the same address */
    char *bounce;       /* a piece of it, for memory that the servers cannot see */
    pthread_mutex_t bouncing;
    /* A page that reads 1 here and, by MADV_WIPEONFORK, 0 in a child of a fork; NULL before the start. */
    _Atomic(volatile char *) own;
} all = {.lock = PTHREAD_MUTEX_INITIALIZER,
         .changed = PTHREAD_COND_INITIALIZER,
         .bouncing = PTHREAD_MUTEX_INITIALIZER,
         .devices = {{.conversation = PTHREAD_MUTEX_INITIALIZER}, {.conversation = PTHREAD_MUTEX_INITIALIZER}}};

/* Without a lock, since another thread may have held it when the process forked. */
static int is_forked(void) { return all.own != NULL && *all.own == 0; }

static int within(const struct pool *pool, const void *address) {
    return (uintptr_t)address - (uintptr_t)pool->start < pool->size;
}

static struct device *device_of(const void *address) {
    struct device *device = all.devices, *end = device + DEVICES;
    while (device < end && !within(&device->memory, address)) device++;
    return device < end ? device : NULL;
}

/* ---- The server. It has the forking thread alone and maybe another thread's locked malloc, so it makes system
 * calls, copies bytes, and does nothing else. ------------------------------------------------------------ */

struct request { void *dst; const void *src; uint64_t size; };

/* Answers with 0, or with why it cannot begin. Ends when the host closes its socket (exit, exec) or is gone (a
 * child of the host's may have the socket too). Signals stay blocked: Ctrl-C is the host's to answer. */
__attribute__((noreturn)) static void serve(struct pool memory, int host_socket, int host) {
    struct request request;
    void *mapped = mmap(memory.start, memory.size, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
    /* Everything else that was inherited is closed: the program's pipes are not to be held open here. */
    host_socket = fcntl(host_socket, F_DUPFD, 2), host = fcntl(host, F_DUPFD, 2);
    int alone = dup2(host_socket, 0) == 0 && dup2(host, 1) == 1 && syscall(SYS_close_range, 2, ~0u, 0) == 0;
    unsigned char answer = mapped == memory.start && alone ? 0 : (unsigned char)errno;
    prctl(PR_SET_NAME, "llaisys-remote");
    while (send(0, &answer, 1, MSG_NOSIGNAL) == 1 && answer == 0) {
        struct pollfd wait[2] = {{.fd = 0, .events = POLLIN}, {.fd = 1, .events = POLLIN}};
        while (poll(wait, 2, -1) < 0 && errno == EINTR) continue;
        if (recv(0, &request, sizeof request, MSG_DONTWAIT) != sizeof request) break;
        memcpy(request.dst, request.src, request.size);
    }
    _exit(0);
}

/* ---- Talking to a server ------------------------------------------------------------------------------ */
/* The server is gone, or is ended here: it is reaped, and every later call hears why. */
static void lose(struct device *device) {
    siginfo_t end = {0};
    syscall(SYS_pidfd_send_signal, device->process, SIGKILL, NULL, 0);
    /* __WALL: it was made without a signal to its parent, so that no wait() of the program finds it. */
    waitid(P_PIDFD, (id_t)device->process, &end, WEXITED | __WALL);
    snprintf(device->cause, sizeof device->cause, "the server of device %d (process %d) %s %d",
             (int)(device - all.devices), (int)end.si_pid,
             end.si_code == CLD_EXITED ? "ended with code" : "was ended by signal", end.si_status);
    device->lost = 1;
    close(device->socket);
    close(device->process);
}

/* What the server says: 0 for ready or done; otherwise an error number, ECHILD when it is gone. */
static int hear(struct device *device) {
    struct pollfd wait[2] = {{.fd = device->socket, .events = POLLIN}, {.fd = device->process, .events = POLLIN}};
    unsigned char answer;
    while (poll(wait, 2, -1) < 0 && errno == EINTR) continue;
    return recv(device->socket, &answer, 1, MSG_DONTWAIT) == 1 ? answer : ECHILD;
}

static void ask(struct device *device, const struct request *request) {
    pthread_mutex_lock(&device->conversation);
    if (!device->lost) {
        ssize_t sent = send(device->socket, request, sizeof *request, MSG_NOSIGNAL);
        if (sent != sizeof *request || hear(device) != 0) lose(device);
    }
    pthread_mutex_unlock(&device->conversation);
}

/* Copies between any two places: by one server where it sees both, by this process where neither is a device's,
 * and otherwise piece by piece over the bounce buffer, which all see. */
static void copy(void *dst, const void *src, uint64_t size) {
    struct device *to = device_of(dst), *from = device_of(src);
    if (to == NULL && from == NULL) {
        memcpy(dst, src, size);
    } else if (to == from || (to == NULL && within(&all.pinned, dst)) ||
               (from == NULL && within(&all.pinned, src))) {
        struct request request = {.dst = dst, .src = src, .size = size};
        ask(to != NULL ? to : from, &request);
    } else {
        pthread_mutex_lock(&all.bouncing);
        for (uint64_t done = 0; done < size; done += BOUNCE_SIZE) {
            uint64_t piece = size - done < BOUNCE_SIZE ? size - done : BOUNCE_SIZE;
            copy(all.bounce, (const char *)src + done, piece);
            copy((char *)dst + done, all.bounce, piece);
        }
        pthread_mutex_unlock(&all.bouncing);
    }
}

/* ---- Memory: first fit in the order of addresses; all.lock is held ------------------------------------- */
static uint64_t oldest_pending(void) {
    uint64_t oldest = UINT64_MAX;
    for (struct stream *stream = all.streams; stream != NULL; stream = stream->next) {
        if (stream->first != NULL && stream->first->ticket < oldest) oldest = stream->first->ticket;
    }
    return oldest;
}

static int is_free(struct block *block, uint64_t oldest) {
    if (block->state == LATE && block->ticket < oldest) block->state = FREE;
    return block->state == FREE;
}

static void *take(struct pool *pool, uint64_t size) {
    uint64_t oldest = oldest_pending();
    if (size > pool->size) return NULL;
    size = (size + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    for (struct block *block = pool->blocks; block != NULL; block = block->next) {
        if (!is_free(block, oldest)) continue;
        while (block->next != NULL && is_free(block->next, oldest)) {
            struct block *gone = block->next;
            block->size += gone->size;
            block->next = gone->next;
            free(gone);
        }
        if (block->size > size) {
            struct block *rest = malloc(sizeof *rest);
            if (rest == NULL) return NULL;
            *rest = (struct block){block->next, block->start + size, block->size - size, 0, FREE};
            block->next = rest;
            block->size = size;
        }
        if (block->size == size) {
            block->state = USED;
            return block->start;
        }
    }
    return NULL;
}

static int32_t give_back(struct pool *pool, void *pointer) {
    if (is_forked()) return 0; /* the memory is the parent's (L2) */
    pthread_mutex_lock(&all.lock);
    struct block *block = pool->blocks;
    while (block != NULL && block->start != pointer) block = block->next;
    if (block != NULL) {
        block->state = LATE;
        block->ticket = all.tickets;
    }
    pthread_mutex_unlock(&all.lock);
    return block != NULL ? 0 : fail(LLAISYS_STATUS_INVALID_VALUE, 0, "%p is the start of no block", pointer);
}

/* ---- Streams: a thread each; all.lock is held unless a text says otherwise ------------------------------ */
/* CUDA's legacy order (S2): the default stream and the others of a device wait for what was enqueued on the other
 * side before. */
static int may_run(const struct stream *stream, uint64_t ticket) {
    const struct stream *standard = stream->device->standard;
    if (stream != standard) return standard->first == NULL || standard->first->ticket > ticket;
    for (const struct stream *other = all.streams; other != NULL; other = other->next) {
        int before = other->first != NULL && other->first->ticket < ticket;
        if (before && other != stream && other->device == stream->device) return 0;
    }
    return 1;
}

static void wait_for_change(void) {
    all.sleepers++;
    pthread_cond_wait(&all.changed, &all.lock);
    all.sleepers--;
}

/* Whether a stream, which may be gone, has come past one of its items. */
static int is_past(uint64_t number, uint64_t ticket) {
    const struct stream *stream = all.streams;
    while (stream != NULL && stream->number != number) stream = stream->next;
    return stream == NULL || stream->first == NULL || stream->first->ticket > ticket;
}

static void wait_for(uint64_t number, uint64_t ticket) { while (!is_past(number, ticket)) wait_for_change(); }

/* The worker of a stream. Copies and functions are run without the lock. */
static void *work(void *argument) {
    struct stream *stream = argument, **link = &all.streams;
    pthread_mutex_lock(&all.lock);
    while (stream->first != NULL || !stream->destroyed) {
        struct item *item = stream->first;
        if (item == NULL) {
            pthread_cond_wait(&stream->filled, &all.lock);
        } else if (!may_run(stream, item->ticket) || (item->operation == WAIT && !is_past(item->of, item->until))) {
            wait_for_change();
        } else {
            pthread_mutex_unlock(&all.lock);
            if (item->operation == COPY) copy(item->dst, item->staged ? item->staged : item->src, item->size);
            if (item->operation == CALL) item->function(item->data);
            free(item->staged);
            pthread_mutex_lock(&all.lock);
            stream->first = item->next;
            if (item->operation == RECORD) {
                struct timespec now;
                clock_gettime(CLOCK_MONOTONIC, &now);
                if (item->event->ticket == item->ticket) item->event->time = now.tv_sec * 1000000000LL + now.tv_nsec;
                if (--item->event->pending == 0 && item->event->destroyed) free(item->event);
            }
            free(item);
            if (all.sleepers > 0) pthread_cond_broadcast(&all.changed);
        }
    }
    while (*link != stream) link = &(*link)->next;
    *link = stream->next;
    pthread_mutex_unlock(&all.lock);
    pthread_cond_destroy(&stream->filled);
    free(stream);
    return NULL;
}

static struct stream *new_stream(struct device *device) {
    struct stream *stream = calloc(1, sizeof *stream);
    sigset_t every, before;
    pthread_t worker;
    if (stream == NULL) return NULL;
    stream->device = device;
    pthread_cond_init(&stream->filled, NULL);
    sigfillset(&every);
    pthread_sigmask(SIG_SETMASK, &every, &before); /* signals are for the program's own threads (L3) */
    int error = pthread_create(&worker, NULL, work, stream);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (error != 0) return free(stream), NULL;
    pthread_detach(worker);
    stream->number = ++all.numbers;
    stream->next = all.streams;
    return all.streams = stream;
}

static uint64_t push(struct stream *stream, struct item *item) {
    item->ticket = ++all.tickets;
    *(stream->first == NULL ? &stream->first : &stream->last->next) = item;
    stream->last = item;
    pthread_cond_signal(&stream->filled);
    return item->ticket;
}

/* ---- The start of a device, at its first use ------------------------------------------------------------ */
static uint64_t device_size(void) { /* an eighth of the machine, in whole MiB */
    return ((uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE) / 8) >> 20 << 20;
}

static int map_pool(struct pool *pool, uint64_t size, int protection, int flags, int file) {
    struct block *block = calloc(1, sizeof *block); /* FREE */
    void *start = mmap(NULL, size, protection, flags | MAP_NORESERVE, file, 0);
    if (block == NULL || start == MAP_FAILED) return ENOMEM;
    block->start = start;
    block->size = size;
    *pool = (struct pool){start, size, block};
    return 0;
}

/* The pinned window, and the addresses of every device: from here on they stay as they are. */
static int map_shared(void) {
    uint64_t size = 2 * device_size();
    int file = memfd_create("llaisys-remote-pinned", MFD_CLOEXEC);
    int error = file < 0 || ftruncate(file, (off_t)size) != 0 ? errno : 0;
    if (error == 0) error = map_pool(&all.pinned, size, PROT_READ | PROT_WRITE, MAP_SHARED, file);
    if (file >= 0) close(file);
    for (int i = 0; i < DEVICES && error == 0; i++) {
        error = map_pool(&all.devices[i].memory, device_size(), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1);
    }
    return error != 0 || (all.bounce = take(&all.pinned, BOUNCE_SIZE)) != NULL ? error : ENOMEM;
}

/* Not fork(): handlers of the program must not run in the server. Not SIGCHLD: a wait() of the program must not
 * find it. That it died is seen by its pidfd, whoever has a copy of the socket. Answers an error number. */
static int start_server(struct device *device) {
    int pair[2], process = -1, host = (int)syscall(SYS_pidfd_open, getpid(), 0);
    sigset_t every, before;
    if (host < 0 || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0) return errno;
    sigfillset(&every);
    pthread_sigmask(SIG_SETMASK, &every, &before);
    long child = syscall(SYS_clone, CLONE_PIDFD, NULL, &process, NULL, NULL);
    int error = child < 0 ? errno : 0;
    if (child == 0) serve(device->memory, pair[1], host);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    close(pair[1]);
    close(host);
    device->socket = pair[0];
    device->process = process;
    if (error == 0 && (error = hear(device)) != 0) lose(device);
    return error;
}

/* Tried once: what came of it, also a failure, is what every later call hears. */
static int32_t start(struct device *device) {
    if (!device->started) {
        device->error = all.bounce == NULL ? map_shared() : 0;
        if (device->error == 0) device->error = (device->standard = new_stream(device)) == NULL ? EAGAIN : 0;
        if (device->error == 0) device->error = start_server(device);
        device->started = 1;
    }
    if (device->error == 0) return 0;
    return fail(LLAISYS_STATUS_DRIVER_ERROR, device->error, "the server of device %d did not start: %s",
                (int)(device - all.devices), strerror(device->error));
}

static int32_t well(const struct device *device) {
    return device->lost ? fail(LLAISYS_STATUS_DEVICE_LOST, 0, "%s", device->cause) : 0;
}
static int32_t forked(void) {
    return fail(LLAISYS_STATUS_FORKED, 0, "the servers belong to the process that forked this one");
}
static int32_t leave(int32_t status) { pthread_mutex_unlock(&all.lock); return status; }

/* Before the lock is taken for the first time: a child of a fork then never waits for it. */
static int32_t know_forks(void) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    volatile char *none = NULL;
    char *own = mmap(NULL, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (own == MAP_FAILED || madvise(own, page, MADV_WIPEONFORK) != 0) {
        return fail(LLAISYS_STATUS_DRIVER_ERROR, errno, "no page that knows forks: %s", strerror(errno));
    }
    *own = 1;
    if (!atomic_compare_exchange_strong(&all.own, &none, own)) munmap(own, page); /* another was first */
    return 0;
}

static int32_t enter(int32_t ordinal, struct device **device) {
    if (is_forked()) return forked();
    if (all.own == NULL && know_forks() != 0) return failure.status;
    *device = &all.devices[ordinal];
    pthread_mutex_lock(&all.lock);
    int32_t status = start(*device);
    if (status == 0) status = well(*device);
    return status == 0 ? 0 : leave(status);
}

/* What an operation does first. Behind it all.lock is held, until `leave`, and the device is there. */
#define ENTER(ordinal)                                                                             \
    struct device *device = NULL;                                                                  \
    int32_t refused = enter(ordinal, &device);                                                     \
    if (refused != 0) return refused

/* The same, for one that enqueues an item. */
#define BEGIN(ordinal, what)                                                                       \
    ENTER(ordinal);                                                                                \
    struct item *item = calloc(1, sizeof *item);                                                   \
    if (item == NULL) return leave(no_memory());                                                   \
    item->operation = what

/* ---- The twelve ----------------------------------------------------------------------------------------- */
static int32_t get_device_count(void *self, int32_t *count) { *count = DEVICES; return 0; }
static int32_t set_device(void *self, int32_t ordinal) { ENTER(ordinal); return leave(0); }

static int32_t create_stream(void *self, int32_t ordinal, llaisysStream_t *stream) {
    ENTER(ordinal);
    struct stream *made = new_stream(device);
    if (made == NULL) return leave(no_memory());
    *stream = made;
    return leave(0);
}

static int32_t destroy_stream(void *self, int32_t ordinal, llaisysStream_t handle) {
    struct stream *stream = handle;
    if (is_forked()) return 0;
    pthread_mutex_lock(&all.lock);
    stream->destroyed = 1; /* its worker finishes what is there, then frees it (S3) */
    pthread_cond_signal(&stream->filled);
    return leave(0);
}

static struct stream *stream_of(struct device *device, llaisysStream_t handle) {
    return handle != NULL ? handle : device->standard;
}

/* Behind an item of its own, because the default stream waits for other streams, and so does this. */
static int32_t stream_synchronize(void *self, int32_t ordinal, llaisysStream_t handle) {
    BEGIN(ordinal, NOTHING);
    struct stream *stream = stream_of(device, handle);
    wait_for(stream->number, push(stream, item));
    return leave(well(device));
}

/* Every stream is ordered with the default stream. */
static int32_t device_synchronize(void *self, int32_t ordinal) { return stream_synchronize(self, ordinal, NULL); }

static int32_t allocate(int32_t ordinal, int pinned, uint64_t size, void **pointer) {
    ENTER(ordinal);
    struct pool *pool = pinned ? &all.pinned : &device->memory;
    void *taken = take(pool, size);
    if (taken == NULL) {
        return leave(fail(LLAISYS_STATUS_OUT_OF_MEMORY, 0, "%llu bytes of %s memory were asked for; there are %llu, "
                          "and no free range has so many", (unsigned long long)size,
                          pinned ? "pinned" : "device", (unsigned long long)pool->size));
    }
    *pointer = taken;
    return leave(0);
}

static int32_t malloc_device(void *self, int32_t ordinal, uint64_t size, void **pointer) {
    return allocate(ordinal, 0, size, pointer);
}
static int32_t malloc_host(void *self, int32_t ordinal, uint64_t size, void **pointer) {
    return allocate(ordinal, 1, size, pointer);
}
static int32_t free_device(void *self, int32_t ordinal, void *pointer) {
    return give_back(&all.devices[ordinal].memory, pointer);
}
static int32_t free_host(void *self, int32_t ordinal, void *pointer) { return give_back(&all.pinned, pointer); }

/* From pageable memory: read when the call returns (C3). A stream that is free to run is faster than staging and
 * leaves nothing behind; behind other work the bytes are staged. Into pageable memory: written on return. */
static int32_t enqueue_copy(int32_t ordinal, void *dst, const void *src, uint64_t size, uint32_t kind,
                            llaisysStream_t handle, uint32_t flags, int wait) {
    int from = kind == LLAISYS_MEMCPY_D2H || kind == LLAISYS_MEMCPY_D2D;
    int to = kind == LLAISYS_MEMCPY_H2D || kind == LLAISYS_MEMCPY_D2D;
    BEGIN(ordinal, COPY);
    struct stream *stream = stream_of(device, handle);
    if (from != (device_of(src) != NULL) || to != (device_of(dst) != NULL)) {
        free(item);
        return leave(fail(LLAISYS_STATUS_INVALID_VALUE, 0, "kind %u does not fit %p to %p", kind, src, dst));
    }
    if (flags & LLAISYS_COPY_HOST_BUFFER_PROMISED) flags = 0;
    wait |= (flags & LLAISYS_COPY_DESTINATION_PAGEABLE) != 0;
    if (!wait && (flags & LLAISYS_COPY_SOURCE_PAGEABLE)) {
        int idle = stream->first == NULL && may_run(stream, UINT64_MAX);
        item->staged = idle ? NULL : malloc(size);
        wait = item->staged == NULL; /* also when there is no memory to stage it */
        pthread_mutex_unlock(&all.lock);
        if (!wait) memcpy(item->staged, src, size);
        pthread_mutex_lock(&all.lock);
    }
    item->dst = dst;
    item->src = src;
    item->size = size;
    uint64_t ticket = push(stream, item);
    if (wait) wait_for(stream->number, ticket);
    return leave(wait ? well(device) : 0);
}

static int32_t memcpy_async(void *self, int32_t ordinal, void *dst, const void *src, uint64_t size, uint32_t kind,
                            llaisysStream_t stream, uint32_t flags) {
    return enqueue_copy(ordinal, dst, src, size, kind, stream, flags, 0);
}
static int32_t memcpy_sync(void *self, int32_t ordinal, void *dst, const void *src, uint64_t size, uint32_t kind,
                           uint32_t flags) {
    return enqueue_copy(ordinal, dst, src, size, kind, NULL, flags, 1);
}

/* ---- Beyond the twelve ---------------------------------------------------------------------------------- */
static int32_t stream_query(void *self, int32_t ordinal, llaisysStream_t handle, int32_t *ready) {
    ENTER(ordinal);
    struct stream *stream = stream_of(device, handle);
    *ready = stream->first == NULL && (handle != NULL || may_run(stream, UINT64_MAX));
    return leave(0);
}

static int32_t launch_host_function(void *self, int32_t ordinal, llaisysStream_t stream,
                                    LlaisysHostFunction function, void *data) {
    BEGIN(ordinal, CALL);
    item->function = function;
    item->data = data;
    push(stream_of(device, stream), item);
    return leave(0);
}

/* Whatever the flags: every record has its time, and every wait sleeps. */
static int32_t create_event(void *self, int32_t ordinal, uint32_t flags, llaisysEvent_t *event) {
    ENTER(ordinal);
    struct event *made = calloc(1, sizeof *made);
    if (made == NULL) return leave(no_memory());
    *event = made;
    return leave(0);
}

static int32_t destroy_event(void *self, int32_t ordinal, llaisysEvent_t handle) {
    struct event *event = handle;
    if (is_forked()) return 0;
    pthread_mutex_lock(&all.lock);
    event->destroyed = 1; /* a record that is still queued frees it (V3) */
    if (event->pending == 0) free(event);
    return leave(0);
}

static int32_t record_event(void *self, int32_t ordinal, llaisysEvent_t handle, llaisysStream_t stream) {
    struct event *event = handle;
    BEGIN(ordinal, RECORD);
    item->event = event;
    event->pending++;
    event->stream = stream_of(device, stream)->number;
    event->ticket = push(stream_of(device, stream), item);
    return leave(0);
}

static int32_t stream_wait_event(void *self, int32_t ordinal, llaisysStream_t stream, llaisysEvent_t handle) {
    struct event *event = handle;
    BEGIN(ordinal, WAIT);
    item->until = event->ticket; /* the record of now, whatever the event becomes (V1) */
    item->of = event->stream;
    push(stream_of(device, stream), item);
    return leave(0);
}

static int32_t event_query(void *self, int32_t ordinal, llaisysEvent_t handle, int32_t *answer) {
    struct event *event = handle;
    ENTER(ordinal);
    *answer = is_past(event->stream, event->ticket);
    return leave(0);
}

static int32_t event_synchronize(void *self, int32_t ordinal, llaisysEvent_t handle) {
    struct event *event = handle;
    ENTER(ordinal);
    wait_for(event->stream, event->ticket);
    return leave(well(device));
}

static int32_t event_elapsed(void *self, int32_t ordinal, llaisysEvent_t start, llaisysEvent_t end,
                             int64_t *nanoseconds) {
    struct event *from = start, *to = end;
    ENTER(ordinal);
    *nanoseconds = to->time - from->time; /* the core saw to it that both are reached */
    return leave(0);
}

/* Of an output struct no more is written than the caller's struct_size says. */
static void write_as_far_as_known(void *to, const void *value, uint32_t size) {
    memcpy(to, value, *(uint32_t *)to < size ? *(uint32_t *)to : size);
}

/* Starts no server: what a device is, is known before (D4). */
static int32_t get_device_properties(void *self, int32_t ordinal, LlaisysDeviceProperties *properties) {
    LlaisysDeviceProperties value = {.struct_size = properties->struct_size,
                                     .processor_count = 1,
                                     .total_memory = device_size(),
                                     .vendor = "llaisys-runtime example",
                                     .capabilities = CAPABILITIES};
    snprintf(value.name, sizeof value.name, "remote memory %d", (int)ordinal);
    write_as_far_as_known(properties, &value, sizeof value);
    return 0;
}

static int32_t get_memory_info(void *self, int32_t ordinal, LlaisysMemoryInfo *info) {
    LlaisysMemoryInfo value = {.struct_size = info->struct_size, .free = device_size(), .total = device_size()};
    if (is_forked()) return forked();
    if (all.own == NULL && know_forks() != 0) return failure.status;
    pthread_mutex_lock(&all.lock);
    uint64_t oldest = oldest_pending();
    for (struct block *block = all.devices[ordinal].memory.blocks; block != NULL; block = block->next) {
        value.free -= is_free(block, oldest) ? 0 : block->size;
    }
    write_as_far_as_known(info, &value, sizeof value);
    return leave(0);
}

/* ---- What the loader reads ------------------------------------------------------------------------------ */
#define ENTRY(name) .name = name
static const LlaisysBackendAPI API = {
    .struct_size = sizeof(LlaisysBackendAPI), .abi_major = LLAISYS_ABI_MAJOR, .abi_minor = LLAISYS_ABI_MINOR,
    ENTRY(get_last_error), ENTRY(get_device_count), ENTRY(set_device), ENTRY(device_synchronize),
    ENTRY(create_stream), ENTRY(destroy_stream), ENTRY(stream_synchronize), ENTRY(malloc_device),
    ENTRY(free_device), ENTRY(malloc_host), ENTRY(free_host), ENTRY(memcpy_sync), ENTRY(memcpy_async),
    ENTRY(get_device_properties), ENTRY(get_memory_info), ENTRY(stream_query), ENTRY(launch_host_function),
    ENTRY(create_event), ENTRY(destroy_event), ENTRY(record_event), ENTRY(stream_wait_event), ENTRY(event_query),
    ENTRY(event_synchronize), ENTRY(event_elapsed),
};
static const LlaisysBackendDescriptor DESCRIPTOR = {
    .magic = LLAISYS_DESCRIPTOR_MAGIC, .struct_size = sizeof(LlaisysBackendDescriptor),
    .abi_major = LLAISYS_ABI_MAJOR, .abi_minor = LLAISYS_ABI_MINOR, .oldest_host_minor = 0,
    .device_type = LLAISYS_DEVICE_TYPE_UNASSIGNED, .sanitizer = LLAISYS_SANITIZER, .target = LLAISYS_TARGET,
    .name = "remote", .vendor = "llaisys-runtime example", .version = "1.0.0", .capabilities = CAPABILITIES, .api = &API,
};

const LlaisysBackendDescriptor *llaisysBackendQuery(uint32_t host_abi_major, uint32_t host_abi_minor) {
    return host_abi_major == LLAISYS_ABI_MAJOR ? &DESCRIPTOR : NULL;
}

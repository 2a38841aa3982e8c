#include "control.h"

#include <execinfo.h>
#include <fcntl.h>
#include <link.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define MAX_FRAMES 32

struct control *control;

/* Where the code of the program and of SQLite is. */
static struct range {
    uintptr_t from, to;
} program, sqlite;

static const char *trace_path;
static atomic_uint_fast64_t stream = 0x9e3779b97f4a7c15;

static void note_range(const struct dl_phdr_info *info, struct range *range)
{
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *header = &info->dlpi_phdr[i];
        const uintptr_t from = info->dlpi_addr + header->p_vaddr;
        if (header->p_type != PT_LOAD)
            continue;
        if (range->from == 0 || from < range->from)
            range->from = from;
        if (from + header->p_memsz > range->to)
            range->to = from + header->p_memsz;
    }
}

static int find_ranges(struct dl_phdr_info *info, size_t size, void *arg)
{
    int *n_seen = arg;
    (void)size;
    if ((*n_seen)++ == 0)
        note_range(info, &program);
    else if (strstr(info->dlpi_name, "libsqlite3"))
        note_range(info, &sqlite);
    return 0;
}

/* Appends the stack, below a line that says what it is. */
static void leave_trace(const char *what)
{
    void *frames[MAX_FRAMES];
    const long fd = trace_path ? syscall(SYS_openat, AT_FDCWD, trace_path,
                                         O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600)
                               : -1;
    if (fd < 0)
        return;
    (void)syscall(SYS_write, fd, what, strlen(what));
    backtrace_symbols_fd(frames, backtrace(frames, MAX_FRAMES), (int)fd);
    (void)syscall(SYS_close, fd);
}

static void on_crash(int number)
{
    leave_trace("crashed:\n");
    (void)raise(number);
}

static void trace_crashes(void)
{
    const int signals[] = {SIGSEGV, SIGBUS, SIGABRT, SIGFPE, SIGILL};
    const struct sigaction action = {.sa_handler = on_crash,
                                     .sa_flags = (int)(SA_RESETHAND | SA_NODEFER)};
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++)
        (void)sigaction(signals[i], &action, NULL);
}

__attribute__((constructor)) static void begin(void)
{
    const char *path = getenv("FAULTS");
    void *frames[1];
    int n_seen = 0;
    const long fd = path ? syscall(SYS_openat, AT_FDCWD, path, O_RDWR | O_CLOEXEC) : -1;
    if (fd < 0)
        return;
    dl_iterate_phdr(find_ranges, &n_seen);
    trace_path = getenv("FAULTS_TRACE");
    (void)backtrace(frames, 1); /* loads what it needs, while nothing fails yet */
    if (trace_path)
        trace_crashes();
    (void)unsetenv("LD_PRELOAD"); /* programs that this one starts are not under test */
    const long page =
        syscall(SYS_mmap, NULL, sizeof *control, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0L);
    if (page != -1)
        control = (struct control *)page; /* NOLINT(performance-no-int-to-ptr): an address */
    (void)syscall(SYS_close, fd);
}

bool call_fails(enum call_kind kind)
{
    if (!control)
        return false;
    const uint64_t n = atomic_fetch_add(&control->counts[kind], 1) + 1, at = control->at;
    if (control->kind != kind || (control->is_lasting ? n < at : n != at))
        return false;
    if (atomic_fetch_add(&control->n_failed, 1) == 0)
        leave_trace("failed:\n");
    return true;
}

static uint64_t next_random(void)
{
    uint64_t x = atomic_fetch_add(&stream, UINT64_C(0x9e3779b97f4a7c15));
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

static bool is_in(struct range range, const void *address)
{
    return (uintptr_t)address >= range.from && (uintptr_t)address < range.to;
}

bool allocation_fails(const void *caller)
{
    if (!control)
        return false;
    const enum call_kind kind = is_in(program, caller)  ? CALL_MEMORY
                                : is_in(sqlite, caller) ? CALL_SQLITE_MEMORY
                                                        : CALL_LIBRARY_MEMORY;
    if (call_fails(kind))
        return true;
    return kind != CALL_LIBRARY_MEMORY && control->memory_per_million > 0 &&
           next_random() % 1000000 < control->memory_per_million;
}

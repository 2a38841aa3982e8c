/* faults - a library to be preloaded (LD_PRELOAD), which makes memory run out and reads of the disk
 * fail as a test says.
 *
 * FAULTS names a file with a struct control, which the test writes to and which is read at each
 * call: the weather changes while the program runs. FAULTS_AT=N fails the N-th allocation and no
 * other.
 *
 * Allocations by the program itself and by SQLite fail, not those of other libraries: several of
 * them end the process without memory, which is not what is tested.
 */
#undef _FILE_OFFSET_BITS /* pread and pread64 are two names here */
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

struct control {
    uint32_t memory_per_million; /* so many of a million allocations fail */
    uint32_t reads;              /* not 0: reads of files named *.db* fail with EIO */
};

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *old, size_t size);

static const volatile struct control *control;
/* The program, and SQLite, which bears it. */
static struct {
    uintptr_t from, to;
} ranges[2];
static long fails_at;
static atomic_long n_allocations;
static atomic_uint_fast64_t stream = 0x9e3779b97f4a7c15;

static int find_range(struct dl_phdr_info *info, size_t size, void *arg)
{
    int *n_seen = arg;
    const bool is_program = (*n_seen)++ == 0;
    const bool is_sqlite = strstr(info->dlpi_name, "libsqlite3") != NULL;
    const int at = is_program ? 0 : 1;
    (void)size;
    for (int i = 0; (is_program || is_sqlite) && i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *header = &info->dlpi_phdr[i];
        const uintptr_t from = info->dlpi_addr + header->p_vaddr;
        if (header->p_type != PT_LOAD)
            continue;
        if (ranges[at].from == 0 || from < ranges[at].from)
            ranges[at].from = from;
        if (from + header->p_memsz > ranges[at].to)
            ranges[at].to = from + header->p_memsz;
    }
    return 0;
}

__attribute__((constructor)) static void begin(void)
{
    const char *path = getenv("FAULTS"), *at = getenv("FAULTS_AT");
    const int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    int n_seen = 0;
    dl_iterate_phdr(find_range, &n_seen);
    if (fd >= 0) {
        void *page = mmap(NULL, sizeof *control, PROT_READ, MAP_SHARED, fd, 0);
        if (page != MAP_FAILED)
            control = page;
        close(fd);
    }
    fails_at = at ? atol(at) : 0;
}

static uint64_t next_random(void)
{
    uint64_t x = atomic_fetch_add(&stream, UINT64_C(0x9e3779b97f4a7c15));
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

static bool fails(const void *caller)
{
    const uintptr_t from = (uintptr_t)caller;
    if ((from < ranges[0].from || from >= ranges[0].to) &&
        (from < ranges[1].from || from >= ranges[1].to))
        return false;
    if (fails_at > 0 && atomic_fetch_add(&n_allocations, 1) + 1 == fails_at)
        return true;
    return control && control->memory_per_million > 0 &&
           next_random() % 1000000 < control->memory_per_million;
}

void *malloc(size_t size)
{
    if (fails(__builtin_return_address(0))) {
        errno = ENOMEM;
        return NULL;
    }
    return __libc_malloc(size);
}

void *calloc(size_t n, size_t size)
{
    if (fails(__builtin_return_address(0))) {
        errno = ENOMEM;
        return NULL;
    }
    return __libc_calloc(n, size);
}

void *realloc(void *old, size_t size)
{
    if (fails(__builtin_return_address(0))) {
        errno = ENOMEM;
        return NULL;
    }
    return __libc_realloc(old, size);
}

static bool read_fails(int fd)
{
    char link[64], path[4096];
    if (!control || control->reads == 0)
        return false;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    const ssize_t len = readlink(link, path, sizeof path - 1);
    path[len > 0 ? len : 0] = '\0';
    return strstr(path, ".db") != NULL;
}

ssize_t pread64(int fd, void *bytes, size_t n, off64_t offset)
{
    if (read_fails(fd)) {
        errno = EIO;
        return -1;
    }
    return syscall(SYS_pread64, fd, bytes, n, offset);
}

ssize_t pread(int fd, void *bytes, size_t n, off_t offset)
{
    return pread64(fd, bytes, n, offset);
}

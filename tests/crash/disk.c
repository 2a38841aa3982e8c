#include "disk.h"

#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "check.h"

struct content {
    unsigned char *bytes;
    size_t size;
    size_t capacity;
};

/* Calls of the tape, by number. */
struct numbers {
    size_t *at;
    size_t n;
    size_t capacity;
};

struct file {
    struct content seen;
    struct content synced;
    struct numbers pending; /* since its last sync */
};

struct entry {
    char name[DISK_NAME_MAX];
    int file; /* -1: none of that name */
};

struct folder {
    struct entry entries[DISK_FILES_MAX];
    size_t n;
};

struct disk {
    struct tape *tape;
    size_t played;
    struct file files[DISK_FILES_MAX];
    int n_files;
    struct folder seen;
    struct folder synced;
    struct numbers pending; /* of the folder, since its last sync */
};

/* ---- Memory ---------------------------------------------------------------------------------- */

static void *grow(void *memory, size_t *capacity, size_t needed, size_t item)
{
    if (needed <= *capacity)
        return memory;
    size_t more = *capacity ? *capacity : 16;
    while (more < needed)
        more *= 2;
    void *grown = realloc(memory, more * item);
    assert_non_null(grown);
    *capacity = more;
    return grown;
}

static void content_resize(struct content *c, size_t size)
{
    c->bytes = grow(c->bytes, &c->capacity, size, 1);
    if (size > c->size)
        memset(c->bytes + c->size, 0, size - c->size);
    c->size = size;
}

static void content_put(struct content *c, size_t at, const void *bytes, size_t n)
{
    if (at + n > c->size)
        content_resize(c, at + n);
    memcpy(c->bytes + at, bytes, n);
}

static void content_copy(struct content *to, const struct content *from)
{
    to->size = 0;
    if (from->size > 0)
        content_put(to, 0, from->bytes, from->size);
}

static void numbers_add(struct numbers *numbers, size_t number)
{
    numbers->at = grow(numbers->at, &numbers->capacity, numbers->n + 1, sizeof *numbers->at);
    numbers->at[numbers->n++] = number;
}

void tape_release(struct tape *tape)
{
    for (size_t i = 0; i < tape->n; i++)
        free(tape->calls[i].bytes);
    free(tape->calls);
    *tape = (struct tape){0};
}

struct disk *disk_new(struct tape *tape)
{
    struct disk *disk = calloc(1, sizeof *disk);
    assert_non_null(disk);
    disk->tape = tape;
    return disk;
}

void disk_free(struct disk *disk)
{
    for (int i = 0; i < disk->n_files; i++) {
        free(disk->files[i].seen.bytes);
        free(disk->files[i].synced.bytes);
        free(disk->files[i].pending.at);
    }
    free(disk->pending.at);
    free(disk);
}

/* ---- The folder ------------------------------------------------------------------------------ */

static int folder_find(const struct folder *folder, const char *name)
{
    for (size_t i = 0; i < folder->n; i++)
        if (strcmp(folder->entries[i].name, name) == 0)
            return folder->entries[i].file;
    return -1;
}

static void folder_put(struct folder *folder, const char *name, int file)
{
    size_t i = 0;
    while (i < folder->n && strcmp(folder->entries[i].name, name) != 0)
        i++;
    if (i == folder->n) {
        assert_true(folder->n < DISK_FILES_MAX);
        (void)snprintf(folder->entries[i].name, DISK_NAME_MAX, "%s", name);
        folder->n++;
    }
    folder->entries[i].file = file;
}

static void folder_do(struct folder *folder, const struct disk_call *call)
{
    folder_put(folder, call->name, call->kind == DISK_CREATE ? call->file : -1);
}

/* ---- Calls ----------------------------------------------------------------------------------- */

static void content_do(struct content *c, const struct disk_call *call)
{
    if (call->kind == DISK_WRITE)
        content_put(c, call->at, call->bytes, call->n);
    else
        content_resize(c, call->at);
}

void disk_play(struct disk *disk, size_t i)
{
    assert_true(i == disk->played && i < disk->tape->n);
    const struct disk_call *call = &disk->tape->calls[i];
    struct file *file = &disk->files[call->file];
    disk->played++;
    switch (call->kind) {
    case DISK_CREATE:
        assert_true(call->file == disk->n_files && call->file < DISK_FILES_MAX);
        disk->n_files++;
        folder_do(&disk->seen, call);
        numbers_add(&disk->pending, i);
        break;
    case DISK_DELETE:
        folder_do(&disk->seen, call);
        numbers_add(&disk->pending, i);
        break;
    case DISK_WRITE:
    case DISK_TRUNCATE:
        content_do(&file->seen, call);
        numbers_add(&file->pending, i);
        break;
    case DISK_SYNC:
        for (size_t j = 0; j < file->pending.n; j++)
            content_do(&file->synced, &disk->tape->calls[file->pending.at[j]]);
        file->pending.n = 0;
        break;
    case DISK_SYNC_FAILED: file->pending.n = 0; break;
    case DISK_SYNC_FOLDER:
        disk->synced = disk->seen;
        disk->pending.n = 0;
        break;
    }
}

static void record(struct disk *disk, struct disk_call call, const char *name, const void *bytes)
{
    struct tape *tape = disk->tape;
    tape->calls = grow(tape->calls, &tape->capacity, tape->n + 1, sizeof *tape->calls);
    if (name) {
        assert_true(strlen(name) < DISK_NAME_MAX);
        (void)snprintf(call.name, sizeof call.name, "%s", name);
    }
    if (bytes) {
        call.bytes = malloc(call.n ? call.n : 1);
        assert_non_null(call.bytes);
        memcpy(call.bytes, bytes, call.n);
    }
    tape->calls[tape->n++] = call;
    disk_play(disk, tape->n - 1);
}

int disk_create(struct disk *disk, const char *name)
{
    const int file = disk->n_files;
    record(disk, (struct disk_call){.kind = DISK_CREATE, .file = file}, name, NULL);
    return file;
}

void disk_delete(struct disk *disk, const char *name)
{
    record(disk, (struct disk_call){.kind = DISK_DELETE}, name, NULL);
}

void disk_write(struct disk *disk, int file, size_t at, const void *bytes, size_t n)
{
    record(disk, (struct disk_call){.kind = DISK_WRITE, .file = file, .at = at, .n = n}, NULL,
           bytes);
}

void disk_truncate(struct disk *disk, int file, size_t size)
{
    record(disk, (struct disk_call){.kind = DISK_TRUNCATE, .file = file, .at = size}, NULL, NULL);
}

void disk_sync(struct disk *disk, int file)
{
    record(disk, (struct disk_call){.kind = DISK_SYNC, .file = file}, NULL, NULL);
}

void disk_fail_sync(struct disk *disk, int file)
{
    record(disk, (struct disk_call){.kind = DISK_SYNC_FAILED, .file = file}, NULL, NULL);
}

void disk_sync_folder(struct disk *disk)
{
    record(disk, (struct disk_call){.kind = DISK_SYNC_FOLDER}, NULL, NULL);
}

int disk_find(const struct disk *disk, const char *name)
{
    return folder_find(&disk->seen, name);
}

size_t disk_size(const struct disk *disk, int file)
{
    return disk->files[file].seen.size;
}

size_t disk_read(const struct disk *disk, int file, size_t at, void *ret, size_t n)
{
    const struct content *c = &disk->files[file].seen;
    if (at >= c->size)
        return 0;
    const size_t there = c->size - at < n ? c->size - at : n;
    memcpy(ret, c->bytes + at, there);
    return there;
}

/* ---- The power cut --------------------------------------------------------------------------- */

/* Some sectors of a write: each of them whole, not at all, or, seldom, noise. The file may have got
 * its new size without the bytes. */
static void put_in_part(struct content *c, const struct disk_call *call, size_t sector,
                        struct rng *rng)
{
    const size_t end = call->at + call->n;
    for (size_t from = call->at, to; from < end; from = to) {
        to = (from / sector + 1) * sector;
        to = to < end ? to : end;
        const uint64_t fate = rng_below(rng, 16);
        if (fate < 8)
            content_put(c, from, call->bytes + (from - call->at), to - from);
        else if (fate == 8)
            for (size_t i = from; i < to; i++)
                content_put(c, i, &(unsigned char){(unsigned char)rng_next(rng)}, 1);
    }
    if (c->size < end && rng_below(rng, 2) == 0)
        content_resize(c, end);
}

static void change_in_part(struct content *c, const struct disk_call *call, size_t sector,
                           struct rng *rng)
{
    if (call->kind == DISK_WRITE)
        put_in_part(c, call, sector, rng);
    else if (rng_below(rng, 2) == 0)
        content_do(c, call);
}

static void outlive_in_order(const struct disk *disk, const struct file *file, struct content *c,
                             const struct cut *cut, struct rng *rng)
{
    const size_t kept = rng_below(rng, file->pending.n + 1);
    for (size_t i = 0; i < kept; i++)
        content_do(c, &disk->tape->calls[file->pending.at[i]]);
    if (kept < file->pending.n)
        change_in_part(c, &disk->tape->calls[file->pending.at[kept]], cut->sector, rng);
}

static void outlive_at_random(const struct disk *disk, const struct file *file, struct content *c,
                              const struct cut *cut, struct rng *rng)
{
    for (size_t i = 0; i < file->pending.n; i++) {
        const struct disk_call *call = &disk->tape->calls[file->pending.at[i]];
        switch (rng_below(rng, 3)) {
        case 0: content_do(c, call); break;
        case 1: change_in_part(c, call, cut->sector, rng); break;
        default: break;
        }
    }
}

static void outlive(const struct disk *disk, const struct file *file, struct content *c,
                    const struct cut *cut, struct rng *rng)
{
    if (cut->kind == CUT_KEEPS_ALL) {
        content_copy(c, &file->seen);
        return;
    }
    content_copy(c, &file->synced);
    if (cut->kind == CUT_IN_ORDER)
        outlive_in_order(disk, file, c, cut, rng);
    else if (cut->kind == CUT_AT_RANDOM)
        outlive_at_random(disk, file, c, cut, rng);
}

/* Each name has got as far as some number of its changes. */
static void names_outlive(const struct disk *disk, struct folder *folder, struct rng *rng)
{
    bool is_over[DISK_FILES_MAX] = {false};
    for (size_t i = 0; i < disk->pending.n; i++) {
        const struct disk_call *call = &disk->tape->calls[disk->pending.at[i]];
        size_t at = 0;
        while (strcmp(disk->seen.entries[at].name, call->name) != 0)
            at++;
        is_over[at] = is_over[at] || rng_below(rng, 2) == 0;
        if (!is_over[at])
            folder_do(folder, call);
    }
}

struct disk *disk_after_cut(const struct disk *disk, const struct cut *cut, struct tape *tape)
{
    struct disk *after = disk_new(tape);
    struct rng rng;
    rng_seed(&rng, cut->seed);
    after->n_files = disk->n_files;
    for (int i = 0; i < disk->n_files; i++) {
        outlive(disk, &disk->files[i], &after->files[i].synced, cut, &rng);
        content_copy(&after->files[i].seen, &after->files[i].synced);
    }
    after->synced = cut->kind == CUT_KEEPS_ALL ? disk->seen : disk->synced;
    if (cut->kind == CUT_IN_ORDER || cut->kind == CUT_AT_RANDOM)
        names_outlive(disk, &after->synced, &rng);
    after->seen = after->synced;
    return after;
}

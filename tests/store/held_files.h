/* held_files.h - SQLite stores whose moves of jobs a test holds up or refuses, by their files. For
 * one file of a program that is linked with held_files_link of tests/store/meson.build. */
#ifndef TESTS_STORE_HELD_FILES_H
#define TESTS_STORE_HELD_FILES_H

#include <stdatomic.h>
#include <string.h>

#include "base/err.h"
#include "store/sqlite/private.h"
#include "waiting.h"

struct held_file {
    const char *name;       /* that its path ends with */
    enum move_kind kind;    /* of the moves that are meant */
    atomic_bool is_held;    /* they wait until it is not, within their transaction */
    atomic_int n_held;      /* so many wait now */
    atomic_int n_moves;     /* so many have come so far */
    atomic_int delay_ms;    /* each takes so long */
    atomic_bool is_refused; /* they fail */
    /* A list in which this job is fails; by its number within the file. 0: none. */
    _Atomic int64_t refused_seq;
};

static struct held_file held_files[] = {
    {.name = "/0.db"}, {.name = "/1.db"}, {.name = "/2.db"}, {.name = "/jobs.db"}};
#define N_HELD_FILES (sizeof held_files / sizeof held_files[0])

/* Nothing is held, and all moves that are meant are settlements. */
static inline void held_files_reset(void)
{
    for (size_t i = 0; i < N_HELD_FILES; i++)
        held_files[i] = (struct held_file){.name = held_files[i].name, .kind = MOVE_SETTLE};
}

static inline void held_files_let_go(void)
{
    for (size_t i = 0; i < N_HELD_FILES; i++)
        held_files[i].is_held = false;
}

static inline struct held_file *held_file_of(const struct store *store)
{
    const size_t len = strlen(store->path);
    for (size_t i = 0; i < N_HELD_FILES; i++) {
        const size_t name_len = strlen(held_files[i].name);
        if (len >= name_len && strcmp(store->path + len - name_len, held_files[i].name) == 0)
            return &held_files[i];
    }
    return NULL;
}

static inline bool held_file_refuses(const struct held_file *file, const struct move_list *list)
{
    for (size_t i = 0; i < list->n && list->kind == MOVE_SETTLE; i++)
        if (list->settles[i].seq == file->refused_seq)
            return true;
    return false;
}

int __real_sqlite_move(struct store *store, const struct move_list *list, struct move_result *ret,
                       struct redrive_err *err);
int __wrap_sqlite_move(struct store *store, const struct move_list *list, struct move_result *ret,
                       struct redrive_err *err);

int __wrap_sqlite_move(struct store *store, const struct move_list *list, struct move_result *ret,
                       struct redrive_err *err)
{
    struct held_file *file = held_file_of(store);
    if (file && list->kind == file->kind) {
        file->n_moves++;
        file->n_held++;
        HOLD_UNTIL(!file->is_held);
        file->n_held--;
        pass_ms(file->delay_ms);
        if (file->is_refused || held_file_refuses(file, list))
            return err_set(err, REDRIVE_E_IO, "the disk is full");
    }
    return __real_sqlite_move(store, list, ret, err);
}

#endif

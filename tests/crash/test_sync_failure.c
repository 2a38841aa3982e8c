/* A sync of the disk that fails once, and what it was to write is gone, as on Linux, or a write of
 * which only the half is done: what was acknowledged before and after it outlives a power cut. */
#include "check.h"

#include <stdlib.h>
#include <unistd.h>

#include "base/rng.h"
#include "crash_vfs.h"
#include "store/sqlite/private.h"
#include "store/stores.h"

#define JOBS       40
#define LOG_FRAMES 12
#define LOOKS      4 /* power cuts for each sync that fails */
#define NOW_MS     INT64_C(1700000000000)

struct trial {
    char url[STORES_URL_MAX];
    struct tape tape;
    size_t acknowledged[JOBS]; /* calls to the disk there were by then; 0: never */
    size_t failed_at;          /* the same of the failure; 0: none was told of it */
};

static int open_store(const struct trial *t, struct store **ret)
{
    const struct store_options options = {.create = true, .log_frames = LOG_FRAMES};
    const int rc = store_open(t->url, &options, ret, NULL);
    if (rc == 0 && !checkpoint_has_bug(sqlite3_libversion_number()))
        (void)sqlite3_exec((*ret)->db, "PRAGMA wal_autocheckpoint = 12", NULL, NULL, NULL);
    return rc;
}

/* Submits a job in a transaction of its own; whether that was acknowledged. An id that is taken is
 * an acknowledgement: what was in doubt has happened. */
static bool submit(struct store *store, int i)
{
    char id[16];
    struct arena arena;
    struct submit_result result = {0};
    const struct store_ops *ops = store_ops(store);
    (void)snprintf(id, sizeof id, "job-%d", i);
    const struct job_spec spec = {.tenant = STR("acme"),
                                  .id = str_of(id),
                                  .task = STR("mail"),
                                  .queue = STR("main"),
                                  .payload = STR("{}"),
                                  .max_attempts = 3};
    arena_init(&arena);
    int rc = ops->begin(store, NOW_MS + i, NULL, NULL, NULL);
    if (rc == 0)
        rc = ops->submit(store, &spec, 1, &result, &arena, NULL);
    if (rc == 0)
        rc = ops->commit(store, NULL);
    if (rc != 0)
        ops->rollback(store);
    arena_release(&arena);
    return rc == 0 && (result.code == 0 || result.code == REDRIVE_E_EXISTS);
}

/* As it does, or once more if the disk has failed. */
static bool submit_again(struct trial *t, struct store *store, int i)
{
    if (submit(store, i))
        return true;
    t->failed_at = t->tape.n - 1;
    return submit(store, i);
}

/* False: there were fewer calls. */
static bool run(struct trial *t, struct disk_faults faults)
{
    struct disk *disk = disk_new(&t->tape);
    struct store *store = NULL;
    crash_vfs_mount(disk, faults, faults.failing_sync + faults.failing_write);
    if (open_store(t, &store) != 0)
        assert_int_equal(open_store(t, &store), 0); /* it fails once */
    for (int i = 0; i < JOBS; i++)
        if (submit_again(t, store, i))
            t->acknowledged[i] = t->tape.n;
    const bool met =
        crash_vfs_syncs() >= faults.failing_sync && crash_vfs_writes() >= faults.failing_write;
    store_close(store);
    crash_vfs_mount(NULL, (struct disk_faults){0}, 0);
    disk_free(disk);
    for (size_t i = 0; i < t->tape.n; i++)
        if (t->tape.calls[i].kind == DISK_SYNC_FAILED)
            t->failed_at = i;
    return met;
}

static void check_jobs(const struct trial *t, struct store *store, size_t point)
{
    for (int i = 0; i < JOBS; i++) {
        char id[16];
        struct job_page page = {0};
        (void)snprintf(id, sizeof id, "job-%d", i);
        const struct job_name name = {STR("acme"), str_of(id)};
        assert_int_equal(store_ops(store)->lookup(store, &name, 1, &page, NULL), 0);
        if (page.n == 0 && t->acknowledged[i] != 0 && t->acknowledged[i] <= point)
            fail_msg("%s was acknowledged at call %zu, and is lost after a cut at call %zu; "
                     "call %zu has failed",
                     id, t->acknowledged[i], point, t->failed_at);
        job_page_release(&page);
    }
}

/* Cuts the power after so many calls, and drops all that was not synced. */
static void look_after(const struct trial *t, size_t point)
{
    struct tape tape = {0};
    struct disk *disk = disk_new((struct tape *)&t->tape);
    for (size_t i = 0; i < point; i++)
        disk_play(disk, i);
    struct disk *left =
        disk_after_cut(disk, &(struct cut){.kind = CUT_DROPS_ALL, .sector = 512}, &tape);
    struct store *store = NULL;
    crash_vfs_mount(left, (struct disk_faults){0}, point);
    assert_int_equal(open_store(t, &store), 0);
    assert_int_equal(store_ops(store)->verify(store, NULL, NULL, NULL), 0);
    check_jobs(t, store, point);
    store_close(store);
    crash_vfs_mount(NULL, (struct disk_faults){0}, 0);
    disk_free(left);
    disk_free(disk);
    tape_release(&tape);
}

/* One call after the other fails; how many there were. */
static size_t fail_each(bool is_write)
{
    struct rng rng;
    size_t failures = 0;
    bool met = true;
    rng_seed(&rng, 1);
    while (met) {
        struct trial t = {0};
        stores_new_url("sqlite", t.url);
        met = run(&t, (struct disk_faults){.failing_sync = is_write ? 0 : failures + 1,
                                           .failing_write = is_write ? failures + 1 : 0});
        for (int i = 0; met && i < LOOKS; i++)
            look_after(&t, t.failed_at + rng_below(&rng, t.tape.n - t.failed_at) + 1);
        failures += met;
        tape_release(&t.tape);
        stores_remove(t.url);
    }
    print_message("# %zu %s, each of which has failed once; %zu power cuts\n", failures,
                  is_write ? "writes" : "syncs", failures * LOOKS);
    return failures;
}

TEST(a_sync_that_fails_loses_nothing)
{
    assert_true(fail_each(false) > JOBS);
}

TEST(a_write_that_fails_loses_nothing)
{
    assert_true(fail_each(true) > JOBS);
}

/* All jobs are acknowledged, the one whose call failed at the second attempt. */
static void check_goes_on(struct disk_faults faults)
{
    struct trial t = {0};
    stores_new_url("sqlite", t.url);
    assert_true(run(&t, faults));
    for (int i = 0; i < JOBS; i++)
        assert_true(t.acknowledged[i] > 0);
    tape_release(&t.tape);
    stores_remove(t.url);
}

TEST(after_a_sync_that_fails_the_store_goes_on)
{
    check_goes_on((struct disk_faults){.failing_sync = 20});
}

TEST(after_a_write_that_fails_the_store_goes_on)
{
    check_goes_on((struct disk_faults){.failing_write = 120});
}

static int install(void **state)
{
    (void)state;
    crash_vfs_install();
    return 0;
}

TEST_MAIN(argc, argv)
{
    return check_run(install, NULL);
}

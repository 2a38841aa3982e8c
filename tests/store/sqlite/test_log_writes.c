/* How a commit is written to the log: with one call, wholly or not at all, and nothing of a
 * transaction that was rolled back is written after its end. */
#include "check.h"

#include <errno.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "store/sqlite/private.h"
#include "store/store.h"

#define NOW_MS      INT64_C(1767225600000)
#define FRAME_BYTES (24 + 4096)
#define MANY        200 /* jobs of one transaction: more pages than are written with one call */
#define MANY_WRITES 200 /* and no more calls than that */

static char folder[64], url[96];

/* ---- Writes that fail ------------------------------------------------------------------------ */

static int n_writes;     /* calls so far */
static size_t n_written; /* bytes, by those that did not fail */
/* From this call on, counted as n_writes, every one fails; 0: none does. */
static int fails_from, error_of_writes;
static bool is_short_first; /* the first one that fails writes the half instead */
static bool stutters;       /* each is interrupted first, and then writes no more than 1000 bytes */
static bool was_interrupted;

static ssize_t counted_write(int fd, const void *bytes, size_t n, off_t offset)
{
    if (stutters) {
        was_interrupted = !was_interrupted;
        errno = EINTR;
        return was_interrupted ? -1 : pwrite(fd, bytes, n < 1000 ? n : 1000, offset);
    }
    n_writes++;
    if (fails_from == 0 || n_writes < fails_from) {
        n_written += n;
        return pwrite(fd, bytes, n, offset);
    }
    if (is_short_first && n_writes == fails_from && n > 1)
        return pwrite(fd, bytes, n / 2, offset);
    errno = error_of_writes;
    return -1;
}

static void fail_writes_from(int call, int error, bool is_short)
{
    n_writes = 0;
    fails_from = call;
    error_of_writes = error;
    is_short_first = is_short;
}

/* ---- Stores ---------------------------------------------------------------------------------- */

static int begin_anew(void **state)
{
    char command[128];
    (void)state;
    fail_writes_from(0, 0, false);
    (void)snprintf(command, sizeof command, "rm -f %s/*", folder);
    return system(command); /* NOLINT(cert-env33-c): a folder of our own */
}

static struct store *open_at(const char *place)
{
    /* No checkpoint comes in between. */
    const struct store_options options = {.create = true, .log_frames = 1000000};
    struct redrive_err err = {0};
    struct store *store = NULL;
    if (store_open(place, &options, &store, &err) < 0)
        fail_msg("%s: %s", err.message, err.detail);
    return store;
}

static struct store *open_store(void)
{
    return open_at(url);
}

/* Leaves the transaction open. */
static void submit_many(struct store *store, const char *prefix, int n)
{
    char payload[1000], id[64];
    assert_int_equal(store_ops(store)->begin(store, NOW_MS, NULL, NULL, NULL), 0);
    memset(payload, 'x', sizeof payload);
    payload[0] = payload[sizeof payload - 1] = '"';
    for (int i = 0; i < n; i++) {
        struct submit_result result;
        struct arena arena;
        arena_init(&arena);
        (void)snprintf(id, sizeof id, "%s-%d", prefix, i);
        const struct job_spec spec = {.tenant = STR("default"),
                                      .queue = STR("default"),
                                      .task = STR("t"),
                                      .id = str_of(id),
                                      .max_attempts = 1,
                                      .payload = {payload, sizeof payload}};
        assert_int_equal(store_ops(store)->submit(store, &spec, 1, &result, &arena, NULL), 0);
        assert_int_equal(result.code, 0);
        arena_release(&arena);
    }
}

/* In a transaction of its own; the code of the commit. */
static int submit(struct store *store, const char *id)
{
    submit_many(store, id, 1);
    return store_ops(store)->commit(store, NULL);
}

static int64_t count_jobs(struct store *store)
{
    int64_t n = -1;
    assert_int_equal(sql_number(store, "SELECT count(*) FROM specs", &n, NULL), 0);
    return n;
}

/* As a process would find them that starts after this one has ended: file and log are copied, and
 * the log is read from its beginning. */
static int64_t count_jobs_on_disk(void)
{
    char command[512], place[128];
    (void)snprintf(command, sizeof command,
                   "cd %s && rm -f copy.db* && cp jobs.db copy.db && cp jobs.db-wal copy.db-wal",
                   folder);
    assert_int_equal(system(command), 0); /* NOLINT(cert-env33-c): a folder of our own */
    (void)snprintf(place, sizeof place, "sqlite:%s/copy.db", folder);
    struct store *copy = open_at(place);
    assert_int_equal(store_ops(copy)->verify(copy, NULL, NULL, NULL), 0);
    const int64_t n = count_jobs(copy);
    store_close(copy);
    return n;
}

static void run_sql(struct store *store, const char *sql)
{
    assert_int_equal(sqlite3_exec(store->db, sql, NULL, NULL, NULL), SQLITE_OK);
}

/* A transaction of more pages spills them into the log before its commit. */
static void use_small_cache(struct store *store)
{
    assert_int_equal(sqlite3_exec(store->db, "PRAGMA cache_size = 30", NULL, NULL, NULL),
                     SQLITE_OK);
}

/* A table of rows as large as a page. Changes of them need no new page, so that page 1 stays as it
 * is. After a checkpoint such a transaction and its rollback write to the log and do not read it.
 */
static void make_large_rows(struct store *store)
{
    run_sql(store, "CREATE TABLE large (n INTEGER PRIMARY KEY, b BLOB);"
                   "WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c WHERE n < 100)"
                   " INSERT INTO large SELECT n, randomblob(3000) FROM c");
}

/* Since the last look. */
static void check_spilled(struct store *store)
{
    int n = 0, most;
    const int rc = sqlite3_db_status(store->db, SQLITE_DBSTATUS_CACHE_SPILL, &n, &most, 1);
    assert_int_equal(rc, SQLITE_OK);
    assert_true(n > 0);
}

#define FIXTURE_TEST(test) TEST_AROUND(test, begin_anew, NULL)

/* ---- Tests ----------------------------------------------------------------------------------- */

FIXTURE_TEST(commit_is_one_write_that_other_connections_see)
{
    struct store *store = open_store(), *other = open_store();
    assert_int_equal(submit(store, "first"), 0); /* makes the partition */
    n_writes = 0;
    n_written = 0;
    assert_int_equal(submit(store, "second"), 0);
    assert_int_equal(n_writes, 1);
    /* Pages of specs and its index, of job_states and its index, and of partitions. */
    assert_int_equal(n_written, 5 * FRAME_BYTES);
    assert_int_equal(count_jobs(other), 2);
    assert_int_equal(count_jobs_on_disk(), 2);
    store_close(other);
    store_close(store);
}

/* A commit is whole when it has returned, not when the log is synced. */
FIXTURE_TEST(commit_without_a_sync_is_in_the_file)
{
    struct store *store = open_store(), *other = open_store();
    assert_int_equal(submit(store, "synced"), 0); /* SQLite looks at the log it has begun */
    const int64_t before = count_jobs(store);
    run_sql(store, "PRAGMA synchronous = OFF");
    assert_int_equal(submit(store, "not-synced"), 0);
    assert_int_equal(count_jobs(other), before + 1);
    assert_int_equal(count_jobs_on_disk(), before + 1);
    store_close(other);
    store_close(store);
}

static void check_failure(int call, int error, bool is_short)
{
    struct store *store = open_store(), *other = open_store();
    const int64_t before = count_jobs(store);
    fail_writes_from(call, error, is_short);
    assert_int_equal(submit(store, "fails"), REDRIVE_E_IO);
    /* A full disk is a rollback for certain. */
    assert_int_equal(store_base(store)->is_rolled_back, error == ENOSPC);
    fail_writes_from(0, 0, false);
    assert_int_equal(count_jobs(store), before);
    assert_int_equal(count_jobs(other), before);
    assert_int_equal(submit(other, is_short ? "other-short" : "other"), 0);
    assert_int_equal(count_jobs(store), before + 1);
    assert_int_equal(count_jobs_on_disk(), before + 1);
    store_close(other);
    store_close(store);
}

FIXTURE_TEST(commit_that_cannot_be_written_has_not_happened)
{
    check_failure(1, ENOSPC, false);
    check_failure(1, EIO, true);
}

/* Whichever call of a large commit fails, at its beginning or in its middle. */
FIXTURE_TEST(large_commit_is_whole_or_has_not_happened)
{
    struct store *store = open_store(), *other = open_store();
    int64_t n = count_jobs(store);
    int call = 0, rc = REDRIVE_E_IO;
    while (rc != 0 && call++ < MANY_WRITES) {
        char id[32];
        submit_many(store, "many", MANY);
        fail_writes_from(call, call % 2 ? ENOSPC : EIO, call % 3 == 0);
        rc = store_ops(store)->commit(store, NULL);
        fail_writes_from(0, 0, false);
        if (rc == 0)
            break;
        assert_int_equal(rc, REDRIVE_E_IO);
        (void)snprintf(id, sizeof id, "between-%d", call);
        assert_int_equal(submit(other, id), 0);
        assert_int_equal(count_jobs(store), ++n);
        assert_int_equal(count_jobs_on_disk(), n);
    }
    assert_int_equal(rc, 0);
    assert_in_range(call, 4, 30); /* fewer calls than pages, and several */
    assert_int_equal(count_jobs(other), n + MANY);
    assert_int_equal(count_jobs_on_disk(), n + MANY);
    store_close(other);
    store_close(store);
}

FIXTURE_TEST(writes_that_are_interrupted_and_short_go_on)
{
    struct store *store = open_store(), *other = open_store();
    const int64_t before = count_jobs(store);
    stutters = true;
    assert_int_equal(submit(store, "stutter"), 0);
    stutters = false;
    assert_int_equal(count_jobs(other), before + 1);
    assert_int_equal(count_jobs_on_disk(), before + 1);
    store_close(other);
    store_close(store);
}

/* Pages that were spilled are at the places of the log where another connection writes next. */
FIXTURE_TEST(pages_of_a_rollback_are_not_written_over_a_later_commit)
{
    struct store *store = open_store(), *other = open_store();
    make_large_rows(store);
    use_small_cache(store);
    for (int pages = 35; pages <= 65; pages += 3) {
        char id[32];
        const int64_t before = count_jobs(store);
        char sql[80];
        run_sql(store, "PRAGMA wal_checkpoint");
        (void)snprintf(sql, sizeof sql, "UPDATE large SET b = randomblob(3000) WHERE n <= %d",
                       pages);
        assert_int_equal(store_ops(store)->begin(store, NOW_MS, NULL, NULL, NULL), 0);
        run_sql(store, sql);
        check_spilled(store);
        store_ops(store)->rollback(store);
        for (int i = 0; i < 30; i++) {
            (void)snprintf(id, sizeof id, "foreign-%d-%d", pages, i);
            assert_int_equal(submit(other, id), 0);
        }
        assert_int_equal(count_jobs(store), before + 30); /* reads the log */
        (void)snprintf(id, sizeof id, "own-%d", pages);
        assert_int_equal(submit(store, id), 0); /* and writes to it */
        assert_int_equal(count_jobs(other), before + 31);
        assert_int_equal(count_jobs_on_disk(), before + 31);
    }
    assert_int_equal(store_ops(other)->verify(other, NULL, NULL, NULL), 0);
    store_close(other);
    store_close(store);
}

/* The commit writes some of the spilled pages again, at their old places. */
FIXTURE_TEST(spilled_pages_and_their_commit_are_whole)
{
    struct store *store = open_store(), *other = open_store();
    use_small_cache(store);
    const int64_t before = count_jobs(store);
    submit_many(store, "spilled", MANY);
    check_spilled(store);
    assert_int_equal(count_jobs(other), before);
    assert_int_equal(store_ops(store)->commit(store, NULL), 0);
    assert_int_equal(count_jobs(other), before + MANY);
    assert_int_equal(count_jobs_on_disk(), before + MANY);
    store_close(other);
    store_close(store);
}

TEST_MAIN(argc, argv)
{
    char command[128];
    sqlite3_vfs *vfs = sqlite3_vfs_find(NULL);
    const sqlite3_syscall_ptr counted = (sqlite3_syscall_ptr)(void (*)(void))counted_write;
    (void)snprintf(folder, sizeof folder, "/tmp/redrive-log-writes-XXXXXX");
    if (!mkdtemp(folder) || vfs->xSetSystemCall(vfs, "pwrite", counted) != SQLITE_OK ||
        vfs->xSetSystemCall(vfs, "pwrite64", counted) != SQLITE_OK)
        return 1;
    (void)snprintf(url, sizeof url, "sqlite:%s/jobs.db", folder);
    const int failed = check_run(NULL, NULL);
    (void)snprintf(command, sizeof command, "rm -r %s", folder);
    return system(command) == 0 ? failed : 1; /* NOLINT(cert-env33-c): a folder of our own */
}

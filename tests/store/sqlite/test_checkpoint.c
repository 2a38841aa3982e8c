/* How the log is moved into the file on versions of SQLite that have the WAL-reset bug: never
 * without the writer's lock, soon enough that the log stays short, and not at the readers' cost. */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/time/clock.h"
#include "store_for_test.h"
#include "store/sqlite/private.h"

/* In the index of the log, as its format says: how many frames there are, and how many of them are
 * in the file. */
#define FRAMES_AT 16
#define MOVED_AT  96

static const char *path_of(const struct test_store *ts)
{
    return strchr(ts->url, ':') + 1;
}

static void reopen(struct test_store *ts, int64_t log_frames)
{
    if (log_frames > 0 && !checkpoint_has_bug(sqlite3_libversion_number()))
        skip(); /* such versions move the log by SQLite's own rules */
    store_close(ts->store);
    ts->store = NULL;
    assert_int_equal(
        store_open(ts->url, &(struct store_options){.log_frames = log_frames}, &ts->store, NULL),
        0);
}

/* Reads a number of the index in a process of its own: closing the file here would drop the locks
 * that this process has on it. */
static uint32_t read_index(const struct test_store *ts, off_t at)
{
    char name[STORES_URL_MAX + 8];
    uint32_t value = 0;
    int fds[2];
    snprintf(name, sizeof name, "%s-shm", path_of(ts));
    assert_int_equal(pipe(fds), 0);
    pid_t pid = fork();
    if (pid == 0) {
        int fd = open(name, O_RDONLY);
        const bool ok = fd >= 0 && pread(fd, &value, sizeof value, at) == sizeof value &&
                        write(fds[1], &value, sizeof value) == sizeof value;
        _exit(ok ? 0 : 1);
    }
    close(fds[1]);
    assert_int_equal(read(fds[0], &value, sizeof value), sizeof value);
    close(fds[0]);
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    return value;
}

static int64_t log_bytes(const struct test_store *ts)
{
    struct store_facts facts;
    assert_int_equal(store_ops(ts->store)->facts(ts->store, &facts, NULL), 0);
    return facts.log_bytes;
}

static sqlite3 *open_raw(const struct test_store *ts)
{
    sqlite3 *db;
    assert_int_equal(sqlite3_open(path_of(ts), &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, "PRAGMA wal_autocheckpoint = 0", NULL, NULL, NULL),
                     SQLITE_OK);
    return db;
}

static void run_sql(sqlite3 *db, const char *sql)
{
    assert_int_equal(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
}

static void put_many(struct test_store *ts, int n)
{
    for (int i = 0; i < n; i++)
        PUT(ts, .payload = STR("[1]"));
}

TEST(versions_with_the_bug_are_known)
{
    static const struct {
        int version;
        bool has_bug;
    } CASES[] = {
        {3007000, true}, {3037000, true},  {3040001, true},  {3044005, true},  {3044006, false},
        {3045000, true}, {3050004, true},  {3050006, true},  {3050007, false}, {3051000, true},
        {3051002, true}, {3051003, false}, {3052000, false}, {3053000, false}, {4000000, false},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++)
        if (checkpoint_has_bug(CASES[i].version) != CASES[i].has_bug)
            fail_msg("%d", CASES[i].version);
}

STORE_TEST(a_checkpoint_without_the_writers_lock_moves_nothing)
{
    reopen(ts, 100000);
    put_many(ts, 20);
    sqlite3 *writer = open_raw(ts);
    run_sql(writer, "BEGIN IMMEDIATE");
    assert_int_equal(checkpoint_run(&ts->store->checkpoint, ts->store->db), SQLITE_INTERRUPT);
    assert_int_equal(read_index(ts, MOVED_AT), 0);
    run_sql(writer, "ROLLBACK");
    assert_int_equal(checkpoint_run(&ts->store->checkpoint, ts->store->db), SQLITE_OK);
    assert_true(read_index(ts, MOVED_AT) > 0);
    sqlite3_close(writer);
}

/* A process that was stopped in the middle of a transaction. */
STORE_TEST(a_checkpoint_that_waits_for_the_writer_ends)
{
    reopen(ts, 100000);
    put_many(ts, 20);
    sqlite3 *writer = open_raw(ts);
    run_sql(writer, "BEGIN IMMEDIATE");
    const int64_t from_ms = clock_monotonic_ms();
    (void)checkpoint_run(&ts->store->checkpoint, ts->store->db);
    assert_true(clock_monotonic_ms() - from_ms >= CHECKPOINT_PATIENCE_MS);
    assert_true(clock_monotonic_ms() - from_ms < 10000);
    run_sql(writer, "ROLLBACK");
    sqlite3_close(writer);
    PUT(ts, .id = STR("after"));
}

/* ---- Locks ----------------------------------------------------------------------------------- */

static int unlocks_that_fail;
static int (*lock_of_system)(sqlite3_file *file, int offset, int n, int flags);

static int fail_unlocks(sqlite3_file *file, int offset, int n, int flags)
{
    if ((flags & SQLITE_SHM_UNLOCK) && unlocks_that_fail > 0) {
        unlocks_that_fail--;
        return SQLITE_BUSY;
    }
    return lock_of_system(file, offset, n, flags);
}

/* Else it would be kept as long as the process lives. */
STORE_TEST(a_lock_that_could_not_be_given_back_at_first_is_given_back)
{
    struct checkpoint *checkpoint = &ts->store->checkpoint;
    const sqlite3_io_methods *original = checkpoint->original;
    sqlite3_io_methods failing = *original;
    lock_of_system = original->xShmLock;
    failing.xShmLock = fail_unlocks;
    checkpoint->original = &failing;
    for (int i = 0; i < 8; i++) {
        unlocks_that_fail = 1 + i % 3;
        PUT(ts);
        assert_int_equal(unlocks_that_fail, 0);
        sqlite3 *other = open_raw(ts);
        run_sql(other, "BEGIN IMMEDIATE");
        run_sql(other, "ROLLBACK");
        sqlite3_close(other);
    }
    checkpoint->original = original;
}

STORE_TEST(no_connection_of_ours_makes_checkpoints_by_itself)
{
    reopen(ts, 100000);
    put_many(ts, 400); /* more than the 1000 frames after which SQLite would */
    assert_true(read_index(ts, FRAMES_AT) > 1000);
    assert_int_equal(read_index(ts, MOVED_AT), 0);
    /* Nor does one that is opened to look, and is closed while others are open. */
    struct store *other = NULL;
    assert_int_equal(store_open(ts->url, &(struct store_options){.as_is = true}, &other, NULL), 0);
    store_close(other);
    assert_int_equal(read_index(ts, MOVED_AT), 0);
}

STORE_TEST(a_long_log_is_moved_by_the_commit_that_made_it_long)
{
    reopen(ts, 100);
    put_many(ts, 200);
    /* A transaction may pass the limit by what it writes itself. */
    assert_true(log_bytes(ts) < (100 + 50) * INT64_C(4200));
    assert_true(read_index(ts, FRAMES_AT) < 100 + 50);
}

STORE_TEST(the_last_one_to_close_leaves_no_log)
{
    char name[STORES_URL_MAX + 8];
    put_many(ts, 20);
    store_close(ts->store);
    ts->store = NULL;
    snprintf(name, sizeof name, "%s-wal", path_of(ts));
    assert_int_not_equal(access(name, F_OK), 0);
    reopen(ts, 0);
    assert_int_equal(ts_list(ts, &(struct job_filter){.limit = 100})->n, 20);
}

/* ---- Readers --------------------------------------------------------------------------------- */

/* Reads without a pause: there is hardly a moment without a reader. */
static void read_for_ever(const char *path)
{
    sqlite3 *db;
    if (sqlite3_open(path, &db) != SQLITE_OK)
        _exit(1);
    sqlite3_busy_timeout(db, 10000);
    for (;;)
        if (sqlite3_exec(db, "SELECT sum(length(id)) FROM specs", NULL, NULL, NULL) != SQLITE_OK)
            _exit(1);
}

STORE_TEST(many_short_reads_do_not_let_the_log_grow)
{
    pid_t readers[2];
    reopen(ts, 100);
    for (int i = 0; i < 2; i++) {
        readers[i] = fork();
        if (readers[i] == 0)
            read_for_ever(path_of(ts));
    }
    put_many(ts, 1500); /* some 10,000 frames */
    for (int i = 0; i < 2; i++) {
        int status;
        kill(readers[i], SIGKILL);
        assert_int_equal(waitpid(readers[i], &status, 0), readers[i]);
        assert_true(WIFSIGNALED(status));
    }
    /* Less than half of what was written. On a busy machine a reader may be stopped in the middle
     * for longer than a checkpoint waits. */
    assert_true(log_bytes(ts) < INT64_C(5000) * 4120);
}

STORE_TEST(a_long_read_costs_few_attempts_and_the_log_starts_again_after_it)
{
    reopen(ts, 100);
    PUT(ts, .id = STR("first"));
    sqlite3 *reader = open_raw(ts);
    run_sql(reader, "BEGIN; SELECT * FROM specs");
    const int64_t from_ms = clock_monotonic_ms();
    put_many(ts, 400);
    /* Attempts at 100, 150, 225 … frames, not one for each commit. */
    assert_true(clock_monotonic_ms() - from_ms < 400 * CHECKPOINT_PATIENCE_MS);
    const uint32_t grown = read_index(ts, FRAMES_AT);
    assert_true(grown > 1000);
    run_sql(reader, "COMMIT");
    sqlite3_close(reader);
    put_many(ts, 600);
    assert_true(read_index(ts, FRAMES_AT) < grown);
    assert_int_equal(store_ops(ts->store)->verify(ts->store, NULL, NULL, NULL), 0);
}

/* ---- Idle ------------------------------------------------------------------------------------ */

STORE_TEST(an_idle_store_moves_its_log_once)
{
    reopen(ts, CHECKPOINT_FRAMES);
    PUT(ts, .id = STR("a"));
    assert_false(store_base(ts->store)->wants_upkeep);
    put_many(ts, CHECKPOINT_IDLE_FRAMES);
    assert_true(store_base(ts->store)->wants_upkeep);
    store_ops(ts->store)->upkeep(ts->store);
    assert_int_equal(read_index(ts, MOVED_AT), read_index(ts, FRAMES_AT));
    assert_false(store_base(ts->store)->wants_upkeep);
    PUT(ts, .id = STR("b"));
    assert_false(store_base(ts->store)->wants_upkeep);
    assert_true(read_index(ts, FRAMES_AT) < CHECKPOINT_IDLE_FRAMES);
}

TEST_MAIN(argc, argv)
{
    setenv("REDRIVE_TEST_STORE", "sqlite", 1);
    return check_run(NULL, NULL);
}

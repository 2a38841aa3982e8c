/* What the store says of a file that is not as it should be, and how it makes its own. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <sqlite3.h>

#include "base/rng.h"
#include "base/time/clock.h"
#include "store_for_test.h"
#include "scans.h"

static const struct store_options CREATE = {.create = true};

static const char *path_of(const struct test_store *ts)
{
    return strchr(ts->url, ':') + 1;
}

static void exec_on(const char *path, const char *sql)
{
    sqlite3 *db;
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(db);
}

static void check_mode(const char *path, const char *suffix)
{
    char name[STORES_URL_MAX + 8];
    struct stat st;
    snprintf(name, sizeof name, "%s%s", path, suffix);
    assert_int_equal(stat(name, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
}

TEST(files_are_for_their_owner_only_whatever_the_umask)
{
    static const mode_t MASKS[] = {0, 0022, 0077, 0277};
    for (size_t i = 0; i < sizeof MASKS / sizeof MASKS[0]; i++) {
        struct test_store ts;
        mode_t before = umask(MASKS[i]);
        char url[STORES_URL_MAX];
        umask(before);
        stores_new_url("sqlite", url);
        umask(MASKS[i]);
        struct redrive_err err;
        ts = (struct test_store){.now_ms = TS_START_MS};
        snprintf(ts.url, sizeof ts.url, "%s", url);
        assert_int_equal(store_open(url, &CREATE, &ts.store, &err), 0);
        PUT(&ts, .id = STR("a"));
        umask(before);
        check_mode(path_of(&ts), "");
        check_mode(path_of(&ts), "-wal");
        check_mode(path_of(&ts), "-shm");
        ts.owns_url = true;
        ts_close(&ts);
    }
}

/* Opens what is at the store's place and gives the code. */
static int reopen(struct test_store *ts, const struct store_options *options,
                  struct redrive_err *err)
{
    store_close(ts->store);
    ts->store = NULL;
    *err = (struct redrive_err){0};
    return store_open(ts->url, options, &ts->store, err);
}

STORE_TEST(a_newer_schema_is_refused_with_both_versions)
{
    struct redrive_err err;
    exec_on(path_of(ts), "PRAGMA user_version = 99");
    assert_int_equal(reopen(ts, &CREATE, &err), REDRIVE_E_STATE);
    assert_non_null(strstr(err.message, "version 99"));
    assert_non_null(strstr(err.message, "version 10"));
    exec_on(path_of(ts), "PRAGMA user_version = 10");
    assert_int_equal(reopen(ts, &CREATE, &err), 0);
}

STORE_TEST(an_older_schema_is_brought_up_to_date)
{
    struct redrive_err err;
    int64_t seq = PUT(ts, .id = STR("a"));
    PUT(ts, .id = STR("b"), .process_after_ms = ts->now_ms + 10);
    store_close(ts->store);
    ts->store = NULL;
    exec_on(path_of(ts), "DROP VIEW job_counts; DROP VIEW job_events; DROP VIEW attempts;"
                         "DROP VIEW jobs; DROP VIEW jobs_by_status; DROP VIEW failed_jobs;"
                         "DROP VIEW dead_letter_queue; DROP VIEW final_results;"
                         "DROP VIEW retry_queue; DROP VIEW tasks; DROP TABLE deadlines;"
                         "DROP TABLE time_locked; DROP VIEW breakers; DROP VIEW limits;"
                         "DROP VIEW paused_queues; DROP VIEW workers;"
                         "DROP TABLE job_blocks; DROP INDEX history_by_class;"
                         "DROP INDEX history_by_type;"
                         "DROP INDEX specs_by_user; ALTER TABLE shared DROP COLUMN used;"
                         "ALTER TABLE shared DROP COLUMN sent;"
                         "DROP VIEW job_edges; DROP TABLE edges;"
                         "DELETE FROM states WHERE state = 9; DELETE FROM reasons WHERE reason = 8;"
                         "ALTER TABLE partitions DROP COLUMN waiting;"
                         "PRAGMA user_version = 1");
    assert_int_equal(reopen(ts, &(struct store_options){0}, &err), 0);
    exec_on(path_of(ts), "SELECT * FROM job_counts");
    assert_int_equal(ts_state(ts, seq), REDRIVE_STATE_QUEUED);
    assert_int_equal(ts_queues(ts, STR("acme"))->counts[0].next_due_ms, ts->now_ms + 10);
}

STORE_TEST(a_database_of_another_program_is_left_alone)
{
    struct redrive_err err;
    char command[STORES_URL_MAX + 16];
    store_close(ts->store);
    ts->store = NULL;
    unlink(path_of(ts));
    exec_on(path_of(ts), "CREATE TABLE theirs (x); INSERT INTO theirs VALUES (1)");
    assert_int_equal(reopen(ts, &CREATE, &err), REDRIVE_E_STATE);
    assert_non_null(strstr(err.message, "another program"));
    snprintf(command, sizeof command, "%s-wal", path_of(ts));
    assert_int_not_equal(access(command, F_OK), 0);
    exec_on(path_of(ts), "SELECT x FROM theirs");
}

static void write_file(const char *path, const char *bytes, size_t n)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, bytes, n), (ssize_t)n);
    close(fd);
}

static void check_gone(struct test_store *ts)
{
    struct redrive_err err;
    int64_t now_ms, version;
    const struct store_ops *ops = store_ops(ts->store);
    assert_int_equal(ops->begin(ts->store, ts->now_ms, &now_ms, &version, &err), REDRIVE_E_IO);
    assert_non_null(strstr(err.message, "removed or replaced"));
}

STORE_TEST(a_file_that_is_removed_or_replaced_is_not_written_to)
{
    char aside[STORES_URL_MAX + 16];
    snprintf(aside, sizeof aside, "%s-aside", path_of(ts));
    PUT(ts, .id = STR("a"));
    assert_int_equal(store_ops(ts->store)->wait(ts->store, 0, NULL, NULL), 0);
    assert_int_equal(rename(path_of(ts), aside), 0);
    int64_t start_ms = clock_monotonic_ms();
    assert_int_equal(store_ops(ts->store)->wait(ts->store, 60000, NULL, NULL), 0);
    assert_true(clock_monotonic_ms() - start_ms < 30000);
    check_gone(ts);
    write_file(path_of(ts), "", 0);
    check_gone(ts);
    assert_int_equal(rename(aside, path_of(ts)), 0);
    PUT(ts, .id = STR("b"));
}

STORE_TEST(what_is_no_database_is_said_to_be_none)
{
    struct redrive_err err;
    char text[8192];
    memset(text, 'x', sizeof text);
    store_close(ts->store);
    ts->store = NULL;
    write_file(path_of(ts), text, sizeof text);
    assert_int_equal(reopen(ts, &CREATE, &err), REDRIVE_E_CORRUPT);
    assert_non_null(strstr(err.message, "not a SQLite database"));
    assert_true(err.hint[0] != '\0');
}

STORE_TEST(an_empty_file_is_set_up_only_when_that_is_asked_for)
{
    struct redrive_err err;
    store_close(ts->store);
    ts->store = NULL;
    write_file(path_of(ts), "", 0);
    assert_int_equal(reopen(ts, &(struct store_options){0}, &err), REDRIVE_E_NOT_FOUND);
    unlink(path_of(ts));
    assert_int_equal(reopen(ts, &(struct store_options){0}, &err), REDRIVE_E_NOT_FOUND);
    assert_int_not_equal(access(path_of(ts), F_OK), 0);
    assert_int_equal(reopen(ts, &CREATE, &err), 0);
}

STORE_TEST(a_directory_and_a_missing_one_are_named)
{
    struct redrive_err err;
    struct store *store;
    char url[STORES_URL_MAX + 32];
    snprintf(url, sizeof url, "%.*s", (int)(strrchr(ts->url, '/') - ts->url), ts->url);
    assert_int_equal(store_open(url, &CREATE, &store, &err), REDRIVE_E_INVALID);
    assert_non_null(strstr(err.message, "directory"));
    snprintf(url, sizeof url, "%s/none/jobs.db", ts->url);
    assert_true(store_open(url, &CREATE, &store, &err) < 0);
    snprintf(url, sizeof url, "%.*s/none/jobs.db", (int)(strrchr(ts->url, '/') - ts->url), ts->url);
    assert_int_equal(store_open(url, &CREATE, &store, &err), REDRIVE_E_STATE);
    assert_int_equal(store_open(url, &(struct store_options){0}, &store, &err), REDRIVE_E_STATE);
    assert_non_null(strstr(err.hint, "folder"));
    assert_int_equal(store_open("sqlite:", &CREATE, &store, &err), REDRIVE_E_INVALID);
}

/* Root may do everything, so somebody else has to try. */
static int code_as_nobody(const char *url, int mode)
{
    const char *path = strchr(url, ':') + 1;
    char folder[STORES_URL_MAX];
    snprintf(folder, sizeof folder, "%.*s", (int)(strrchr(path, '/') - path), path);
    assert_int_equal(chmod(folder, 0755), 0);
    assert_int_equal(chmod(path, (mode_t)mode), 0);
    pid_t pid = fork();
    if (pid == 0) {
        struct store *store;
        if (geteuid() == 0 && (setgid(65534) != 0 || setuid(65534) != 0))
            _exit(99);
        _exit(-store_open(url, &CREATE, &store, NULL));
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return -WEXITSTATUS(status);
}

STORE_TEST(files_that_may_not_be_read_or_written_are_denied)
{
    assert_int_equal(code_as_nobody(ts->url, 0000), REDRIVE_E_DENIED);
    assert_int_equal(code_as_nobody(ts->url, 0444), REDRIVE_E_DENIED);
}

TEST(names_that_sqlite_knows_are_only_names_of_files)
{
    struct store *store;
    char folder[] = "/tmp/redrive-names-XXXXXX", old[1024];
    assert_non_null(getcwd(old, sizeof old));
    assert_non_null(mkdtemp(folder));
    assert_int_equal(chdir(folder), 0);
    assert_int_equal(store_open("sqlite::memory:", &CREATE, &store, NULL), 0);
    store_close(store);
    assert_int_equal(store_open("sqlite:file:x?mode=memory", &CREATE, &store, NULL), 0);
    store_close(store);
    assert_int_equal(unlink(":memory:"), 0);
    assert_int_equal(unlink("file:x?mode=memory"), 0);
    assert_int_equal(chdir(old), 0);
    assert_int_equal(rmdir(folder), 0);
}

/* ---- Damaged rows ---------------------------------------------------------------------------- */

/* One whose time is not the one that it stands by in the index, and one whose numbers cannot be
 * read: the others come into the queue all the same. */
STORE_TEST(jobs_with_a_damaged_time_do_not_stop_the_others)
{
    int64_t seqs[4], next_ms;
    for (int i = 0; i < 4; i++)
        seqs[i] = PUT(ts, .process_after_ms = ts->now_ms + 10 + i);
    exec_on(path_of(ts),
            "UPDATE job_states SET process_after_ms = process_after_ms + 1000000 "
            "WHERE seq = 1; UPDATE job_states SET packed_status = x'ffff' WHERE seq = 2");
    ts->now_ms += 100;
    assert_int_equal(ts_promote(ts, 10, &next_ms), 2);
    assert_int_equal(next_ms, 0);
    assert_int_equal(ts_state(ts, seqs[2]), REDRIVE_STATE_QUEUED);
    assert_int_equal(ts_state(ts, seqs[3]), REDRIVE_STATE_QUEUED);
}

static size_t n_ready(struct test_store *ts, size_t limit)
{
    return READY(ts, .limit = limit)->n;
}

/* Jobs of one partition are claimed by cursors; those of many tenants in turn. */
STORE_TEST(damaged_jobs_do_not_stop_claims)
{
    char tenant[8];
    for (int i = 0; i < 4; i++)
        PUT(ts, .task = STR("a"));
    exec_on(path_of(ts), "UPDATE job_states SET packed_status = x'ffff' WHERE seq IN (1, 3)");
    assert_int_equal(n_ready(ts, 1), 1);
    assert_int_equal(ts_ready(ts, &(struct claim_filter){.limit = 1})->jobs[0].status.seq, 2);
    assert_int_equal(n_ready(ts, 10), 2);
    for (int i = 0; i < 40; i++) {
        snprintf(tenant, sizeof tenant, "t%d", i);
        PUT(ts, .tenant = str_of(tenant), .task = STR("a"));
    }
    exec_on(path_of(ts), "UPDATE job_states SET packed_status = x'ffff' WHERE seq IN (5, 7)");
    assert_int_equal(n_ready(ts, 100), 40);
}

STORE_TEST(damaged_jobs_do_not_stop_retention)
{
    size_t removed = 0;
    bool more;
    for (int i = 0; i < 4; i++)
        ts_put_in(ts, REDRIVE_STATE_COMPLETED, NULL);
    exec_on(path_of(ts), "UPDATE job_states SET packed_status = x'ffff' WHERE seq = 2;"
                         "UPDATE job_states SET state = 99 WHERE seq = 3");
    struct scan scan = {.limit = 10,
                        .states = 1u << REDRIVE_STATE_COMPLETED,
                        .before_ms = ts->now_ms + 1000,
                        .brief = true};
    ts_begin(ts);
    assert_int_equal(scan_remove(ts->store, &scan, (struct str){0}, &removed, &more, NULL), 0);
    ts_commit(ts);
    assert_int_equal(removed, 2);
}

/* ---- Damage ---------------------------------------------------------------------------------- */

#define DAMAGE_JOBS   60
#define DAMAGE_ROUNDS 400

static void payload_of(int i, char ret[200])
{
    snprintf(ret, 200, "{\"job\":%d,\"text\":\"%0150d\"}", i, i * 7919);
}

/* Every job that is given has the id and payload that were submitted, or is marked. */
static int check_given(const struct job_page *page)
{
    int marked = 0;
    for (size_t i = 0; i < page->n; i++) {
        char payload[200], id[16];
        if (page->jobs[i].is_damaged) {
            marked = REDRIVE_E_CORRUPT;
            continue;
        }
        int n = (int)page->jobs[i].status.seq - 1;
        payload_of(n, payload);
        snprintf(id, sizeof id, "job-%d", n);
        check_str(page->jobs[i].spec.payload, payload);
        check_str(page->jobs[i].spec.id, id);
    }
    return marked;
}

/* 0 when the store noticed nothing. What it gives must be right in any case. */
static int read_damaged(const char *url)
{
    struct store *store;
    struct redrive_err err = {0};
    struct job_page page = {0};
    const struct job_filter filter = {.limit = STORE_PAGE_MAX};
    int marked = 0;
    int rc = store_open(url, &(struct store_options){0}, &store, &err);
    if (rc == 0) {
        rc = store_ops(store)->list(store, &filter, &page, &err);
        marked = check_given(&page);
        job_page_release(&page);
        const struct claim_filter claim = {.limit = 100};
        int64_t now, version;
        if (rc == 0)
            rc = store_ops(store)->begin(store, TS_START_MS, &now, &version, &err);
        if (rc == 0)
            rc = store_ops(store)->ready(store, &claim, &page, &err);
        (void)check_given(&page);
        job_page_release(&page);
        store_close(store);
    }
    assert_true(rc == 0 || err.message[0] != '\0');
    return rc != 0 ? rc : marked;
}

STORE_TEST(flipped_bits_are_never_served)
{
    for (int i = 0; i < DAMAGE_JOBS; i++) {
        char payload[200], id[16];
        payload_of(i, payload);
        snprintf(id, sizeof id, "job-%d", i);
        PUT(ts, .id = str_of(id), .payload = str_of(payload));
    }
    store_close(ts->store);
    ts->store = NULL;
    int fd = open(path_of(ts), O_RDWR | O_CLOEXEC);
    struct stat st;
    assert_int_equal(fstat(fd, &st), 0);
    char *whole = malloc((size_t)st.st_size);
    assert_int_equal(pread(fd, whole, (size_t)st.st_size, 0), st.st_size);
    close(fd);
    struct rng rng;
    int noticed = 0;
    rng_seed(&rng, 7);
    for (int i = 0; i < DAMAGE_ROUNDS; i++) {
        size_t at = rng_below(&rng, (uint64_t)st.st_size);
        char bit = (char)(1 << rng_below(&rng, 8));
        whole[at] ^= bit;
        write_file(path_of(ts), whole, (size_t)st.st_size);
        noticed += read_damaged(ts->url) != 0;
        whole[at] ^= bit;
    }
    free(whole);
    /* Most bits of a small file are unused, or are those of indexes that nobody asked. */
    assert_true(noticed > 0);
}

/* ---- No space -------------------------------------------------------------------------------- */

/* Fills until the disk is full; everything that was committed must be there afterwards. */
static void fill_until_full(struct test_store *ts, int64_t *ret_last)
{
    static char big[20000];
    memset(big, '1', sizeof big);
    struct redrive_err err = {0};
    struct arena arena;
    arena_init(&arena);
    *ret_last = 0;
    for (int i = 0; i < 2000; i++) {
        char id[16];
        int64_t now, version;
        struct submit_result result;
        snprintf(id, sizeof id, "f-%d", i);
        const struct job_spec spec = {
            .tenant = STR("acme"), .id = str_of(id), .payload = {big, sizeof big}};
        int rc = store_ops(ts->store)->begin(ts->store, TS_START_MS, &now, &version, &err);
        if (rc == 0)
            rc = store_ops(ts->store)->submit(ts->store, &spec, 1, &result, &arena, &err);
        if (rc == 0)
            rc = store_ops(ts->store)->commit(ts->store, &err);
        if (rc != 0) {
            store_ops(ts->store)->rollback(ts->store);
            assert_int_equal(rc, REDRIVE_E_IO);
            assert_int_equal(err.code, REDRIVE_E_IO);
            assert_true(err.hint[0] != '\0');
            arena_release(&arena);
            return;
        }
        *ret_last = result.seq;
    }
    fail_msg("the disk never got full");
}

TEST(a_full_disk_loses_nothing_and_ends)
{
    char folder[] = "/tmp/redrive-full-XXXXXX";
    struct test_store ts = {.now_ms = TS_START_MS};
    struct redrive_err err;
    int64_t last;
    assert_non_null(mkdtemp(folder));
    if (mount("tmpfs", folder, "tmpfs", 0, "size=2m") != 0) {
        rmdir(folder);
        skip();
    }
    snprintf(ts.url, sizeof ts.url, "sqlite:%s/jobs.db", folder);
    assert_int_equal(store_open(ts.url, &CREATE, &ts.store, &err), 0);
    fill_until_full(&ts, &last);
    assert_true(last > 10);
    assert_int_equal(ts_state(&ts, last), REDRIVE_STATE_QUEUED);
    assert_null(ts_job(&ts, last + 1));
    assert_int_equal(mount("tmpfs", folder, "tmpfs", MS_REMOUNT, "size=8m"), 0);
    assert_int_equal(PUT(&ts, .id = STR("again")), last + 1);
    ts_close(&ts);
    assert_int_equal(umount(folder), 0);
    rmdir(folder);
}

/* The same with a limit on the size of files, for where nothing can be mounted. */
STORE_TEST(a_file_that_may_not_grow_loses_nothing)
{
    pid_t pid = fork();
    if (pid == 0) {
        const struct rlimit limit = {1 << 20, 1 << 20};
        int64_t last;
        signal(SIGXFSZ, SIG_IGN);
        struct store *store;
        if (store_open(ts->url, &CREATE, &store, NULL) != 0)
            _exit(1);
        struct test_store mine = {.store = store, .now_ms = TS_START_MS};
        if (setrlimit(RLIMIT_FSIZE, &limit) != 0)
            _exit(2);
        fill_until_full(&mine, &last);
        _exit(last > 10 ? 0 : 3);
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    PUT(ts, .id = STR("again"));
}

static void limit_files(rlim_t bytes)
{
    struct rlimit limit;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
    limit.rlim_cur = bytes;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

/* Its number is given to the next partition that anybody adds. */
STORE_TEST(a_partition_of_a_failed_commit_is_forgotten)
{
    struct test_store other = {0};
    struct job_page page = {0};
    const struct job_filter filter = {.id = STR("mine"), .limit = 1};
    void (*before)(int) = signal(SIGXFSZ, SIG_IGN);
    PUT(ts, .queue = STR("a"));
    ts_begin(ts);
    PUT(ts, .queue = STR("phantom"));
    limit_files(1);
    assert_int_not_equal(store_ops(ts->store)->commit(ts->store, NULL), 0);
    limit_files(RLIM_INFINITY);
    ts->in_transaction = false;
    (void)signal(SIGXFSZ, before);
    ts_join(&other, ts);
    PUT(&other, .queue = STR("other"), .id = STR("theirs"));
    PUT(ts, .queue = STR("phantom"), .id = STR("mine"));
    assert_int_equal(store_ops(other.store)->list(other.store, &filter, &page, NULL), 0);
    assert_int_equal(page.n, 1);
    assert_true(str_is(page.jobs[0].spec.queue, "phantom"));
    job_page_release(&page);
    ts_close(&other);
}

TEST_MAIN(argc, argv)
{
    setenv("REDRIVE_TEST_STORE", "sqlite", 1);
    return check_run(NULL, NULL);
}

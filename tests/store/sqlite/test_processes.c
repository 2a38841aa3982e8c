/* Several processes on one file, and processes that die in the middle of what they do. */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <sqlite3.h>

#include "base/rng.h"
#include "base/time/clock.h"
#include "store_for_test.h"
#include "waiting.h"

static void wait_for(pid_t pid, int expected)
{
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, expected);
}

/* A child's own view of the store; what fails ends the child. */
static void must(bool ok)
{
    if (!ok)
        _exit(1);
}

static struct store *open_here(const char *url)
{
    struct store *store = NULL;
    must(store_open(url, &(struct store_options){.create = true, .busy_wait_ms = 20000}, &store,
                    NULL) == 0);
    return store;
}

static void begin(struct store *store)
{
    int64_t now, version;
    must(store_ops(store)->begin(store, TS_START_MS, &now, &version, NULL) == 0);
}

/* ---- Two at once ----------------------------------------------------------------------------- */

#define EACH 150

/* Submits, and takes whatever there is, until it has seen nothing for a while. */
static void live_in(const char *url, int who, int fd)
{
    struct store *store = open_here(url);
    struct arena arena;
    struct job_page page = {0};
    arena_init(&arena);
    for (int i = 0; i < EACH; i++) {
        char id[32];
        struct submit_result submitted;
        snprintf(id, sizeof id, "%d-%d", who, i);
        const struct job_spec spec = {.tenant = STR("t"), .id = str_of(id)};
        begin(store);
        must(store_ops(store)->submit(store, &spec, 1, &submitted, &arena, NULL) == 0);
        must(submitted.code == 0);
        const struct claim_filter filter = {.limit = 2};
        must(store_ops(store)->ready(store, &filter, &page, NULL) == 0);
        for (size_t k = 0; k < page.n; k++) {
            const struct start_move move = {.seq = page.jobs[k].status.seq,
                                            .token = (uint64_t)(who + 1),
                                            .lease_until_ms = TS_START_MS + 1};
            struct move_result result;
            must(store_ops(store)->move(store, STARTS(&move, 1), &result, NULL) == 0);
            must(result.code == 0);
            must(write(fd, &move.seq, sizeof move.seq) == sizeof move.seq);
        }
        must(store_ops(store)->commit(store, NULL) == 0);
    }
    _exit(0);
}

STORE_TEST(two_processes_never_start_the_same_job)
{
    int fds[2];
    static unsigned char seen[2 * EACH + 1];
    assert_int_equal(pipe(fds), 0);
    pid_t pids[2];
    for (int i = 0; i < 2; i++) {
        pids[i] = fork();
        if (pids[i] == 0)
            live_in(ts->url, i, fds[1]);
    }
    close(fds[1]);
    int64_t seq;
    size_t n = 0;
    while (read(fds[0], &seq, sizeof seq) == sizeof seq) {
        assert_in_range(seq, 1, 2 * EACH);
        assert_int_equal(seen[seq]++, 0);
        n++;
    }
    close(fds[0]);
    wait_for(pids[0], 0);
    wait_for(pids[1], 0);
    assert_int_equal(n, 2 * EACH);
}

TEST(several_processes_may_set_a_store_up_at_once)
{
    for (int round = 0; round < 5; round++) {
        char url[STORES_URL_MAX];
        pid_t pids[6];
        stores_new_url("sqlite", url);
        for (int i = 0; i < 6; i++) {
            pids[i] = fork();
            if (pids[i] == 0) {
                struct store *store = open_here(url);
                begin(store);
                must(store_ops(store)->commit(store, NULL) == 0);
                store_close(store);
                _exit(0);
            }
        }
        for (int i = 0; i < 6; i++)
            wait_for(pids[i], 0);
        stores_remove(url);
    }
}

/* Opens again and again, until the store is there; says once that it is not. */
static void look_until_set_up(const char *url, int fd)
{
    const struct store_options options = {.busy_wait_ms = 20000};
    struct store *store;
    int rc = store_open(url, &options, &store, NULL);
    must(rc == REDRIVE_E_NOT_FOUND && write(fd, "", 1) == 1);
    while (rc == REDRIVE_E_NOT_FOUND)
        rc = store_open(url, &options, &store, NULL);
    must(rc == 0);
    store_close(store);
    _exit(0);
}

TEST(a_store_that_is_being_set_up_is_empty_or_ours)
{
    for (int round = 0; round < 40; round++) {
        char url[STORES_URL_MAX];
        pid_t pids[3];
        int fds[2];
        char byte;
        assert_int_equal(pipe(fds), 0);
        stores_new_url("sqlite", url);
        for (int i = 0; i < 3; i++) {
            pids[i] = fork();
            if (pids[i] == 0)
                look_until_set_up(url, fds[1]);
        }
        close(fds[1]);
        for (int i = 0; i < 3; i++)
            assert_int_equal(read(fds[0], &byte, 1), 1);
        close(fds[0]);
        store_close(open_here(url));
        for (int i = 0; i < 3; i++)
            wait_for(pids[i], 0);
        stores_remove(url);
    }
}

STORE_TEST(a_busy_store_is_an_error_after_the_busy_time)
{
    struct store *other;
    struct redrive_err err;
    int64_t now, version;
    assert_int_equal(store_open(ts->url, &(struct store_options){.busy_wait_ms = 50}, &other, &err),
                     0);
    ts_begin(ts);
    int64_t start_ms = clock_monotonic_ms();
    assert_int_equal(store_ops(other)->begin(other, 1, &now, &version, &err), REDRIVE_E_IO);
    assert_true(clock_monotonic_ms() - start_ms >= 40);
    assert_non_null(strstr(err.message, "another process"));
    assert_true(err.hint[0] != '\0');
    ts_rollback(ts);
    assert_int_equal(store_ops(other)->begin(other, 1, &now, &version, &err), 0);
    store_close(other);
}

/* Whether a wait ends soon after another process has committed, which it does as soon as the wait
 * sleeps. 50 ms is the promise; the other process then sleeps for so long too, and tells how long
 * this took on this machine. */
static bool ends_soon_after_a_commit(struct test_store *ts, const char *key)
{
    int fds[2], begins[2];
    int64_t at_ms, control_ms;
    assert_int_equal(pipe(fds) | pipe(begins), 0);
    pid_t pid = fork();
    if (pid == 0) {
        char parent[16];
        struct store *store = open_here(ts->url);
        struct move_result result;
        const struct shared_row row = {.kind = SHARED_TASK, .key = str_of(key), .value = STR("v")};
        must(read(begins[0], parent, 1) == 1);
        snprintf(parent, sizeof parent, "%d", (int)getppid());
        for (uint64_t ignored; !waiting_all_sleep(parent, &ignored);)
            pass_ms(1);
        begin(store);
        must(store_ops(store)->shared_put(store, &row, 1, &result, NULL) == 0);
        must(result.code == 0 && store_ops(store)->commit(store, NULL) == 0);
        at_ms = clock_monotonic_ms();
        pass_ms(50);
        control_ms = clock_monotonic_ms() - at_ms;
        must(write(fds[1], &at_ms, sizeof at_ms) == sizeof at_ms);
        must(write(fds[1], &control_ms, sizeof control_ms) == sizeof control_ms);
        _exit(0);
    }
    assert_int_equal(write(begins[1], "", 1), 1);
    assert_int_equal(store_ops(ts->store)->wait(ts->store, WAIT_LIMIT_MS, NULL, NULL), 0);
    const int64_t woken_ms = clock_monotonic_ms();
    assert_int_equal(read(fds[0], &at_ms, sizeof at_ms), sizeof at_ms);
    assert_int_equal(read(fds[0], &control_ms, sizeof control_ms), sizeof control_ms);
    wait_for(pid, 0);
    for (int i = 0; i < 2; i++) {
        close(fds[i]);
        close(begins[i]);
    }
    return woken_ms - at_ms < 4 * control_ms;
}

STORE_TEST(a_wait_ends_soon_after_another_process_commits)
{
    static const char *const KEYS[] = {"a", "b", "c", "d", "e"};
    int n_soon = 0;
    PUT(ts, .id = STR("mine"));
    for (int i = 0; i < 5; i++)
        n_soon += ends_soon_after_a_commit(ts, KEYS[i]);
    assert_true(n_soon >= 3); /* each process may be late by itself now and then */
    /* What has been noticed is not new any more, nor is what one does oneself. */
    PUT(ts, .id = STR("mine too"));
    int64_t start_ms = clock_monotonic_ms();
    assert_int_equal(store_ops(ts->store)->wait(ts->store, 60, NULL, NULL), 0);
    assert_true(clock_monotonic_ms() - start_ms >= 60);
}

/* ---- Sudden death ---------------------------------------------------------------------------- */

#define GROUP  4 /* jobs that always move together */
#define ROUNDS 14

/* One line a commit, in a file that has nothing to do with the store. */
static void acknowledge(int log_fd, char what, int64_t first_seq)
{
    char line[64];
    int n = snprintf(line, sizeof line, "%c %lld\n", what, (long long)first_seq);
    must(write(log_fd, line, (size_t)n) == n && fdatasync(log_fd) == 0);
}

static int64_t put_group(struct store *store, int round, int transaction)
{
    struct arena arena;
    struct job_spec specs[GROUP];
    struct submit_result results[GROUP];
    char ids[GROUP][32];
    arena_init(&arena);
    for (int i = 0; i < GROUP; i++) {
        snprintf(ids[i], sizeof ids[i], "%d-%d-%d", round, transaction, i);
        specs[i] = (struct job_spec){.tenant = STR("t"),
                                     .id = str_of(ids[i]),
                                     .payload = str_of(ids[i]),
                                     .unique_key = str_of(ids[i])};
    }
    begin(store);
    must(store_ops(store)->submit(store, specs, GROUP, results, &arena, NULL) == 0);
    must(store_ops(store)->commit(store, NULL) == 0);
    arena_release(&arena);
    return results[0].seq;
}

static int64_t start_group(struct store *store, int64_t *ret_seqs)
{
    struct job_page page = {0};
    struct start_move moves[GROUP];
    struct move_result results[GROUP];
    const struct claim_filter filter = {.limit = GROUP};
    begin(store);
    must(store_ops(store)->ready(store, &filter, &page, NULL) == 0 && page.n == GROUP);
    for (int i = 0; i < GROUP; i++) {
        ret_seqs[i] = page.jobs[i].status.seq;
        moves[i] = (struct start_move){.seq = ret_seqs[i], .token = 1, .lease_until_ms = 1};
    }
    must(store_ops(store)->move(store, STARTS(moves, GROUP), results, NULL) == 0);
    must(store_ops(store)->commit(store, NULL) == 0);
    job_page_release(&page);
    return ret_seqs[0];
}

static void settle_group(struct store *store, const int64_t *seqs)
{
    const struct decision d = decision_ended(REDRIVE_STATE_DEAD_LETTER, REDRIVE_REASON_EXHAUSTED);
    struct settle_move moves[GROUP];
    struct move_result results[GROUP];
    begin(store);
    for (int i = 0; i < GROUP; i++)
        moves[i] =
            (struct settle_move){.seq = seqs[i],
                                 .token = 1,
                                 .decision = &d,
                                 .error = {.class_ = REDRIVE_CLASS_SYSTEM, .message = STR("gone")}};
    must(store_ops(store)->move(store, SETTLES(moves, GROUP), results, NULL) == 0);
    must(store_ops(store)->commit(store, NULL) == 0);
}

static void work_until_killed(const char *url, int log_fd, int round)
{
    struct store *store = open_here(url);
    for (int transaction = 0;; transaction++) {
        int64_t seqs[GROUP];
        acknowledge(log_fd, 'S', put_group(store, round, transaction));
        acknowledge(log_fd, 'R', start_group(store, seqs));
        settle_group(store, seqs);
        acknowledge(log_fd, 'E', seqs[0]);
    }
}

static void check_acknowledged(struct test_store *ts, FILE *log)
{
    char what;
    long long first;
    rewind(log);
    while (fscanf(log, " %c %lld", &what, &first) == 2) {
        enum redrive_state least = what == 'S'   ? REDRIVE_STATE_QUEUED
                                   : what == 'R' ? REDRIVE_STATE_RUNNING
                                                 : REDRIVE_STATE_DEAD_LETTER;
        for (int i = 0; i < GROUP; i++)
            assert_true(ts_state(ts, first + i) >= least);
    }
}

/* Jobs of a group are all there, in the same state, each with its history, or none is. */
static void check_whole(struct test_store *ts)
{
    int64_t after = 0;
    uint64_t counts[REDRIVE_STATE_COUNT] = {0};
    struct job_page *page;
    do {
        page = LIST(ts, .after_seq = after);
        for (size_t i = 0; i < page->n; i++) {
            const struct job *job = &page->jobs[i];
            const struct job *first = &page->jobs[i / GROUP * GROUP];
            assert_int_equal(job->status.seq, after + (int64_t)i + 1);
            assert_int_equal(job->status.state, first->status.state);
            assert_memory_equal(job->spec.id.ptr, first->spec.id.ptr, first->spec.id.len - 1);
            assert_int_equal(job->status.error.class_,
                             job->status.state == REDRIVE_STATE_DEAD_LETTER
                                 ? REDRIVE_CLASS_SYSTEM
                                 : REDRIVE_CLASS_SUCCESS);
            counts[job->status.state]++;
        }
        assert_int_equal(page->n % GROUP, 0);
        after += (int64_t)page->n;
    } while (page->more);
    const struct count_page *queues = ts_queues(ts, STR(""));
    if (queues->n)
        assert_memory_equal(queues->counts[0].by_state, counts, sizeof counts);
}

static int first_text(void *ret, int n, char **values, char **names)
{
    (void)n, (void)names;
    snprintf(ret, 64, "%s", values[0]);
    return 1;
}

static void check_integrity(const char *path)
{
    sqlite3 *db;
    char answer[64] = "";
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    sqlite3_exec(db, "PRAGMA integrity_check", first_text, answer, NULL);
    assert_string_equal(answer, "ok");
    sqlite3_exec(
        db,
        "SELECT count(*) FROM (SELECT seq FROM job_states EXCEPT SELECT seq FROM specs "
        "UNION ALL SELECT seq FROM specs EXCEPT SELECT seq FROM job_states "
        "UNION ALL SELECT seq FROM live_keys EXCEPT SELECT seq FROM job_states WHERE state < 5 "
        "UNION ALL SELECT seq FROM history EXCEPT SELECT seq FROM job_states WHERE state = 7)",
        first_text, answer, NULL);
    assert_string_equal(answer, "0");
    sqlite3_close(db);
}

static off_t size_of(FILE *file)
{
    struct stat st;
    assert_int_equal(fstat(fileno(file), &st), 0);
    return st.st_size;
}

STORE_TEST(a_killed_process_loses_nothing_and_leaves_nothing_half_done)
{
    struct rng rng;
    rng_seed(&rng, 42);
    FILE *log = tmpfile();
    assert_non_null(log);
    for (int round = 0; round < ROUNDS; round++) {
        store_close(ts->store);
        ts->store = NULL;
        pid_t pid = fork();
        if (pid == 0)
            work_until_killed(ts->url, fileno(log), round);
        const long until = size_of(log) + (long)rng_below(&rng, 500);
        WAIT_FOR(size_of(log) >= until);
        kill(pid, SIGKILL);
        wait_for(pid, SIGKILL);
        assert_int_equal(store_open(ts->url, NULL, &ts->store, NULL), 0);
        check_acknowledged(ts, log);
        check_whole(ts);
    }
    check_integrity(strchr(ts->url, ':') + 1);
    fclose(log);
}

TEST_MAIN(argc, argv)
{
    setenv("REDRIVE_TEST_STORE", "sqlite", 1);
    return check_run(NULL, NULL);
}

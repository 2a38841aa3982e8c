/* Processes that die or stop in mid-transaction, and a server that goes away or has no memory left.
 */
#include "handles.h"
#include "store_for_test.h"
#include "proxy.h"
#include "server.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/time/clock.h"
#include "store/redis/private.h"

/* A child that opens a transaction, says so, and commits when it is told to. */
struct child {
    pid_t pid;
    int said;
    int told;
};

static void live(const struct server *s, int says, int told)
{
    struct redrive_err err = {0};
    char word = 0;
    struct store *store = open_at(s);
    bool ok = begin(store, &err) == 0 && count_ready(store) > 0 && start(store, 1, 7) == 0;
    if (!ok || write(says, "x", 1) != 1 || read(told, &word, 1) != 1)
        _exit(1);
    int rc = put(store, "of the child", &err);
    if (rc == 0)
        rc = store_ops(store)->commit(store, &err);
    /* 3: it is known that nothing has happened. */
    _exit(rc == REDRIVE_E_CANCELLED && err.code == rc ? 3 : rc == 0 ? 0 : 4);
}

static struct child child_start(const struct server *s)
{
    int up[2], down[2];
    char word;
    assert_int_equal(pipe(up), 0);
    assert_int_equal(pipe(down), 0);
    struct child child = {.pid = fork(), .said = up[0], .told = down[1]};
    assert_true(child.pid >= 0);
    if (child.pid == 0)
        live(s, up[1], down[0]);
    close(up[1]);
    close(down[0]);
    assert_int_equal(read(child.said, &word, 1), 1);
    return child;
}

static int child_end(struct child *child)
{
    int status;
    assert_int_equal(waitpid(child->pid, &status, 0), child->pid);
    close(child->said);
    close(child->told);
    return status;
}

SERVER_TEST(a_process_that_is_killed_leaves_nothing, NULL)
{
    struct store *store = open_at(s);
    put_committed(store, "before");
    struct child child = child_start(s);
    assert_int_equal(count_jobs(store), 1);
    kill(child.pid, SIGKILL);
    child_end(&child);
    const int64_t since_ms = clock_monotonic_ms();
    put_committed(store, "after");
    assert_true(clock_monotonic_ms() - since_ms < 5000);
    assert_int_equal(count_jobs(store), 2);
    start_committed(store, 1, 8);
    assert_int_equal(store_ops(store)->verify(store, NULL, NULL, NULL), 0);
    store_close(store);
}

SERVER_TEST(a_process_that_sleeps_in_its_transaction_is_refused_what_others_have_taken, NULL)
{
    struct store *store = open_at(s);
    put_committed(store, "before");
    struct child child = child_start(s);
    kill(child.pid, SIGSTOP);
    start_committed(store, 1, 8);
    kill(child.pid, SIGCONT);
    assert_int_equal(write(child.told, "x", 1), 1);
    const int status = child_end(&child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 3);
    assert_int_equal(count_jobs(store), 1);
    assert_int_equal(settle_committed(store, 1, 8), 0);
    assert_int_equal(store_ops(store)->verify(store, NULL, NULL, NULL), 0);
    store_close(store);
}

SERVER_TEST(a_server_that_dies_in_mid_transaction_comes_back_without_it, DURABLE)
{
    struct redrive_err err = {0};
    struct store *store = open_at(s), *other = open_at(s);
    put_committed(store, "before");
    begin_half(store, true);
    server_restart(s);
    assert_int_equal(count_jobs(other), 1);
    assert_int_equal(store_ops(store)->commit(store, &err), REDRIVE_E_CANCELLED);
    store_ops(store)->rollback(store);
    put_committed(other, "after");
    put_committed(store, "of the same handle");
    assert_int_equal(count_jobs(store), 3);
    assert_int_equal(store_ops(other)->verify(other, NULL, NULL, NULL), 0);
    store_close(store);
    store_close(other);
}

SERVER_TEST(a_handle_survives_a_server_that_was_away, DURABLE)
{
    struct redrive_err err = {0};
    struct store *store = open_at(s);
    put_committed(store, "before");
    server_kill(s);
    assert_int_equal(begin(store, &err), REDRIVE_E_IO);
    assert_non_null(strstr(err.message, "Redis server"));
    assert_int_equal(store_ops(store)->wait(store, 5, NULL, &err), REDRIVE_E_IO);
    server_restart(s);
    put_committed(store, "after");
    assert_int_equal(count_jobs(store), 2);
    store_close(store);
}

SERVER_TEST(a_connection_that_breaks_before_the_commit_is_told_exactly, NULL)
{
    struct redrive_err err = {0};
    struct store *store = open_at(s);
    assert_int_equal(begin(store, &err), 0);
    assert_int_equal(put(store, "lost", &err), 0);
    server_call(s, "CLIENT KILL TYPE normal");
    assert_int_equal(store_ops(store)->commit(store, &err), REDRIVE_E_CANCELLED);
    assert_non_null(strstr(err.detail, "none"));
    store_ops(store)->rollback(store);
    assert_int_equal(count_jobs(store), 0);
    put_committed(store, "lost");
    assert_int_equal(count_jobs(store), 1);
    store_close(store);
}

/* What was read before it is still what the commit compares. */
SERVER_TEST(a_connection_that_breaks_within_a_transaction_is_not_missed, NULL)
{
    struct redrive_err err = {0};
    struct store *store = open_at(s);
    put_committed(store, "before");
    assert_int_equal(begin(store, &err), 0);
    assert_int_equal(count_ready(store), 1);
    server_call(s, "CLIENT KILL TYPE normal");
    assert_int_equal(start(store, 1, 7), 0);
    assert_int_equal(put(store, "kept", &err), 0);
    assert_int_equal(store_ops(store)->commit(store, &err), 0);
    assert_int_equal(settle_committed(store, 1, 7), 0);
    assert_int_equal(count_jobs(store), 2);
    store_close(store);
}

/* The server has made the commit, and knows it when it is asked. */
TEST(a_commit_whose_answer_is_lost_is_told_exactly)
{
    struct server s;
    struct proxy proxy;
    struct redrive_err err = {0};
    server_start(&s, NULL);
    proxy_start(&proxy, s.port);
    struct server through = s;
    snprintf(through.url, sizeof through.url, "redis://127.0.0.1:%d", proxy.port);
    struct store *store = open_at(&through), *other = open_at(&s);
    assert_int_equal(begin(store, &err), 0);
    assert_int_equal(put(store, "kept", &err), 0);
    atomic_store(&proxy.loses, true);
    assert_int_equal(store_ops(store)->commit(store, &err), 0);
    assert_int_equal(count_jobs(store), 1);
    put_committed(store, "next");

    /* The answer to a read is lost: it is asked for again. */
    assert_int_equal(begin(store, &err), 0);
    atomic_store(&proxy.loses, true);
    assert_int_equal(put(store, "more", &err), 0);
    put_committed(other, "of another");
    assert_int_equal(store_ops(store)->commit(store, &err), 0);
    assert_int_equal(count_jobs(other), 4);
    store_close(store);
    store_close(other);
    proxy_stop(&proxy);
    server_stop(&s);
}

/* The server says so before the commit begins: it may be repeated at once. */
SERVER_TEST(a_commit_that_the_server_refuses_is_known_not_to_have_happened, NULL)
{
    struct redrive_err err = {0};
    struct store *store = open_at(s);
    put_committed(store, "before");
    assert_int_equal(begin(store, &err), 0);
    assert_int_equal(put(store, "refused", &err), 0);
    server_call(s, "CONFIG SET min-replicas-to-write 1");
    assert_int_equal(store_ops(store)->commit(store, &err), REDRIVE_E_IO);
    assert_non_null(strstr(err.message, "too few replicas"));
    assert_true(store_base(store)->is_rolled_back);
    rollback(store);
    server_call(s, "CONFIG SET min-replicas-to-write 0");
    assert_int_equal(count_jobs(store), 1);
    put_committed(store, "refused");
    assert_int_equal(store_ops(store)->verify(store, NULL, NULL, NULL), 0);
    store_close(store);
}

TEST(what_is_said_of_a_function_that_did_not_begin_is_told_apart)
{
    static const char *const UNDONE[] = {
        "MISCONF Redis is configured to save RDB snapshots, but it's unable to persist to disk.",
        "NOREPLICAS Not enough good replicas to write.",
        "LOADING Redis is loading the dataset in memory",
        "BUSY Redis is busy running a script. You can only call FUNCTION KILL.",
        "CLUSTERDOWN Hash slot not served",
        "MOVED 3999 127.0.0.1:6381",
        "READONLY You can't write against a read only replica.",
        "OOM command not allowed when used memory > 'maxmemory'.",
    };
    /* These may come from a command in the middle of a function. */
    static const char *const UNKNOWN[] = {
        "ERR user_function:12: attempt to index a nil value",
        "NOPERM User queue has no permissions to run the 'zadd' command",
        "WRONGTYPE Operation against a key holding the wrong kind of value",
    };
    for (size_t i = 0; i < sizeof UNDONE / sizeof UNDONE[0]; i++)
        assert_true(rd_says_undone(str_of(UNDONE[i])));
    for (size_t i = 0; i < sizeof UNKNOWN / sizeof UNKNOWN[0]; i++)
        assert_false(rd_says_undone(str_of(UNKNOWN[i])));
}

/* ---- Many ------------------------------------------------------------------------------------ */

#define MANY 4200

/* One call has its bounds, and says that there is more. */
SERVER_TEST(what_one_call_leaves_out_is_said_to_be_left, NULL)
{
    static struct job_spec specs[MANY];
    static struct submit_result results[MANY];
    static struct start_move moves[MANY];
    static struct move_result moved[MANY];
    static char ids[MANY][8];
    struct arena arena;
    struct job_page page = {0};
    struct scan scan = {.index = SCAN_LEASES, .limit = (size_t)2 * MANY};
    struct store *store = open_at(s);
    arena_init(&arena);
    for (int i = 0; i < MANY; i++) {
        snprintf(ids[i], sizeof ids[i], "%d", i);
        specs[i] = (struct job_spec){
            .tenant = STR("acme"), .id = str_of(ids[i]), .task = STR("mail"), .queue = STR("main")};
        moves[i] = (struct start_move){.seq = i + 1, .token = 7, .lease_until_ms = 1};
    }
    assert_int_equal(begin(store, NULL), 0);
    assert_int_equal(store_ops(store)->submit(store, specs, MANY, results, &arena, NULL), 0);
    assert_int_equal(store_ops(store)->move(store, STARTS(moves, MANY), moved, NULL), 0);
    assert_int_equal(store_ops(store)->commit(store, NULL), 0);
    assert_int_equal(begin(store, NULL), 0);
    assert_int_equal(store_ops(store)->scan(store, &scan, &page, NULL), 0);
    assert_true(page.more || page.n == MANY);
    assert_true(scan.next_ms == 1 || page.n == MANY);
    job_page_release(&page);
    store_ops(store)->rollback(store);
    arena_release(&arena);
    store_close(store);
}

/* ---- Memory ---------------------------------------------------------------------------------- */

static void fill_memory(const struct server *s)
{
    long used = 0;
    const char *line = strstr(server_call(s, "INFO memory"), "used_memory:");
    assert_non_null(line);
    used = strtol(line + strlen("used_memory:"), NULL, 10);
    server_call(s, "CONFIG SET maxmemory %ld", used / 2);
}

SERVER_TEST(full_memory_refuses_new_jobs_and_loses_none, NULL)
{
    struct redrive_err err = {0};
    static const struct decision DONE = {.state = REDRIVE_STATE_COMPLETED, .uses_attempt = true};
    struct move_result result;
    struct store *store = open_at(s);
    put_committed(store, "before");

    assert_int_equal(begin(store, &err), 0);
    assert_int_equal(put(store, "refused", &err), 0);
    fill_memory(s);
    assert_int_equal(put(store, "refused too", &err), 0);
    assert_int_equal(store_ops(store)->commit(store, &err), REDRIVE_E_NOMEM);
    assert_non_null(strstr(err.hint, "maxmemory"));
    store_ops(store)->rollback(store);
    assert_int_equal(count_jobs(store), 1);

    /* What is there is worked off. */
    const struct start_move start = {.seq = 1, .token = 7, .lease_until_ms = INT64_MAX / 4};
    const struct settle_move settle = {.seq = 1, .token = 7, .decision = &DONE};
    assert_int_equal(begin(store, &err), 0);
    assert_int_equal(count_ready(store), 1);
    assert_int_equal(store_ops(store)->move(store, STARTS(&start, 1), &result, &err), 0);
    assert_int_equal(store_ops(store)->commit(store, &err), 0);
    assert_int_equal(begin(store, &err), 0);
    assert_int_equal(store_ops(store)->move(store, SETTLES(&settle, 1), &result, &err), 0);
    assert_int_equal(result.code, 0);
    assert_int_equal(store_ops(store)->commit(store, &err), 0);

    server_call(s, "CONFIG SET maxmemory 0");
    put_committed(store, "refused");
    assert_int_equal(store_ops(store)->verify(store, NULL, NULL, NULL), 0);
    store_close(store);
}

/* ---- Waking ---------------------------------------------------------------------------------- */

SERVER_TEST(a_commit_wakes_those_who_wait, NULL)
{
    int status;
    struct store *store = open_at(s);
    put_committed(store, "before");
    const pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        char parent[16];
        snprintf(parent, sizeof parent, "%d", (int)getppid());
        struct store *mine = open_at(s);
        while (!process_rests(parent)) /* until it waits */
            pass_ms(1);
        _exit(begin(mine, NULL) == 0 && put(mine, "x", NULL) == 0 &&
                      store_ops(mine)->commit(mine, NULL) == 0
                  ? 0
                  : 1);
    }
    /* Longer than the time that a test is given. */
    assert_int_equal(store_ops(store)->wait(store, 600000, NULL, NULL), 0);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    assert_int_equal(count_jobs(store), 2);
    store_close(store);
}

/* ---- Several at once ------------------------------------------------------------------------- */

#define PROCESSES 8
#define EACH      60

/* Submits a job, and takes two of whatever there is. */
static int submit_and_take(struct store *store, const char *id, uint64_t token,
                           struct job_page *page)
{
    const struct claim_filter filter = {.limit = 2};
    int rc = begin(store, NULL);
    if (rc == 0)
        rc = store_ops(store)->ready(store, &filter, page, NULL);
    for (size_t k = 0; rc == 0 && k < page->n; k++)
        rc = start(store, page->jobs[k].status.seq, token);
    if (rc == 0)
        rc = put(store, id, NULL);
    if (rc == 0)
        rc = store_ops(store)->commit(store, NULL);
    if (rc != 0)
        rollback(store);
    return rc;
}

/* What it has taken it tells. */
static void work(const struct server *s, int who, int fd)
{
    struct store *store = open_at(s);
    struct job_page page = {0};
    for (int i = 0; i < EACH; i++) {
        char id[32];
        int rc;
        snprintf(id, sizeof id, "%d-%d", who, i);
        do
            rc = submit_and_take(store, id, (uint64_t)who + 1, &page);
        while (rc == REDRIVE_E_CANCELLED);
        for (size_t k = 0; rc == 0 && k < page.n; k++)
            if (write(fd, &page.jobs[k].status.seq, sizeof(int64_t)) != sizeof(int64_t))
                rc = REDRIVE_E_IO;
        if (rc != 0)
            _exit(1);
    }
    job_page_release(&page);
    store_close(store);
    _exit(0);
}

SERVER_TEST(eight_processes_start_each_job_once, NULL)
{
    int fds[2], status;
    pid_t pids[PROCESSES];
    static unsigned char seen[100 * EACH];
    store_close(open_at(s));
    assert_int_equal(pipe(fds), 0);
    for (int i = 0; i < PROCESSES; i++) {
        pids[i] = fork();
        assert_true(pids[i] >= 0);
        if (pids[i] == 0)
            work(s, i, fds[1]);
    }
    close(fds[1]);
    int64_t seq;
    while (read(fds[0], &seq, sizeof seq) == sizeof seq) {
        assert_in_range(seq, 1, sizeof seen - 1);
        assert_int_equal(seen[seq]++, 0);
    }
    close(fds[0]);
    for (int i = 0; i < PROCESSES; i++) {
        assert_int_equal(waitpid(pids[i], &status, 0), pids[i]);
        assert_int_equal(status, 0);
    }
}

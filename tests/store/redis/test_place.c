/* The writer's place: what a server that dies, a replica that takes over and those who wait for
 * their turn know of it. */
#include "handles.h"
#include "kit.h"
#include "proxy.h"
#include "server.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"

/* Less than a lease lasts, and more than anything else takes. */
#define SOON_MS 2500

static long info_number(const struct server *s, const char *section, const char *name)
{
    const char *at = strstr(server_call(s, "INFO %s", section), name);
    return at ? strtol(at + strlen(name), NULL, 10) : -1;
}

static struct store *open_hasty(const struct server *s)
{
    const struct store_options options = {.busy_wait_ms = 30};
    struct store *store = NULL;
    assert_int_equal(store_open(s->url, &options, &store, NULL), 0);
    return store;
}

static void rollback(struct store *store)
{
    store_ops(store)->rollback(store);
}

/* ---- What is kept -------------------------------------------------------------------------------
 */

static void a_unit_that_commits_nothing_leaves_the_log_alone(void **state)
{
    (void)state;
    struct server s;
    server_start(&s, DURABLE);
    struct store *store = open_at(&s), *other = open_hasty(&s);
    put_committed(store, "before");
    const long bytes = info_number(&s, "persistence", "aof_current_size:");
    assert_true(bytes > 0);
    assert_int_equal(begin(store, NULL), 0);
    assert_int_equal(count_ready(store), 1);
    for (int i = 0; i < 3; i++)
        assert_int_equal(begin(other, NULL), REDRIVE_E_IO);
    rollback(store);
    assert_int_equal(count_jobs(store), 1);
    assert_int_equal(info_number(&s, "persistence", "aof_current_size:"), bytes);
    put_committed(store, "after");
    assert_true(info_number(&s, "persistence", "aof_current_size:") > bytes);
    store_close(store);
    store_close(other);
    server_stop(&s);
}

static void rewrite_log(const struct server *s)
{
    server_call(s, "BGREWRITEAOF");
    for (int i = 0; info_number(s, "persistence", "aof_rewrite_in_progress:") != 0 ||
                    info_number(s, "persistence", "aof_rewrite_scheduled:") != 0;
         i++) {
        assert_true(i < 1000);
        nap(10);
    }
}

/* A unit with a job that nobody is to see. */
static void begin_half(struct store *store, bool writes)
{
    assert_int_equal(begin(store, NULL), 0);
    assert_int_equal(put(store, "half", NULL), 0);
    if (writes)
        assert_int_equal(count_ready(store), 2);
}

/* The one whose unit it was is told so, though another's has its number. */
static void check_taken_up(const struct server *s, struct store *store, struct store *other)
{
    assert_int_equal(begin(other, NULL), 0);
    assert_string_equal(server_call(s, "EXISTS {redrive}:journal"), "0");
    assert_int_equal(put(other, "after", NULL), 0);
    assert_int_equal(store_ops(store)->commit(store, NULL), REDRIVE_E_CANCELLED);
    rollback(store);
    assert_int_equal(store_ops(other)->commit(other, NULL), 0);
    put_committed(store, "of the same handle");
    assert_int_equal(count_jobs(store), 3);
    assert_int_equal(store_ops(other)->verify(other, NULL, NULL, NULL), 0);
}

static void a_server_that_dies_in_mid_unit_knows_nothing_of_it(void **state)
{
    (void)state;
    for (int way = 0; way < 4; way++) {
        struct server s;
        server_start(&s, DURABLE);
        struct store *store = open_at(&s), *other = open_at(&s);
        put_committed(store, "before");
        begin_half(store, way & 1);
        if (way & 2)
            rewrite_log(&s);
        server_restart(&s);
        check_taken_up(&s, store, other);
        server_restart(&s);
        assert_int_equal(count_jobs(other), 3);
        store_close(store);
        store_close(other);
        server_stop(&s);
    }
}

static void wait_for_replica(const struct server *replica, const struct server *primary)
{
    for (int i = 0;; i++) {
        assert_true(i < 1000);
        const long offset = info_number(primary, "replication", "master_repl_offset:");
        if (strstr(server_call(replica, "INFO replication"), "master_link_status:up") &&
            info_number(replica, "replication", "slave_repl_offset:") >= offset)
            return;
        nap(10);
    }
}

static const char *const PRIMARY[] = {"--repl-diskless-sync-delay", "0", NULL};

/* The replica takes over with what it has: copied before the unit, or in the middle of it. */
static void a_replica_that_takes_over_in_mid_unit_knows_nothing_of_it(void **state)
{
    (void)state;
    for (int way = 0; way < 4; way++) {
        struct server primary, replica;
        struct proxy proxy;
        server_start(&primary, PRIMARY);
        server_start(&replica, NULL);
        proxy_start(&proxy, primary.port);
        struct server through = primary;
        snprintf(through.url, sizeof through.url, "redis://127.0.0.1:%d", proxy.port);
        struct store *store = open_at(&through), *other = open_at(&through);
        put_committed(store, "before");
        if (way & 2)
            begin_half(store, way & 1);
        server_call(&replica, "REPLICAOF 127.0.0.1 %d", primary.port);
        wait_for_replica(&replica, &primary);
        if (!(way & 2))
            begin_half(store, way & 1);
        wait_for_replica(&replica, &primary);
        server_kill(&primary);
        server_call(&replica, "REPLICAOF NO ONE");
        atomic_store(&proxy.to_port, replica.port);
        check_taken_up(&replica, store, other);
        store_close(store);
        store_close(other);
        proxy_stop(&proxy);
        server_stop(&replica);
        server_stop(&primary);
    }
}

static void fail_over(const struct server *from, const struct server *to)
{
    wait_for_replica(to, from);
    assert_string_equal(server_call(from, "FAILOVER TO 127.0.0.1 %d", to->port), "OK");
    for (int i = 0; !strstr(server_call(to, "INFO replication"), "role:master"); i++) {
        assert_true(i < 1000);
        nap(10);
    }
    wait_for_replica(from, to);
}

/* What was only noted nobody else has got: there the numbers of units were given out again. */
static void a_primary_that_comes_back_takes_no_new_unit_for_an_old_one(void **state)
{
    (void)state;
    struct server primary, replica;
    struct proxy proxy;
    server_start(&primary, PRIMARY);
    server_start(&replica, PRIMARY);
    server_call(&replica, "REPLICAOF 127.0.0.1 %d", primary.port);
    struct store *store = open_at(&primary);
    put_committed(store, "before");
    for (int i = 0; i < 5; i++) {
        assert_int_equal(begin(store, NULL), 0);
        rollback(store);
    }
    store_close(store);
    fail_over(&primary, &replica);
    store = open_at(&replica);
    put_committed(store, "meanwhile");
    store_close(store);
    fail_over(&replica, &primary);
    proxy_start(&proxy, primary.port);
    struct server through = primary;
    snprintf(through.url, sizeof through.url, "redis://127.0.0.1:%d", proxy.port);
    store = open_at(&through);
    assert_int_equal(begin(store, NULL), 0);
    assert_int_equal(put(store, "after", NULL), 0);
    atomic_store(&proxy.loses, true);
    assert_int_equal(store_ops(store)->commit(store, NULL), 0);
    assert_int_equal(count_jobs(store), 3);
    store_close(store);
    proxy_stop(&proxy);
    server_stop(&primary);
    server_stop(&replica);
}

/* ---- Turns --------------------------------------------------------------------------------------
 */

#define UNITS 40

struct writer {
    pthread_t thread;
    struct store *store;
    int who;
    bool failed;
};

static void *write_units(void *arg)
{
    struct writer *w = arg;
    for (int i = 0; i < UNITS && !w->failed; i++) {
        char id[32];
        snprintf(id, sizeof id, "%d-%d", w->who, i);
        w->failed = begin(w->store, NULL) != 0 || put(w->store, id, NULL) != 0;
        store_tell(w->store, 0);
        w->failed = w->failed || store_ops(w->store)->commit(w->store, NULL) != 0;
    }
    return NULL;
}

static void the_place_is_handed_to_the_next_who_waits(void **state)
{
    (void)state;
    struct server s;
    struct writer writers[3];
    server_start(&s, DURABLE);
    for (int i = 0; i < 3; i++)
        writers[i] = (struct writer){.store = open_at(&s), .who = i};
    for (int i = 0; i < 3; i++)
        assert_int_equal(pthread_create(&writers[i].thread, NULL, write_units, &writers[i]), 0);
    for (int i = 0; i < 3; i++) {
        pthread_join(writers[i].thread, NULL);
        assert_false(writers[i].failed);
    }
    assert_int_equal(count_jobs(writers[0].store), 3 * UNITS);
    /* Their units are news to nobody, so that nothing else was published. */
    assert_true(info_number(&s, "commandstats", "cmdstat_publish:calls=") > UNITS);
    assert_string_equal(server_call(&s, "EXISTS {redrive}:waiting {redrive}:seen {redrive}:turns"),
                        "0");
    assert_int_equal(store_ops(writers[0].store)->verify(writers[0].store, NULL, NULL, NULL), 0);
    for (int i = 0; i < 3; i++)
        store_close(writers[i].store);
    server_stop(&s);
}

static void check_soon_free(struct store *store, const char *id)
{
    const int64_t since_ms = clock_monotonic_ms();
    put_committed(store, id);
    assert_true(clock_monotonic_ms() - since_ms < SOON_MS);
}

static void one_who_has_given_up_waiting_is_not_given_the_place(void **state)
{
    (void)state;
    struct server s;
    server_start(&s, NULL);
    struct store *store = open_at(&s), *hasty = open_hasty(&s), *third = open_at(&s);
    assert_int_equal(begin(store, NULL), 0);
    /* From the second time on it listens. */
    for (int i = 0; i < 3; i++)
        assert_int_equal(begin(hasty, NULL), REDRIVE_E_IO);
    rollback(store);
    check_soon_free(third, "after");
    put_committed(hasty, "in the end");
    store_close(store);
    store_close(hasty);
    store_close(third);
    server_stop(&s);
}

/* It would take a place that it had been given at the last moment, and has left, for its next. */
static void one_who_has_given_up_waiting_no_longer_listens(void **state)
{
    (void)state;
    struct server s;
    server_start(&s, NULL);
    struct store *store = open_at(&s), *hasty = open_hasty(&s);
    assert_int_equal(begin(store, NULL), 0);
    for (int i = 0; i < 3; i++)
        assert_int_equal(begin(hasty, NULL), REDRIVE_E_IO);
    for (int i = 0; info_number(&s, "stats", "pubsub_channels:") != 0; i++) {
        assert_true(i < 1000);
        nap(5);
    }
    rollback(store);
    put_committed(hasty, "after");
    store_close(store);
    store_close(hasty);
    server_stop(&s);
}

static void one_who_is_killed_while_it_waits_holds_nobody_up(void **state)
{
    (void)state;
    struct server s;
    server_start(&s, NULL);
    struct store *store = open_at(&s), *third = open_at(&s);
    for (int i = 0; i < 5; i++) {
        assert_int_equal(begin(store, NULL), 0);
        const pid_t pid = fork();
        assert_true(pid >= 0);
        if (pid == 0) {
            struct store *hasty = open_hasty(&s);
            (void)begin(hasty, NULL);
            struct store *waits = open_at(&s);
            for (;;)
                if (begin(waits, NULL) == 0)
                    rollback(waits);
        }
        while (server_call(&s, "ZCARD {redrive}:waiting")[0] == '0')
            nap(1);
        nap(5 * i);
        kill(pid, SIGKILL);
        rollback(store);
        assert_int_equal(waitpid(pid, NULL, 0), pid);
        char id[8];
        snprintf(id, sizeof id, "%d", i);
        check_soon_free(third, id);
    }
    store_close(store);
    store_close(third);
    server_stop(&s);
}

/* What it has written must not come back with the next unit of the same handle. */
static void a_unit_whose_rollback_the_server_refuses_is_given_up_by_the_next(void **state)
{
    (void)state;
    struct server s;
    server_start(&s, NULL);
    struct store *store = open_at(&s);
    put_committed(store, "before");
    begin_half(store, true);
    server_call(&s, "FUNCTION FLUSH");
    rollback(store);
    check_soon_free(store, "after");
    assert_int_equal(count_jobs(store), 2);
    assert_int_equal(store_ops(store)->verify(store, NULL, NULL, NULL), 0);
    store_close(store);
    server_stop(&s);
}

/* Left from a server whose clock was ahead. */
static void one_who_was_seen_at_another_time_does_not_wait(void **state)
{
    (void)state;
    struct server s;
    server_start(&s, NULL);
    struct store *store = open_at(&s);
    server_call(&s, "ZADD {redrive}:waiting 1 ghost");
    server_call(&s, "HSET {redrive}:seen ghost %lld", (long long)clock_wall_ms() + 3600000);
    server_call(&s, "HSET {redrive}:turns ghost %s", "1");
    check_soon_free(store, "after");
    store_close(store);
    server_stop(&s);
}

/* ---- What is known of running jobs --------------------------------------------------------------
 */

static int cancel(struct store *store, int64_t seq)
{
    const struct change_move move = {.seq = seq, .kind = CHANGE_CANCEL};
    struct move_result result;
    const int rc = store_ops(store)->change(store, &move, 1, &result, NULL);
    return rc < 0 ? rc : result.code;
}

static long calls(const struct server *s)
{
    return info_number(s, "commandstats", "cmdstat_fcall:calls=");
}

static void what_a_handle_has_started_it_knows_until_others_meddle(void **state)
{
    (void)state;
    struct server s;
    server_start(&s, NULL);
    struct store *store = open_at(&s), *other = open_at(&s);
    for (int i = 1; i <= 4; i++) {
        put_committed(store, (char[]){(char)('a' + i), '\0'});
        start_committed(store, i, 7);
    }
    put_committed(other, "elsewhere");
    assert_int_equal(begin(store, NULL), 0);
    long before = calls(&s);
    assert_int_equal(settle(store, 1, 7), 0);
    assert_int_equal(calls(&s), before);
    rollback(store);
    put_committed(other, "elsewhere again");
    assert_int_equal(begin(store, NULL), 0);
    before = calls(&s);
    assert_int_equal(settle(store, 1, 7), 0);
    assert_int_equal(settle(store, 2, 7), 0);
    assert_int_equal(calls(&s), before);
    assert_int_equal(store_ops(store)->commit(store, NULL), 0);

    assert_int_equal(begin(other, NULL), 0);
    assert_int_equal(cancel(other, 3), 0);
    assert_int_equal(store_ops(other)->commit(other, NULL), 0);
    assert_int_equal(begin(store, NULL), 0);
    assert_int_equal(settle(store, 3, 7), REDRIVE_E_STATE);
    assert_int_equal(settle(store, 4, 7), 0);
    assert_int_equal(store_ops(store)->commit(store, NULL), 0);
    assert_int_equal(store_ops(other)->verify(other, NULL, NULL, NULL), 0);
    store_close(store);
    store_close(other);
    server_stop(&s);
}

/* On another server, on which the numbers of what was rolled back were given out again. */
static void what_others_meddle_with_after_a_fail_over_is_noticed(void **state)
{
    (void)state;
    struct server primary, replica;
    server_start(&primary, PRIMARY);
    server_start(&replica, PRIMARY);
    server_call(&replica, "REPLICAOF 127.0.0.1 %d", primary.port);
    struct store *store = open_at(&primary);
    put_committed(store, "a");
    start_committed(store, 1, 7);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(begin(store, NULL), 0);
        rollback(store);
    }
    fail_over(&primary, &replica);
    struct store *other = open_at(&replica);
    assert_int_equal(begin(other, NULL), 0);
    assert_int_equal(cancel(other, 1), 0);
    assert_int_equal(store_ops(other)->commit(other, NULL), 0);
    store_close(other);
    fail_over(&replica, &primary);
    other = open_at(&primary);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(begin(other, NULL), 0);
        rollback(other);
    }
    assert_int_equal(begin(store, NULL), 0);
    assert_int_equal(settle(store, 1, 7), REDRIVE_E_STATE);
    rollback(store);
    assert_int_equal(store_ops(other)->verify(other, NULL, NULL, NULL), 0);
    store_close(store);
    store_close(other);
    server_stop(&primary);
    server_stop(&replica);
}

/* Takes a job from whoever runs it, and starts it itself, in one unit. */
static void take_over(struct store *store, int64_t seq, uint64_t from, uint64_t to)
{
    static const struct decision AGAIN = {.state = REDRIVE_STATE_QUEUED, .uses_attempt = true};
    const struct settle_move end = {.seq = seq, .token = from, .decision = &AGAIN};
    const struct start_move start = {.seq = seq, .token = to, .lease_until_ms = INT64_MAX / 4};
    struct move_result result;
    assert_int_equal(begin(store, NULL), 0);
    assert_int_equal(store_ops(store)->settle(store, &end, 1, &result, NULL), 0);
    assert_int_equal(result.code, 0);
    assert_int_equal(store_ops(store)->start(store, &start, 1, &result, NULL), 0);
    assert_int_equal(result.code, 0);
}

static void to_start_again_what_runs_elsewhere_is_to_meddle(void **state)
{
    (void)state;
    struct server s;
    server_start(&s, NULL);
    struct store *store = open_at(&s), *other = open_at(&s);
    put_committed(store, "taken");
    put_committed(store, "almost taken");
    start_committed(store, 1, 7);
    start_committed(store, 2, 7);
    take_over(other, 1, 7, 8);
    assert_int_equal(store_ops(other)->commit(other, NULL), 0);
    take_over(other, 2, 7, 8);
    rollback(other);

    assert_int_equal(begin(store, NULL), 0);
    assert_int_equal(settle(store, 1, 7), REDRIVE_E_STATE);
    assert_int_equal(settle(store, 2, 7), 0);
    assert_int_equal(store_ops(store)->commit(store, NULL), 0);
    assert_int_equal(begin(other, NULL), 0);
    assert_int_equal(settle(other, 1, 8), 0);
    assert_int_equal(settle(other, 2, 7), REDRIVE_E_STATE);
    assert_int_equal(store_ops(other)->commit(other, NULL), 0);
    assert_int_equal(store_ops(other)->verify(other, NULL, NULL, NULL), 0);
    store_close(store);
    store_close(other);
    server_stop(&s);
}

/* A program that does not say whether it meddles may have. */
static void a_commit_that_says_nothing_may_have_meddled(void **state)
{
    (void)state;
    struct server s;
    server_start(&s, NULL);
    struct store *store = open_at(&s);
    put_committed(store, "a");
    start_committed(store, 1, 7);
    server_call(&s, "HINCRBY {redrive}:root commits 1");
    server_call(&s, "HINCRBY {redrive}:root unit 1");
    server_call(&s, "DEL {redrive}:j:0");
    assert_int_equal(begin(store, NULL), 0);
    assert_int_equal(settle(store, 1, 7), REDRIVE_E_NOT_FOUND);
    rollback(store);
    store_close(store);
    server_stop(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(a_unit_that_commits_nothing_leaves_the_log_alone),
        T(a_server_that_dies_in_mid_unit_knows_nothing_of_it),
        T(a_replica_that_takes_over_in_mid_unit_knows_nothing_of_it),
        T(a_primary_that_comes_back_takes_no_new_unit_for_an_old_one),
        T(the_place_is_handed_to_the_next_who_waits),
        T(one_who_has_given_up_waiting_is_not_given_the_place),
        T(one_who_has_given_up_waiting_no_longer_listens),
        T(one_who_is_killed_while_it_waits_holds_nobody_up),
        T(a_unit_whose_rollback_the_server_refuses_is_given_up_by_the_next),
        T(one_who_was_seen_at_another_time_does_not_wait),
        T(what_a_handle_has_started_it_knows_until_others_meddle),
        T(what_others_meddle_with_after_a_fail_over_is_noticed),
        T(to_start_again_what_runs_elsewhere_is_to_meddle),
        T(a_commit_that_says_nothing_may_have_meddled),
    };
    return cmocka_run_group_tests_name("redis place", tests, NULL, NULL);
}

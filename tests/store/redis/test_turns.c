/* Who waits for the writer's place, and whose turn it is. */
#include "handles.h"
#include "kit.h"
#include "server.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"

/* Less than a lease lasts, and more than anything else takes. */
#define SOON_MS 2500

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
    assert_true(server_number(&s, "commandstats", "cmdstat_publish:calls=") > UNITS);
    assert_string_equal(server_call(&s, "EXISTS {redrive}:waiting {redrive}:seen {redrive}:turns"),
                        "0");
    assert_int_equal(store_ops(writers[0].store)->verify(writers[0].store, NULL, NULL, NULL), 0);
    for (int i = 0; i < 3; i++)
        store_close(writers[i].store);
    server_stop(&s);
}

#define CROWD 24

/* Those who wait ask again now and then; all together hardly more often than the first of them, who
 * asks every 16 ms or so. If each did so, the server would have little time for anything else. */
static void a_crowd_that_waits_asks_seldom(void **state)
{
    (void)state;
    struct server s;
    struct writer crowd[CROWD];
    server_start(&s, NULL);
    struct store *holder = open_at(&s);
    for (int i = 0; i < CROWD; i++)
        crowd[i] = (struct writer){.store = open_at(&s), .who = i};
    assert_int_equal(begin(holder, NULL), 0);
    for (int i = 0; i < CROWD; i++)
        assert_int_equal(pthread_create(&crowd[i].thread, NULL, write_units, &crowd[i]), 0);
    while (strcmp(server_call(&s, "ZCARD {redrive}:waiting"), "24") != 0)
        nap(5);
    nap(100); /* by then all of them listen */
    const long before = server_number(&s, "commandstats", "cmdstat_fcall:calls=");
    nap(1000);
    const long asked = server_number(&s, "commandstats", "cmdstat_fcall:calls=") - before;
    rollback(holder);
    for (int i = 0; i < CROWD; i++) {
        pthread_join(crowd[i].thread, NULL);
        assert_false(crowd[i].failed);
        store_close(crowd[i].store);
    }
    assert_int_equal(count_jobs(holder), CROWD * UNITS);
    store_close(holder);
    server_stop(&s);
    assert_in_range(asked, 1, 1000);
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
    for (int i = 0; server_number(&s, "stats", "pubsub_channels:") != 0; i++) {
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

/* A process that waits for the place until it is stopped, and then says what becomes of its unit:
 * 3, it is told that it was given up. */
static void wait_in_child(const struct server *s)
{
    struct redrive_err err = {0};
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* even when it is stopped */
    struct store *store = open_at(s);
    if (begin(store, NULL) != 0)
        _exit(1);
    const int rc = put(store, "of the child", &err);
    rollback(store);
    put_committed(store, "of the child again");
    _exit(rc == REDRIVE_E_CANCELLED && err.code == rc ? 3 : 4);
}

/* A process that was stopped while it waited for the place of `store`, and then handed it. One that
 * was stopped for too long is not: then another is tried. */
static pid_t hand_to_one_who_is_stopped(const struct server *s, struct store *store)
{
    for (int i = 0;; i++) {
        assert_true(i < 100);
        assert_int_equal(begin(store, NULL), 0);
        const pid_t pid = fork();
        assert_true(pid >= 0);
        if (pid == 0)
            wait_in_child(s);
        while (server_call(s, "EXISTS {redrive}:turns")[0] == '0')
            nap(1);
        kill(pid, SIGSTOP);
        rollback(store);
        while (server_call(s, "EXISTS {redrive}:turns")[0] == '1')
            nap(1);
        if (server_call(s, "HGET {redrive}:root open")[0] == '1')
            return pid;
        kill(pid, SIGKILL);
        assert_int_equal(waitpid(pid, NULL, 0), pid);
    }
}

/* It has read nothing, and need not be waited for as long as one that has. */
static void one_who_is_stopped_when_it_is_handed_the_place_is_passed_over(void **state)
{
    (void)state;
    struct server s;
    int status;
    server_start(&s, NULL);
    struct store *store = open_at(&s), *third = open_at(&s);
    put_committed(store, "before");
    const pid_t pid = hand_to_one_who_is_stopped(&s, store);
    check_soon_free(third, "after");
    kill(pid, SIGCONT);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 3);
    assert_int_equal(count_jobs(store), 3);
    store_close(store);
    store_close(third);
    server_stop(&s);
}

/* Its end is an hour away, or it is one of a clock that was an hour ahead. */
static void a_lease_that_lasts_too_long_is_none(void **state)
{
    (void)state;
    struct server s;
    server_start(&s, NULL);
    struct store *store = open_at(&s), *other = open_at(&s);
    assert_int_equal(begin(store, NULL), 0);
    server_call(&s, "HSET {redrive}:root lease %lld", (long long)clock_wall_ms() + 3600000);
    check_soon_free(other, "after");
    assert_int_equal(store_ops(store)->commit(store, NULL), REDRIVE_E_CANCELLED);
    rollback(store);
    store_close(store);
    store_close(other);
    server_stop(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(the_place_is_handed_to_the_next_who_waits),
        T(a_crowd_that_waits_asks_seldom),
        T(one_who_has_given_up_waiting_is_not_given_the_place),
        T(one_who_has_given_up_waiting_no_longer_listens),
        T(one_who_is_killed_while_it_waits_holds_nobody_up),
        T(one_who_is_stopped_when_it_is_handed_the_place_is_passed_over),
        T(a_unit_whose_rollback_the_server_refuses_is_given_up_by_the_next),
        T(one_who_was_seen_at_another_time_does_not_wait),
        T(a_lease_that_lasts_too_long_is_none),
    };
    return cmocka_run_group_tests_name("redis turns", tests, NULL, NULL);
}

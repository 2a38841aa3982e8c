/* What an engine remembers of the jobs that it has started, as transactions end one way or the
 * other. */
#include "engine/running.h"

#include "check.h"

static struct job started(uint64_t token)
{
    return (struct job){.spec = {.tenant = STR("acme"), .id = STR("order-17")},
                        .status = {.seq = 17, .token = token}};
}

static void add(struct running *running, uint64_t token)
{
    const struct job job = started(token);
    running_add(running, &job);
}

TEST(a_job_is_known_from_the_commit_on)
{
    struct running running;
    running_init(&running, 1);
    add(&running, 5);
    assert_null(running_get(&running, 5));
    running_commit(&running);
    assert_non_null(running_get(&running, 5));
    assert_int_equal(running_get(&running, 5)->status.seq, 17);
    running_release(&running);
}

TEST(a_start_that_was_rolled_back_leaves_nothing)
{
    struct running running;
    running_init(&running, 1);
    for (uint64_t token = 1; token <= 100; token++) {
        add(&running, token);
        running_rollback(&running);
    }
    assert_int_equal(running.young.count + running.old.count, 0);
    add(&running, 101); /* a transaction that is open when the engine is closed */
    running_release(&running);
}

TEST(what_was_taken_comes_back_with_a_rollback)
{
    struct running running;
    running_init(&running, 1);
    add(&running, 5);
    running_commit(&running);
    assert_non_null(running_take(&running, 5));
    assert_null(running_take(&running, 5));
    running_rollback(&running);
    assert_non_null(running_take(&running, 5));
    running_commit(&running);
    assert_null(running_get(&running, 5));
    running_release(&running);
}

TEST(when_there_are_too_many_the_oldest_are_forgotten)
{
    struct running running;
    running_init(&running, 1);
    for (uint64_t token = 1; token <= RUNNING_MAX; token++) {
        add(&running, token);
        running_commit(&running);
    }
    assert_int_equal(running.young.count + running.old.count, RUNNING_MAX);
    add(&running, RUNNING_MAX + 1);
    running_commit(&running);
    assert_int_equal(running.young.count + running.old.count, RUNNING_MAX / 2 + 1);
    assert_null(running_get(&running, 1));
    assert_non_null(running_get(&running, RUNNING_MAX));
    assert_non_null(running_get(&running, RUNNING_MAX + 1));
    running_release(&running);
}

TEST(when_they_are_too_large_the_oldest_are_forgotten)
{
    static char key[1 << 20];
    struct running running;
    memset(key, 'k', sizeof key);
    running_init(&running, 1);
    for (uint64_t token = 1; token <= 2 * RUNNING_BYTES_MAX / sizeof key; token++) {
        struct job job = started(token);
        job.spec.limit_key = (struct str){key, sizeof key};
        running_add(&running, &job);
        running_commit(&running);
        if (token % 3 == 0)
            running_drop(&running, token);
        assert_true((running.young.count + running.old.count) * sizeof key <= RUNNING_BYTES_MAX);
    }
    assert_null(running_get(&running, 1));
    assert_non_null(running_get(&running, 2 * RUNNING_BYTES_MAX / sizeof key - 1));
    running_release(&running);
}

TEST(large_ones_that_are_settled_cost_the_others_nothing)
{
    static char key[1 << 20];
    struct running running;
    memset(key, 'k', sizeof key);
    running_init(&running, 1);
    add(&running, 1);
    running_commit(&running);
    for (uint64_t token = 2; token <= 2 * RUNNING_BYTES_MAX / sizeof key; token++) {
        struct job job = started(token);
        job.spec.limit_key = (struct str){key, sizeof key};
        running_add(&running, &job);
        running_commit(&running);
        assert_non_null(running_take(&running, token));
        running_commit(&running);
    }
    assert_non_null(running_get(&running, 1));
    running_release(&running);
}

TEST(what_nobody_settles_here_is_forgotten_in_time)
{
    struct running running;
    const int64_t start_ms = 1000000000;
    running_init(&running, 1);
    running_turn(&running, start_ms);
    add(&running, 5);
    add(&running, 6);
    running_commit(&running);
    running_turn(&running, start_ms + RUNNING_KEPT_MS - 1);
    running_turn(&running, start_ms + RUNNING_KEPT_MS);
    assert_non_null(running_get(&running, 5));
    assert_non_null(running_take(&running, 6)); /* settled, and the transaction is made again */
    running_rollback(&running);
    running_turn(&running, start_ms + RUNNING_KEPT_MS - 1); /* the clock of a server wavers */
    assert_non_null(running_get(&running, 5));
    running_turn(&running, start_ms + 2 * RUNNING_KEPT_MS);
    assert_null(running_get(&running, 5));
    assert_non_null(running_get(&running, 6));
    running_turn(&running, start_ms); /* the clock was set back */
    assert_int_equal(running.young.count + running.old.count, 0);
    running_release(&running);
}

/* Whether a transaction waits for operations that are about to come, on a clock of its own. */
#include "engine/waits/batch_wait.h"

#include "check.h"

#define FAR_US 4000 /* what a transaction takes here */

/* Callers of a store behind a network: two groups that take turns, as they are when it begins. Each
 * caller comes back so long after its answer. */
struct world {
    struct batch_wait wait;
    int64_t now_us;
    int64_t back_us;
    size_t n_waiting;
    size_t n_running;
};

/* One transaction of all that wait, with the wait before it. How many went along. */
static size_t transaction(struct world *w)
{
    const size_t enough = batch_wait_enough(&w->wait, w->now_us);
    if (enough > w->n_waiting) {
        const int64_t back_at_us = w->now_us + w->back_us;
        const bool in_time = back_at_us <= w->wait.until_us;
        if (in_time && w->n_waiting + w->n_running >= enough) {
            w->n_waiting += w->n_running;
            w->n_running = 0;
        }
        w->now_us = in_time ? back_at_us : w->wait.until_us;
    }
    if (enough > 0)
        batch_wait_learn(&w->wait, w->n_waiting);
    const size_t n = w->n_waiting;
    w->now_us += FAR_US;
    w->n_waiting = w->back_us < FAR_US ? w->n_running : 0;
    batch_wait_answered(&w->wait, w->n_waiting, n, FAR_US, w->now_us);
    w->n_running = n;
    return n;
}

TEST(groups_that_take_turns_become_one)
{
    struct world w = {.back_us = 200, .n_waiting = 22, .n_running = 18};
    size_t n = 0;
    for (int i = 0; i < 20; i++)
        n = transaction(&w);
    assert_int_equal(n, 40);
}

TEST(those_that_stay_away_are_not_waited_for)
{
    struct world w = {.back_us = 3000, .n_waiting = 20, .n_running = 20};
    const int64_t since_us = w.now_us;
    for (int i = 0; i < 160; i++)
        (void)transaction(&w);
    /* Tried once in sixteen times, for a quarter of a transaction at the most. */
    const int64_t waited_us = w.now_us - since_us - 160 * (int64_t)FAR_US;
    assert_in_range(waited_us, 0, 10 * FAR_US / 4);
}

TEST(a_store_nearby_is_not_waited_for)
{
    struct batch_wait l = {.n_back = 10};
    batch_wait_answered(&l, 1, 10, 100, 1000);
    assert_int_equal(batch_wait_enough(&l, 1000), 0);
    assert_int_equal(l.n_back, 0);
}

TEST(what_comes_long_after_begins_at_once)
{
    struct batch_wait l = {.n_back = 10};
    batch_wait_answered(&l, 0, 10, FAR_US, 1000);
    assert_int_equal(batch_wait_enough(&l, 1000), 10);
    assert_int_equal(batch_wait_enough(&l, 1000 + FAR_US), 0);
    assert_int_equal(l.n_back, 0); /* nor are these expected any more */
}

TEST(no_more_are_expected_than_were_answered)
{
    struct batch_wait l = {.n_back = 30};
    batch_wait_answered(&l, 2, 5, FAR_US, 1000);
    assert_int_equal(batch_wait_enough(&l, 1000), 7);
    assert_int_equal(batch_wait_enough(&l, 1000), 7);
    batch_wait_learn(&l, 1);
    assert_int_equal(batch_wait_enough(&l, 1000), 0);
}

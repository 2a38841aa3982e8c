/* The bounds of a server's time, against a server whose clock the test knows to the nanosecond. */
#include "check.h"

#include "base/rng.h"
#include "store/server_time.h"

#define NS_IN_MS INT64_C(1000000)
#define ROUNDS   20000

/* The server's clock, which may run faster or slower than ours, by the monotonic time. */
struct world {
    int64_t mono_ns;
    int64_t server_ns;
    int64_t ppm; /* how much faster it runs */
    struct server_time time;
};

static struct world world_at(int64_t ppm)
{
    return (struct world){
        .mono_ns = 5 * NS_IN_MS, .server_ns = INT64_C(1767225600000) * NS_IN_MS, .ppm = ppm};
}

static void pass(struct world *w, int64_t ns)
{
    w->mono_ns += ns;
    w->server_ns += ns + ns * w->ppm / 1000000;
}

/* A request whose clock is read after `there_ns`, and whose answer comes after `back_ns`. */
static void ask(struct world *w, int64_t there_ns, int64_t back_ns)
{
    const int64_t sent_ns = w->mono_ns;
    pass(w, there_ns);
    const int64_t answer_ms = w->server_ns / NS_IN_MS;
    pass(w, back_ns);
    server_time_hear(&w->time, answer_ms, sent_ns, w->mono_ns);
}

static void check_bounds(struct world *w)
{
    const struct store_time t = server_time_at(&w->time, w->mono_ns);
    assert_true(t.now_ms * NS_IN_MS <= w->server_ns);
    assert_true(t.latest_ms * NS_IN_MS >= w->server_ns);
}

TEST(the_servers_time_lies_between_the_bounds)
{
    const int64_t speeds[] = {0, 500, -500, 1000, -999};
    struct rng rng;
    rng_seed(&rng, 7);
    for (size_t s = 0; s < sizeof speeds / sizeof speeds[0]; s++) {
        struct world w = world_at(speeds[s]);
        for (int i = 0; i < ROUNDS; i++) {
            ask(&w, (int64_t)rng_below(&rng, 300 * NS_IN_MS), (int64_t)rng_below(&rng, NS_IN_MS));
            check_bounds(&w);
            ask(&w, (int64_t)rng_below(&rng, NS_IN_MS), (int64_t)rng_below(&rng, 300 * NS_IN_MS));
            pass(&w, (int64_t)rng_below(&rng, 1000 * NS_IN_MS));
            check_bounds(&w);
        }
    }
}

TEST(a_prompt_answer_leaves_little_open)
{
    struct world w = world_at(0);
    ask(&w, 0, 0);
    const struct store_time t = server_time_at(&w.time, w.mono_ns);
    assert_int_equal(t.latest_ms - t.now_ms, 1); /* the answer was cut to a millisecond */
    ask(&w, 40 * NS_IN_MS, 30 * NS_IN_MS);
    const struct store_time slow = server_time_at(&w.time, w.mono_ns);
    assert_in_range(slow.latest_ms - slow.now_ms, 70, 72);
}

TEST(time_never_goes_back_unless_the_servers_clock_was_set_back)
{
    struct world w = world_at(0);
    ask(&w, 0, 0);
    const int64_t first_ms = server_time_at(&w.time, w.mono_ns).now_ms;
    ask(&w, 0, 400 * NS_IN_MS);
    struct store_time t = server_time_at(&w.time, w.mono_ns);
    assert_int_equal(t.now_ms, first_ms); /* by this answer alone it would be as late */
    pass(&w, 10 * NS_IN_MS);
    const int64_t later_ms = server_time_at(&w.time, w.mono_ns).now_ms;
    w.server_ns -= 600 * NS_IN_MS;
    ask(&w, 0, 0);
    t = server_time_at(&w.time, w.mono_ns);
    assert_int_equal(t.now_ms, later_ms);
    assert_int_equal(t.latest_ms, later_ms); /* not earlier than the other bound */
    w.server_ns -= 3600000 * NS_IN_MS;
    ask(&w, 0, 0);
    assert_int_equal(server_time_at(&w.time, w.mono_ns).now_ms, w.server_ns / NS_IN_MS);
}

TEST(an_answer_that_tells_too_little_is_asked_for_again)
{
    struct world w = world_at(0);
    assert_int_equal(server_time_age_ms(&w.time, w.mono_ns), INT64_MAX);
    ask(&w, 900 * NS_IN_MS, 90 * NS_IN_MS);
    pass(&w, 3 * NS_IN_MS);
    assert_int_equal(server_time_age_ms(&w.time, w.mono_ns), 3);
    ask(&w, 900 * NS_IN_MS, 101 * NS_IN_MS);
    assert_int_equal(server_time_age_ms(&w.time, w.mono_ns), INT64_MAX);
    ask(&w, 0, 0);
    assert_int_equal(server_time_age_ms(&w.time, w.mono_ns), 0);
    server_time_forget(&w.time);
    assert_int_equal(server_time_age_ms(&w.time, w.mono_ns), INT64_MAX);
}

TEST(a_wait_counts_from_the_upper_bound)
{
    const struct store_time t = {1000, 1030};
    assert_int_equal(store_time_after(t, 500), 1530);
    assert_int_equal(store_time_after(t, 0), 1000); /* at once */
    assert_true(store_time_after(t, INT64_MAX) == INT64_MAX);
}

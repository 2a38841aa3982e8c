/* A million job lives in random worlds, every step held against the rules by the checker.
 *
 * REDRIVE_SIM_LIVES says how many lives (sanitizers want fewer), REDRIVE_SIM_SEED where the seeds
 * begin. A failure prints the seed of its world: with that seed and one life it happens again. */
#include "check.h"

#include <stdio.h>
#include <stdlib.h>

#include "core/state.h"

#include "checker.h"
#include "random_world.h"

static uint64_t from_environment(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);
    return text && *text ? strtoull(text, NULL, 10) : otherwise;
}

/* True when it went well; else everything there is to know has been printed. */
static bool live(struct checker *checker, uint64_t seed, uint64_t *lives)
{
    struct random_world world;
    struct sim_totals totals;
    struct redrive_err err = {0};

    random_world_init(&world, seed);
    checker_begin(checker, &world.policy, world.has_breaker ? &world.breaker : NULL);
    world.config.observe = checker_observe;
    world.config.observe_ctx = checker;
    int r = sim_run(&world.config, &totals, &err);
    if (r < 0)
        checker_violated(checker, 0, "%s after %llu events", err.message,
                         (unsigned long long)totals.events);
    checker_finish(checker, &totals);
    *lives += totals.submitted;
    if (checker->violation[0] == '\0')
        return true;
    print_error("REDRIVE_SIM_SEED=%llu REDRIVE_SIM_LIVES=1 shows it again\n",
                (unsigned long long)seed);
    checker_explain(checker, stderr);
    return false;
}

static void check_seen(uint64_t count, const char *kind, const char *what)
{
    if (count == 0)
        fail_msg("no life has shown %s %s", kind, what);
}

/* A retry that would begin after the deadline is not scheduled, so only one that is due in the
 * very millisecond of the deadline can still be cut off by it. Jobs that wait for others are the
 * affair of the engine: the simulated ones do not. */
static bool is_too_rare(int from, int to)
{
    return (from == REDRIVE_STATE_RETRYING && to == REDRIVE_STATE_FAILED) ||
           from == REDRIVE_STATE_WAITING || to == REDRIVE_STATE_WAITING;
}

/* A rule that was never put to the test has not been tested. */
static void check_coverage(const struct checker_seen *seen)
{
    for (int from = 0; from < REDRIVE_STATE_COUNT; from++)
        for (int to = 0; to < REDRIVE_STATE_COUNT; to++)
            if (checker_may_move((enum redrive_state)from, (enum redrive_state)to) &&
                !is_too_rare(from, to))
                check_seen(seen->moves[from][to], redrive_state_name((enum redrive_state)from),
                           redrive_state_name((enum redrive_state)to));
    /* Damage is a store's affair, and there is none here. */
    for (int i = 0; i < REDRIVE_REASON_DAMAGED; i++)
        check_seen(seen->reasons[i], "reason", redrive_reason_name((enum redrive_reason)i));
    for (int i = 0; i < REDRIVE_CLASS_COUNT; i++)
        check_seen(seen->classes[i], "class", redrive_class_name((enum redrive_class)i));
    for (int i = 0; i <= DELAY_SNOOZE; i++)
        check_seen(seen->whys[i], "delay", delay_why_name((enum delay_why)i));
    for (int i = 0; i <= ENDING_BREAKER_OPEN; i++)
        assert_true(seen->endings[i] > 0);

    enum redrive_breaker_state closed = REDRIVE_BREAKER_CLOSED;
    enum redrive_breaker_state open = REDRIVE_BREAKER_OPEN;
    enum redrive_breaker_state half_open = REDRIVE_BREAKER_HALF_OPEN;
    check_seen(seen->breaker[closed][open], "a breaker", "open");
    check_seen(seen->breaker[open][half_open], "a breaker", "half open");
    check_seen(seen->breaker[half_open][open], "a breaker", "open again");
    check_seen(seen->breaker[half_open][closed], "a breaker", "close");
    check_seen(seen->lapsed, "a probe", "lapse");
    check_seen(seen->judged_open, "probes together", "open again");
    check_seen(seen->judged_closed, "probes together", "close");
    check_seen(seen->slow, "slow calls", "open");
    check_seen(seen->rejected, "a submit", "rejected");
    check_seen(seen->last_attempts, "a", "last attempt");
}

TEST(no_life_breaks_a_rule)
{
    uint64_t wanted = from_environment("REDRIVE_SIM_LIVES", 1000000);
    uint64_t first = from_environment("REDRIVE_SIM_SEED", 1);
    uint64_t lives = 0;
    uint64_t worlds = 0;
    struct checker checker;

    checker_init(&checker);
    while (lives < wanted) {
        bool well = live(&checker, first + worlds++, &lives);
        if (!well)
            checker_release(&checker);
        assert_true(well);
    }
    print_message("# %llu lives in %llu worlds, %llu starts, %llu probes\n",
                  (unsigned long long)lives, (unsigned long long)worlds,
                  (unsigned long long)checker.seen.starts, (unsigned long long)checker.seen.probes);
    struct checker_seen seen = checker.seen;
    checker_release(&checker);
    if (wanted >= 50000)
        check_coverage(&seen);
}

TEST(the_written_moves_are_those_of_the_core)
{
    for (int from = 0; from < REDRIVE_STATE_COUNT; from++)
        for (int to = 0; to < REDRIVE_STATE_COUNT; to++)
            assert_int_equal(checker_may_move((enum redrive_state)from, (enum redrive_state)to),
                             state_may_become((enum redrive_state)from, (enum redrive_state)to));
}

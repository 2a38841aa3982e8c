/* What one process of many is told of what all have heard: on a store that tells what the test
 * says.
 */
#include "check.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "engine/watcher.h"
#include "waiting.h"

struct fake {
    struct store_base base;
    struct store_ops ops;
    atomic_uint notification; /* for the next wait */
    atomic_bool is_leader;
    atomic_bool has_ready;
    atomic_size_t claimers;
    atomic_int looks;
    atomic_int until;      /* after so many looks it waits for a notification */
    atomic_bool is_parked; /* it does, and has told all that came before */
    atomic_int claiming_looks;
    atomic_int given_back;
    atomic_bool fails;
};

struct told {
    struct fake fake;
    struct watcher *watcher;
    atomic_uint notification; /* all that was ever told, since it was taken */
    atomic_bool is_leader;
};

static struct fake *fake_of(struct store *store)
{
    return (struct fake *)(void *)store;
}

static int fake_wait(struct store *store, int64_t timeout_ms, uint32_t *ret_notification,
                     struct redrive_err *err)
{
    struct fake *fake = fake_of(store);
    (void)timeout_ms;
    (void)err;
    fake->is_parked = true;
    HOLD_UNTIL(fake->looks < fake->until || fake->notification != 0);
    fake->is_parked = false;
    *ret_notification = atomic_exchange(&fake->notification, 0);
    pass_ms(1);
    return 0;
}

static int fake_look(struct store *store, int64_t keep_ms, bool claims, struct store_election *ret,
                     struct redrive_err *err)
{
    struct fake *fake = fake_of(store);
    (void)err;
    fake->looks++;
    fake->claiming_looks += claims;
    fake->given_back += keep_ms == 0;
    *ret = (struct store_election){0};
    if (fake->fails)
        return REDRIVE_E_IO;
    *ret = (struct store_election){.is_leader = keep_ms > 0 && fake->is_leader,
                                   .claimers = fake->claimers,
                                   .has_ready = fake->has_ready};
    return 0;
}

static void fake_close(struct store *store)
{
    (void)store;
}

static void tell(void *ctx, uint32_t notification, bool is_leader)
{
    struct told *told = ctx;
    atomic_fetch_or(&told->notification, notification);
    told->is_leader = is_leader;
}

static void start(struct told *told, uint32_t capabilities)
{
    told->fake.ops = (struct store_ops){
        .capabilities = capabilities, .wait = fake_wait, .elect = fake_look, .close = fake_close};
    told->fake.base.ops = &told->fake.ops;
    const struct watcher_options options = {
        .store = (struct store *)(void *)&told->fake, .tell = tell, .ctx = told};
    assert_int_equal(watcher_start(&options, &told->watcher, NULL), 0);
}

static void stop(struct told *told)
{
    told->fake.until = INT32_MAX;
    watcher_stop(told->watcher);
}

/* Until `n` further looks have been made and what they have found was told. */
static void await_looks(struct told *told, int n)
{
    const int until = told->fake.looks + n;
    told->fake.until = until;
    WAIT_FOR(told->fake.looks >= until && told->fake.is_parked);
}

/* Until all that was said has been told, or not. */
static uint32_t say(struct told *told, uint32_t notification)
{
    told->notification = 0;
    told->fake.notification = notification;
    WAIT_FOR(told->fake.notification == 0 && told->fake.is_parked);
    return told->notification;
}

TEST(without_a_look_all_notifications_are_passed_on)
{
    struct told told = {.watcher = NULL};
    start(&told, STORE_NOTIFIES);
    assert_int_equal(say(&told, STORE_NOTIFY_TIME), STORE_NOTIFY_TIME);
    assert_int_equal(say(&told, STORE_NOTIFY_READY), STORE_NOTIFY_READY);
    assert_true(told.is_leader);
    assert_int_equal(told.fake.looks, 0);
    stop(&told);
}

TEST(only_the_leader_is_told_of_it)
{
    struct told told = {.watcher = NULL};
    start(&told, STORE_NOTIFIES | STORE_ELECTS);
    await_looks(&told, 1);
    assert_false(told.is_leader);
    assert_int_equal(say(&told, STORE_NOTIFY_TIME) & STORE_NOTIFY_TIME, 0);
    told.fake.is_leader = true;
    await_looks(&told, 1);
    assert_true(told.is_leader);
    assert_true(told.notification & STORE_NOTIFY_TIME);
    assert_true(say(&told, STORE_NOTIFY_TIME) & STORE_NOTIFY_TIME);
    stop(&told);
}

TEST(the_leader_is_told_once_a_second_at_the_least)
{
    struct told told = {.watcher = NULL};
    told.fake.is_leader = true;
    start(&told, STORE_NOTIFIES | STORE_ELECTS);
    await_looks(&told, 1);
    told.notification = 0;
    await_looks(&told, 1);
    assert_true(told.notification & STORE_NOTIFY_TIME);
    stop(&told);
}

TEST(one_that_fails_gives_time_back)
{
    struct told told = {.watcher = NULL};
    told.fake.is_leader = true;
    start(&told, STORE_NOTIFIES | STORE_ELECTS);
    await_looks(&told, 1);
    assert_true(told.is_leader);
    watcher_give_up_lead(told.watcher);
    await_looks(&told, 1);
    assert_int_equal(told.fake.given_back, 1);
    assert_false(told.is_leader);
    await_looks(&told, 1);
    assert_true(told.is_leader);
    stop(&told);
}

/* With so many a pause is a tenth of a second at most. */
TEST(many_claimers_look_before_they_claim)
{
    struct told told = {.watcher = NULL};
    told.fake.claimers = 50;
    start(&told, STORE_NOTIFIES | STORE_ELECTS);
    await_looks(&told, 1);
    watcher_claims(told.watcher);
    told.notification = 0;
    told.fake.notification = STORE_NOTIFY_READY;
    await_looks(&told, 1);
    assert_int_equal(told.notification & STORE_NOTIFY_READY, 0);
    told.fake.has_ready = true;
    told.fake.notification = STORE_NOTIFY_READY;
    await_looks(&told, 1);
    assert_true(told.notification & STORE_NOTIFY_READY);
    assert_true(told.fake.claiming_looks >= 2);
    stop(&told);
}

TEST(looking_for_jobs_all_the_time_leaves_time_for_the_rest)
{
    struct told told = {.watcher = NULL};
    told.fake.claimers = 10;
    told.fake.is_leader = true;
    start(&told, STORE_NOTIFIES | STORE_ELECTS);
    await_looks(&told, 1);
    watcher_claims(told.watcher);
    told.notification = 0;
    WAIT_RUNNING(told.notification & STORE_NOTIFY_TIME, told.fake.notification = STORE_NOTIFY_READY;
                 pass_ms(1));
    stop(&told);
}

TEST(one_that_cannot_look_looks_after_everything)
{
    struct told told = {.watcher = NULL};
    told.fake.fails = true;
    start(&told, STORE_NOTIFIES | STORE_ELECTS);
    await_looks(&told, 1);
    told.notification = 0;
    await_looks(&told, 1);
    assert_int_equal(told.notification, STORE_NOTIFY_TIME | STORE_NOTIFY_READY);
    stop(&told);
}

TEST(two_claimers_follow_at_once)
{
    struct told told = {.watcher = NULL};
    told.fake.claimers = 2;
    start(&told, STORE_NOTIFIES | STORE_ELECTS);
    await_looks(&told, 1);
    watcher_claims(told.watcher);
    assert_true(say(&told, STORE_NOTIFY_READY) & STORE_NOTIFY_READY);
    stop(&told);
}

TEST(one_that_does_not_claim_follows_at_once)
{
    struct told told = {.watcher = NULL};
    told.fake.claimers = 1000;
    start(&told, STORE_NOTIFIES | STORE_ELECTS);
    await_looks(&told, 1);
    assert_true(say(&told, STORE_NOTIFY_READY) & STORE_NOTIFY_READY);
    stop(&told);
}

TEST(ready_jobs_are_found_without_a_notification_too)
{
    struct told told = {.watcher = NULL};
    told.fake.has_ready = true;
    start(&told, STORE_NOTIFIES | STORE_ELECTS);
    await_looks(&told, 1);
    assert_true(told.notification & STORE_NOTIFY_READY);
    stop(&told);
}

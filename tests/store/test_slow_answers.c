/* A server whose answers are late, or whose requests are: the test holds back what is sent and what
 * is received. The server runs on this machine, so that its clock is the test's. */
#include "kit.h"

#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/time/clock.h"
#include "waiting.h"

#define LATE_MS  200
#define DELAY_MS 1000

/* How long this thread's next bytes are held back; 0: not at all. Other tests of this program send
 * from several threads. */
static _Thread_local int64_t holds_sent_ms, holds_received_ms;

static void hold(int64_t *ms)
{
    pass_ms(*ms);
    *ms = 0;
}

/* In place of those of the C library, also for libpq, which looks for them in this program first.
 */
#define FOR_LIBRARIES __attribute__((visibility("default")))
FOR_LIBRARIES ssize_t send(int fd, const void *bytes, size_t n, int flags);
FOR_LIBRARIES ssize_t recv(int fd, void *bytes, size_t n, int flags);

ssize_t send(int fd, const void *bytes, size_t n, int flags)
{
    hold(&holds_sent_ms);
    return syscall(SYS_sendto, fd, bytes, n, flags, NULL, 0);
}

ssize_t recv(int fd, void *bytes, size_t n, int flags)
{
    const ssize_t got = syscall(SYS_recvfrom, fd, bytes, n, flags, NULL, NULL);
    if (got > 0)
        hold(&holds_received_ms);
    return got;
}

/* The kit's store by a handle that goes by the server's time. */
static void go_by_server_time(struct kit *kit)
{
    store_close(kit->store);
    kit->store = NULL;
    assert_int_equal(store_open(kit->url, &(struct store_options){0}, &kit->store, NULL), 0);
    PUT(kit, .priority = 0);
}

static struct store_time begin_and_tell_time(struct kit *k)
{
    int64_t now_ms, version;
    assert_int_equal(store_ops(k->store)->begin(k->store, 0, &now_ms, &version, NULL), 0);
    k->in_transaction = true;
    return store_time_of(k->store, store_ops(k->store)->set_time(k->store, 0));
}

/* A commit whose answer, or whose request, is late. */
static void commit_slowly(struct kit *k, int64_t *held_ms)
{
    PUT(k, .priority = 0);
    (void)begin_and_tell_time(k);
    PUT(k, .priority = 0);
    *held_ms = LATE_MS;
    kit_commit(k);
    assert_int_equal(*held_ms, 0); /* it was held back */
}

KIT_TEST(the_servers_time_is_within_the_bounds)
{
    int64_t *const held[] = {&holds_sent_ms, &holds_received_ms, &holds_sent_ms,
                             &holds_received_ms};
    go_by_server_time(k);
    for (size_t i = 0; i < sizeof held / sizeof held[0]; i++) {
        commit_slowly(k, held[i]);
        const int64_t before_ms = clock_wall_ms();
        const struct store_time time = begin_and_tell_time(k);
        const int64_t after_ms = clock_wall_ms();
        assert_true(time.now_ms <= after_ms);
        assert_true(time.latest_ms > before_ms); /* the clock may have shown nearly one more */
        assert_true(time.latest_ms - time.now_ms >= LATE_MS);
        kit_rollback(k);
    }
}

KIT_TEST(a_retry_after_a_late_answer_is_not_early)
{
    go_by_server_time(k);
    const int64_t seq = PUT(k, .id = STR("x"));
    const uint64_t token = kit_start(k, seq);
    commit_slowly(k, &holds_received_ms);
    const int64_t failed_ms = clock_wall_ms();
    (void)begin_and_tell_time(k);
    check_move(kit_settle(k, seq, token, decision_retrying(DELAY_MS)), 0, REDRIVE_STATE_RETRYING);
    kit_commit(k);
    assert_true(kit_job(k, seq)->status.process_after_ms >= failed_ms + DELAY_MS);
}

/* Claims the only job of a queue. */
static void claim_and_start(struct kit *k, const char *name, int64_t seq)
{
    struct job_page page = {0};
    const struct str queue = str_of(name);
    const struct claim_filter filter = {.queues = &queue, .n_queues = 1, .limit = 1};
    assert_int_equal(store_ops(k->store)->ready(k->store, &filter, &page, NULL), 0);
    assert_int_equal(page.n, 1);
    assert_int_equal(page.jobs[0].status.seq, seq);
    job_page_release(&page);
    (void)kit_start(k, seq);
    kit_commit(k);
}

/* The transaction has begun before the job was there. */
KIT_TEST(a_job_that_came_while_it_was_looked_for_has_not_started_before)
{
    struct kit other;
    go_by_server_time(k);
    kit_join(&other, k);
    go_by_server_time(&other);
    const struct store_time time = begin_and_tell_time(&other);
    pass_ms(LATE_MS);
    const int64_t seq = PUT(k, .queue = STR("its own")), now_ms = time.now_ms;
    assert_true(kit_job(k, seq)->status.process_after_ms >= now_ms + LATE_MS / 2);
    claim_and_start(&other, "its own", seq);
    const struct job_status *s = &kit_job(k, seq)->status;
    assert_int_equal(s->started_ms, s->process_after_ms);
    kit_close(&other);
}

KIT_TEST(a_ready_job_is_claimed_at_once_by_a_handle_that_knows_less)
{
    struct kit other;
    go_by_server_time(k);
    kit_join(&other, k);
    go_by_server_time(&other);
    commit_slowly(&other, &holds_received_ms);
    const int64_t seq = PUT(k, .queue = STR("its own"));
    assert_int_equal(kit_job(k, seq)->status.state, REDRIVE_STATE_QUEUED);
    const int64_t claimed_ms = clock_wall_ms();
    assert_true(kit_job(k, seq)->status.process_after_ms <= claimed_ms);
    const struct store_time time = begin_and_tell_time(&other);
    claim_and_start(&other, "its own", seq);
    /* What it writes down is not before the job's time. */
    const struct job_status *s = &kit_job(k, seq)->status;
    const bool knows_less = time.now_ms < s->process_after_ms;
    assert_int_equal(s->started_ms, knows_less ? s->process_after_ms : time.now_ms);
    kit_close(&other);
}

/* A server whose answers are late, or whose requests are: the test holds back what is sent and what
 * is received. The server runs on this machine, so that its clock is the test's. */
#include "store_for_test.h"

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
FOR_LIBRARIES ssize_t sendmsg(int fd, const struct msghdr *message, int flags);
FOR_LIBRARIES ssize_t recv(int fd, void *bytes, size_t n, int flags);

ssize_t send(int fd, const void *bytes, size_t n, int flags)
{
    hold(&holds_sent_ms);
    return syscall(SYS_sendto, fd, bytes, n, flags, NULL, 0);
}

ssize_t sendmsg(int fd, const struct msghdr *message, int flags)
{
    hold(&holds_sent_ms);
    return syscall(SYS_sendmsg, fd, message, flags);
}

ssize_t recv(int fd, void *bytes, size_t n, int flags)
{
    const ssize_t got = syscall(SYS_recvfrom, fd, bytes, n, flags, NULL, NULL);
    if (got > 0)
        hold(&holds_received_ms);
    return got;
}

/* The test's store by a handle that goes by the server's time. */
static void go_by_server_time(struct test_store *ts)
{
    store_close(ts->store);
    ts->store = NULL;
    assert_int_equal(store_open(ts->url, &(struct store_options){0}, &ts->store, NULL), 0);
    PUT(ts, .priority = 0);
}

static struct store_time begin_and_tell_time(struct test_store *ts)
{
    int64_t now_ms, version;
    assert_int_equal(store_ops(ts->store)->begin(ts->store, 0, &now_ms, &version, NULL), 0);
    ts->in_transaction = true;
    return store_time_of(ts->store, store_ops(ts->store)->set_time(ts->store, 0));
}

/* A commit whose answer, or whose request, is late. */
static void commit_slowly(struct test_store *ts, int64_t *held_ms)
{
    PUT(ts, .priority = 0);
    (void)begin_and_tell_time(ts);
    PUT(ts, .priority = 0);
    *held_ms = LATE_MS;
    ts_commit(ts);
    assert_int_equal(*held_ms, 0); /* it was held back */
}

STORE_TEST(the_servers_time_is_within_the_bounds)
{
    int64_t *const held[] = {&holds_sent_ms, &holds_received_ms, &holds_sent_ms,
                             &holds_received_ms};
    go_by_server_time(ts);
    for (size_t i = 0; i < sizeof held / sizeof held[0]; i++) {
        commit_slowly(ts, held[i]);
        const int64_t before_ms = clock_wall_ms();
        const struct store_time time = begin_and_tell_time(ts);
        const int64_t after_ms = clock_wall_ms();
        assert_true(time.now_ms <= after_ms);
        assert_true(time.latest_ms > before_ms); /* the clock may have shown nearly one more */
        assert_true(time.latest_ms - time.now_ms >= LATE_MS);
        ts_rollback(ts);
    }
}

STORE_TEST(a_retry_after_a_late_answer_is_not_early)
{
    go_by_server_time(ts);
    const int64_t seq = PUT(ts, .id = STR("x"));
    const uint64_t token = ts_start(ts, seq);
    commit_slowly(ts, &holds_received_ms);
    const int64_t failed_ms = clock_wall_ms();
    (void)begin_and_tell_time(ts);
    check_move(ts_settle(ts, seq, token, decision_retrying(DELAY_MS)), 0, REDRIVE_STATE_RETRYING);
    ts_commit(ts);
    assert_true(ts_job(ts, seq)->status.process_after_ms >= failed_ms + DELAY_MS);
}

/* Claims the only job of a queue. */
static void claim_and_start(struct test_store *ts, const char *name, int64_t seq)
{
    struct job_page page = {0};
    const struct str queue = str_of(name);
    const struct claim_filter filter = {.queues = &queue, .n_queues = 1, .limit = 1};
    assert_int_equal(store_ops(ts->store)->ready(ts->store, &filter, &page, NULL), 0);
    assert_int_equal(page.n, 1);
    assert_int_equal(page.jobs[0].status.seq, seq);
    job_page_release(&page);
    (void)ts_start(ts, seq);
    ts_commit(ts);
}

/* The transaction has begun before the job was there. */
STORE_TEST(a_job_that_came_while_it_was_looked_for_has_not_started_before)
{
    struct test_store other;
    go_by_server_time(ts);
    ts_join(&other, ts);
    go_by_server_time(&other);
    const struct store_time time = begin_and_tell_time(&other);
    pass_ms(LATE_MS);
    const int64_t seq = PUT(ts, .queue = STR("its own")), now_ms = time.now_ms;
    assert_true(ts_job(ts, seq)->status.process_after_ms >= now_ms + LATE_MS / 2);
    claim_and_start(&other, "its own", seq);
    const struct job_status *s = &ts_job(ts, seq)->status;
    assert_int_equal(s->started_ms, s->process_after_ms);
    ts_close(&other);
}

STORE_TEST(a_ready_job_is_claimed_at_once_by_a_handle_that_knows_less)
{
    struct test_store other;
    go_by_server_time(ts);
    ts_join(&other, ts);
    go_by_server_time(&other);
    commit_slowly(&other, &holds_received_ms);
    const int64_t seq = PUT(ts, .queue = STR("its own"));
    assert_int_equal(ts_job(ts, seq)->status.state, REDRIVE_STATE_QUEUED);
    const int64_t claimed_ms = clock_wall_ms();
    assert_true(ts_job(ts, seq)->status.process_after_ms <= claimed_ms);
    const struct store_time time = begin_and_tell_time(&other);
    claim_and_start(&other, "its own", seq);
    /* What it writes down is not before the job's time. */
    const struct job_status *s = &ts_job(ts, seq)->status;
    const bool knows_less = time.now_ms < s->process_after_ms;
    assert_int_equal(s->started_ms, knows_less ? s->process_after_ms : time.now_ms);
    ts_close(&other);
}

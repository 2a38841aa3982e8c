#include "check.h"

#include <semaphore.h>
#include <stdatomic.h>

#include "server/health_check.h"
#include "waiting.h"

static sem_t go_on; /* lets the read go on */
static atomic_bool is_answering;
static atomic_bool is_freeing; /* the free has been called */
static atomic_bool is_freed;   /* it has returned */
static atomic_bool was_freed_early;

static int64_t read_late(void *ctx)
{
    (void)ctx;
    while (sem_wait(&go_on) != 0)
        ;
    return 0;
}

/* Until the thread that frees waits for something, or has freed. */
static void answer_slowly(struct health_check_wait *wait, const struct health_check_facts *facts)
{
    (void)wait, (void)facts;
    is_answering = true;
    WAIT_FOR(is_freeing);
    WAIT_FOR_REST();
    was_freed_early = is_freed;
}

TEST(stop_waits_for_the_answer_that_a_timer_gives)
{
    struct health_check_wait wait = {.done = answer_slowly};
    struct store_status *store_status = store_status_new(NULL, false, 0);
    struct health_check *health_check;
    struct timers *timers;
    sem_init(&go_on, 0, 0);
    assert_non_null(store_status);
    assert_int_equal(timers_new(&timers, NULL), 0);
    assert_int_equal(
        health_check_new("memory:", timers, store_status, read_late, NULL, &health_check, NULL), 0);

    health_check_ask(health_check, &wait);
    WAIT_FOR(is_answering);
    sem_post(&go_on);
    is_freeing = true;
    health_check_free(health_check);
    is_freed = true;

    timers_free(timers);
    assert_false(was_freed_early);
    store_status_free(store_status);
    sem_destroy(&go_on);
}

#include "check.h"

#include <semaphore.h>
#include <stdatomic.h>
#include <time.h>

#include "server/health_check.h"

#define PATIENCE_S 30
#define GRACE_MS   200

static sem_t go_on;   /* lets the read go on */
static sem_t ringing; /* an answer has begun */
static atomic_bool is_freed;
static atomic_bool was_freed_early;

static int64_t read_late(void *ctx)
{
    (void)ctx;
    while (sem_wait(&go_on) != 0)
        ;
    return 0;
}

/* Takes its time, so that a stop that does not wait for it is over before. */
static void answer_slowly(struct health_check_wait *wait, const struct health_check_facts *facts)
{
    const struct timespec grace = {.tv_nsec = GRACE_MS * 1000000L};
    (void)wait, (void)facts;
    sem_post(&ringing);
    (void)nanosleep(&grace, NULL);
    was_freed_early = is_freed;
}

TEST(stop_waits_for_the_answer_that_a_timer_gives)
{
    struct health_check_wait wait = {.done = answer_slowly};
    struct store_status *store_status = store_status_new(NULL, false, 0);
    struct health_check *health_check;
    struct timers *timers;
    struct timespec end;
    sem_init(&go_on, 0, 0);
    sem_init(&ringing, 0, 0);
    assert_non_null(store_status);
    assert_int_equal(timers_new(&timers, NULL), 0);
    assert_int_equal(
        health_check_new("memory:", timers, store_status, read_late, NULL, &health_check, NULL), 0);

    health_check_ask(health_check, &wait);
    clock_gettime(CLOCK_REALTIME, &end);
    end.tv_sec += PATIENCE_S;
    assert_int_equal(sem_timedwait(&ringing, &end), 0);
    sem_post(&go_on);
    health_check_free(health_check);
    is_freed = true;

    timers_free(timers);
    assert_false(was_freed_early);
    store_status_free(store_status);
    sem_destroy(&go_on);
    sem_destroy(&ringing);
}

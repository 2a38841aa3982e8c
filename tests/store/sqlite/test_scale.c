/* What must not grow with the number of lines, or of jobs that nobody asked for. The limits are
 * many times what is needed, and a small part of what it took when each step looked at everything.
 */
#include <stdio.h>

#include "base/clock.h"
#include "kit.h"

static int setup(void **state)
{
    static struct kit kit;
    kit_open(&kit, "sqlite");
    *state = &kit;
    return 0;
}

static int teardown(void **state)
{
    kit_close(*state);
    return 0;
}

static void put_for_tenants(struct kit *k, int n)
{
    char name[16];
    kit_begin(k);
    for (int i = 0; i < n; i++) {
        (void)snprintf(name, sizeof name, "t%d", i);
        PUT(k, .tenant = str_of(name));
    }
    kit_commit(k);
}

static size_t drain(struct kit *k, size_t at_a_time)
{
    size_t drained = 0;
    for (;;) {
        kit_begin(k);
        struct job_page *page = READY(k, .limit = at_a_time);
        const size_t n = page->n;
        for (size_t i = 0; i < n; i++)
            kit_start(k, page->jobs[i].status.seq);
        kit_commit(k);
        drained += n;
        if (n == 0)
            return drained;
    }
}

static void a_claim_does_not_pay_for_the_tenants_that_it_leaves(void **state)
{
    struct kit *k = *state;
    put_for_tenants(k, 3000);
    int64_t start_ms = clock_monotonic_ms();
    assert_int_equal(drain(k, 8), 3000);
    assert_true(clock_monotonic_ms() - start_ms < 30000);
}

/* Every queue but the first has one job, which is due after all of the first's. */
static void a_look_at_the_queues_does_not_pay_for_their_jobs(void **state)
{
    struct kit *k = *state;
    char name[16];
    kit_begin(k);
    for (int i = 0; i < 30000; i++)
        PUT(k, .queue = STR("a"), .process_after_ms = k->now_ms + 1 + i);
    for (int i = 0; i < 500; i++) {
        (void)snprintf(name, sizeof name, "q%d", i);
        PUT(k, .queue = str_of(name), .process_after_ms = k->now_ms + 40000 + i);
    }
    kit_commit(k);
    int64_t start_ms = clock_monotonic_ms();
    struct queue_page *page = kit_queues(k, STR("acme"));
    assert_true(clock_monotonic_ms() - start_ms < 2000);
    assert_int_equal(page->n, 501);
    assert_int_equal(page->queues[0].next_due_ms, k->now_ms + 1);
    assert_int_equal(page->queues[1].next_due_ms, k->now_ms + 40000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_claim_does_not_pay_for_the_tenants_that_it_leaves, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(a_look_at_the_queues_does_not_pay_for_their_jobs, setup,
                                        teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

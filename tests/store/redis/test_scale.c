/* What must not grow with the number of jobs that were not asked for, in commands of the server. */
#include "handles.h"
#include "kit.h"
#include "server.h"

/* Commands that the functions have called so far which look at jobs or at indexes. */
static long looks(const struct server *s)
{
    static const char *const NAMES[] = {
        "cmdstat_hmget:calls=", "cmdstat_hkeys:calls=", "cmdstat_hget:calls=",
        "cmdstat_smembers:calls=", "cmdstat_zrange:calls="};
    long sum = 0;
    for (size_t i = 0; i < sizeof NAMES / sizeof NAMES[0]; i++) {
        const long calls = server_number(s, "commandstats", NAMES[i]);
        sum += calls > 0 ? calls : 0;
    }
    return sum;
}

static void a_list_of_a_small_tenant_does_not_pay_for_the_others(void **state)
{
    (void)state;
    struct server s;
    struct kit k = {.now_ms = KIT_START_MS};
    arena_init(&k.arena);
    server_start(&s, NULL);
    k.store = open_at(&s);
    kit_fill_tenants(&k, 20000); /* in 80 buckets */
    for (enum job_order order = ORDER_OLDEST; order <= ORDER_FINISHED; order++)
        for (int dead = 0; dead < 2; dead++) {
            const long before = looks(&s);
            const struct job_page *page =
                LIST(&k, .tenant = STR("small"), .order = order, .limit = 50,
                     .states = dead ? 1u << REDRIVE_STATE_DEAD_LETTER : 0);
            assert_int_equal(page->n, dead ? 3 : 12);
            assert_true(looks(&s) - before < 40);
        }
    kit_close(&k);
    server_stop(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_list_of_a_small_tenant_does_not_pay_for_the_others),
    };
    return cmocka_run_group_tests_name("redis scale", tests, NULL, NULL);
}

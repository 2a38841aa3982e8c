/* What must not grow with the number of jobs that were not asked for, in rows that the server
 * reads. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "kit.h"
#include "stores_postgres.h"

static const struct timespec PAUSE = {.tv_nsec = 10000000};

/* A sum over the tables of what all sessions which have ended have done. */
static long sum_of(const struct kit *kit, const char *columns)
{
    char text[32], sql[160];
    (void)snprintf(sql, sizeof sql,
                   "SELECT coalesce(sum(%s), 0) FROM pg_stat_user_tables "
                   "WHERE schemaname = 'redrive'",
                   columns);
    stores_postgres_sql(kit->url, sql, text, sizeof text);
    return strtol(text, NULL, 10);
}

/* Rows that were read, by index or not. */
static long rows_read(const struct kit *kit)
{
    return sum_of(kit, "seq_tup_read + idx_tup_fetch");
}

/* A list by a handle of its own, which is counted when it has closed; the count may come late. */
static long rows_of_list(struct kit *kit, const struct job_filter *filter, size_t expected)
{
    struct kit other;
    const long before = rows_read(kit);
    kit_join(&other, kit);
    assert_int_equal(kit_list(&other, filter)->n, expected);
    kit_close(&other);
    long read = 0;
    for (int tries = 0; tries < 1000 && read < (long)expected; tries++) {
        nanosleep(&PAUSE, NULL);
        read = rows_read(kit) - before;
    }
    return read;
}

static void a_list_of_a_small_tenant_does_not_pay_for_the_others(void **state)
{
    struct kit *k = *state;
    static const int OTHERS = 4000;
    struct kit filler;
    kit_join(&filler, k);
    kit_fill_tenants(&filler, OTHERS);
    kit_close(&filler);
    for (int tries = 0; tries < 1000 && sum_of(k, "n_tup_ins") < OTHERS; tries++)
        nanosleep(&PAUSE, NULL);
    for (enum job_order order = ORDER_OLDEST; order <= ORDER_FINISHED; order++)
        for (int dead = 0; dead < 2; dead++) {
            const struct job_filter filter = {.tenant = STR("small"),
                                              .order = order,
                                              .limit = 50,
                                              .states = dead ? 1u << REDRIVE_STATE_DEAD_LETTER : 0};
            const long read = rows_of_list(k, &filter, dead ? 3 : 12);
            assert_true(read >= (dead ? 3 : 12));
            assert_true(read < OTHERS / 4);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        F(a_list_of_a_small_tenant_does_not_pay_for_the_others),
    };
    return cmocka_run_group_tests_name("postgres scale", tests, NULL, NULL);
}

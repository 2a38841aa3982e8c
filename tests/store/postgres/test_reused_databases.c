/* A test finds the database of an earlier one empty, and seldom waits for a new one
 * (reused_databases.h). */
#include <stdlib.h>

#include "store_for_test.h"
#include "stores_postgres.h"

#define EMPTIED                                                                         \
    "FROM pg_class WHERE relnamespace = 'redrive'::regnamespace AND relkind = 'r' AND " \
    "relname NOT IN ('meta', 'shared_version', 'states', 'classes', 'reasons')"

/* Its number: a database that is made again gets another one. */
static long number_of(const char *url)
{
    char number[32];
    stores_postgres_sql(url, "SELECT oid FROM pg_database WHERE datname = current_database()",
                        number, sizeof number);
    return strtol(number, NULL, 10);
}

static long rows_of_all_tables(const char *url)
{
    char rows[32];
    stores_postgres_sql(url,
                        "SELECT sum((xpath('/row/n/text()', query_to_xml('SELECT count(*) AS n "
                        "FROM ' || oid::regclass, "
                        "false, true, '')))[1]::text::int) " EMPTIED,
                        rows, sizeof rows);
    return strtol(rows, NULL, 10);
}

/* Jobs of two tenants, with payloads of 400 bytes. */
static void check_empty_again(int jobs)
{
    struct test_store ts;
    char payload[400], url[STORES_URL_MAX], again[STORES_URL_MAX];
    memset(payload, 'x', sizeof payload);
    payload[0] = payload[sizeof payload - 1] = '"';
    ts_open(&ts, "postgres");
    snprintf(url, sizeof url, "%s", ts.url);
    const long number = number_of(url), rows = rows_of_all_tables(url);
    for (int i = 0; i < jobs; i++)
        PUT(&ts, .tenant = i % 2 ? STR("acme") : STR("hooli"),
            .payload = {payload, sizeof payload});
    assert_in_range(rows_of_all_tables(url), rows + jobs, rows + 100 * jobs);
    ts_close(&ts);

    stores_postgres_empty(again, sizeof again);
    assert_string_equal(again, url);
    assert_int_equal(number_of(again), number);
    assert_int_equal(rows_of_all_tables(again), 0);
    stores_postgres_remove(again);
}

TEST(database_with_a_few_rows_is_emptied_and_used_again)
{
    check_empty_again(4);
}

TEST(database_with_many_rows_is_emptied_and_used_again)
{
    check_empty_again(400);
}

TEST(database_with_other_tables_is_made_anew)
{
    char url[STORES_URL_MAX];
    stores_postgres_empty(url, sizeof url);
    const long number = number_of(url);
    stores_postgres_sql(url, "ALTER TABLE redrive.edges ADD COLUMN strange integer", NULL, 0);
    stores_postgres_remove(url);

    stores_postgres_empty(url, sizeof url);
    assert_int_not_equal(number_of(url), number);
    stores_postgres_remove(url);
}

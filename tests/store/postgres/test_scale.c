/* What must not grow with the number of jobs that were not asked for, in rows that the server
 * reads. */
#include <stdio.h>
#include <stdlib.h>

#include "store_for_test.h"
#include "small_pages.h"
#include "stores_postgres.h"
#include "waiting.h"

/* Those of clients, without the one that asks. */
#define COUNT_SESSIONS                                                              \
    "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND " \
    "backend_type = 'client backend' AND pid <> pg_backend_pid()"

/* A session hands in what it has counted before it is gone: waits until only `n_open` are left.
 * Before version 15 a process collects the counts, and tells them again after half a second. */
static void wait_for_counts(const struct test_store *ts, long n_open)
{
    char text[32];
    WAIT_FOR((stores_postgres_sql(ts->url, COUNT_SESSIONS, text, sizeof text),
              strtol(text, NULL, 10) == n_open));
    stores_postgres_sql(ts->url, "SHOW server_version_num", text, sizeof text);
    if (strtol(text, NULL, 10) < 150000)
        pass_ms(5000);
}

/* A sum over the tables of what all sessions which have ended have done. */
static long sum_of(const struct test_store *ts, const char *columns)
{
    char text[32], sql[160];
    (void)snprintf(sql, sizeof sql,
                   "SELECT coalesce(sum(%s), 0) FROM pg_stat_user_tables "
                   "WHERE schemaname = 'redrive'",
                   columns);
    stores_postgres_sql(ts->url, sql, text, sizeof text);
    return strtol(text, NULL, 10);
}

/* Rows that were read, by index or not. */
static long rows_read(const struct test_store *ts)
{
    return sum_of(ts, "seq_tup_read + idx_tup_fetch");
}

/* A list by a handle of its own, which is counted when it has closed. */
static long rows_of_list(struct test_store *ts, const struct job_filter *filter, size_t expected)
{
    struct test_store other;
    wait_for_counts(ts, 1);
    const long before = rows_read(ts);
    ts_join(&other, ts);
    assert_int_equal(ts_list(&other, filter)->n, expected);
    ts_close(&other);
    wait_for_counts(ts, 1);
    return rows_read(ts) - before;
}

#define NEW_STORE_TEST(test) TEST_WITH(test, ts_setup_new, ts_teardown, struct test_store *ts)

NEW_STORE_TEST(a_list_of_a_small_tenant_does_not_pay_for_the_others)
{
    static const int OTHERS = 4000;
    struct test_store filler;
    ts_join(&filler, ts);
    ts_fill_tenants(&filler, OTHERS);
    ts_close(&filler);
    for (enum job_order order = ORDER_OLDEST; order <= ORDER_FINISHED; order++)
        for (size_t i = 0; i < SMALL_PAGE_COUNT; i++) {
            const struct small_page *page = &SMALL_PAGES[i];
            struct job_filter filter = page->filter;
            filter.tenant = STR("small");
            filter.order = order;
            filter.limit = 50;
            const long read = rows_of_list(ts, &filter, page->expected);
            assert_true(read >= (long)page->expected);
            if (read >= OTHERS / 4)
                fail_msg("%s in order %d: %ld rows read", page->name, order, read);
        }
}

/* Each filter finds one job, the oldest, among many that it is not about. */
NEW_STORE_TEST(a_filter_does_not_pay_for_the_jobs_that_it_is_not_about)
{
    static const int OTHERS = 4000;
    put_rare_job(ts);
    struct test_store filler;
    ts_join(&filler, ts);
    ts_begin(&filler);
    for (int i = 0; i < OTHERS; i++)
        PUT(&filler, .user = i % 2 ? STR("bob") : (struct str){0});
    ts_commit(&filler);
    ts_close(&filler);
    for (size_t i = 0; i < RARE_FILTER_COUNT; i++)
        for (enum job_order order = ORDER_OLDEST; order <= ORDER_NEWEST; order++) {
            struct job_filter filter = RARE_FILTERS[i];
            filter.tenant = STR("acme");
            filter.order = order;
            filter.limit = 50;
            assert_true(rows_of_list(ts, &filter, 1) < OTHERS / 4);
        }
}

/* Many jobs that are to be retried, and as many dead letters, which ended for one reason, each of a
 * group of its own. */
#define PUT_FAILED                                                                                 \
    "INSERT INTO redrive.specs (seq, tenant_id, created_ms, max_attempts, unique_forever, id) "    \
    "SELECT 100000 + n, tenant_id, 0, 1, false, 'f' || n FROM redrive.partitions, "                \
    "generate_series(1, 8000) n; "                                                                 \
    "INSERT INTO redrive.history (seq, n, started_ms, ended_ms, delay_ms, next_ms, epoch, "        \
    "number, error_code, outcome, error_class, why, error_type, error_message) SELECT 100000 + "   \
    "n, "                                                                                          \
    "1, 1, 2, 0, 0, 1, 1, 0, 1, 6, '', 'IOError', 'no such bucket' FROM generate_series(1, 8000) " \
    "n; "                                                                                          \
    "INSERT INTO redrive.job_states (seq, process_after_ms, updated_ms, partition_id, priority, "  \
    "attempts, state, has_key, started_ms, first_started_ms, finished_ms, reason, error_class, "   \
    "history_n, error_n, fingerprint) SELECT 100000 + n, 1700000000000 + n * 7919 % 8000, 0, "     \
    "partition_id, 0, 1, CASE WHEN n > 4000 THEN 7 ELSE 1 END, false, 1, 1, CASE WHEN n > 4000 "   \
    "THEN n END, CASE WHEN n > 4000 THEN 2 END, 6, 1, 1, n FROM redrive.partitions, "              \
    "generate_series(1, 8000) n"

NEW_STORE_TEST(a_page_of_failed_jobs_does_not_pay_for_all_of_them)
{
    const uint32_t dead = 1u << REDRIVE_STATE_DEAD_LETTER;
    const struct {
        struct job_filter filter;
        size_t expected;
    } pages[] = {
        {{.states = 1u << REDRIVE_STATE_RETRYING}, 50},
        {{.states = 1u << REDRIVE_STATE_RETRYING, .is_few = true}, 50},
        {{.states = 1u << REDRIVE_STATE_SCHEDULED, .is_few = true}, 1},
        {{.reasons = 1u << REDRIVE_REASON_NOT_RETRIABLE, .states = dead, .is_few = true}, 50},
        {{.reasons = 1u << REDRIVE_REASON_EXHAUSTED | 1u << REDRIVE_REASON_POISON}, 0},
        {{.states = dead, .user = STR("ann"), .order = ORDER_FINISHED}, 0},
        {{.states = dead, .error_type = STR("KeyError"), .order = ORDER_FINISHED}, 0},
    };
    (void)PUT(ts, .user = STR("ann"), .process_after_ms = ts->now_ms + 1000);
    stores_postgres_sql(ts->url, PUT_FAILED, NULL, 0);
    for (size_t i = 0; i < sizeof pages / sizeof pages[0]; i++) {
        struct job_filter filter = pages[i].filter;
        filter.tenant = STR("acme");
        filter.limit = 50;
        if (filter.order != ORDER_FINISHED)
            filter.order = ORDER_NEWEST;
        const long read = rows_of_list(ts, &filter, pages[i].expected);
        if (read >= 1000)
            fail_msg("page %zu has read %ld rows", i, read);
    }
}

/* ---- Leases ---------------------------------------------------------------------------------- */

#define RUNNING    200
#define BEATS      10
#define ROUNDS_MAX 10

/* A sum over the jobs' table. */
static long jobs_sum(const struct test_store *ts, const char *columns)
{
    char text[32], sql[160];
    wait_for_counts(ts, 1);
    (void)snprintf(sql, sizeof sql,
                   "SELECT %s FROM pg_stat_user_tables WHERE relname = 'job_states'", columns);
    stores_postgres_sql(ts->url, sql, text, sizeof text);
    return strtol(text, NULL, 10);
}

static void renew_all(struct test_store *ts, const int64_t *seqs, const uint64_t *tokens,
                      int64_t until_ms)
{
    struct extend_move moves[RUNNING];
    struct move_result results[RUNNING];
    for (int i = 0; i < RUNNING; i++)
        moves[i] = (struct extend_move){seqs[i], tokens[i], until_ms};
    ts_begin(ts);
    assert_int_equal(store_ops(ts->store)->move(ts->store, EXTENDS(moves, RUNNING), results, NULL),
                     0);
    ts_commit(ts);
}

/* Lets all of them beat, and tells how many of these updates wrote no index. */
static long beat_hot(struct test_store *ts, const int64_t *seqs, const uint64_t *tokens, int round)
{
    struct test_store worker;
    const long done = jobs_sum(ts, "n_tup_upd"), hot = jobs_sum(ts, "n_tup_hot_upd");
    ts_join(&worker, ts);
    const int64_t until_ms = worker.now_ms + 30000 + (int64_t)round * BEATS * 10000;
    for (int beat = 1; beat <= BEATS; beat++)
        renew_all(&worker, seqs, tokens, until_ms + beat * 10000);
    assert_int_equal(ts_job(&worker, seqs[0])->status.lease_until_ms, until_ms + BEATS * 10000);
    ts_close(&worker);
    assert_int_equal(jobs_sum(ts, "n_tup_upd"), done + RUNNING * BEATS);
    return jobs_sum(ts, "n_tup_hot_upd") - hot;
}

/* Of an update that changes an indexed column none could be so. How many are depends on room in the
 * pages, which they get when no transaction that is older needs what they hold: on a server without
 * others all but the first. */
NEW_STORE_TEST(a_renewed_lease_writes_no_index)
{
    struct test_store worker;
    int64_t seqs[RUNNING];
    uint64_t tokens[RUNNING];
    ts_join(&worker, ts);
    for (int i = 0; i < RUNNING; i++)
        seqs[i] = PUT(&worker, .priority = 0);
    for (int i = 0; i < RUNNING; i++)
        tokens[i] = ts_start(&worker, seqs[i]);
    ts_close(&worker);
    assert_int_equal(jobs_sum(ts, "n_tup_upd"), RUNNING);
    long hot = 0;
    for (int round = 0; round < ROUNDS_MAX && hot < RUNNING * BEATS / 10; round++) {
        hot = beat_hot(ts, seqs, tokens, round);
        print_message("# HOT: %ld of %d heartbeats in round %d\n", hot, RUNNING * BEATS, round);
    }
    assert_true(hot >= RUNNING * BEATS / 10);
}

/* Jobs that run, as many as it takes, whose leases were to be looked at a second ago: every
 * hundredth has ended then, the others were renewed. */
#define PUT_RUNNING                                                                               \
    "INSERT INTO redrive.specs (seq, tenant_id, created_ms, max_attempts, unique_forever, id) "   \
    "SELECT 100000 + n, tenant_id, 0, 1, false, 'r' || n FROM redrive.partitions, "               \
    "generate_series(1, 10000) n; "                                                               \
    "INSERT INTO redrive.job_states (seq, process_after_ms, updated_ms, partition_id, priority, " \
    "attempts, state, has_key, started_ms, first_started_ms, token, lease_check_ms, "             \
    "lease_until_ms) SELECT 100000 + n, 0, 0, partition_id, 0, 1, 3, false, 1, 1, n, "            \
    "1700000000000 - 1000 + n % 100, CASE WHEN n % 100 = 0 THEN 1700000000000 - 1000 "            \
    "ELSE 1700000000000 + 30000 + n END FROM redrive.partitions, generate_series(1, 10000) n"

NEW_STORE_TEST(ended_leases_are_found_among_many_that_were_renewed)
{
    struct test_store looker;
    char text[32] = "";
    int64_t next_ms;
    PUT(ts, .id = STR("for the queue"));
    stores_postgres_sql(ts->url, PUT_RUNNING, NULL, 0);
    ts_join(&looker, ts);
    assert_int_equal(ts_expired(&looker, 40, &next_ms)->n, 40);
    assert_int_equal(ts_expired(&looker, 200, &next_ms)->n, 100);

    /* The looks have seen to it that what was renewed is not met again. */
    for (int tries = 0; tries < 1000 && strcmp(text, "0") != 0; tries++) {
        (void)ts_expired(&looker, 200, &next_ms);
        stores_postgres_sql(ts->url,
                            "SELECT count(*) FROM redrive.job_states WHERE state = 3 "
                            "AND lease_check_ms <= 1700000000000 AND lease_until_ms > "
                            "1700000000000",
                            text, sizeof text);
    }
    assert_string_equal(text, "0");
    ts_close(&looker);
    wait_for_counts(ts, 1);
    const long before = rows_read(ts);
    ts_join(&looker, ts);
    for (int i = 0; i < 10; i++)
        assert_int_equal(ts_expired(&looker, 200, &next_ms)->n, 100);
    ts_close(&looker);
    wait_for_counts(ts, 1);
    assert_in_range(rows_read(ts) - before, 10 * 100, 10 * 2500 - 1);
}

/* ---- Claims beside an old snapshot ----------------------------------------------------------- */

#define ROUNDS  200
#define A_ROUND 100
#define CLAIMS  50

static void work_through(struct test_store *ts, int rounds, size_t n)
{
    const struct store_ops *ops = store_ops(ts->store);
    struct decision done = decision_completed();
    struct start_move starts[A_ROUND];
    struct settle_move settles[A_ROUND];
    struct move_result results[A_ROUND];
    for (int round = 0; round < rounds; round++) {
        ts_begin(ts);
        const struct job_page *page = READY(ts, .limit = n);
        assert_int_equal(page->n, n);
        for (size_t i = 0; i < n; i++) {
            starts[i] =
                (struct start_move){page->jobs[i].status.seq, ++ts->next_token, ts->now_ms + 30000};
            settles[i] = (struct settle_move){
                .seq = starts[i].seq, .token = starts[i].token, .decision = &done};
        }
        assert_int_equal(ops->move(ts->store, STARTS(starts, n), results, NULL), 0);
        ts_commit(ts);
        ts_begin(ts);
        assert_int_equal(ops->move(ts->store, SETTLES(settles, n), results, NULL), 0);
        ts_commit(ts);
    }
}

static void put_jobs(struct test_store *ts, int n)
{
    struct job_spec specs[250];
    struct submit_result results[250];
    for (int done = 0; done < n; done += 250) {
        for (int i = 0; i < 250; i++)
            specs[i] = (struct job_spec){.tenant = STR("acme"),
                                         .id = str_of(arena_printf(&ts->arena, "s%d", done + i)),
                                         .task = STR("mail"),
                                         .queue = STR("main"),
                                         .payload = STR("{}"),
                                         .max_attempts = 1};
        ts_begin(ts);
        assert_int_equal(
            store_ops(ts->store)->submit(ts->store, specs, 250, results, &ts->arena, NULL), 0);
        ts_commit(ts);
    }
}

/* Entries of the index of queued jobs that were passed, whether a job was behind them or not. */
static long entries_read(const struct test_store *ts)
{
    char text[32];
    stores_postgres_sql(ts->url,
                        "SELECT idx_tup_read FROM pg_stat_user_indexes "
                        "WHERE indexrelname = 'jobs_ready'",
                        text, sizeof text);
    return strtol(text, NULL, 10);
}

NEW_STORE_TEST(claims_beside_an_old_snapshot_do_not_pass_all_that_was_done)
{
    struct test_store worker;
    struct redrive_err err = {0};
    put_jobs(ts, ROUNDS * A_ROUND + 2000);
    void *old = stores_postgres_hold_snapshot(ts->url);
    ts_join(&worker, ts);
    work_through(&worker, ROUNDS, A_ROUND);
    ts_close(&worker);
    wait_for_counts(ts, 2);
    const long before = entries_read(ts);
    ts_join(&worker, ts);
    work_through(&worker, CLAIMS, 10);
    ts_close(&worker);
    wait_for_counts(ts, 2);
    const long read = entries_read(ts) - before;
    assert_true(read >= CLAIMS * 10);
    print_message("# %ld entries a claim\n", read / CLAIMS);
    assert_true(read / CLAIMS < ROUNDS * A_ROUND / 3);
    stores_postgres_let_go(old);
    assert_int_equal(store_ops(ts->store)->verify(ts->store, NULL, NULL, &err), 0);
}

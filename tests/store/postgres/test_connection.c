/* Opening, and connections that break. */
#include <signal.h>
#include <stdio.h>
#include <sys/time.h>

#include "store_for_test.h"
#include "stores_postgres.h"

static void sql(const struct test_store *ts, const char *text)
{
    stores_postgres_sql(ts->url, text, NULL, 0);
}

/* The URL of the test's database with another user, password or tail. */
static void url_with(const struct test_store *ts, const char *user, const char *tail,
                     char ret[STORES_URL_MAX])
{
    const char *at = strchr(ts->url, '@');
    snprintf(ret, STORES_URL_MAX, "postgres://%s%s%s", user, at, tail);
}

static int open_at(const char *url, bool create, struct redrive_err *err)
{
    struct store *store = NULL;
    const struct store_options options = {.create = create, .busy_wait_ms = 50};
    int rc = store_open(url, &options, &store, err);
    store_close(store);
    return rc;
}

/* -- Opening -- */

STORE_TEST(both_names_of_the_scheme_are_known)
{
    char url[STORES_URL_MAX];
    snprintf(url, sizeof url, "postgresql%s", strchr(ts->url, ':'));
    assert_int_equal(open_at(url, false, NULL), 0);
}

TEST(what_is_no_url_is_refused_without_its_password)
{
    static const char *const URLS[] = {"postgres:redrive", "postgres://u:secret@[::1/db",
                                       "postgres://u:secret@h:port/db?nonsense=1",
                                       "postgres://u:secret@h/db?sslmode"};
    for (size_t i = 0; i < sizeof URLS / sizeof URLS[0]; i++) {
        struct redrive_err err = {0};
        assert_int_equal(open_at(URLS[i], true, &err), REDRIVE_E_INVALID);
        assert_non_null(strstr(err.hint, "postgres://USER@HOST:PORT/DATABASE"));
        assert_null(strstr(err.message, "secret"));
        assert_null(strstr(err.detail, "secret"));
        assert_null(strstr(err.hint, "secret"));
    }
}

TEST(a_server_that_is_not_there_is_named_without_the_password)
{
    struct redrive_err err = {0};
    assert_int_equal(open_at("postgres://u:secret@127.0.0.1:1/db?password=secret", true, &err),
                     REDRIVE_E_IO);
    assert_non_null(strstr(err.detail, "postgres://u:***@127.0.0.1:1/db"));
    assert_null(strstr(err.detail, "secret"));
    assert_true(err.hint[0] != '\0');
}

STORE_TEST(a_database_that_is_not_there_is_no_empty_store)
{
    struct redrive_err err = {0};
    char url[STORES_URL_MAX];
    url_with(ts, "redrive", "_no", url);
    assert_int_equal(open_at(url, false, &err), REDRIVE_E_STATE);
    assert_int_equal(open_at(url, true, &err), REDRIVE_E_STATE);
    assert_string_equal(err.message, "there is no such database on the server");
    assert_non_null(strstr(err.hint, "createdb"));
}

STORE_TEST(a_user_that_is_not_there_is_denied)
{
    struct redrive_err err = {0};
    char url[STORES_URL_MAX];
    url_with(ts, "stranger:secret", "", url);
    assert_int_equal(open_at(url, true, &err), REDRIVE_E_DENIED);
    assert_string_equal(err.message, "the server does not know this user");
    assert_null(strstr(err.detail, "secret"));
}

STORE_TEST(missing_rights_are_said_to_be_missing)
{
    struct redrive_err err = {0};
    char url[STORES_URL_MAX];
    sql(ts, "CREATE ROLE nobody LOGIN");
    url_with(ts, "nobody", "", url);
    assert_int_equal(open_at(url, false, &err), REDRIVE_E_DENIED);
    assert_string_equal(err.message, "this user may not do that");
    assert_non_null(strstr(err.hint, "docs/postgres.md"));
    sql(ts, "DROP SCHEMA redrive CASCADE");
    assert_int_equal(open_at(url, true, &err), REDRIVE_E_DENIED);
    sql(ts, "DROP ROLE nobody");
}

STORE_TEST(the_schema_of_a_newer_program_is_left_alone)
{
    struct redrive_err err = {0};
    struct store *look = NULL;
    struct store_facts facts;
    sql(ts, "UPDATE redrive.meta SET version = 4711");
    assert_int_equal(open_at(ts->url, true, &err), REDRIVE_E_STATE);
    assert_non_null(strstr(err.message, "4711"));
    assert_non_null(strstr(err.hint, "newer redrive"));
    assert_int_equal(store_open(ts->url, &(struct store_options){.as_is = true}, &look, NULL), 0);
    assert_int_equal(store_ops(look)->facts(look, &facts, NULL), 0);
    assert_int_equal(facts.version_found, 4711);
    assert_non_null(strstr(facts.server, "PostgreSQL"));
    store_close(look);
}

STORE_TEST(a_schema_of_somebody_else_is_left_alone)
{
    struct redrive_err err = {0};
    sql(ts,
        "DROP SCHEMA redrive CASCADE; CREATE SCHEMA redrive; CREATE TABLE redrive.mine (a int)");
    assert_int_equal(open_at(ts->url, true, &err), REDRIVE_E_STATE);
    assert_string_equal(err.message, "the schema redrive belongs to something else");
}

STORE_TEST(text_that_is_not_utf8_is_refused)
{
    struct redrive_err err = {0};
    char url[STORES_URL_MAX];
    sql(ts, "CREATE DATABASE latin ENCODING 'LATIN1' TEMPLATE template0 LOCALE 'C'");
    snprintf(url, sizeof url, "%.*s/latin", (int)(strrchr(ts->url, '/') - ts->url), ts->url);
    assert_int_equal(open_at(url, true, &err), REDRIVE_E_STATE);
    assert_non_null(strstr(err.detail, "LATIN1"));
    sql(ts, "DROP DATABASE latin");
}

/* The server of tests does not wait for the disk. */
STORE_TEST(durability_is_what_the_server_says)
{
    struct store_facts facts;
    assert_int_equal(store_base(ts->store)->durability, STORE_SURVIVES_PROCESS);
    assert_int_equal(store_ops(ts->store)->facts(ts->store, &facts, NULL), 0);
    assert_non_null(strstr(facts.loss, "fsync is off"));
}

static void ignore_alarm(int number)
{
    (void)number;
}

STORE_TEST(a_signal_does_not_look_like_a_server_that_is_gone)
{
    struct redrive_err err = {0};
    const struct sigaction ignore = {.sa_handler = ignore_alarm, .sa_flags = SA_RESTART};
    const struct itimerval often = {.it_interval = {.tv_usec = 100}, .it_value = {.tv_usec = 100}};
    struct sigaction before;
    int failed = 0;
    assert_int_equal(sigaction(SIGALRM, &ignore, &before), 0);
    assert_int_equal(setitimer(ITIMER_REAL, &often, NULL), 0);
    for (int i = 0; i < 20; i++)
        failed += open_at(ts->url, false, &err) != 0;
    assert_int_equal(setitimer(ITIMER_REAL, &(struct itimerval){0}, NULL), 0);
    assert_int_equal(sigaction(SIGALRM, &before, NULL), 0);
    assert_int_equal(failed, 0);
}

/* -- Connections that break -- */

STORE_TEST(a_transaction_whose_connection_breaks_has_not_happened_and_can_be_repeated)
{
    const struct store_ops *ops = store_ops(ts->store);
    struct job_spec spec = {
        .tenant = STR("acme"), .id = STR("x"), .queue = STR("q"), .task = STR("t")};
    struct submit_result result;
    struct redrive_err err = {0};
    int64_t now_ms, version;
    ts_begin(ts);
    PUT(ts, .id = STR("lost"));
    stores_postgres_kill_all(ts->url);
    assert_int_equal(ops->submit(ts->store, &spec, 1, &result, &ts->arena, &err),
                     REDRIVE_E_CANCELLED);
    assert_int_equal(ops->commit(ts->store, &err), REDRIVE_E_CANCELLED);
    ops->rollback(ts->store);
    ts->in_transaction = false;
    assert_int_equal(ops->begin(ts->store, ts->now_ms, &now_ms, &version, &err), 0);
    assert_int_equal(ops->submit(ts->store, &spec, 1, &result, &ts->arena, &err), 0);
    assert_int_equal(ops->commit(ts->store, &err), 0);
    check_seqs(LIST(ts, .limit = 10), result.seq);
}

STORE_TEST(a_commit_that_did_not_reach_the_server_can_be_repeated)
{
    struct redrive_err err = {0};
    PUT(ts, .id = STR("before"));
    for (int i = 0; i < 2; i++) {
        ts_begin(ts);
        PUT(ts, .id = STR("lost"));
        stores_postgres_kill_all(ts->url);
        assert_int_equal(store_ops(ts->store)->commit(ts->store, &err), REDRIVE_E_CANCELLED);
        assert_true(store_base(ts->store)->is_rolled_back);
        ts->in_transaction = false;
        assert_int_equal(LIST(ts, .limit = 10)->n, 1);
    }
}

STORE_TEST(the_outcome_is_unknown_while_the_server_cannot_be_asked)
{
    struct redrive_err err = {0};
    PUT(ts, .id = STR("before"));
    ts_begin(ts);
    PUT(ts, .id = STR("lost"));
    sql(ts, "UPDATE redrive.meta SET version = version + 4711");
    stores_postgres_kill_all(ts->url);
    assert_int_equal(store_ops(ts->store)->commit(ts->store, &err), REDRIVE_E_IO);
    assert_non_null(strstr(err.detail, "the outcome is unknown"));
    assert_false(store_base(ts->store)->is_rolled_back);
    ts->in_transaction = false;
    sql(ts, "UPDATE redrive.meta SET version = version - 4711");
    assert_int_equal(LIST(ts, .limit = 10)->n, 1);
    PUT(ts, .id = STR("after"));
}

STORE_TEST(a_new_connection_is_told_by_the_shared_version)
{
    ts_begin(ts);
    assert_true(ts->shared_version > 0);
    ts_rollback(ts);
    stores_postgres_kill_all(ts->url);
    for (int i = 0; i < 2; i++) {
        ts_begin(ts);
        assert_int_equal(ts->shared_version == STORE_VERSION_UNKNOWN, i == 0);
        ts_rollback(ts);
    }
}

static void check_markers(const struct test_store *ts, const char *expected)
{
    char text[64];
    stores_postgres_sql(ts->url, "SELECT count(*) FROM redrive.handles", text, sizeof text);
    assert_string_equal(text, expected);
}

STORE_TEST(markers_of_closed_and_of_dead_handles_are_removed)
{
    struct test_store other;
    PUT(ts, .id = STR("one"));
    PUT(ts, .id = STR("two"));
    check_markers(ts, "1");
    sql(ts, "INSERT INTO redrive.handles SELECT -n, 7, now() - interval '25 hours' "
            "FROM generate_series(1, 50) AS n; "
            "INSERT INTO redrive.handles VALUES (-51, 7, now() - interval '23 hours')");
    ts_join(&other, ts);
    PUT(&other, .id = STR("three"));
    check_markers(ts, "3");
    ts_close(&other);
    check_markers(ts, "2");
}

STORE_TEST(a_marker_that_was_removed_is_made_again)
{
    struct redrive_err err = {0};
    PUT(ts, .id = STR("one"));
    sql(ts, "DELETE FROM redrive.handles");
    ts_begin(ts);
    PUT(ts, .id = STR("two"));
    assert_int_equal(store_ops(ts->store)->commit(ts->store, &err), REDRIVE_E_CANCELLED);
    ts->in_transaction = false;
    PUT(ts, .id = STR("two"));
    assert_int_equal(LIST(ts, .limit = 10)->n, 2);
}

STORE_TEST(between_transactions_nobody_notices)
{
    int64_t seq = PUT(ts, .id = STR("x"));
    stores_postgres_kill_all(ts->url);
    ts_start(ts, seq);
    stores_postgres_kill_all(ts->url);
    assert_int_equal(ts_state(ts, seq), REDRIVE_STATE_RUNNING);
    stores_postgres_kill_all(ts->url);
    assert_int_equal(store_ops(ts->store)->wait(ts->store, 1, NULL, NULL), 0);
    stores_postgres_kill_all(ts->url);
    assert_int_equal(store_ops(ts->store)->wait(ts->store, 600000, NULL, NULL), 0);
}

STORE_TEST(a_newer_program_that_came_meanwhile_is_noticed)
{
    struct redrive_err err = {0};
    int64_t now_ms, version;
    sql(ts, "UPDATE redrive.meta SET version = 4711");
    stores_postgres_kill_all(ts->url);
    assert_int_equal(store_ops(ts->store)->begin(ts->store, 1, &now_ms, &version, &err),
                     REDRIVE_E_STATE);
}

STORE_TEST(reads_that_failed_leave_nothing_behind)
{
    struct job_page page = {0};
    const struct job_filter filter = {.id = STR("x"), .limit = 10};
    int64_t seq = PUT(ts, .id = STR("x"));
    sql(ts, "CREATE TABLE public.before AS SELECT version FROM redrive.meta; "
            "UPDATE redrive.meta SET version = 4711");
    stores_postgres_kill_all(ts->url);
    for (int i = 0; i < 50; i++)
        assert_int_equal(store_ops(ts->store)->list(ts->store, &filter, &page, NULL),
                         REDRIVE_E_STATE);
    job_page_release(&page);
    sql(ts, "UPDATE redrive.meta SET version = (SELECT version FROM public.before)");
    check_seqs(LIST(ts, .id = STR("x")), seq);
    ts_start(ts, seq);
}

/* ---- Sessions that are swapped beneath the connection ---------------------------------------- */

/* What a pool does that gives another session, or empties this one: nothing is prepared any more
 * once a row has come into the table. */
static void lose_statements(const struct test_store *ts, const char *table, const char *when)
{
    char text[512];
    sql(ts, "CREATE OR REPLACE FUNCTION public.lose() RETURNS trigger LANGUAGE plpgsql AS "
            "$$ BEGIN DEALLOCATE ALL; RETURN NULL; END $$");
    snprintf(text, sizeof text,
             "CREATE CONSTRAINT TRIGGER lose AFTER INSERT ON redrive.%s %s "
             "FOR EACH ROW EXECUTE FUNCTION public.lose()",
             table, when);
    sql(ts, text);
}

static void keep_statements(const struct test_store *ts, const char *table)
{
    char text[64];
    snprintf(text, sizeof text, "DROP TRIGGER lose ON redrive.%s", table);
    sql(ts, text);
}

#define AT_ONCE   "NOT DEFERRABLE"
#define AT_COMMIT "DEFERRABLE INITIALLY DEFERRED"

STORE_TEST(a_transaction_whose_session_is_swapped_has_not_happened_and_can_be_repeated)
{
    const struct store_ops *ops = store_ops(ts->store);
    const struct shared_row first = {.kind = SHARED_BREAKER, .key = STR("a"), .value = STR("1")};
    const struct shared_row second = {.kind = SHARED_BREAKER, .key = STR("b"), .value = STR("1")};
    const struct counter counter = {.tenant = STR("acme"), .name = STR("n"), .value = 1};
    struct move_result result;
    struct redrive_err err = {0};
    assert_int_equal(ts_shared_put(ts, &first), 0);
    lose_statements(ts, "counters", AT_ONCE);
    ts_begin(ts);
    assert_int_equal(ops->counters_add(ts->store, &counter, 1, NULL), 0);
    assert_int_equal(ops->shared_put(ts->store, &second, 1, &result, &err), REDRIVE_E_CANCELLED);
    assert_string_equal(err.message, "the pool in front of the server does not keep sessions");
    assert_non_null(strstr(err.hint, "pool_mode = session"));
    ts_rollback(ts);
    keep_statements(ts, "counters");
    ts_begin(ts);
    assert_int_equal(ops->counters_add(ts->store, &counter, 1, NULL), 0);
    assert_int_equal(ops->shared_put(ts->store, &second, 1, &result, NULL), 0);
    ts_commit(ts);
    assert_int_equal(ts_shared(ts, SHARED_BREAKER, (struct str){0})->n, 2);
}

STORE_TEST(a_commit_that_the_session_does_not_know_has_not_happened)
{
    PUT(ts, .id = STR("before"));
    lose_statements(ts, "count_deltas", AT_ONCE);
    ts_begin(ts);
    PUT(ts, .id = STR("x"));
    assert_int_equal(store_ops(ts->store)->commit(ts->store, NULL), REDRIVE_E_CANCELLED);
    ts->in_transaction = false;
    keep_statements(ts, "count_deltas");
    assert_int_equal(LIST(ts, .limit = 10)->n, 1);
    PUT(ts, .id = STR("x"));
    assert_int_equal(LIST(ts, .limit = 10)->n, 2);
}

STORE_TEST(a_session_that_is_swapped_between_transactions_is_left)
{
    PUT(ts, .id = STR("before"));
    lose_statements(ts, "count_deltas", AT_COMMIT);
    for (int i = 0; i < 3; i++) {
        const int64_t seq = PUT(ts, .priority = 0);
        assert_int_equal(ts_state(ts, seq), REDRIVE_STATE_QUEUED);
    }
    assert_int_equal(LIST(ts, .limit = 10)->n, 4);
}

/* As when a standby takes over that had not yet heard of everything. */
STORE_TEST(partitions_are_learnt_anew_from_a_server_that_lost_them)
{
    char answer[64];
    PUT(ts, .tenant = STR("default"), .task = STR("lost"));
    sql(ts, "TRUNCATE redrive.job_states, redrive.specs, redrive.count_deltas, redrive.partitions, "
            "redrive.tenants "
            "RESTART IDENTITY");
    sql(ts, "SELECT redrive.submit('other', '{}', id => 'a')");
    stores_postgres_kill_all(ts->url);
    PUT(ts, .tenant = STR("default"), .id = STR("b"), .task = STR("lost"));
    stores_postgres_sql(ts->url, "SELECT id, task_name FROM redrive.jobs_by_status ORDER BY id",
                        answer, sizeof answer);
    assert_string_equal(answer, "a|other\nb|lost");
    check_str(LIST(ts, .id = STR("a"))->jobs[0].spec.task, "other");
}

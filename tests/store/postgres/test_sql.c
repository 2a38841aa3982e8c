/* What applications and people do in SQL. */
#include <stdio.h>

#include <libpq-fe.h>

#include "base/time/clock.h"
#include "core/trace/context.h"
#include "store_for_test.h"
#include "store/postgres/private.h"
#include "stores_postgres.h"

#define ANSWER_MAX 1024

static void check_answer(const struct test_store *ts, const char *sql, const char *expected)
{
    char answer[ANSWER_MAX];
    stores_postgres_sql(ts->url, sql, answer, sizeof answer);
    assert_string_equal(answer, expected);
}

/* The message of the error that a statement must fail with. */
static void check_refused(const struct test_store *ts, const char *sql, const char *expected)
{
    char block[ANSWER_MAX];
    snprintf(block, sizeof block,
             "CREATE TEMP TABLE refusal (message text); DO $x$ BEGIN PERFORM %s; "
             "EXCEPTION WHEN OTHERS THEN INSERT INTO refusal VALUES (SQLERRM); END $x$; "
             "SELECT message FROM refusal",
             sql);
    check_answer(ts, block, expected);
}

/* ---- redrive.submit and redrive.cancel ------------------------------------------------------- */

STORE_TEST(a_job_of_a_transaction_is_there_when_it_commits)
{
    stores_postgres_sql(ts->url, "BEGIN; SELECT redrive.submit('mail', '{}', id => 'x'); ROLLBACK",
                        NULL, 0);
    assert_int_equal(LIST(ts, .limit = 10)->n, 0);
    assert_int_equal(ts_queues(ts, STR("default"))->n, 0);
    check_answer(ts, "SELECT redrive.submit('mail', '{}', id => 'x')", "x");
    const struct job_page *page = LIST(ts, .limit = 10);
    assert_int_equal(page->n, 1);
    const struct job *job = &page->jobs[0];
    const int64_t seq = job->status.seq;
    check_str(job->spec.tenant, "default");
    check_str(job->spec.queue, "default");
    check_str(job->spec.task, "mail");
    check_str(job->spec.payload, "{}");
    check_str(job->spec.breaker_key, "mail");
    assert_int_equal(job->spec.max_attempts, 6);
    assert_int_equal(job->status.state, REDRIVE_STATE_QUEUED);
    assert_int_equal(ts_queues(ts, STR("default"))->counts[0].by_state[REDRIVE_STATE_QUEUED], 1);
    check_seqs(READY(ts, .tenant = STR("default")), seq);
    assert_int_equal(store_ops(ts->store)->verify(ts->store, NULL, NULL, NULL), 0);
}

/* docs/postgres.md says what waits, and for how long. */
STORE_TEST(a_new_task_is_waited_for_until_its_transaction_ends)
{
    struct test_store *a = ts, b;
    struct submit_result result;
    const struct job_spec spec = {.tenant = STR("acme"),
                                  .id = STR("x"),
                                  .task = STR("new"),
                                  .queue = STR("main"),
                                  .payload = STR("{}")};
    ts_join(&b, a);
    PUT(a, .task = STR("known"));
    ts_begin(a);
    PUT(a, .task = STR("known"));
    PUT(a, .task = STR("new"));
    PUT(&b, .task = STR("known"));
    ts_begin(&b);
    assert_int_equal(store_ops(b.store)->submit(b.store, &spec, 1, &result, &b.arena, NULL),
                     REDRIVE_E_CANCELLED);
    ts_rollback(&b);
    ts_commit(a);
    PUT(&b, .task = STR("new"));
    ts_close(&b);
}

STORE_TEST(what_was_published_of_a_task_fills_the_job_in)
{
    const struct shared_row task = {
        .kind = SHARED_TASK,
        .tenant = STR("default"),
        .key = STR("mail"),
        .value = STR("{\"queue\":\"post\",\"payload\":\"required\",\"retry\":{\"max_retries\":2},"
                     "\"on\":{\"network\":{\"max_retries\":3},\"database\":{\"max_retries\":-1}},"
                     "\"breaker\":{\"key\":\"{service}:{payload.to.host}{payload.none}/{queue}\"},"
                     "\"limits\":{\"rate\":\"5/s\",\"per\":\"user\"}}")};
    assert_int_equal(ts_shared_put(ts, &task), 0);
    check_answer(ts,
                 "SELECT redrive.submit('mail', '{\"to\": {\"host\": \"a\\tb\"}}'::json, "
                 "service => 'smtp', user_name => 'eva', id => 'x')",
                 "x");
    const struct job *job = &LIST(ts, .limit = 1)->jobs[0];
    check_str(job->spec.queue, "post");
    check_str(job->spec.breaker_key, "smtp:a_b/post");
    check_str(job->spec.limit_key, "limit:user:mail:eva");
    check_str(job->spec.user, "eva");
    assert_int_equal(job->spec.max_attempts, 4);
    check_answer(ts, "SELECT redrive.submit('mail', '1', id => 'nobody', queue => 'own')",
                 "nobody");
    assert_int_equal(LIST(ts, .queue = STR("own"), .limit = 1)->jobs[0].spec.limit_key.len, 0);
    check_refused(ts, "redrive.submit('mail')", "the payload is missing");
    check_refused(ts, "redrive.submit('mail', 'null')", "the payload is missing");
    const struct shared_row budget = {
        .kind = SHARED_TASK,
        .tenant = STR("default"),
        .key = STR("call"),
        .value = STR("{\"limits\":{\"per\":\"task\",\"retry_budget\":{\"ratio\":0.1}}}")};
    assert_int_equal(ts_shared_put(ts, &budget), 0);
    check_answer(ts, "SELECT redrive.submit('call', id => 'y', queue => 'calls')", "y");
    check_str(LIST(ts, .queue = STR("calls"), .limit = 1)->jobs[0].spec.limit_key,
              "limit:task:call");
}

/* As the engine does: a number in a template is the name of a member, not an index. */
STORE_TEST(keys_are_filled_in_through_objects_only)
{
    const struct shared_row task = {
        .kind = SHARED_TASK,
        .tenant = STR("default"),
        .key = STR("mail"),
        .value = STR("{\"breaker\":{\"key\":\"{payload.to.0}/{payload.to.0.host}/{payload.n}\"}}")};
    assert_int_equal(ts_shared_put(ts, &task), 0);
    check_answer(ts, "SELECT redrive.submit('mail', '{\"to\": [\"a\"], \"n\": 1.50}', id => 'x')",
                 "x");
    check_str(LIST(ts, .limit = 1)->jobs[0].spec.breaker_key, "//1.50");
    check_answer(ts,
                 "SELECT redrive.submit('mail', '{\"to\": {\"0\": {\"host\": \"a\"}}, \"n\": "
                 "null}', id => 'y', queue => 'other')",
                 "y");
    check_str(LIST(ts, .queue = STR("other"), .limit = 1)->jobs[0].spec.breaker_key,
              "{\"host\": \"a\"}/a/");
}

/* The same arms, and the same text, as core/experiment/arm.h has them. */
STORE_TEST(a_job_gets_the_arm_that_its_id_has)
{
    const struct shared_row task = {
        .kind = SHARED_TASK,
        .tenant = STR("default"),
        .key = STR("mail"),
        .value = STR(
            "{\"retry\":{\"max_retries\":2},\"experiment\":{\"name\":\"patience\",\"arms\":{"
            "\"control\":{\"share\":0.2,\"retry\":{\"strategy\":\"fixed\",\"max_retries\":2}},"
            "\"slow\":{\"share\":0.3,\"retry\":{\"jitter\":{\"mode\":\"add\"},\"max_retries\":3,"
            "\"give_up_on\":[\"X\"]},\"on\":{\"network\":{\"max_retries\":8}}},"
            "\"last\":{\"share\":0.5,\"retry\":{\"max_retries\":4}}}}}")};
    static const struct {
        const char *id, *policy;
        int32_t max_attempts;
    } JOBS[] = {
        {"job-4", "{\"experiment\":\"patience/control\",\"strategy\":\"fixed\",\"max_retries\":2}",
         3},
        {"job-1",
         "{\"experiment\":\"patience/slow\",\"jitter\":{\"mode\":\"add\"},\"max_retries\":3,"
         "\"give_up_on\":[\"X\"],\"on\":{\"network\":{\"max_retries\":8}}}",
         9},
        {"job-5", "{\"experiment\":\"patience/last\",\"max_retries\":4}", 5},
    };
    assert_int_equal(ts_shared_put(ts, &task), 0);
    for (size_t i = 0; i < sizeof JOBS / sizeof JOBS[0]; i++) {
        char sql[128];
        (void)snprintf(sql, sizeof sql,
                       "SELECT redrive.submit('mail', id => '%s', queue => 'q%zu')", JOBS[i].id, i);
        check_answer(ts, sql, JOBS[i].id);
        (void)snprintf(sql, sizeof sql, "q%zu", i);
        const struct job *job = &LIST(ts, .queue = str_of(sql), .limit = 1)->jobs[0];
        check_str(job->spec.policy, JOBS[i].policy);
        assert_int_equal(job->spec.max_attempts, JOBS[i].max_attempts);
    }
    check_answer(ts, "SELECT redrive.submit('mail', id => 'job-5')", "job-5"); /* a repetition */
    check_answer(ts,
                 "SELECT string_agg(label || ' ' || n, ', ' ORDER BY label) FROM (SELECT label, "
                 "sum(value) AS n FROM redrive.counters WHERE name = 'arm_submitted' GROUP BY "
                 "label) AS counted",
                 "arm:patience/control 1, arm:patience/last 1, arm:patience/slow 1");
}

/* Such a character stands for a byte where the store has put it; U+10FF22 would be a quote. */
STORE_TEST(a_character_that_means_a_byte_comes_out_as_it_was)
{
    check_answer(ts,
                 "SELECT redrive.submit('mail', "
                 "'{\"name\":\"a\U0010ff22,\U0010ffff\u00e9\U0010feff\"}', id => 'x')",
                 "x");
    const struct job *job = &LIST(ts, .limit = 1)->jobs[0];
    check_str(job->spec.payload, "{\"name\":\"a\U0010ff22,\U0010ffff\u00e9\U0010feff\"}");
    check_refused(ts, "redrive.submit('mail\U0010ff22')", "task has a character from U+10FF00 on");
}

STORE_TEST(a_job_for_later_waits)
{
    check_answer(ts,
                 "SELECT redrive.submit('mail', '{\"b\":1}'::jsonb, id => 'x', priority => 7, "
                 "process_after => to_timestamp(4000000000), "
                 "deadline => to_timestamp(4000000001.5), tenant => 'acme')",
                 "x");
    const struct job *job = &LIST(ts, .limit = 1)->jobs[0];
    assert_int_equal(job->status.state, REDRIVE_STATE_SCHEDULED);
    assert_int_equal(job->status.process_after_ms, INT64_C(4000000000000));
    assert_int_equal(job->spec.deadline_ms, INT64_C(4000000001500));
    assert_int_equal(job->spec.priority, 7);
    check_str(job->spec.payload, "{\"b\": 1}");
}

STORE_TEST(ids_and_keys_are_those_of_the_store)
{
    PUT(ts, .tenant = STR("default"), .id = STR("mine"), .unique_key = STR("k"));
    check_answer(ts,
                 "SELECT redrive.submit('mail', '{}', unique_key => 'k'), "
                 "redrive.submit('mail', '{}', id => 'mine')",
                 "mine|mine");
    assert_int_equal(LIST(ts, .limit = 10)->n, 1);
    check_answer(
        ts,
        "SELECT count(DISTINCT id), bool_and(id ~ '^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-"
        "[89ab][0-9a-f]{3}-[0-9a-f]{12}$') FROM (SELECT redrive.submit('mail', '{}') AS id "
        "FROM generate_series(1, 50)) x",
        "50|t");
    struct submit_result second =
        TRY_PUT(ts, .tenant = STR("default"), .id = STR("other"), .unique_key = STR("k"));
    assert_int_equal(second.code, REDRIVE_E_EXISTS);
}

STORE_TEST(submit_job_says_whether_the_job_was_there)
{
    check_answer(ts, "SELECT * FROM redrive.submit_job('mail', '{}', id => 'x')", "x|queued|f");
    check_answer(ts, "SELECT * FROM redrive.submit_job('mail', '{}', id => 'x')", "x|queued|t");
    check_answer(ts,
                 "SELECT * FROM redrive.submit_job('mail', '{}', id => 'y', unique_key => 'k', "
                 "process_after => to_timestamp(4000000000))",
                 "y|scheduled|f");
    check_answer(ts, "SELECT * FROM redrive.submit_job('mail', unique_key => 'k')",
                 "y|scheduled|t");
    assert_int_equal(LIST(ts, .limit = 10)->n, 2);
}

/* The same text as that of jobs which processes submit. */
STORE_TEST(a_job_of_a_transaction_keeps_its_traceparent)
{
    static const char *const TEXTS[] = {
        "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-fe",
        "42-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-03-more",
        "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-more",
        "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        "00-00000000000000000000000000000000-b7ad6b7169203331-01",
        "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
        "00-0AF7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        "x",
        "",
    };
    const struct shared_row task = {
        .kind = SHARED_TASK,
        .tenant = STR("default"),
        .key = STR("tried"),
        .value = STR("{\"experiment\":{\"name\":\"e\",\"arms\":{\"a\":{\"share\":1.0,"
                     "\"retry\":{\"max_retries\":2}}}}}")};
    const struct str arm = STR("{\"experiment\":\"e/a\",\"max_retries\":2}");
    assert_int_equal(ts_shared_put(ts, &task), 0);
    for (size_t i = 0; i < sizeof TEXTS / sizeof TEXTS[0]; i++) {
        for (int tried = 0; tried < 2; tried++) {
            char sql[256], id[16];
            snprintf(id, sizeof id, "%zu-%d", i, tried);
            snprintf(sql, sizeof sql,
                     "SELECT job_id FROM redrive.submit_job('%s', '{}', id => '%s', "
                     "traceparent => '%s')",
                     tried ? "tried" : "mail", id, TEXTS[i]);
            check_answer(ts, sql, id);
            const struct str policy = LIST(ts, .id = str_of(id), .limit = 1)->jobs[0].spec.policy;
            const struct str expected =
                trace_keep(str_of(TEXTS[i]), tried ? arm : (struct str){0}, &ts->arena);
            assert_true(str_eq(policy, expected));
            assert_int_equal(trace_kept(policy).len > 0, i < 3);
        }
    }
}

STORE_TEST(what_is_wrong_is_refused)
{
    check_refused(ts, "redrive.submit('')", "a job needs a task");
    check_refused(ts, "redrive.submit('t', '{}', priority => 101)",
                  "priority 101 is not between -100 and 100");
    check_refused(ts, "redrive.submit('t', '{')", "invalid input syntax for type json");
    check_refused(ts, "redrive.submit('t', '{}', id => repeat('x', 256))", "id is over 255 bytes");
    check_refused(ts, "redrive.submit(E't\\n', '{}')", "task has a control character");
    assert_int_equal(LIST(ts, .limit = 10)->n, 0);
}

STORE_TEST(a_cancel_in_sql_is_a_cancel)
{
    int64_t seqs[4];
    static const enum redrive_state STATES[] = {REDRIVE_STATE_SCHEDULED, REDRIVE_STATE_RETRYING,
                                                REDRIVE_STATE_QUEUED, REDRIVE_STATE_PARKED};
    for (int i = 0; i < 4; i++) {
        char id[8], key[8], sql[96];
        snprintf(id, sizeof id, "j%d", i);
        snprintf(key, sizeof key, "k%d", i);
        seqs[i] =
            ts_put_in(ts, STATES[i],
                      &(struct job_spec){
                          .id = str_of(id), .unique_key = str_of(key), .breaker_key = STR("b")});
        snprintf(sql, sizeof sql, "SELECT redrive.cancel('%s', tenant => 'acme')", id);
        check_answer(ts, sql, "cancelled");
        const struct job_status *s = &ts_job(ts, seqs[i])->status;
        assert_int_equal(s->state, REDRIVE_STATE_CANCELLED);
        assert_int_equal(s->token, 0);
        assert_int_equal(s->paused_since_ms, 0);
        assert_true(s->finished_ms > 0);
    }
    check_answer(ts,
                 "SELECT label, sum(value) FROM redrive.counters WHERE name = 'jobs_cancelled' "
                 "AND tenant = 'acme' GROUP BY 1 ORDER BY 1",
                 "|4\npartition:main/mail|4");
    assert_int_equal(ts_gates(ts, STR("acme"))->n, 0);
    PUT(ts, .unique_key = STR("k2"));
    check_answer(ts,
                 "SELECT redrive.cancel('j2', 'acme'), redrive.cancel('j2'), redrive.cancel('x')",
                 "cancelled|-|-");
    ts_put_in(ts, REDRIVE_STATE_COMPLETED, &(struct job_spec){.id = STR("done")});
    check_answer(ts, "SELECT redrive.cancel('done', 'acme')", "completed");
    assert_int_equal(store_ops(ts->store)->verify(ts->store, NULL, NULL, NULL), 0);
}

/* What it holds is the engine's to give back. */
STORE_TEST(a_cancel_of_a_running_job_is_asked_for)
{
    const int64_t seq = ts_put_in(ts, REDRIVE_STATE_RUNNING,
                                  &(struct job_spec){.id = STR("runs"), .limit_key = STR("l")});
    const struct job_status before = ts_job(ts, seq)->status;
    stores_postgres_sql(ts->url, "BEGIN; SELECT redrive.cancel('runs', 'acme'); ROLLBACK", NULL, 0);
    assert_int_equal(ts_shared(ts, SHARED_CANCEL, (struct str){0})->n, 0);
    check_answer(ts,
                 "SELECT redrive.cancel('runs', 'acme'), redrive.cancel('runs', 'acme'), "
                 "redrive.cancel('runs')",
                 "cancelling|cancelling|-");
    const struct shared_page *asked = ts_shared(ts, SHARED_CANCEL, (struct str){0});
    assert_int_equal(asked->n, 1);
    check_str(asked->rows[0].tenant, "acme");
    check_str(asked->rows[0].key, "runs");
    assert_int_equal(ts_state(ts, seq), REDRIVE_STATE_RUNNING);
    assert_int_equal(ts_job(ts, seq)->status.token, before.token);
    assert_int_equal(ts_job(ts, seq)->status.updated_ms, before.updated_ms);
    check_answer(ts, "SELECT status FROM redrive.jobs_by_status WHERE id = 'runs'", "running");
    check_answer(ts, "SELECT count(*) FROM redrive.tasks", "0");
    assert_int_equal(store_ops(ts->store)->verify(ts->store, NULL, NULL, NULL), 0);
}

/* A transaction that takes its time keeps nobody from settling the job. */
STORE_TEST(a_running_job_is_not_locked_by_its_cancel)
{
    const int64_t seq = PUT(ts, .tenant = STR("default"), .id = STR("runs"));
    const uint64_t token = ts_start(ts, seq);
    PGconn *app = PQconnectdb(ts->url);
    PQclear(PQexec(app, "BEGIN"));
    PQclear(PQexec(app, "SELECT redrive.cancel('runs')"));
    check_move(ts_extend(ts, seq, token, ts->now_ms + 90000), 0, REDRIVE_STATE_RUNNING);
    check_move(ts_settle(ts, seq, token, decision_completed()), 0, REDRIVE_STATE_COMPLETED);
    PQclear(PQexec(app, "COMMIT"));
    PQfinish(app);
    assert_int_equal(ts_shared(ts, SHARED_CANCEL, (struct str){0})->n, 1);
    check_answer(ts, "SELECT redrive.cancel('runs')", "completed");
}

/* A store as the first three scripts have set it up. */
STORE_TEST(an_older_schema_is_brought_up_to_date)
{
    store_close(ts->store);
    ts->store = NULL;
    stores_postgres_sql(ts->url, "DROP SCHEMA redrive CASCADE; CREATE SCHEMA redrive", NULL, 0);
    for (int i = 0; i < 3; i++)
        stores_postgres_sql(ts->url, POSTGRES_SCRIPTS[i], NULL, 0);
    stores_postgres_sql(
        ts->url,
        "UPDATE redrive.meta SET version = 3; CREATE ROLE canceller; "
        "GRANT USAGE ON SCHEMA redrive TO canceller; "
        "GRANT EXECUTE ON FUNCTION redrive.cancel(text, text), redrive.submit(text, "
        "text, text, integer, text, text, boolean, timestamptz, timestamptz, text, "
        "text, text, text) TO canceller; "
        "SELECT redrive.submit('mail', '{}', id => 'a'), "
        "redrive.submit('mail', '{}', id => 'b')",
        NULL, 0);
    struct store_facts facts;
    char newest[16];
    const struct store_options options = {.caller_time = true};
    snprintf(newest, sizeof newest, "%d", POSTGRES_SCRIPTS_COUNT);
    assert_int_equal(store_open(ts->url, &options, &ts->store, NULL), 0);
    assert_int_equal(store_ops(ts->store)->facts(ts->store, &facts, NULL), 0);
    assert_int_equal(facts.version_found, 3);
    assert_int_equal(facts.version_newest, POSTGRES_SCRIPTS_COUNT);
    ts_start(ts, LIST(ts, .id = STR("a"))->jobs[0].status.seq);
    check_answer(ts, "SET ROLE canceller; SELECT redrive.cancel('a'), redrive.cancel('b')",
                 "cancelling|cancelled");
    check_answer(ts, "SET ROLE canceller; SELECT * FROM redrive.submit_job('mail', id => 'c')",
                 "c|queued|f");
    stores_postgres_sql(ts->url, "DROP OWNED BY canceller; DROP ROLE canceller", NULL, 0);
    check_answer(ts, "SELECT version FROM redrive.meta", newest);
    check_answer(ts,
                 "SELECT has_function_privilege('public', 'redrive.cancel(text, text)', 'EXECUTE')",
                 "f");
}

STORE_TEST(a_limit_of_an_older_store_keeps_its_numbers)
{
    store_close(ts->store);
    ts->store = NULL;
    stores_postgres_sql(ts->url, "DROP SCHEMA redrive CASCADE; CREATE SCHEMA redrive", NULL, 0);
    for (int i = 0; i < 7; i++)
        stores_postgres_sql(ts->url, POSTGRES_SCRIPTS[i], NULL, 0);
    stores_postgres_sql(
        ts->url,
        "UPDATE redrive.meta SET version = 7; INSERT INTO redrive.shared (kind, version, tenant, "
        "key, value) VALUES (1, 3, 'acme', 'l', convert_to('{\"format\":3,\"has_parked\":true,"
        "\"candidates\":2,\"candidates_until_ms\":7,\"running\":4,\"concurrency\":5,"
        "\"rate_count\":6,\"rate_period_s\":60,\"rate_burst\":8,\"token_parts\":9,"
        "\"tokens_at_ms\":10}', 'UTF8')), (1, 1, 'acme', 'damaged', '{}')",
        NULL, 0);
    const struct store_options options = {.caller_time = true};
    assert_int_equal(store_open(ts->url, &options, &ts->store, NULL), 0);
    check_answer(ts,
                 "SELECT running, concurrency, starts, per_seconds, has_parked_jobs, candidates "
                 "FROM redrive.limits WHERE name = 'l'",
                 "4|5|6|60|t|2");
    const struct shared_row *row = &ts_shared(ts, SHARED_LIMIT, STR("acme"))->rows[1];
    check_str(row->value, "{\"format\":4,\"has_parked\":true,\"candidates_until_ms\":7,"
                          "\"concurrency\":5,\"rate_count\":6,\"rate_period_s\":60,"
                          "\"rate_burst\":8,\"token_parts\":9,\"tokens_at_ms\":10,"
                          "\"seems_empty\":false}");
    assert_int_equal(row->sums.used, 4);
    assert_int_equal(row->sums.sent, 2);
}

/* ---- Retry and purge ------------------------------------------------------------------------- */

STORE_TEST(a_retry_in_sql_is_what_the_store_does_by_itself)
{
    struct str key = STR("k");
    const int64_t dead = ts_put_in(ts, REDRIVE_STATE_DEAD_LETTER,
                                   &(struct job_spec){.id = STR("dead"), .unique_key = key});
    const int64_t waits =
        ts_put_in(ts, REDRIVE_STATE_RETRYING, &(struct job_spec){.id = STR("waits")});
    ts_put_in(ts, REDRIVE_STATE_COMPLETED, &(struct job_spec){.id = STR("done")});
    ts_put_in(ts, REDRIVE_STATE_RUNNING, &(struct job_spec){.id = STR("runs")});
    check_answer(ts,
                 "SELECT redrive.retry('dead', 'acme'), redrive.retry('waits', 'acme'), "
                 "redrive.retry('done', 'acme'), redrive.retry('runs', 'acme'), "
                 "redrive.retry('none', 'acme'), redrive.retry('dead')",
                 "queued|queued|completed|running|-|-");
    const struct job *job = ts_job(ts, dead);
    assert_int_equal(job->status.state, REDRIVE_STATE_QUEUED);
    assert_int_equal(job->status.epoch, 1);
    assert_int_equal(job->status.attempts, 0);
    assert_int_equal(job->status.finished_ms, 0);
    assert_int_equal(job->status.reason, REDRIVE_REASON_NONE);
    assert_int_equal(ts_job(ts, waits)->status.attempts, 1);
    assert_int_equal(ts_state(ts, waits), REDRIVE_STATE_QUEUED);
    check_answer(ts, "SELECT queued, retrying, dead_letter FROM redrive.job_counts", "2|0|0");
    /* The key is held again. */
    assert_int_equal(TRY_PUT(ts, .unique_key = key).code, REDRIVE_E_EXISTS);
    assert_int_equal(store_ops(ts->store)->verify(ts->store, NULL, NULL, NULL), 0);
}

STORE_TEST(a_retry_in_sql_is_refused_when_a_live_job_holds_the_key)
{
    ts_put_in(ts, REDRIVE_STATE_DEAD_LETTER,
              &(struct job_spec){.id = STR("dead"), .unique_key = STR("k")});
    PUT(ts, .unique_key = STR("k"));
    check_answer(ts,
                 "CREATE FUNCTION public.try() RETURNS text LANGUAGE plpgsql AS $$ BEGIN "
                 "RETURN redrive.retry('dead', 'acme'); EXCEPTION WHEN unique_violation THEN "
                 "RETURN sqlerrm; END $$; SELECT public.try()",
                 "a live job holds the unique key of job dead");
    check_answer(ts, "SELECT status FROM redrive.jobs WHERE id = 'dead'", "dead_letter");
}

STORE_TEST(a_purge_in_sql_removes_old_failures_of_a_tenant)
{
    ts_fill_views(ts);
    ts_put_in(ts, REDRIVE_STATE_DEAD_LETTER, &(struct job_spec){.tenant = STR("other")});
    ts->now_ms = clock_wall_ms() - 3600000;
    ts_put_in(ts, REDRIVE_STATE_DEAD_LETTER, &(struct job_spec){.id = STR("young")});
    check_answer(ts, "SELECT redrive.purge('1 day', 'acme')", "2");
    check_answer(ts, "SELECT job_id FROM redrive.failed_jobs WHERE tenant = 'acme'", "young");
    check_answer(ts, "SELECT count(*) FROM redrive.failed_jobs WHERE tenant = 'other'", "1");
    check_answer(ts, "SELECT redrive.purge('0 days', 'acme'), redrive.purge('0 days', 'acme')",
                 "1|0");
    assert_int_equal(store_ops(ts->store)->verify(ts->store, NULL, NULL, NULL), 0);
    check_answer(ts,
                 "CREATE FUNCTION public.try() RETURNS text LANGUAGE plpgsql AS $$ BEGIN "
                 "RETURN redrive.purge(NULL); EXCEPTION WHEN invalid_parameter_value THEN "
                 "RETURN sqlerrm; END $$; SELECT public.try()",
                 "purge needs an age");
}

/* ---- Rights ---------------------------------------------------------------------------------- */

/* Who may submit need not see anything else. */
STORE_TEST(a_role_that_may_submit_may_do_nothing_else)
{
    stores_postgres_sql(
        ts->url,
        "CREATE ROLE redrive_submit; GRANT USAGE ON SCHEMA redrive TO "
        "redrive_submit; GRANT EXECUTE ON FUNCTION redrive.submit(text, text, text, "
        "integer, text, text, boolean, timestamptz, timestamptz, text, text, text, "
        "text), redrive.cancel(text, text) TO redrive_submit",
        NULL, 0);
    check_answer(ts,
                 "SET ROLE redrive_submit; SELECT redrive.submit('mail', '{}', id => 'x'), "
                 "redrive.cancel('x')",
                 "x|cancelled");
    check_answer(
        ts,
        "SELECT has_table_privilege('redrive_submit', 'redrive.specs', 'SELECT'), "
        "has_table_privilege('redrive_submit', 'redrive.retry_queue', 'SELECT'), "
        "has_function_privilege('redrive_submit', 'redrive.partition_named(text, text, text)', "
        "'EXECUTE')",
        "f|f|f");
    stores_postgres_sql(ts->url, "DROP OWNED BY redrive_submit; DROP ROLE redrive_submit", NULL, 0);
}

/* Which tenants a role that logs in may change jobs of. Whoever has no rows may do so for all. */
STORE_TEST(a_role_that_has_tenants_changes_jobs_of_no_other)
{
    static const char *const CALLS[] = {
        "redrive.submit('mail', '{}', tenant => %s)",
        "redrive.submit('mail', '{}'::jsonb, tenant => %s)",
        "redrive.submit_job('mail', '{}', tenant => %s)",
        "redrive.cancel('x', tenant => %s)",
        "redrive.retry('x', tenant => %s)",
        "redrive.purge('1 day', tenant => %s)",
    };
    stores_postgres_sql(ts->url,
                        "CREATE ROLE redrive_acme; GRANT USAGE ON SCHEMA redrive TO redrive_acme; "
                        "GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA redrive TO redrive_acme; "
                        "INSERT INTO redrive.role_tenants VALUES ('redrive_acme', 'acme')",
                        NULL, 0);
    for (size_t i = 0; i < sizeof CALLS / sizeof CALLS[0]; i++) {
        static const char *const TENANTS[] = {"'other'", "'default'", "''", "NULL", "'acme'"};
        for (size_t j = 0; j < sizeof TENANTS / sizeof TENANTS[0]; j++) {
            const bool is_own = j == 4;
            char call[128], sql[512], expected[128];
            snprintf(call, sizeof call, CALLS[i], TENANTS[j]);
            snprintf(sql, sizeof sql,
                     "CREATE TEMP TABLE said (message text); GRANT INSERT ON said TO redrive_acme; "
                     "SET SESSION AUTHORIZATION redrive_acme; DO $x$ BEGIN PERFORM %s; "
                     "EXCEPTION WHEN insufficient_privilege THEN "
                     "INSERT INTO said VALUES (SQLERRM); END $x$; "
                     "RESET SESSION AUTHORIZATION; SELECT message FROM said",
                     call);
            snprintf(expected, sizeof expected,
                     "the role redrive_acme may not change jobs of the tenant %s",
                     j == 0 ? "other" : "default");
            check_answer(ts, sql, is_own ? "" : expected);
        }
    }
    check_answer(ts, "SELECT count(*), min(tenant), max(tenant) FROM redrive.jobs_by_status",
                 "3|acme|acme");
    check_answer(ts, "SELECT existed FROM redrive.submit_job('mail', tenant => 'other')", "f");
    stores_postgres_sql(ts->url, "DROP OWNED BY redrive_acme; DROP ROLE redrive_acme", NULL, 0);
}

/* ---- Views ----------------------------------------------------------------------------------- */

STORE_TEST(payloads_are_jsonb_in_the_views)
{
    static const struct {
        const char *payload;
        const char *shown;
    } CASES[] = {
        {"{\"b\":1, \"a\":[true]}", "object|{\"a\": [true], \"b\": 1}"},
        {"\"\\u0000\"", "string|\"\\\"\\\\u0000\\\"\""},
        {"\"\\ud800\"", "string|\"\\\"\\\\ud800\\\"\""},
        {"1e999999", "string|\"1e999999\""},
        {"null", "null|null"},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        char sql[256], id[8];
        (void)snprintf(id, sizeof id, "j%zu", i);
        ts_put_in(ts, REDRIVE_STATE_DEAD_LETTER,
                  &(struct job_spec){.id = str_of(id), .payload = str_of(CASES[i].payload)});
        (void)snprintf(sql, sizeof sql,
                       "SELECT jsonb_typeof(payload), payload FROM redrive.dead_letter_queue "
                       "WHERE sample_id = '%s'",
                       id);
        check_answer(ts, sql, CASES[i].shown);
    }
    check_answer(ts,
                 "SELECT DISTINCT a.attname, t.typname FROM pg_attribute a JOIN pg_type t "
                 "ON t.oid = a.atttypid WHERE a.attrelid IN ('redrive.retry_queue'::regclass, "
                 "'redrive.final_results'::regclass, 'redrive.dead_letter_queue'::regclass, "
                 "'redrive.failed_jobs'::regclass) AND a.attname IN ('payload', 'input_data') "
                 "ORDER BY 1",
                 "input_data|jsonb\npayload|jsonb");
}

STORE_TEST(views_show_each_job_where_it_belongs)
{
    ts_fill_views(ts);
    check_answer(ts,
                 "SET TimeZone = 'UTC'; SELECT sample_id, payload, error_msg, retry_count, "
                 "attempts, process_after FROM redrive.retry_queue",
                 "waits|[1]|refused|0|1|2023-11-14 22:14:20+00");
    check_answer(ts,
                 "SET TimeZone = 'UTC'; SELECT sample_id, payload, result, retry_count, "
                 "attempts, completed_at FROM redrive.final_results",
                 "works|[3]|{\"ok\":1}|0|1|2023-11-14 22:13:21.5+00");
    check_answer(ts,
                 "SELECT sample_id, payload, error_msg, retry_count, attempts, error_class, "
                 "error_type, stacktrace, reason, fingerprint FROM redrive.dead_letter_queue",
                 "dies|[2]|refused|1|2|network|ConnectError|at f()|exhausted|000000000000feed");
    check_answer(ts,
                 "SELECT job_id, job_type, status, attempts, max_attempts, last_error, "
                 "error_stacktrace, input_data FROM redrive.failed_jobs ORDER BY id",
                 "dies|thumbnail|FAILED|2|5|refused|at f()|[2]\n"
                 "fails|mail|FAILED|1|5|refused|at f()|[5]");
    check_answer(ts,
                 "SELECT id, type, status, attempts, last_error, started_at IS NULL FROM "
                 "redrive.jobs_by_status WHERE status IN ('running', 'completed') ORDER BY 1",
                 "runs|mail|running|1|-|f\nworks|mail|completed|1|-|f");
    check_answer(ts, "SELECT * FROM redrive.job_counts ORDER BY task_name",
                 "acme|main|mail|0|0|0|1|0|1|1|0|0|0\nacme|main|thumbnail|0|1|0|0|0|0|0|1|0|0");
    check_answer(ts,
                 "SELECT job_id, attempt, outcome, class, code, delay_ms, next_at IS NULL "
                 "FROM redrive.attempts ORDER BY job_id, attempt",
                 "dies|1|retrying|network|111|0|f\ndies|2|dead_letter|network|111|0|t\n"
                 "fails|1|failed|network|111|0|t\nruns|1|running|success|0|0|t\n"
                 "waits|1|retrying|network|111|60000|f\nworks|1|completed|success|0|0|t");
    check_answer(ts,
                 "SELECT type, attempts FROM redrive.job_events WHERE job_id = 'dies' "
                 "ORDER BY at, attempts, type <> 'started'",
                 "deferred|0\nstarted|1\ndeferred_for_retry|1\nstarted|2\ndead_letter|2");
}

STORE_TEST(the_names_of_others_do_not_get_into_views)
{
    check_answer(ts,
                 "CREATE SCHEMA other; CREATE FUNCTION other.to_timestamp(numeric) "
                 "RETURNS timestamptz LANGUAGE sql AS 'SELECT NULL::timestamptz'; "
                 "SET search_path = other, pg_catalog; "
                 "SELECT extract(epoch FROM redrive.at(5000))::int",
                 "5");
}

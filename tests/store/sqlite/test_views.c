/* The views say what the store knows, and every query of docs/sql.md runs. */
#include <stdio.h>
#include <stdlib.h>

#include <sqlite3.h>

#include "base/os/file.h"
#include "base/text/buf.h"
#include "core/vocabulary.h"
#include "store_for_test.h"

#define ANSWER_MAX 512

static sqlite3 *shell_of(const struct test_store *ts)
{
    sqlite3 *db;
    assert_int_equal(sqlite3_open_v2(strchr(ts->url, ':') + 1, &db, SQLITE_OPEN_READONLY, NULL),
                     SQLITE_OK);
    return db;
}

static int add_row(void *ret, int n, char **values, char **names)
{
    char *text = ret;
    (void)names;
    for (int i = 0; i < n; i++) {
        size_t len = strlen(text);
        snprintf(text + len, ANSWER_MAX - len, "%s%s",
                 i     ? "|"
                 : len ? "\n"
                       : "",
                 values[i] ? values[i] : "-");
    }
    return 0;
}

/* Rows by lines, columns by bars, NULL as a dash: exactly this. */
static void check_answer(const struct test_store *ts, const char *sql, const char *expected)
{
    char answer[ANSWER_MAX] = "";
    sqlite3 *db = shell_of(ts);
    char *message = NULL;
    if (sqlite3_exec(db, sql, add_row, answer, &message) != SQLITE_OK)
        fail_msg("%s: %s", sql, message);
    assert_string_equal(answer, expected);
    sqlite3_close(db);
}

STORE_TEST(views_show_each_job_where_it_belongs)
{
    ts_fill_views(ts);
    check_answer(ts,
                 "SELECT sample_id, payload, error_msg, retry_count, attempts, process_after "
                 "FROM retry_queue",
                 "waits|[1]|refused|0|1|2023-11-14 22:14:20.000");
    check_answer(ts,
                 "SELECT sample_id, payload, result, retry_count, attempts, completed_at "
                 "FROM final_results",
                 "works|[3]|{\"ok\":1}|0|1|2023-11-14 22:13:21.500");
    check_answer(
        ts,
        "SELECT sample_id, payload, error_msg, retry_count, attempts, failed_at, "
        "error_class, error_type, stacktrace, reason, fingerprint FROM dead_letter_queue",
        "dies|[2]|refused|1|2|2023-11-14 22:13:21.500|network|ConnectError|at f()|exhausted|"
        "000000000000feed");
    check_answer(ts,
                 "SELECT id, job_id, job_type, status, attempts, max_attempts, last_error, "
                 "error_stacktrace, input_data FROM failed_jobs ORDER BY id",
                 "2|dies|thumbnail|FAILED|2|5|refused|at f()|[2]\n"
                 "5|fails|mail|FAILED|1|5|refused|at f()|[5]");
    check_answer(ts,
                 "SELECT id, type, status, attempts, last_error, started_at IS NULL "
                 "FROM jobs_by_status WHERE status IN ('running', 'completed') ORDER BY 1",
                 "runs|mail|running|1|-|0\nworks|mail|completed|1|-|0");
    check_answer(ts, "SELECT * FROM job_counts ORDER BY task_name",
                 "acme|main|mail|0|0|0|1|0|1|1|0|0|0\nacme|main|thumbnail|0|1|0|0|0|0|0|1|0|0");
}

STORE_TEST(attempts_and_events_tell_the_whole_life)
{
    ts_fill_views(ts);
    check_answer(ts,
                 "SELECT job_id, attempt, outcome, class, code, delay_ms, next_at "
                 "FROM attempts ORDER BY job_id, attempt",
                 "dies|1|retrying|network|111|0|2023-11-14 22:13:20.000\n"
                 "dies|2|dead_letter|network|111|0|-\n"
                 "fails|1|failed|network|111|0|-\n"
                 "runs|1|running|success|0|0|-\n"
                 "waits|1|retrying|network|111|60000|2023-11-14 22:14:20.000\n"
                 "works|1|completed|success|0|0|-");
    check_answer(ts,
                 "SELECT type, attempts FROM job_events WHERE job_id = 'dies' "
                 "ORDER BY at, attempts, type <> 'started'",
                 "deferred|0\nstarted|1\ndeferred_for_retry|1\nstarted|2\ndead_letter|2");
    check_answer(ts, "SELECT count(*) FROM job_events WHERE type = 'deferred_for_retry'", "2");
}

STORE_TEST(job_that_ended_before_it_ran_has_no_start)
{
    int64_t seq = PUT(ts, .id = STR("null"), .payload = STR("null"));
    ts->now_ms += 10;
    CHANGE(ts, .seq = seq, .kind = MOVE_END, .to = REDRIVE_STATE_DEAD_LETTER,
           .reason = REDRIVE_REASON_NOT_RETRIABLE,
           .error = {REDRIVE_CLASS_VALIDATION, STR("Missing"), STR("no payload"), {0}, 0});
    check_answer(ts, "SELECT attempt, started_at, outcome, class, error_msg FROM attempts",
                 "0|-|dead_letter|validation|no payload");
    check_answer(ts, "SELECT type, attempts FROM job_events ORDER BY at",
                 "deferred|0\ndead_letter|0");
    check_answer(
        ts, "SELECT error_msg, retry_count, attempts, reason, error_class FROM dead_letter_queue",
        "no payload|0|0|not_retriable|validation");
}

STORE_TEST(words_of_the_tables_are_those_of_the_program)
{
    static const struct {
        enum vocabulary vocabulary;
        const char *sql;
    } TABLES[] = {
        {VOCABULARY_STATE, "SELECT name FROM states ORDER BY state"},
        {VOCABULARY_CLASS, "SELECT name FROM classes ORDER BY class"},
        {VOCABULARY_REASON, "SELECT name FROM reasons ORDER BY reason"},
    };
    for (size_t i = 0; i < sizeof TABLES / sizeof TABLES[0]; i++) {
        char expected[ANSWER_MAX] = "";
        size_t n;
        const char *const *words = vocabulary_words(TABLES[i].vocabulary, &n);
        for (size_t j = 0; j < n; j++) {
            size_t len = strlen(expected);
            snprintf(expected + len, sizeof expected - len, "%s%s", j ? "\n" : "", words[j]);
        }
        check_answer(ts, TABLES[i].sql, expected);
    }
}

STORE_TEST(every_query_of_the_manual_runs)
{
    struct buf text;
    struct redrive_err err;
    char path[1024];
    int ran = 0;
    ts_fill_views(ts);
    snprintf(path, sizeof path, "%s/sql.md", getenv("REDRIVE_DOCS"));
    buf_init(&text, 1 << 20);
    assert_int_equal(file_read(path, 1 << 20, &text, &err), 0);
    sqlite3 *db = shell_of(ts);
    for (const char *at = strstr(buf_cstr(&text), "```sql\n"); at; at = strstr(at, "```sql\n")) {
        at += strlen("```sql\n");
        const char *end = strstr(at, "```");
        assert_non_null(end);
        sqlite3_stmt *st = NULL;
        if (sqlite3_prepare_v2(db, at, (int)(end - at), &st, NULL) != SQLITE_OK)
            fail_msg("%.*s: %s", (int)(end - at), at, sqlite3_errmsg(db));
        int rc;
        while ((rc = sqlite3_step(st)) == SQLITE_ROW)
            ;
        assert_int_equal(rc, SQLITE_DONE);
        sqlite3_finalize(st);
        ran++;
        at = end + 3;
    }
    assert_true(ran >= 15);
    sqlite3_close(db);
    buf_release(&text);
}

TEST_MAIN(argc, argv)
{
    setenv("REDRIVE_TEST_STORE", "sqlite", 1);
    return check_run(NULL, NULL);
}

#include "check.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/jobs/export.h"
#include "engine/engine.h"
#include "engine/verbs/change.h"
#include "engine/verbs/submit.h"

#define N_JOBS 250

static struct engine *engine; /* with the jobs that are exported */

static void submit(struct engine *e, const char *id, const char *payload)
{
    const struct job_spec spec = {.task = STR("t"), .id = str_of(id), .payload = str_of(payload)};
    struct submit_op op;
    assert_int_equal(submit_op_init(&op, e, &spec, 1, NULL), 0);
    assert_int_equal(engine_apply_one(e, &op.op, NULL), 0);
    assert_int_equal(op.answers[0].code, 0);
    submit_op_release(&op);
}

static int start(void **state)
{
    (void)state;
    const struct store_options options = {.create = true};
    struct engine_options all = {.seed = 1};
    char id[16];
    assert_int_equal(store_open("memory:", &options, &all.store, NULL), 0);
    assert_int_equal(engine_open(&all, &engine, NULL), 0);
    submit(engine, "first", "{ \"a\" :\n 1, \"s\": \"x, \\\"y\\\"\" }");
    for (int i = 1; i < N_JOBS; i++) {
        (void)snprintf(id, sizeof id, "job-%d", i);
        submit(engine, id, "[1]");
    }
    return 0;
}

static int stop(void **state)
{
    (void)state;
    engine_close(engine);
    return 0;
}

/* The export as text, which the caller frees. */
static char *export_text(const struct job_filter *filter, enum export_format format,
                         uint64_t *ret_n)
{
    char *text = NULL;
    size_t len;
    FILE *out = open_memstream(&text, &len);
    assert_non_null(out);
    assert_int_equal(export_jobs(engine_store(engine), filter, format, out, NULL, ret_n, NULL), 0);
    assert_int_equal(fclose(out), 0);
    return text;
}

static size_t count_lines(const char *text)
{
    size_t n = 0;
    for (; *text; text++)
        n += *text == '\n';
    return n;
}

TEST(every_job_is_one_line_of_json)
{
    const struct job_filter filter = {0};
    uint64_t n;
    char *text = export_text(&filter, EXPORT_JSONL, &n);
    assert_int_equal(n, N_JOBS);
    assert_int_equal(count_lines(text), N_JOBS);
    assert_ptr_equal(strstr(text, "{\"id\":\"first\","), text);
    assert_non_null(strstr(text, "\"payload\":{\"a\":1,\"s\":\"x, \\\"y\\\"\"},"));
    assert_non_null(strstr(text, "\"job-249\""));
    free(text);
}

TEST(csv_has_names_and_keeps_the_payload)
{
    const struct job_filter filter = {.id = STR("first")};
    uint64_t n;
    char *text = export_text(&filter, EXPORT_CSV, &n);
    assert_int_equal(n, 1);
    assert_ptr_equal(strstr(text, "id,task,queue,state,reason,attempts,max_attempts,class,"
                                  "error_type,message,created_at,finished_at,payload,result\r\n"
                                  "first,t,default,queued,,0,"),
                     text);
    assert_non_null(
        strstr(text, ",\"{ \"\"a\"\" :\n 1, \"\"s\"\": \"\"x, \\\"\"y\\\"\"\"\" }\",\r\n"));
    free(text);
}

TEST(limit_is_the_most_that_is_written)
{
    const struct job_filter filter = {.limit = 120, .order = ORDER_NEWEST};
    uint64_t n;
    char *text = export_text(&filter, EXPORT_JSONL, &n);
    assert_int_equal(n, 120);
    assert_ptr_equal(strstr(text, "{\"id\":\"job-249\","), text);
    free(text);
}

TEST(nothing_is_nothing_but_the_names)
{
    const struct job_filter filter = {.task = STR("nobody")};
    uint64_t n;
    char *text = export_text(&filter, EXPORT_JSONL, &n);
    assert_int_equal(n, 0);
    assert_string_equal(text, "");
    free(text);
    text = export_text(&filter, EXPORT_CSV, &n);
    assert_int_equal(count_lines(text), 1);
    free(text);
}

TEST(full_disk_is_noticed)
{
    const struct job_filter filter = {0};
    struct redrive_err err = {0};
    FILE *full = fopen("/dev/full", "w");
    assert_non_null(full);
    assert_int_equal(
        export_jobs(engine_store(engine), &filter, EXPORT_JSONL, full, NULL, NULL, &err),
        REDRIVE_E_IO);
    assert_non_null(strstr(err.message, "No space left"));
    (void)fclose(full);
}

TEST(name_of_the_file_says_the_format)
{
    assert_int_equal(export_format_of(NULL), EXPORT_JSONL);
    assert_int_equal(export_format_of("csv"), EXPORT_JSONL);
    assert_int_equal(export_format_of("a.CSV"), EXPORT_CSV);
    assert_int_equal(export_format_of("a.csv.jsonl"), EXPORT_JSONL);
}

TEST(file_is_whole_or_not_there)
{
    const char *tmp = getenv("TMPDIR");
    char dir[64], path[80];
    struct export_file f;
    (void)snprintf(dir, sizeof dir, "%.40s/export-XXXXXX", tmp ? tmp : "/tmp");
    assert_non_null(mkdtemp(dir));
    (void)snprintf(path, sizeof path, "%s/out", dir);

    assert_int_equal(export_file_open(&f, "export", path, false, NULL), 0);
    (void)fputs("half", f.file);
    assert_int_equal(access(path, F_OK), -1);
    export_file_abandon(&f);
    assert_int_equal(access(path, F_OK), -1);

    assert_int_equal(export_file_open(&f, "export", path, false, NULL), 0);
    (void)fputs("whole", f.file);
    assert_int_equal(export_file_finish(&f, NULL), 0);
    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_size, 5);
    assert_int_equal(export_file_open(&f, "export", path, false, NULL), REDRIVE_E_EXISTS);
    export_file_abandon(&f);
    assert_int_equal(export_file_open(&f, "export", path, true, NULL), 0);
    assert_int_equal(export_file_finish(&f, NULL), 0);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_size, 0);
    assert_int_equal(export_file_open(&f, "export", dir, true, NULL), REDRIVE_E_EXISTS);

    (void)unlink(path);
    assert_int_equal(rmdir(dir), 0); /* nothing else was left there */
}

TEST_MAIN(argc, argv)
{
    return check_run(start, stop);
}

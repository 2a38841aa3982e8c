/* What a queue takes and what it refuses: options, submits, functions, looks. */
#include "queue_for_test.h"

#include <dirent.h>
#include <sqlite3.h>

static int do_nothing(struct redrive_task_run *run, void *arg)
{
    (void)run, (void)arg;
    return 0;
}

/* ---- Opening --------------------------------------------------------------------------------- */

static int open_with(const struct redrive_queue_options *options, struct redrive_err *err)
{
    struct redrive_queue *queue;
    int rc = redrive_queue_open(options, &queue, err);
    if (rc < 0)
        assert_null(queue);
    redrive_queue_close(queue);
    return rc;
}

MEMORY_TEST(what_cannot_be_opened_says_why)
{
    struct redrive_err err = {0};
    assert_true(open_with(&(struct redrive_queue_options){.store = "tape:a"}, &err) < 0);
    assert_non_null(strstr(err.message, "not a store"));
    assert_int_equal(open_with(&(struct redrive_queue_options){.config = "/no/such.yaml"}, &err),
                     REDRIVE_E_NOT_FOUND);
    assert_true(
        open_with(&(struct redrive_queue_options){.store = "sqlite:/no/such/dir/a.db"}, &err) < 0);
    write_file(tq->config, "taskz: {}\n");
    assert_int_equal(open_with(&(struct redrive_queue_options){.config = tq->config}, &err),
                     REDRIVE_E_CONFIG);
    assert_non_null(strstr(err.message, "taskz"));
    assert_true(open_with(&(struct redrive_queue_options){.store = "memory:", .log_level = "loud"},
                          &err) < 0);
}

MEMORY_TEST(the_configuration_names_the_store)
{
    char text[400];
    struct redrive_queue *queue;
    snprintf(text, sizeof text, "store: sqlite:%s/named.db\n", tq->dir);
    write_file(tq->config, text);
    const struct redrive_queue_options options = {.config = tq->config};
    assert_int_equal(redrive_queue_open(&options, &queue, NULL), 0);
    submit(queue, "t", "a");
    redrive_queue_close(queue);
    assert_int_equal(redrive_queue_open(&options, &queue, NULL), 0);
    assert_int_equal(state_of(queue, "a"), REDRIVE_STATE_QUEUED);
    redrive_queue_close(queue);
}

MEMORY_TEST(nothing_is_set_up_where_another_program_keeps_its_data)
{
    char url[400];
    struct redrive_err err = {0};
    struct redrive_queue *queue;
    write_file(tq->config, "log: {level: info}\n");
    const struct redrive_queue_options options = {.config = tq->config};
    snprintf(url, sizeof url, "sqlite:%s/app.db", tq->dir);
    assert_int_equal(setenv("DATABASE_URL", url, 1), 0);
    const int refused = open_with(&options, &err);
    const bool was_made = access(url + strlen("sqlite:"), F_OK) == 0;
    assert_int_equal(open_with(&(struct redrive_queue_options){.store = url}, NULL), 0);
    const int rc = redrive_queue_open(&options, &queue, NULL);
    unsetenv("DATABASE_URL");
    assert_int_equal(refused, REDRIVE_E_NOT_FOUND);
    assert_non_null(strstr(err.message, "DATABASE_URL"));
    assert_false(was_made);
    assert_int_equal(rc, 0);
    redrive_queue_close(queue);
}

struct lines {
    pthread_mutex_t mutex;
    char text[4096];
};

static void keep_line(const char *line, size_t len, void *ctx)
{
    struct lines *lines = ctx;
    pthread_mutex_lock(&lines->mutex);
    size_t at = strlen(lines->text);
    snprintf(lines->text + at, sizeof lines->text - at, "%.*s|", (int)len, line);
    pthread_mutex_unlock(&lines->mutex);
}

MEMORY_TEST(the_log_goes_to_the_callback)
{
    struct lines lines = {.mutex = PTHREAD_MUTEX_INITIALIZER};
    struct redrive_queue *queue;
    const struct redrive_queue_options options = {
        .store = "memory:",
        .worker = "me",
        .log = keep_line,
        .log_ctx = &lines,
        .log_level = "debug",
    };
    struct redrive_job_status job;
    assert_int_equal(redrive_queue_open(&options, &queue, NULL), 0);
    submit(queue, "t", "a");
    assert_int_equal(redrive_queue_handle(queue, "t", do_nothing, NULL, NULL, NULL), 0);
    work_until_idle(queue);
    assert_int_equal(redrive_queue_job(queue, "a", &job, NULL), 0);
    assert_string_equal(job.worker, "me");
    redrive_queue_job_release(&job);
    redrive_queue_close(queue);
    assert_non_null(strstr(lines.text, "completed job_id=a task=t"));
    assert_null(strchr(lines.text, '\n'));
}

/* ---- Submits --------------------------------------------------------------------------------- */

MEMORY_TEST(a_submit_that_is_a_repetition_is_answered_with_its_job)
{
    const struct redrive_job_spec jobs[] = {
        {.task = "t", .id = "a"},
        {.task = "t", .id = "a", .payload = "[2]"},
        {.task = "t", .id = "b", .unique_key = "k"},
        {.task = "t", .unique_key = "k"},
        {.task = "t", .delay_ms = 60000},
        {.task = "t", .process_after_ms = clock_wall_ms() + 60000},
    };
    struct redrive_submitted answers[6];
    assert_int_equal(redrive_queue_submit(tq->queue, jobs, 6, 0, answers, NULL), 0);
    assert_false(answers[0].existed);
    assert_true(answers[1].existed);
    assert_string_equal(answers[1].id, "a");
    assert_true(answers[3].existed);
    assert_string_equal(answers[3].id, "b");
    assert_int_equal(answers[4].state, REDRIVE_STATE_SCHEDULED);
    assert_int_equal(strlen(answers[4].id), 36);
    assert_int_equal(answers[5].state, REDRIVE_STATE_SCHEDULED);
}

MEMORY_TEST(a_refusal_names_its_place_and_spares_the_others)
{
    const struct redrive_job_spec jobs[] = {
        {.task = "t", .id = "good"},
        {.task = "t", .payload = "{not json"},
        {.task = "t", .priority = 101},
        {.id = "no-task"},
        {.task = "t", .delay_ms = 1, .process_after_ms = 1},
        {.task = "t", .deadline_ms = -1},
        {.task = "t", .delay_ms = INT64_MAX},
        {.task = "t", .unique_forever = true},
        {.task = "t", .retry = "{\"max_atempts\":3}"},
    };
    struct redrive_submitted answers[9];
    struct redrive_err err = {0};
    assert_int_equal(redrive_queue_submit(tq->queue, jobs, 9, 0, answers, &err), REDRIVE_E_PARSE);
    assert_non_null(strstr(err.message, "job 2 of 9"));
    assert_int_equal(answers[0].code, 0);
    assert_int_equal(answers[1].code, REDRIVE_E_PARSE);
    assert_int_equal(answers[2].code, REDRIVE_E_RANGE);
    assert_int_equal(answers[3].code, REDRIVE_E_INVALID);
    assert_int_equal(answers[4].code, REDRIVE_E_INVALID);
    assert_int_equal(answers[5].code, REDRIVE_E_RANGE);
    assert_int_equal(answers[6].code, REDRIVE_E_RANGE);
    assert_int_equal(answers[7].code, REDRIVE_E_INVALID);
    assert_true(answers[8].code < 0);
    assert_int_equal(state_of(tq->queue, "good"), REDRIVE_STATE_QUEUED);
    assert_int_equal(redrive_queue_submit(tq->queue, jobs, 0, 0, NULL, NULL), 0);
}

MEMORY_TEST(a_whole_batch_is_taken_or_refused)
{
    const struct redrive_job_spec jobs[] = {
        {.task = "t", .id = "good"},
        {.task = "t", .priority = 101},
    };
    struct redrive_submitted answers[2];
    struct redrive_job_status job;
    assert_int_equal(redrive_queue_submit(tq->queue, jobs, 2, REDRIVE_SUBMIT_WHOLE, answers, NULL),
                     REDRIVE_E_RANGE);
    assert_int_equal(answers[0].code, REDRIVE_E_CANCELLED);
    assert_int_equal(redrive_queue_job(tq->queue, "good", &job, NULL), REDRIVE_E_NOT_FOUND);
    assert_null(job.memory);
}

MEMORY_TEST(a_tenant_sees_its_own_jobs)
{
    struct test_queue other = *tq;
    struct redrive_queue *a, *b;
    struct redrive_job_status job;
    snprintf(other.store, sizeof other.store, "sqlite:%s/tenants.db", tq->dir);
    struct redrive_queue_options options = {.store = other.store, .tenant = "a"};
    assert_int_equal(redrive_queue_open(&options, &a, NULL), 0);
    options.tenant = "b";
    assert_int_equal(redrive_queue_open(&options, &b, NULL), 0);
    submit(a, "t", "of-a");
    assert_int_equal(redrive_queue_job(b, "of-a", &job, NULL), REDRIVE_E_NOT_FOUND);
    assert_int_equal(redrive_queue_handle(b, "t", do_nothing, NULL, NULL, NULL), 0);
    work_until_idle(b);
    assert_int_equal(state_of(a, "of-a"), REDRIVE_STATE_QUEUED);
    redrive_queue_close(a);
    redrive_queue_close(b);
}

MEMORY_TEST(a_job_that_is_not_there_cannot_be_found_or_cancelled)
{
    struct redrive_job_status job;
    assert_int_equal(redrive_queue_job(tq->queue, "x", &job, NULL), REDRIVE_E_NOT_FOUND);
    assert_int_equal(redrive_queue_job(tq->queue, NULL, &job, NULL), REDRIVE_E_NOT_FOUND);
    assert_int_equal(redrive_queue_cancel(tq->queue, "x", NULL), REDRIVE_E_NOT_FOUND);
    assert_int_equal(redrive_queue_cancel(tq->queue, "", NULL), REDRIVE_E_NOT_FOUND);
    redrive_queue_job_release(NULL);
    redrive_queue_job_release(&job);
}

/* ---- Functions ------------------------------------------------------------------------------- */

MEMORY_TEST(functions_that_cannot_be_meant_are_refused)
{
    struct redrive_queue *q = tq->queue;
    const struct redrive_handle_options many = {.concurrency = REDRIVE_CONCURRENCY_MAX + 1};
    const struct redrive_handle_options negative = {.timeout_ms = -1};
    assert_int_equal(redrive_queue_handle(q, "", do_nothing, NULL, NULL, NULL), REDRIVE_E_INVALID);
    assert_int_equal(redrive_queue_handle(q, "t", NULL, NULL, NULL, NULL), REDRIVE_E_INVALID);
    assert_int_equal(redrive_queue_handle(q, "t", do_nothing, NULL, &many, NULL), REDRIVE_E_RANGE);
    assert_int_equal(redrive_queue_handle(q, "t", do_nothing, NULL, &negative, NULL),
                     REDRIVE_E_RANGE);
    assert_int_equal(redrive_queue_work(q, 0, NULL), REDRIVE_E_STATE);
    assert_int_equal(redrive_queue_handle(q, "t", do_nothing, NULL, NULL, NULL), 0);
    assert_int_equal(redrive_queue_handle(q, "t", do_nothing, NULL, NULL, NULL), REDRIVE_E_EXISTS);
}

MEMORY_TEST(strict_tasks_refuse_a_function_for_a_word_that_is_misspelt)
{
    struct redrive_queue *queue;
    struct redrive_err err = {0};
    write_file(tq->config, "store: 'memory:'\nstrict_tasks: true\ntasks: {letter: {}}\n");
    const struct redrive_queue_options options = {.config = tq->config};
    assert_int_equal(redrive_queue_open(&options, &queue, NULL), 0);
    assert_int_equal(redrive_queue_handle(queue, "leter", do_nothing, NULL, NULL, &err),
                     REDRIVE_E_UNKNOWN);
    assert_non_null(strstr(err.hint, "letter"));
    redrive_queue_close(queue);
}

TEST(no_queue_is_refused_and_not_touched)
{
    const struct redrive_job_spec job = {.task = "t"};
    struct redrive_job_status status;
    struct redrive_err err = {0};
    assert_int_equal(redrive_queue_open(NULL, NULL, &err), REDRIVE_E_INVALID);
    assert_int_equal(redrive_queue_submit(NULL, &job, 1, 0, NULL, &err), REDRIVE_E_INVALID);
    assert_int_equal(redrive_queue_job(NULL, "a", &status, &err), REDRIVE_E_INVALID);
    assert_int_equal(redrive_queue_cancel(NULL, "a", &err), REDRIVE_E_INVALID);
    assert_int_equal(redrive_queue_handle(NULL, "t", do_nothing, NULL, NULL, &err),
                     REDRIVE_E_INVALID);
    assert_int_equal(redrive_queue_work(NULL, 0, &err), REDRIVE_E_INVALID);
    assert_string_equal(err.message, "there is no queue");
    redrive_queue_stop(NULL, 0);
    redrive_queue_close(NULL);
    redrive_queue_job_release(NULL);
}

MEMORY_TEST(what_a_job_needs_and_has_not_is_refused)
{
    const struct redrive_job_spec hollow = {.task = "t", .payload_len = 10};
    struct redrive_err err = {0};
    assert_int_equal(redrive_queue_submit(tq->queue, &hollow, 1, 0, NULL, &err), REDRIVE_E_INVALID);
    assert_non_null(strstr(err.message, "payload_len"));
    assert_int_equal(redrive_queue_submit(tq->queue, NULL, 1, 0, NULL, NULL), REDRIVE_E_INVALID);
    assert_int_equal(redrive_queue_submit(tq->queue, NULL, 0, 0, NULL, NULL), 0);
    assert_int_equal(redrive_queue_job(tq->queue, "a", NULL, NULL), REDRIVE_E_INVALID);
}

MEMORY_TEST(an_id_may_be_as_long_as_that_of_the_handler)
{
    char id[REDRIVE_ID_MAX + 2];
    memset(id, 'x', sizeof id);
    id[REDRIVE_ID_MAX + 1] = '\0';
    struct redrive_job_spec job = {.task = "t", .id = id};
    struct redrive_submitted answer;
    assert_int_equal(redrive_queue_submit(tq->queue, &job, 1, 0, NULL, NULL), REDRIVE_E_TOO_BIG);
    id[REDRIVE_ID_MAX] = '\0';
    assert_int_equal(redrive_queue_submit(tq->queue, &job, 1, 0, &answer, NULL), 0);
    assert_string_equal(answer.id, id);
}

/* The program counts what SQLite takes, sets limits, or has its own reasons. */
TEST(sqlite_goes_on_counting_the_memory_of_the_program)
{
    struct test_queue *tq = tq_new("sqlite:");
    tq->queue = tq_open(tq);
    assert_true(sqlite3_memory_used() > 0);
    tq_free(tq);
}

/* Of the thread, which must be there. */
static bool blocks_sigterm(const char *thread)
{
    char path[300], line[256];
    unsigned long long mask = 0;
    snprintf(path, sizeof path, "/proc/self/task/%s/status", thread);
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    while (fgets(line, sizeof line, f))
        (void)sscanf(line, "SigBlk: %llx", &mask);
    (void)fclose(f);
    return mask >> (SIGTERM - 1) & 1;
}

/* A program may block SIGTERM after it has opened a queue, and wait for it by sigwait(). */
TEST(no_thread_of_an_open_queue_takes_signals)
{
    struct test_queue *tq = tq_new("sqlite:");
    char self[32];
    int n = 0;
    snprintf(self, sizeof self, "%ld", (long)gettid());
    tq->queue = tq_open(tq);
    DIR *threads = opendir("/proc/self/task");
    assert_non_null(threads);
    for (const struct dirent *thread; (thread = readdir(threads));) {
        if (thread->d_name[0] == '.' || strcmp(thread->d_name, self) == 0)
            continue;
        assert_true(blocks_sigterm(thread->d_name));
        n++;
    }
    assert_true(n >= 2);
    closedir(threads);
    tq_free(tq);
}

static int look_at_the_work(struct redrive_task_run *run, void *arg)
{
    struct redrive_queue *q = redrive_task_run_owner(run);
    int *codes = arg;
    codes[0] = redrive_queue_work(q, 0, NULL);
    codes[1] = redrive_queue_handle(q, "u", do_nothing, NULL, NULL, NULL);
    return 0;
}

MEMORY_TEST(a_queue_is_worked_once_at_a_time)
{
    int codes[2] = {0};
    submit(tq->queue, "t", "a");
    assert_int_equal(redrive_queue_handle(tq->queue, "t", look_at_the_work, codes, NULL, NULL), 0);
    work_until_idle(tq->queue);
    assert_int_equal(codes[0], REDRIVE_E_STATE);
    assert_int_equal(codes[1], REDRIVE_E_STATE);
}

/* dead.c - dead letters: pages of them, one, those whose errors look alike, and counts. */
#include "api/api.h"
#include "api/job_view.h"
#include "api/redact.h"
#include "base/time/clock.h"
#include "engine/report/dead_letters.h"

#define DEAD (1u << REDRIVE_STATE_DEAD_LETTER)

#define STATS_USES  JOB_QUERY_JOBS
#define PAGE_USES   (JOB_QUERY_JOBS | JOB_QUERY_PAGE)
#define GROUPS_USES (JOB_QUERY_JOBS | JOB_QUERY_LIMITS)

static int read_query(const struct api_context *c, unsigned uses, struct job_query *query,
                      struct redrive_err *err)
{
    const int rc = api_query(c, uses, ORDER_FINISHED, query, err);
    query->filter.states = DEAD;
    return rc;
}

static int read_letters(const struct api_context *c, struct json_writer *w, struct redrive_err *err)
{
    struct job_query query;
    const int rc = read_query(c, PAGE_USES, &query, err);
    return rc == 0 ? api_write_page(c, &query.filter, view_dead_letter, w, err) : rc;
}

static int read_letter(const struct api_context *c, struct json_writer *w, struct redrive_err *err)
{
    return api_write_job(c, DEAD, w, err);
}

/* ---- Groups ---------------------------------------------------------------------------------- */

/* Jobs that are read at a time to find out what is to be hidden in their errors. */
#define EXAMPLES_STEP 8

/* As the client may see it. `job` is the example with its payload; NULL: it is not known. What
 * redaction makes of it is gone before the next one. */
static void write_redacted(const struct api_context *c, const struct group_count *group,
                           const struct job *job, uint64_t *work, struct json_writer *w)
{
    RELEASED_BY(arena_release) struct arena arena = {0};
    struct group_count shown = *group;
    struct redactor redactor;
    redactor_init(&redactor, c->redact, &arena);
    shown.example =
        job && *work < API_WORK_MAX ? redact_job(&redactor, job) : redact_unknown(&group->example);
    *work += redactor.work;
    group_write_json(w, &shown);
}

static int write_some(const struct api_context *c, const struct group_count *groups, size_t n,
                      uint64_t *work, struct json_writer *w, struct redrive_err *err)
{
    RELEASED_BY(job_page_release) struct job_page jobs = {0};
    struct job_name names[EXAMPLES_STEP];
    for (size_t i = 0; i < n; i++)
        names[i] = (struct job_name){groups[i].example.spec.tenant, groups[i].example.spec.id};
    const int rc = store_ops(c->store)->lookup(c->store, names, n, &jobs, err);
    for (size_t i = 0, at = 0; rc == 0 && i < n; i++) {
        const bool is_there = at < jobs.n && str_eq(jobs.jobs[at].spec.id, names[i].id) &&
                              str_eq(jobs.jobs[at].spec.tenant, names[i].tenant);
        write_redacted(c, &groups[i], is_there ? &jobs.jobs[at++] : NULL, work, w);
    }
    return rc;
}

static int write_groups(const struct api_context *c, const struct group_page *page,
                        struct json_writer *w, struct redrive_err *err)
{
    uint64_t work = 0;
    int rc = 0;
    for (size_t i = 0; !c->redact && i < page->n; i++)
        group_write_json(w, &page->groups[i]);
    for (size_t i = 0; c->redact && rc == 0 && i < page->n; i += EXAMPLES_STEP) {
        const size_t left = page->n - i;
        rc = write_some(c, &page->groups[i], left < EXAMPLES_STEP ? left : EXAMPLES_STEP, &work, w,
                        err);
    }
    return rc;
}

static int read_groups(const struct api_context *c, struct json_writer *w, struct redrive_err *err)
{
    RELEASED_BY(group_page_release) struct group_page page = {0};
    struct job_query query;
    int rc = read_query(c, GROUPS_USES, &query, err);
    if (rc == 0)
        rc = store_ops(c->store)->groups(c->store, &query.filter, &page, err);
    if (rc < 0)
        return rc;
    api_begin_items(w);
    rc = write_groups(c, &page, w, err);
    api_end_items(w, NULL);
    return rc;
}

/* ---- Counts ---------------------------------------------------------------------------------- */

static int read_stats(const struct api_context *c, struct json_writer *w, struct redrive_err *err)
{
    struct job_query query;
    RELEASED_BY(dead_counts_release) struct dead_counts counts;
    dead_counts_init(&counts, (uint64_t)clock_monotonic_ns());
    counts.hides_types = c->redact != NULL;
    int rc = read_query(c, STATS_USES, &query, err);
    if (rc == 0)
        rc = dead_counts_read(&counts, c->store, &query.filter, err);
    if (rc == 0)
        dead_counts_write(w, &counts);
    return rc;
}

#define LETTERS "/retry/dead-letters"

const struct operation API_DEAD_LETTERS = {.path = LETTERS,
                                           .summary = "List dead letters, a page at a time",
                                           .scope = CONFIG_SCOPE_READ,
                                           .read = read_letters,
                                           .parameters = {JOB_QUERY_FIELDS, PAGE_USES}};
/* The same for every id, also one that is a word of the other paths. */
const struct operation API_DEAD_LETTER = {.path = LETTERS "/by-id/{id}",
                                          .summary = "Show a dead letter with its history",
                                          .scope = CONFIG_SCOPE_READ,
                                          .read = read_letter};
const struct operation API_DEAD_GROUPS = {.path = LETTERS "/groups",
                                          .summary =
                                              "Errors that look alike, the largest group first",
                                          .scope = CONFIG_SCOPE_READ,
                                          .read = read_groups,
                                          .parameters = {JOB_QUERY_FIELDS, GROUPS_USES}};
const struct operation API_DEAD_STATS = {.path = LETTERS "/stats",
                                         .summary =
                                             "Count dead letters by class, reason, task and type",
                                         .scope = CONFIG_SCOPE_READ,
                                         .read = read_stats,
                                         .parameters = {JOB_QUERY_FIELDS, STATS_USES}};

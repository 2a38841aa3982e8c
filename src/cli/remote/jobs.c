/* jobs.c - jobs of a server, read back into what the stores give. */
#include "cli/remote/remote.h"

#include <stdio.h>

#include "base/err.h"
#include "base/json/writer.h"
#include "base/mem/map.h"
#include "core/classify/fingerprint.h"
#include "core/experiment/arm.h"
#include "store/after_json.h"
#include "store/job_json.h"

/* ---- How a job is written (store/job_json.c, server/rest/body/views.c) ------------------------
 */

/* A job, and what has to be made of some of its members. */
struct written_job {
    struct job job;
    struct str reason;
    struct str unique;
    struct str experiment;
    struct str traceparent;
    struct str group;
    int64_t payload_bytes; /* -1: not told */
    int64_t result_bytes;
    bool is_paused;
    struct str history; /* JSON */
    struct str held_by; /* JSON */
    struct str after, followers;
};

#define ERROR(m) offsetof(struct job_error, m)
const struct unpack UNPACK_JOB_ERROR[] = {
    {.key = "class", UNPACK_WORD, ERROR(class_), .words = VOCABULARY_CLASS},
    {.key = "type", UNPACK_STR, ERROR(type)},
    {.key = "message", UNPACK_STR, ERROR(message)},
    {.key = "stacktrace", UNPACK_STR, ERROR(stacktrace)},
    {.key = "code", UNPACK_I32, ERROR(code)},
    {0},
};

#define SPEC(m)   offsetof(struct written_job, job.spec.m)
#define STATUS(m) offsetof(struct written_job, job.status.m)
#define OTHER(m)  offsetof(struct written_job, m)
static const struct unpack JOB[] = {
    {.key = "id", UNPACK_STR, SPEC(id)},
    {.key = "task", UNPACK_STR, SPEC(task)},
    {.key = "queue", UNPACK_STR, SPEC(queue)},
    {.key = "tenant", UNPACK_STR, SPEC(tenant)},
    {.key = "payload", UNPACK_JSON, SPEC(payload)},
    {.key = "priority", UNPACK_I32, SPEC(priority)},
    {.key = "user", UNPACK_STR, SPEC(user)},
    {.key = "project", UNPACK_STR, SPEC(project)},
    {.key = "service", UNPACK_STR, SPEC(service)},
    {.key = "unique_key", UNPACK_STR, SPEC(unique_key)},
    {.key = "unique", UNPACK_STR, OTHER(unique)},
    {.key = "retry", UNPACK_JSON, SPEC(policy)},
    {.key = "experiment", UNPACK_STR, OTHER(experiment)},
    {.key = "traceparent", UNPACK_STR, OTHER(traceparent)},
    {.key = "deadline", UNPACK_TIME, SPEC(deadline_ms)},
    {.key = "state", UNPACK_WORD, STATUS(state), .words = VOCABULARY_STATE},
    {.key = "reason", UNPACK_STR, OTHER(reason)},
    {.key = "attempts", UNPACK_U32, STATUS(attempts)},
    {.key = "max_attempts", UNPACK_I32, SPEC(max_attempts)},
    {.key = "deferrals", UNPACK_U32, STATUS(deferrals)},
    {.key = "epoch", UNPACK_U32, STATUS(epoch)},
    {.key = "parents", UNPACK_U32, STATUS(parents)},
    {.key = "open_parents", UNPACK_U32, STATUS(open_parents)},
    {.key = "children", UNPACK_U32, STATUS(children)},
    {.key = "process_after", UNPACK_TIME, STATUS(process_after_ms)},
    {.key = "created_at", UNPACK_TIME, STATUS(created_ms)},
    {.key = "updated_at", UNPACK_TIME, STATUS(updated_ms)},
    {.key = "started_at", UNPACK_TIME, STATUS(started_ms)},
    {.key = "finished_at", UNPACK_TIME, STATUS(finished_ms)},
    {.key = "worker", UNPACK_STR, STATUS(worker)},
    {.key = "last_error", UNPACK_OBJECT, STATUS(error), .object = UNPACK_JOB_ERROR},
    {.key = "result", UNPACK_JSON, STATUS(result)},
    {.key = "damaged", UNPACK_BOOL, OTHER(job.is_damaged)},
    {.key = "group", UNPACK_STR, OTHER(group)},
    {.key = "payload_bytes", UNPACK_INT, OTHER(payload_bytes)},
    {.key = "result_bytes", UNPACK_INT, OTHER(result_bytes)},
    {.key = "queue_paused", UNPACK_BOOL, OTHER(is_paused)},
    {.key = "history", UNPACK_JSON, OTHER(history)},
    {.key = "held_by", UNPACK_JSON, OTHER(held_by)},
    {.key = "after", UNPACK_JSON, OTHER(after)},
    {.key = "followers", UNPACK_JSON, OTHER(followers)},
    {0},
};

static const struct written_job BLANK = {.payload_bytes = -1, .result_bytes = -1};

/* A value that is JSON is written as it is, and any other as a string: the length tells which. The
 * value null is like an absent one, but for its length. */
static void restore_value(struct str *value, int64_t bytes, struct arena *arena)
{
    struct json_string s;
    if (value->len == 0 && bytes > 0)
        *value = STR("null");
    if (value->len == 0 || value->ptr[0] != '"' || bytes < 0 || (int64_t)value->len == bytes)
        return;
    RELEASED_BY(json_reader_release) struct json_reader r;
    json_reader_init(&r, *value, NULL);
    RELEASED_BY(buf_release) struct buf text = BUF_MAX(JSON_MAX_BYTES);
    if (json_read_string(&r, &s) == 0 && json_unescape(s, &text) == 0)
        *value = arena_str(arena, buf_str(&text));
}

static void restore_job(struct written_job *written, struct arena *arena, struct job *ret)
{
    struct job_status *status = &written->job.status;
    if (status->state == REDRIVE_STATE_PARKED) {
        status->parked_by_limit = str_is(written->reason, "limit");
    } else if (written->reason.len > 0) {
        const int reason = vocabulary_find(VOCABULARY_REASON, written->reason);
        status->reason = reason < 0 ? REDRIVE_REASON_NONE : (enum redrive_reason)reason;
    }
    written->job.spec.unique_forever = str_is(written->unique, "forever");
    if (written->group.len > 0)
        (void)fingerprint_parse(written->group, &status->fingerprint);
    if (written->experiment.len > 0)
        written->job.spec.policy =
            arm_restore(written->experiment, written->job.spec.policy, arena);
    if (written->traceparent.len > 0)
        written->job.spec.policy =
            trace_keep(written->traceparent, written->job.spec.policy, arena);
    restore_value(&written->job.spec.payload, written->payload_bytes, arena);
    restore_value(&status->result, written->result_bytes, arena);
    *ret = written->job;
}

/* ---- Pages ----------------------------------------------------------------------------------- */

static int read_page(struct remote *remote, const struct buf *path, struct job_page *ret,
                     struct str *ret_next, struct redrive_err *err)
{
    struct unpack_list list = {0};
    RELEASED_BY(http_answer_release) struct http_answer answer;
    http_answer_init(&answer);
    int rc = remote_call(remote, "GET", path, (struct str){0}, &answer, err);
    if (rc == 0)
        rc = unpack_list(buf_str(&answer.body), JOB, sizeof BLANK, &BLANK, &ret->arena, &list, err);
    for (size_t i = 0; i < list.n && rc == 0; i++) {
        struct job *jobs = page_grow(&ret->arena, ret->jobs, ret->n, sizeof *jobs);
        if (!jobs)
            return err_nomem(err);
        ret->jobs = jobs;
        restore_job((struct written_job *)list.rows + i, &ret->arena, &jobs[ret->n++]);
    }
    *ret_next = list.next;
    if (rc == 0 && list.n_unreadable > 0) {
        struct redrive_err why = {0};
        err_set(&why, REDRIVE_E_CORRUPT, "%.*s", (int)list.unreadable_first.len,
                list.unreadable_first.ptr);
        job_page_add_left_out(
            ret, &(struct job_page){.n_unreadable = (size_t)list.n_unreadable, .unreadable = &why});
    }
    return rc;
}

/* A page of large jobs ends before its limit. */
int remote_jobs(struct remote *remote, const struct buf *query, size_t limit, const char *cursor,
                struct job_page *ret, struct str *ret_next, struct redrive_err *err)
{
    int rc = 0;
    *ret_next = str_of(cursor);
    do {
        struct buf path;
        char number[24];
        buf_init(&path, REMOTE_PATH_MAX);
        buf_add_str(&path, buf_str(query));
        (void)snprintf(number, sizeof number, "%zu", limit - ret->n);
        remote_query(&path, "limit", number);
        if (ret_next->len > 0)
            remote_query(&path, "cursor", ret_next->ptr);
        rc = read_page(remote, &path, ret, ret_next, err);
        buf_release(&path);
    } while (rc == 0 && ret_next->len > 0 && ret->n < limit);
    ret->more = ret_next->len > 0;
    return rc;
}

/* ---- One job --------------------------------------------------------------------------------- */

#define ATTEMPT(m) offsetof(struct job_attempt, m)
static const struct unpack ATTEMPTS[] = {
    {.key = "epoch", UNPACK_U32, ATTEMPT(epoch)},
    {.key = "number", UNPACK_U32, ATTEMPT(number)},
    {.key = "started_at", UNPACK_TIME, ATTEMPT(started_ms)},
    {.key = "ended_at", UNPACK_TIME, ATTEMPT(ended_ms)},
    {.key = "worker", UNPACK_STR, ATTEMPT(worker)},
    {.key = "outcome", UNPACK_WORD, ATTEMPT(outcome), .words = VOCABULARY_STATE},
    {.key = "error", UNPACK_OBJECT, ATTEMPT(error), .object = UNPACK_JOB_ERROR},
    {.key = "delay", UNPACK_SPAN, ATTEMPT(delay_ms)},
    {.key = "why", UNPACK_STR, ATTEMPT(why)},
    {.key = "process_after", UNPACK_TIME, ATTEMPT(next_ms)},
    {0},
};

static int restore_history(struct str json, struct attempt_page *ret, struct redrive_err *err)
{
    struct unpack_list list = {0};
    if (json.len == 0)
        return 0;
    int rc =
        unpack_array(json, ATTEMPTS, sizeof(struct job_attempt), NULL, &ret->arena, &list, err);
    ret->attempts = list.rows;
    ret->n = list.n;
    return rc;
}

#define BUDGET(m) offsetof(struct budget_info, m)
static const struct unpack BUDGETS[] = {
    {.key = "ratio", UNPACK_DOUBLE, BUDGET(config.ratio)},
    {.key = "window", UNPACK_SPAN, BUDGET(config.window_ms)},
    {.key = "first_attempts", UNPACK_U32, BUDGET(status.firsts)},
    {.key = "retries", UNPACK_U32, BUDGET(status.retries)},
    {.key = "max_tokens", UNPACK_DOUBLE, BUDGET(config.max_tokens)},
    {.key = "token_ratio", UNPACK_DOUBLE, BUDGET(config.token_ratio)},
    {.key = "tokens", UNPACK_DOUBLE, BUDGET(status.tokens)},
    {.key = "min_per_second", UNPACK_DOUBLE, BUDGET(config.min_per_second)},
    {.key = "room", UNPACK_U32, BUDGET(status.room)},
    {0},
};

struct written_gate {
    struct gate_info gate;
    struct str kind;
    struct str rate;
};

#define GATE(m) offsetof(struct written_gate, m)
static const struct unpack GATES[] = {
    {.key = "kind", UNPACK_STR, GATE(kind)},
    {.key = "key", UNPACK_STR, GATE(gate.key)},
    {.key = "state", UNPACK_WORD, GATE(gate.state), .words = VOCABULARY_BREAKER_STATE},
    {.key = "rate", UNPACK_STR, GATE(rate)},
    {.key = "concurrency", UNPACK_U32, GATE(gate.slots.max)},
    {.key = "running", UNPACK_U32, GATE(gate.slots.used)},
    {.key = "retry_budget", UNPACK_OBJECT, GATE(gate.budget), .object = BUDGETS},
    {.key = "may_go_at", UNPACK_TIME, GATE(gate.may_go_ms)},
    {0},
};

static int restore_gate(struct str json, struct arena *arena, struct gate_info *ret,
                        struct redrive_err *err)
{
    struct written_gate written = {0};
    *ret = (struct gate_info){0};
    if (json.len == 0)
        return 0;
    int rc = unpack_object(json, GATES, arena, &written, err);
    if (rc < 0)
        return rc;
    *ret = written.gate;
    ret->is_held = true;
    ret->is_budget = str_is(written.kind, "budget");
    ret->is_limit = ret->is_budget || str_is(written.kind, "limit");
    if (written.rate.len > 0)
        (void)rate_parse(written.rate, &ret->rate, NULL);
    return 0;
}

#define WORD(m) offsetof(struct edge_words, m)
static const struct unpack EDGES[] = {
    {.key = "id", UNPACK_STR, WORD(id)},           {.key = "on", UNPACK_STR, WORD(on)},
    {.key = "on_dead", UNPACK_STR, WORD(on_dead)}, {.key = "outcome", UNPACK_STR, WORD(outcome)},
    {.key = "state", UNPACK_STR, WORD(state)},     {0},
};

static int restore_edges(struct str json, struct edge_views *views, struct edge_view **ret,
                         size_t *ret_n, struct redrive_err *err)
{
    struct unpack_list list = {0};
    if (json.len == 0)
        return 0;
    int rc = unpack_array(json, EDGES, sizeof(struct edge_words), NULL, &views->arena, &list, err);
    if (rc < 0 || list.n == 0)
        return rc;
    *ret = arena_array(&views->arena, list.n, sizeof **ret);
    if (!*ret)
        return err_nomem(err);
    for (size_t i = 0; i < list.n; i++)
        (*ret)[i] = edge_view_of((const struct edge_words *)list.rows + i);
    *ret_n = list.n;
    return 0;
}

int remote_job_read(struct remote *remote, struct str id, struct remote_job *ret,
                    struct redrive_err *err)
{
    const struct remote_request request = {.method = "GET", .before = "/jobs/", .name = id};
    struct written_job written = BLANK;
    *ret = (struct remote_job){0};
    int rc = remote_ask(remote, &request, JOB, &ret->page.arena, &written, err);
    if (rc < 0)
        return rc;
    rc = restore_history(written.history, &ret->history, err);
    if (rc == 0)
        rc = restore_gate(written.held_by, &ret->page.arena, &ret->gate, err);
    if (rc == 0)
        rc = restore_edges(written.after, &ret->edges, &ret->edges.parents, &ret->edges.n_parents,
                           err);
    if (rc == 0)
        rc = restore_edges(written.followers, &ret->edges, &ret->edges.children,
                           &ret->edges.n_children, err);
    struct job *job = rc == 0 ? arena_alloc(&ret->page.arena, sizeof *job) : NULL;
    if (job) {
        restore_job(&written, &ret->page.arena, job);
        ret->page.jobs = job;
        ret->page.n = 1;
        ret->is_paused = written.is_paused;
    } else if (rc == 0) {
        rc = err_nomem(err);
    }
    return rc;
}

void remote_job_release(struct remote_job *job)
{
    attempt_page_release(&job->history);
    edge_views_release(&job->edges);
    job_page_release(&job->page);
}

/* ---- Changes --------------------------------------------------------------------------------- */

int remote_job_change(struct remote *remote, const char *method, const char *before, struct str id,
                      const char *after, struct str body, enum redrive_state *ret_state,
                      struct redrive_err *err)
{
    static const struct unpack STATE[] = {{"state", UNPACK_WORD, 0, .words = VOCABULARY_STATE},
                                          {0}};
    const struct remote_request request = {method, before, id, after, body};
    RELEASED_BY(arena_release) struct arena arena = {0};
    int state = -1;
    int rc = remote_ask(remote, &request, STATE, &arena, &state, err);
    if (rc >= 0 && state >= 0)
        *ret_state = (enum redrive_state)state;
    return rc < 0 ? rc : 0;
}

/* ---- Tasks ----------------------------------------------------------------------------------- */

int remote_tasks(struct remote *remote, struct arena *arena, struct remote_task **ret,
                 size_t *ret_n, struct redrive_err *err)
{
    static const struct unpack COUNTERS[] = {
        {.key = "jobs_started", UNPACK_U64, offsetof(struct remote_task, started)}, {0}};
    static const struct unpack TASKS[] = {
        {.key = "task", UNPACK_STR, offsetof(struct remote_task, name)},
        {.key = "declared", UNPACK_BOOL, offsetof(struct remote_task, is_declared)},
        {.key = "counters", UNPACK_OBJECT, 0, .object = COUNTERS},
        {0},
    };
    struct unpack_list list = {0};
    int rc = remote_get_list(remote, "/tasks", TASKS, sizeof **ret, NULL, arena, &list, err);
    *ret = list.rows;
    *ret_n = rc < 0 ? 0 : list.n;
    return rc;
}

/* ---- New jobs -------------------------------------------------------------------------------- */

static void put_text(struct json_writer *w, const char *key, struct str value)
{
    if (value.len > 0)
        json_field_string(w, key, value);
}

static void put_raw(struct json_writer *w, const char *key, struct str value)
{
    if (value.len == 0)
        return;
    json_key(w, key);
    json_put_raw(w, value);
}

static void put_failed(struct json_writer *w, const struct job_failed *failed)
{
    json_key(w, "failed");
    json_begin_object(w);
    json_field_cstr(w, "class", redrive_class_name(failed->error.class_));
    json_field_cstr(w, "reason", redrive_reason_name(failed->reason));
    put_text(w, "error_type", failed->error.type);
    put_text(w, "message", failed->error.message);
    put_text(w, "stacktrace", failed->error.stacktrace);
    json_end_object(w);
}

/* The tenant is that of the token. Payload and policy have been checked: they are JSON. */
static void put_spec(struct json_writer *w, const struct job_spec *spec)
{
    json_begin_object(w);
    put_text(w, "task", spec->task);
    put_text(w, "id", spec->id);
    put_text(w, "queue", spec->queue);
    put_raw(w, "payload", spec->payload);
    put_text(w, "user", spec->user);
    put_text(w, "project", spec->project);
    put_text(w, "service", spec->service);
    put_text(w, "unique_key", spec->unique_key);
    if (spec->unique_forever)
        json_field_cstr(w, "unique", "forever");
    if (spec->priority != 0)
        json_field_int(w, "priority", spec->priority);
    if (spec->process_after_ms != 0)
        job_write_time(w, "at", spec->process_after_ms);
    if (spec->delay_ms != 0)
        json_field_double(w, "delay", (double)spec->delay_ms / 1000);
    if (spec->deadline_ms != 0)
        job_write_time(w, "deadline", spec->deadline_ms);
    after_write_json(w, spec);
    RELEASED_BY(buf_release) struct buf policy = BUF_MAX(spec->policy.len + 1);
    put_raw(w, "retry", trace_own_policy(spec->policy, &policy));
    put_text(w, "traceparent", trace_kept(spec->policy));
    if (spec->failed)
        put_failed(w, spec->failed);
    json_end_object(w);
}

#define ANSWER(m) offsetof(struct submit_answer, m)
static const struct unpack ANSWERS[] = {
    {.key = "id", UNPACK_STR, ANSWER(id)},
    {.key = "state", UNPACK_WORD, ANSWER(state), .words = VOCABULARY_STATE},
    {.key = "existed", UNPACK_BOOL, ANSWER(existed)},
    {0},
};

static int take_answers(struct str text, size_t n, struct submit_answer *ret, struct arena *arena,
                        struct redrive_err *err)
{
    struct unpack_list list = {0};
    if (n == 1)
        return unpack_object(text, ANSWERS, arena, ret, err);
    int rc = unpack_list(text, ANSWERS, sizeof *ret, NULL, arena, &list, err);
    if (rc == 0 && list.n != n)
        rc = err_set(err, REDRIVE_E_PARSE, "the answer of the server is about %zu jobs of %zu",
                     list.n, n);
    if (rc == 0)
        memcpy(ret, list.rows, n * sizeof *ret);
    return rc;
}

int remote_submit(struct remote *remote, const struct job_spec *specs, size_t n,
                  struct submit_answer *ret, struct arena *arena, struct redrive_err *err)
{
    struct json_writer w;
    RELEASED_BY(buf_release) struct buf path = BUF_MAX(REMOTE_PATH_MAX);
    RELEASED_BY(buf_release) struct buf body = BUF_MAX(HTTP_CLIENT_BODY_MAX);
    RELEASED_BY(http_answer_release) struct http_answer answer;
    http_answer_init(&answer);
    json_writer_init(&w, &body);
    if (n > 1)
        json_begin_array(&w);
    for (size_t i = 0; i < n; i++)
        put_spec(&w, &specs[i]);
    if (n > 1)
        json_end_array(&w);
    buf_puts(&path, "/jobs");
    int rc = buf_failed(&body) ? err_nomem(err) : 0;
    if (rc == 0)
        rc = remote_call(remote, "POST", &path, buf_str(&body), &answer, err);
    return rc == 0 ? take_answers(buf_str(&answer.body), n, ret, arena, err) : rc;
}

/* ---- Workflows ------------------------------------------------------------------------------- */

struct written_workflow {
    struct str jobs; /* JSON */
    bool more;
};

static const struct unpack WORKFLOW[] = {
    {.key = "jobs", UNPACK_JSON, offsetof(struct written_workflow, jobs)},
    {.key = "more", UNPACK_BOOL, offsetof(struct written_workflow, more)},
    {0},
};

struct written_member {
    struct workflow_job job;
    struct str after; /* JSON */
};

#define MEMBER(m) offsetof(struct written_member, m)
static const struct unpack MEMBERS[] = {
    {.key = "id", UNPACK_STR, MEMBER(job.id)},
    {.key = "task", UNPACK_STR, MEMBER(job.task)},
    {.key = "state", UNPACK_WORD, MEMBER(job.state), .words = VOCABULARY_STATE},
    {.key = "attempts", UNPACK_U32, MEMBER(job.attempts)},
    {.key = "after", UNPACK_JSON, MEMBER(after)},
    {0},
};

/* Adds the edges of one job to those that `capacity` has room for; `places` has the jobs before it,
 * by their ids. */
static int add_edges(struct workflow *ret, size_t *capacity, const struct map *places, size_t child,
                     struct str json, struct redrive_err *err)
{
    struct unpack_list list = {0};
    int rc = json.len > 0 ? unpack_array(json, EDGES, sizeof(struct edge_words), NULL, &ret->arena,
                                         &list, err)
                          : 0;
    if (rc < 0 || list.n == 0)
        return rc;
    if (ret->n_edges + list.n > *capacity) {
        *capacity = 2 * (ret->n_edges + list.n);
        struct workflow_edge *grown = arena_array(&ret->arena, *capacity, sizeof *grown);
        if (!grown)
            return err_nomem(err);
        if (ret->n_edges > 0)
            memcpy(grown, ret->edges, ret->n_edges * sizeof *grown);
        ret->edges = grown;
    }
    struct workflow_edge *all = ret->edges;
    for (size_t i = 0; i < list.n; i++) {
        const struct edge_view view = edge_view_of((const struct edge_words *)list.rows + i);
        const int64_t parent = view.id.len > 0 ? map_get_number(places, view.id) : 0;
        if (parent > 0)
            all[ret->n_edges++] = (struct workflow_edge){(size_t)parent - 1, child, view.edge.rule,
                                                         view.edge.outcome};
    }
    return 0;
}

static int take_members(const struct unpack_list *list, struct workflow *ret,
                        struct redrive_err *err)
{
    const struct written_member *written = list->rows;
    size_t capacity = 0;
    int rc = 0;
    ret->jobs = arena_array(&ret->arena, list->n, sizeof *ret->jobs);
    if (!ret->jobs)
        return err_nomem(err);
    RELEASED_BY(map_release) struct map places;
    map_init(&places, 0);
    for (size_t i = 0; rc == 0 && i < list->n; i++) {
        ret->jobs[ret->n_jobs++] = written[i].job;
        rc = add_edges(ret, &capacity, &places, i, written[i].after, err);
        if (rc == 0 && map_put_number(&places, written[i].job.id, (int64_t)i + 1) != 0)
            rc = err_nomem(err);
    }
    return rc;
}

int remote_workflow(struct remote *remote, struct str id, struct workflow *ret,
                    struct redrive_err *err)
{
    const struct remote_request request = {
        .method = "GET", .before = "/jobs/", .name = id, .after = "/workflow"};
    struct written_workflow written = {0};
    struct unpack_list list = {0};
    *ret = (struct workflow){0};
    int rc = remote_ask(remote, &request, WORKFLOW, &ret->arena, &written, err);
    if (rc >= 0)
        rc = unpack_array(written.jobs, MEMBERS, sizeof(struct written_member), NULL, &ret->arena,
                          &list, err);
    if (rc >= 0)
        rc = take_members(&list, ret, err);
    ret->more = written.more;
    return rc == 0 && ret->arena.failed ? err_nomem(err) : rc;
}

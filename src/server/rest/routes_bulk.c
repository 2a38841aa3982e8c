/* routes_bulk.c - one verb over all jobs that match a filter: cancel or retry; the runs that do it.
 *
 * The answer comes at once. A run goes on in chunks after it (server/bulk_runs.h), and is listed
 * with its progress. How many match is known from the counts of the store where the filter names
 * states, tasks and queues only; else matching jobs are counted, up to a number.
 */
#include <inttypes.h>
#include <stdio.h>

#include "base/err.h"
#include "server/bulk_runs.h"
#include "fields/json.h"
#include "server/rest/private.h"
#include "server/rest/resource.h"
#include "store/transition.h"

/* Jobs that are read at a time to be counted: whole ones, and they may be large. */
#define COUNT_PAGE 50
#define ALL_STATES ((1u << REDRIVE_STATE_COUNT) - 1)

struct bulk_body {
    int verb;
    struct str filter;
    struct rate rate;
    bool dry_run;
    bool all;
};

static const char *const VERBS[] = {"cancel", "retry", NULL};

#define INTO(m) offsetof(struct bulk_body, m)

static const struct field MEMBERS[] = {
    {"verb", &FIELD_WORD, INTO(verb), .words = VERBS},
    {"filter", &FIELD_OBJECT, INTO(filter)},
    {"rate", &FIELD_RATE, INTO(rate)},
    {"dry_run", &FIELD_BOOL, INTO(dry_run)},
    {"all", &FIELD_BOOL, INTO(all)},
    {0},
};

/* What was asked for, and how much that is. */
struct bulk_call {
    struct bulk_body body;
    struct job_query query;
    struct bulk bulks[BULK_PARTS_MAX];
    struct bulk_run_spec spec;
};

static int read_body(struct field_reader *b, struct bulk_call *c)
{
    uint64_t given = 0;
    c->body.verb = -1;
    int rc = fields_json_object(b, MEMBERS, &c->body, &given);
    if (rc == 0)
        rc = fields_json_end(b);
    if (rc == 0 && !field_given(given, 0))
        rc = field_missing(b, "verb", "cancel or retry");
    return rc == 0 ? kit_read_filter(b, c->body.filter, c->body.all, "jobs", &c->query) : rc;
}

/* Each verb is possible from its own states; a retry is two moves, of which each is made only from
 * the states that it is for. */
static void plan(struct bulk_call *c, int64_t now_ms)
{
    struct job_filter filter = c->query.filter;
    const bool is_cancel = c->body.verb == 0;
    if (filter.states == 0)
        filter.states = ALL_STATES;
    bulk_init(&c->bulks[0], is_cancel ? MOVE_CANCEL : MOVE_RUN_NOW, &filter, now_ms);
    if (!is_cancel)
        bulk_init(&c->bulks[1], MOVE_REDRIVE, &filter, now_ms);
    c->spec = (struct bulk_run_spec){
        .verb = is_cancel ? BULK_CANCEL : BULK_RETRY,
        .bulks = {&c->bulks[0], is_cancel ? NULL : &c->bulks[1]},
        .rate = &c->body.rate,
        .filter = c->body.filter,
    };
}

/* ---- How many -------------------------------------------------------------------------------- */

static uint32_t states_of(const struct bulk_call *c)
{
    return c->bulks[0].filter.states | (c->spec.bulks[1] ? c->bulks[1].filter.states : 0);
}

/* Whether the store has counts for such a filter. */
static bool is_counted(const struct job_filter *f)
{
    return f->user.len == 0 && f->unique_key.len == 0 && f->classes == 0 && f->reasons == 0 &&
           f->error_type.len == 0 && f->text.len == 0 && f->fingerprint == 0 &&
           f->finished_after_ms == 0 && f->finished_before_ms == 0 && f->id.len == 0;
}

static int count_by_counts(struct rest_call *call, struct bulk_call *c, struct redrive_err *err)
{
    struct store *store = rest_store(call);
    const struct job_filter *f = &c->query.filter;
    const uint32_t states = states_of(c);
    RELEASED_BY(count_page_release) struct count_page page = {0};
    const int rc =
        store_ops(store)->counts(store, COUNT_PARTITIONS, call->principal.tenant, &page, err);
    for (size_t i = 0; i < page.n && rc == 0; i++) {
        const struct job_count *line = &page.counts[i];
        if ((f->task.len > 0 && !str_eq(f->task, line->task)) ||
            (f->queue.len > 0 && !str_eq(f->queue, line->queue)))
            continue;
        for (int state = 0; state < REDRIVE_STATE_COUNT; state++)
            if (states >> state & 1)
                c->spec.matched += line->by_state[state];
    }
    return rc;
}

static int count_one_by_one(struct rest_call *call, struct bulk_call *c, struct redrive_err *err)
{
    struct store *store = rest_store(call);
    struct job_filter filter = c->query.filter;
    RELEASED_BY(job_page_release) struct job_page page = {0};
    bool more = true;
    int rc = 0;
    filter.states = states_of(c);
    filter.order = ORDER_OLDEST;
    filter.after_seq = 0;
    filter.limit = COUNT_PAGE;
    filter.skips_unreadable = true;
    while (rc == 0 && more && filter.states != 0 && c->spec.matched < KIT_COUNT_MAX) {
        rc = store_ops(store)->list(store, &filter, &page, err);
        c->spec.matched += page.n;
        more = page.more;
        if (page.n > 0)
            filter.after_seq = page.jobs[page.n - 1].status.seq;
    }
    c->spec.is_at_least = more && filter.states != 0;
    return rc;
}

/* ---- Resources ------------------------------------------------------------------------------- */

static void send_start(struct rest_call *call, int status, const struct bulk_call *c, int64_t id)
{
    struct json_writer *w = rest_json(call);
    char text[24];
    json_begin_object(w);
    if (id != 0) {
        (void)snprintf(text, sizeof text, "%" PRId64, id);
        json_field_cstr(w, "id", text);
    }
    json_field_cstr(w, "verb", VERBS[c->body.verb]);
    json_field_bool(w, "dry_run", c->body.dry_run);
    json_field_int(w, "matched", (int64_t)c->spec.matched);
    json_field_bool(w, "at_least", c->spec.is_at_least);
    json_end_object(w);
    rest_send(call, status);
}

static void start(struct rest_call *call, struct bulk_call *c)
{
    struct redrive_err err = {0};
    int64_t id = 0;
    call->is_dry_run = c->body.dry_run;
    int rc = is_counted(&c->query.filter) ? count_by_counts(call, c, &err)
                                          : count_one_by_one(call, c, &err);
    const bool has_work = rc == 0 && !c->body.dry_run && c->spec.matched > 0;
    if (has_work)
        rc = bulk_runs_start(call->rest->bulk_runs, &c->spec, &id, &err);
    if (rc < 0)
        rest_fail(call, &err, NULL);
    else
        send_start(call, has_work ? 202 : 200, c, id);
}

static void post_bulk(struct rest_call *call)
{
    struct arena *arena = http_arena(call->request);
    struct bulk_call *c = kit_alloc(call, sizeof *c);
    struct redrive_err err = {0};
    struct field_reader b;
    if (!c)
        return;
    const int64_t now_ms = rest_now_ms(call);
    job_query_init(&c->query, call->principal.tenant, JOB_QUERY_JOBS | JOB_QUERY_STATE,
                   ORDER_OLDEST, now_ms, arena, &err);
    fields_json_open(&b, http_body(call->request), arena, now_ms, &err);
    const int rc = read_body(&b, c);
    fields_json_close(&b);
    if (rc < 0) {
        kit_fail(call, &err, b.place);
        return;
    }
    plan(c, now_ms);
    start(call, c);
}

static void get_bulk(struct rest_call *call)
{
    struct json_writer *w = rest_json(call);
    api_begin_items(w);
    bulk_runs_write(call->rest->bulk_runs, call->principal.tenant, kit_redacts(call), w);
    api_end_items(w, NULL);
    rest_send(call, 200);
}

static void delete_bulk(struct rest_call *call)
{
    kit_stop_run(call, "run");
}

const struct rest_route REST_BULK[] = {
    {HTTP_POST, "/bulk", CONFIG_SCOPE_ADMIN, true, post_bulk},
    {HTTP_GET, "/bulk", CONFIG_SCOPE_READ, false, get_bulk},
    {HTTP_DELETE, "/bulk/{id}", CONFIG_SCOPE_ADMIN, true, delete_bulk},
    {0},
};

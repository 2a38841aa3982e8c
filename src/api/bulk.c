/* bulk.c - reads and counts what is asked of many jobs. */
#include "api/bulk.h"

#include "base/err.h"
#include "fields/json.h"

#define DEAD       (1u << REDRIVE_STATE_DEAD_LETTER)
#define ALL_STATES ((1u << REDRIVE_STATE_COUNT) - 1)

static const char *const VERBS[] = {
    [BULK_CANCEL] = "cancel", [BULK_RETRY] = "retry", [BULK_REMOVE] = "remove", NULL};

const char *bulk_verb_name(enum bulk_verb verb)
{
    return verb == BULK_REDRIVE ? "redrive" : VERBS[verb];
}

/* ---- What was asked for ---------------------------------------------------------------------- */

struct bulk_body {
    int verb;
    struct str filter;
    struct rate rate;
    bool dry_run;
    bool all;
};

#define INTO(m) offsetof(struct bulk_body, m)

/* A body about dead letters has all but the verb. */
enum {
    WITH_VERB = 1
};
const struct field BULK_FIELDS[] = {
    {"verb", &FIELD_WORD, INTO(verb), .words = VERBS, .uses = WITH_VERB},
    {"filter", &FIELD_OBJECT, INTO(filter)},
    {"rate", &FIELD_RATE, INTO(rate)},
    {"dry_run", &FIELD_BOOL, INTO(dry_run)},
    {"all", &FIELD_BOOL, INTO(all)},
    {0},
};

static int refuse_long_filter(struct field_reader *b, size_t len)
{
    int rc = field_fault(b, "filter", REDRIVE_E_TOO_BIG, "it is too long");
    err_detail(b->err, "it has %zu bytes; at most %d are taken", len, BULK_FILTER_MAX_BYTES);
    err_hint(b->err, "send several requests, each with a part of it");
    return rc;
}

/* `all` stands in place of the filter, and one of the two must be there. */
static int read_filter(struct field_reader *b, const struct bulk_body *body, const char *what,
                       struct job_query *query)
{
    if (body->filter.len > BULK_FILTER_MAX_BYTES)
        return refuse_long_filter(b, body->filter.len);
    (void)str_copy(query->reader.at, sizeof query->reader.at, STR("filter."));
    int rc = body->filter.len > 0 ? job_query_add_object(query, body->filter) : 0;
    if (rc == 0)
        rc = job_query_finish(query);
    if (rc < 0) {
        (void)str_copy(b->place, sizeof b->place, str_of(query->reader.place));
        return rc;
    }
    if (job_query_selects(query) == !body->all)
        return 0;
    rc = body->all ? field_fault(b, "filter", REDRIVE_E_INVALID, "it and 'all' exclude each other")
                   : field_fault(b, "filter", REDRIVE_E_INVALID, "which %s?", what);
    err_detail(b->err, "expected an object with the parameters of the list, or \"all\": true");
    return rc;
}

/* About dead letters, no body at all is one that lacks a filter. */
static int read_body(struct field_reader *b, struct str text, bool letters, struct bulk_body *body,
                     struct job_query *query)
{
    const bool is_missing = letters && text.len == 0;
    uint64_t given;
    int rc = is_missing ? 0 : fields_json_object(b, BULK_FIELDS, body, &given);
    if (rc == 0 && !is_missing)
        rc = fields_json_end(b);
    if (rc == 0 && !letters && body->verb < 0)
        rc = field_missing(b, "verb", "cancel, retry or remove");
    return rc == 0 ? read_filter(b, body, letters ? "dead letters" : "jobs", query) : rc;
}

/* Each verb is possible from its own states; a retry is two moves, of which each is made only from
 * the states that it is for. */
static void make_parts(struct bulk_plan *plan, int64_t now_ms)
{
    static const enum move_kind FIRST[] = {[BULK_CANCEL] = MOVE_CANCEL,
                                           [BULK_RETRY] = MOVE_RUN_NOW,
                                           [BULK_REMOVE] = MOVE_REMOVE,
                                           [BULK_REDRIVE] = MOVE_REDRIVE};
    struct job_filter filter = plan->query.filter;
    if (filter.states == 0)
        filter.states = ALL_STATES;
    bulk_init(&plan->parts[plan->n_parts++], FIRST[plan->verb], &filter, now_ms);
    if (plan->verb == BULK_RETRY)
        bulk_init(&plan->parts[plan->n_parts++], MOVE_REDRIVE, &filter, now_ms);
}

int bulk_plan_read(struct bulk_plan *plan, const struct api_context *c, bool letters,
                   struct redrive_err *err)
{
    struct bulk_body body = {.verb = -1};
    struct field_reader b;
    *plan = (struct bulk_plan){0};
    job_query_init(&plan->query, c->tenant, JOB_QUERY_JOBS | (letters ? 0 : JOB_QUERY_STATE),
                   ORDER_OLDEST, c->now_ms, c->arena, err);
    if (letters)
        plan->query.filter.states = DEAD;
    fields_json_open(&b, api_body(c), c->arena, c->now_ms, err);
    b.uses = letters ? 0 : WITH_VERB;
    const int rc = read_body(&b, api_body(c), letters, &body, &plan->query);
    fields_json_close(&b);
    if (rc < 0)
        return api_note_fault(c, rc, b.place);
    plan->verb = letters ? BULK_REDRIVE : (enum bulk_verb)body.verb;
    plan->filter = body.filter;
    plan->rate = body.rate;
    plan->dry_run = body.dry_run;
    make_parts(plan, c->now_ms);
    return 0;
}

int bulk_plan_read_purge(struct bulk_plan *plan, const struct api_context *c,
                         struct redrive_err *err)
{
    struct job_query *query = &plan->query;
    *plan = (struct bulk_plan){.verb = BULK_REMOVE};
    job_query_init(query, c->tenant, BULK_PURGE_USES, ORDER_OLDEST, c->now_ms, c->arena, err);
    query->filter.states = DEAD;
    api_each(c, job_query_add, query);
    int rc = job_query_finish(query);
    if (rc == 0 && query->filter.finished_before_ms == 0)
        rc = field_missing(&query->reader, "older_than_hours",
                           "a whole number of hours; 0 means all");
    if (rc < 0)
        return api_note_fault(c, rc, query->reader.place);
    plan->dry_run = query->dry_run;
    make_parts(plan, c->now_ms);
    return 0;
}

/* ---- How many -------------------------------------------------------------------------------- */

/* Whether the store has counts for such a filter. */
static bool is_counted(const struct job_filter *f)
{
    return f->user.len == 0 && f->unique_key.len == 0 && f->classes == 0 && f->reasons == 0 &&
           f->error_type.len == 0 && f->text.len == 0 && f->fingerprint == 0 &&
           f->finished_after_ms == 0 && f->finished_before_ms == 0 && f->id.len == 0;
}

static int count_by_counts(struct bulk_plan *plan, struct store *store, struct redrive_err *err)
{
    const struct job_filter *f = &plan->query.filter;
    uint32_t states = 0;
    RELEASED_BY(count_page_release) struct count_page page = {0};
    const int rc = store_ops(store)->counts(store, COUNT_PARTITIONS, f->tenant, &page, err);
    for (size_t i = 0; i < plan->n_parts; i++)
        states |= plan->parts[i].filter.states;
    plan->matched = 0;
    plan->is_at_least = false;
    for (size_t i = 0; i < page.n && rc == 0; i++) {
        const struct job_count *line = &page.counts[i];
        if ((f->task.len > 0 && !str_eq(f->task, line->task)) ||
            (f->queue.len > 0 && !str_eq(f->queue, line->queue)))
            continue;
        for (int state = 0; state < REDRIVE_STATE_COUNT; state++)
            if (states >> state & 1)
                plan->matched += line->by_state[state];
    }
    return rc;
}

static int count_one_by_one(struct bulk_plan *plan, struct store *store, uint64_t max,
                            struct redrive_err *err)
{
    int rc = 0;
    plan->matched = plan->refused = 0;
    plan->is_at_least = false;
    for (size_t i = 0; i < plan->n_parts && rc == 0 && !plan->is_at_least; i++) {
        struct bulk_forecast forecast;
        rc = bulk_count(store, &plan->parts[i], max - plan->matched, &forecast, err);
        plan->matched += forecast.changed + forecast.refused;
        plan->refused += forecast.refused;
        plan->is_at_least = forecast.is_at_least;
    }
    return rc;
}

int bulk_plan_count(struct bulk_plan *plan, struct store *store, uint64_t max, bool wanted,
                    struct redrive_err *err)
{
    const bool has_counts = is_counted(&plan->query.filter);
    const bool may_refuse = plan->verb == BULK_RETRY || plan->verb == BULK_REDRIVE;
    int rc = 0;
    plan->is_at_least = true;
    if (!has_counts || (wanted && may_refuse))
        rc = count_one_by_one(plan, store, max, err);
    plan->refused_is_known = !may_refuse || !plan->is_at_least;
    return rc == 0 && has_counts && plan->is_at_least ? count_by_counts(plan, store, err) : rc;
}

/* ---- How far --------------------------------------------------------------------------------- */

struct bulk *bulk_part(struct bulk *parts, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!parts[i].finished)
            return &parts[i];
    return NULL;
}

uint64_t bulk_changed(const struct bulk *parts, size_t n)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += parts[i].changed;
    return sum;
}

uint64_t bulk_refused(const struct bulk *parts, size_t n)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += parts[i].refused;
    return sum;
}

#define BULK "/bulk"
const struct operation API_BULK = {.method = API_POST,
                                   .path = BULK,
                                   .summary = "Cancel, retry or remove all jobs that match",
                                   .scope = CONFIG_SCOPE_ADMIN,
                                   .body = {BULK_FIELDS, WITH_VERB}};
const struct operation API_BULK_RUN = {.method = API_GET,
                                       .path = BULK "/{id}",
                                       .summary = "A run over many jobs, with its progress",
                                       /* A client that starts a run may follow it. */
                                       .scope = CONFIG_SCOPE_READ | CONFIG_SCOPE_ADMIN};
const struct operation API_BULK_STOP = {.method = API_DELETE,
                                        .path = BULK "/{id}",
                                        .summary = "Stop a run; what was done stays done",
                                        .scope = CONFIG_SCOPE_ADMIN};

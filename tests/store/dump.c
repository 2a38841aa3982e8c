#include "dump.h"

#include <inttypes.h>

#include "check.h"

/* Small on purpose, so that every dump crosses pages. */
#define PAGE       7
#define PAGE_BYTES ((size_t)1 << 24)

static void add_str(struct buf *b, const char *name, struct str s)
{
    if (s.len > 0)
        buf_printf(b, " %s=%.*s", name, (int)s.len, s.ptr);
}

static void add_int(struct buf *b, const char *name, int64_t n)
{
    if (n != 0)
        buf_printf(b, " %s=%" PRId64, name, n);
}

static void add_error(struct buf *b, const struct job_error *e)
{
    if (e->class_ != REDRIVE_CLASS_SUCCESS)
        buf_printf(b, " class=%s", redrive_class_name(e->class_));
    add_str(b, "type", e->type);
    add_str(b, "message", e->message);
    add_str(b, "stacktrace", e->stacktrace);
    add_int(b, "code", e->code);
}

static void add_spec(struct buf *b, const struct job_spec *s)
{
    buf_printf(b, "job %.*s/%.*s", (int)s->tenant.len, s->tenant.ptr, (int)s->id.len, s->id.ptr);
    add_str(b, "task", s->task);
    add_str(b, "queue", s->queue);
    add_str(b, "payload", s->payload);
    add_str(b, "user", s->user);
    add_str(b, "project", s->project);
    add_str(b, "service", s->service);
    add_str(b, "key", s->unique_key);
    add_int(b, "forever", s->unique_forever);
    add_str(b, "policy", s->policy);
    add_str(b, "breaker", s->breaker_key);
    add_str(b, "limit", s->limit_key);
    add_int(b, "priority", s->priority);
    add_int(b, "max_attempts", s->max_attempts);
    add_int(b, "spec_process_after", s->process_after_ms);
    add_int(b, "deadline", s->deadline_ms);
}

static void add_status(struct buf *b, const struct job_status *s)
{
    buf_printf(b, " %s", redrive_state_name(s->state));
    if (s->reason != REDRIVE_REASON_NONE)
        buf_printf(b, " reason=%s", redrive_reason_name(s->reason));
    add_int(b, "by_limit", s->parked_by_limit);
    add_int(b, "epoch", s->epoch);
    add_int(b, "attempts", s->attempts);
    add_int(b, "deferrals", s->deferrals);
    add_int(b, "crashes", s->crashes);
    add_int(b, "process_after", s->process_after_ms);
    add_int(b, "created", s->created_ms);
    add_int(b, "updated", s->updated_ms);
    add_int(b, "first_started", s->first_started_ms);
    add_int(b, "started", s->started_ms);
    add_int(b, "finished", s->finished_ms);
    add_int(b, "paused", s->paused_ms);
    add_int(b, "paused_since", s->paused_since_ms);
    add_int(b, "token", (int64_t)s->token);
    add_int(b, "lease", s->lease_until_ms);
    add_str(b, "worker", s->worker);
    add_int(b, "generation", (int64_t)s->permit.generation);
    add_int(b, "probe", (int64_t)s->permit.probe);
    add_error(b, &s->error);
    add_str(b, "result", s->result);
    add_int(b, "fingerprint", (int64_t)s->fingerprint);
    add_int(b, "parents", s->parents);
    add_int(b, "open_parents", s->open_parents);
    add_int(b, "children", s->children);
    buf_putc(b, '\n');
}

static void add_history(struct buf *b, const struct attempt_page *page)
{
    for (size_t i = 0; i < page->n; i++) {
        const struct job_attempt *a = &page->attempts[i];
        buf_printf(b, "  attempt %" PRIu32 ".%" PRIu32 " %s", a->epoch, a->number,
                   redrive_state_name(a->outcome));
        add_int(b, "started", a->started_ms);
        add_int(b, "ended", a->ended_ms);
        add_str(b, "worker", a->worker);
        add_error(b, &a->error);
        add_int(b, "delay", a->delay_ms);
        add_str(b, "why", a->why);
        add_int(b, "next", a->next_ms);
        buf_putc(b, '\n');
    }
}

static void add_job(struct buf *b, const struct job *job, const struct attempt_page *history)
{
    add_spec(b, &job->spec);
    add_status(b, &job->status);
    add_history(b, history);
}

/* An edge, by the name of the parent: seqs are each store's own. A copy leaves out those whose
 * parent is gone. */
static int add_edge(struct store *store, struct buf *b, struct str child,
                    const struct job_edge *edge)
{
    const struct job_filter filter = {.after_seq = edge->parent - 1, .limit = 1};
    struct job_page page = {0};
    const int rc = store_ops(store)->list(store, &filter, &page, NULL);
    if (rc == 0 && page.n > 0 && page.jobs[0].status.seq == edge->parent)
        buf_printf(b, "edge from %.*s to %.*s rule=%" PRId64 " %s\n", (int)page.jobs[0].spec.id.len,
                   page.jobs[0].spec.id.ptr, (int)child.len, child.ptr,
                   after_rule_number(edge->rule), after_outcome_name(edge->outcome));
    job_page_release(&page);
    return rc;
}

/* The edges of a page of jobs, which follow them. */
static int add_edges(struct store *store, struct buf *b, const struct job_page *jobs)
{
    int64_t seqs[PAGE];
    struct edge_page page = {0};
    for (size_t i = 0; i < jobs->n; i++)
        seqs[i] = jobs->jobs[i].status.seq;
    int rc = store_ops(store)->edges(store, EDGES_FROM_PARENTS, seqs, jobs->n, &page, NULL);
    for (size_t i = 0; i < jobs->n; i++)
        for (size_t k = 0; rc == 0 && k < page.n; k++)
            if (page.edges[k].child == seqs[i])
                rc = add_edge(store, b, jobs->jobs[i].spec.id, &page.edges[k]);
    edge_page_release(&page);
    return rc;
}

/* By name each job is what it is in the page. */
static int check_by_name(struct store *store, const struct job_page *page,
                         const struct attempt_page *histories, const struct buf *expected)
{
    struct job_page found = {0};
    struct job_name names[PAGE];
    struct buf b;
    for (size_t i = 0; i < page->n; i++)
        names[i] = (struct job_name){page->jobs[i].spec.tenant, page->jobs[i].spec.id};
    const int rc = store_ops(store)->lookup(store, names, page->n, &found, NULL);
    buf_init(&b, expected->len + 1);
    for (size_t i = 0; i < found.n && i < page->n; i++)
        add_job(&b, &found.jobs[i], &histories[i]);
    const bool same = found.n == page->n && str_eq(buf_str(&b), buf_str(expected));
    buf_release(&b);
    job_page_release(&found);
    return rc < 0 ? rc : same ? 0 : REDRIVE_E_CORRUPT;
}

/* The jobs after `filter->after_seq`, which it moves on. */
static int add_page(struct store *store, struct buf *b, struct job_filter *filter,
                    struct job_page *page, struct attempt_page *histories)
{
    int64_t seqs[PAGE];
    struct buf some;
    int rc = store_ops(store)->list(store, filter, page, NULL);
    for (size_t i = 0; i < page->n; i++)
        filter->after_seq = seqs[i] = page->jobs[i].status.seq;
    if (rc == 0)
        rc = store_ops(store)->history(store, seqs, page->n, histories, NULL);
    if (rc < 0)
        return rc;
    buf_init(&some, PAGE_BYTES);
    for (size_t i = 0; i < page->n; i++)
        add_job(&some, &page->jobs[i], &histories[i]);
    assert_false(buf_failed(&some));
    rc = check_by_name(store, page, histories, &some);
    buf_puts(b, buf_cstr(&some));
    buf_release(&some);
    return rc == 0 ? add_edges(store, b, page) : rc;
}

static int add_jobs(struct store *store, struct buf *b)
{
    struct attempt_page histories[PAGE] = {0};
    struct job_page page = {0};
    struct job_filter filter = {.limit = PAGE};
    int rc;
    do
        rc = add_page(store, b, &filter, &page, histories);
    while (rc == 0 && page.more);
    attempt_pages_release(histories, PAGE);
    job_page_release(&page);
    return rc;
}

static int add_queues(struct store *store, struct buf *b)
{
    struct count_page page = {0};
    const int rc = store_ops(store)->counts(store, COUNT_QUEUES, (struct str){0}, &page, NULL);
    for (size_t i = 0; i < page.n; i++) {
        const struct job_count *q = &page.counts[i];
        buf_printf(b, "queue %.*s/%.*s", (int)q->tenant.len, q->tenant.ptr, (int)q->queue.len,
                   q->queue.ptr);
        for (int s = 0; s < REDRIVE_STATE_COUNT; s++)
            add_int(b, redrive_state_name((enum redrive_state)s), (int64_t)q->by_state[s]);
        add_int(b, "oldest_ready", q->oldest_ready_ms);
        add_int(b, "next_due", q->next_due_ms);
        add_int(b, "paused", q->paused);
        buf_putc(b, '\n');
    }
    count_page_release(&page);
    return rc;
}

static int add_partitions(struct store *store, struct buf *b)
{
    struct count_page page = {0};
    const int rc = store_ops(store)->counts(store, COUNT_PARTITIONS, (struct str){0}, &page, NULL);
    for (size_t i = 0; i < page.n; i++) {
        const struct job_count *l = &page.counts[i];
        buf_printf(b, "partition %.*s/%.*s/%.*s", (int)l->tenant.len, l->tenant.ptr,
                   (int)l->queue.len, l->queue.ptr, (int)l->task.len, l->task.ptr);
        for (int s = 0; s < REDRIVE_STATE_COUNT; s++)
            add_int(b, redrive_state_name((enum redrive_state)s), (int64_t)l->by_state[s]);
        buf_putc(b, '\n');
    }
    count_page_release(&page);
    return rc;
}

static int add_gates(struct store *store, struct buf *b)
{
    struct count_page page = {0};
    int rc = store_ops(store)->counts(store, COUNT_PARKED, (struct str){0}, &page, NULL);
    for (size_t i = 0; i < page.n; i++)
        buf_printf(b, "gate %.*s/%.*s parked=%" PRIu64 "\n", (int)page.counts[i].tenant.len,
                   page.counts[i].tenant.ptr, (int)page.counts[i].gate.len, page.counts[i].gate.ptr,
                   page.counts[i].jobs);
    if (rc == 0)
        rc = store_ops(store)->counts(store, COUNT_RUNNING, (struct str){0}, &page, NULL);
    for (size_t i = 0; i < page.n; i++)
        buf_printf(b, "limit %.*s/%.*s running=%" PRIu64 "\n", (int)page.counts[i].tenant.len,
                   page.counts[i].tenant.ptr, (int)page.counts[i].gate.len, page.counts[i].gate.ptr,
                   page.counts[i].jobs);
    count_page_release(&page);
    return rc;
}

static int add_groups(struct store *store, struct buf *b)
{
    struct group_page page = {0};
    struct job_filter filter = {.limit = STORE_PAGE_MAX};
    const int rc = store_ops(store)->groups(store, &filter, &page, NULL);
    for (size_t i = 0; i < page.n; i++) {
        const struct group_count *g = &page.groups[i];
        buf_printf(b, "group %" PRIu64 " %" PRIu64 " times", g->fingerprint, g->count);
        add_int(b, "first", g->first_ms);
        add_int(b, "last", g->last_ms);
        add_str(b, "example", g->example.spec.id);
        buf_putc(b, '\n');
    }
    group_page_release(&page);
    return rc;
}

static int add_shared(struct store *store, struct buf *b, enum shared_kind kind)
{
    struct shared_page page = {0};
    const int rc = store_ops(store)->shared_list(store, kind, (struct str){0}, &page, NULL);
    for (size_t i = 0; i < page.n; i++) {
        const struct shared_row *r = &page.rows[i];
        buf_printf(b, "shared %d %.*s/%.*s version=%" PRId64, (int)kind, (int)r->tenant.len,
                   r->tenant.ptr, (int)r->key.len, r->key.ptr, r->version);
        add_str(b, "value", r->value);
        if (kind == SHARED_LIMIT)
            buf_printf(b, " used=%" PRId64 " sent=%" PRId64, r->sums.used, r->sums.sent);
        buf_putc(b, '\n');
    }
    shared_page_release(&page);
    return rc;
}

static int add_counters(struct store *store, struct buf *b)
{
    struct counter_page page = {0};
    const int rc = store_ops(store)->counters_list(store, (struct str){0}, &page, NULL);
    for (size_t i = 0; i < page.n; i++) {
        const struct counter *c = &page.counters[i];
        buf_printf(b, "counter %.*s", (int)c->tenant.len, c->tenant.ptr);
        add_str(b, "name", c->name);
        add_str(b, "label", c->label);
        add_int(b, "value", c->value);
        buf_putc(b, '\n');
    }
    counter_page_release(&page);
    return rc;
}

static int add_remembered_keys(struct store *store, struct buf *b)
{
    struct remembered_key_page page = {0};
    struct buf tenant, key;
    int rc;
    buf_init(&tenant, 1 << 10);
    buf_init(&key, 1 << 10);
    do {
        rc = store_ops(store)->remembered_keys(store, buf_str(&tenant), buf_str(&key), PAGE, &page,
                                               NULL);
        for (size_t i = 0; i < page.n; i++) {
            const struct remembered_key *k = &page.keys[i];
            buf_printf(b, "held %.*s/%.*s id=%.*s %s\n", (int)k->tenant.len, k->tenant.ptr,
                       (int)k->key.len, k->key.ptr, (int)k->id.len, k->id.ptr,
                       redrive_state_name(k->state));
            buf_reset(&tenant);
            buf_add_str(&tenant, k->tenant);
            buf_reset(&key);
            buf_add_str(&key, k->key);
        }
    } while (rc == 0 && page.more);
    remembered_key_page_release(&page);
    buf_release(&tenant);
    buf_release(&key);
    return rc;
}

int dump_damaged_store(struct store *store, struct buf *ret)
{
    static int (*const PARTS[])(struct store *, struct buf *) = {
        add_jobs, add_queues, add_partitions, add_gates, add_groups,
    };
    int rc = 0;
    buf_reset(ret);
    for (size_t i = 0; rc == 0 && i < sizeof PARTS / sizeof PARTS[0]; i++)
        rc = PARTS[i](store, ret);
    for (int kind = SHARED_BREAKER; rc == 0 && kind < SHARED_KIND_COUNT; kind++)
        rc = add_shared(store, ret, (enum shared_kind)kind);
    if (rc == 0)
        rc = add_counters(store, ret);
    if (rc == 0)
        rc = add_remembered_keys(store, ret);
    assert_int_equal(buf_failed(ret), 0);
    return rc;
}

void dump_store(struct store *store, struct buf *ret)
{
    assert_int_equal(dump_damaged_store(store, ret), 0);
}

#include "random_transaction.h"

#include <inttypes.h>
#include <stdio.h>

#include "random_choice.h"
#include "scans.h"

static const char *const KEYS[] = {"k1", "k2", "k3", "k4"};
static const char *const GATES[] = {"l1", "l2", "l3"};
static const char *const MESSAGES[] = {"no answer", "refused", "bad input 17"};

void random_side_init(struct random_side *side, struct store *store, struct buf *out)
{
    *side = (struct random_side){.store = store, .now_ms = INT64_C(1700000000000), .out = out};
}

void random_side_release(struct random_side *side)
{
    job_page_release(&side->page);
    arena_release(&side->arena);
}

static void keep_job(struct random_side *s, int64_t seq, struct str tenant, struct str id)
{
    struct random_job *job = &s->jobs[s->n_jobs++ % RANDOM_JOBS];
    job->seq = seq;
    assert_true(str_copy(job->tenant, sizeof job->tenant, tenant));
    assert_true(str_copy(job->id, sizeof job->id, id));
}

static void tell(struct random_side *s, const char *what, const struct move_result *r)
{
    buf_printf(s->out, "%s %s", what, r->code == 0 ? "ok" : redrive_err_name(r->code));
    if (r->code != REDRIVE_E_NOT_FOUND)
        buf_printf(s->out, " %s", redrive_state_name(r->state));
    buf_putc(s->out, '\n');
}

/* As tell_page, of a page that need not tell ids. */
static void tell_places(struct random_side *s, const char *what)
{
    buf_printf(s->out, "%s:", what);
    for (size_t i = 0; i < s->page.n; i++)
        buf_printf(s->out, " %d", place_of(s, s->page.jobs[i].status.seq));
    buf_puts(s->out, s->page.more ? " …\n" : "\n");
}

static const struct job *read_job(struct random_side *s, const struct random_job *job)
{
    const struct job_name name = {str_of(job->tenant), str_of(job->id)};
    CALL(s, lookup, &name, 1, &s->page);
    return s->page.n > 0 ? &s->page.jobs[0] : NULL;
}

/* Of a child that counts parents: its edges go with it. A parent is of the same tenant, and older.
 */
static void put_edge(struct random_side *s, struct str tenant, int64_t child)
{
    const struct random_job *parent = any_job(s);
    const struct job_edge edge = {
        .parent = parent->seq,
        .child = child,
        .rule = after_rule_numbered((int64_t)below(s, AFTER_ON_COUNT * AFTER_DEAD_COUNT)),
        .outcome = (enum after_outcome)below(s, AFTER_OUTCOME_COUNT),
    };
    if (parent->seq < child && str_eq(str_of(parent->tenant), tenant))
        CALL(s, edges_put, &edge, 1);
}

/* What the store has, and then one more edge, or another outcome of one that is there. */
static void do_edges(struct random_side *s)
{
    const enum edge_side side = one_in(s, 2) ? EDGES_TO_CHILDREN : EDGES_FROM_PARENTS;
    const struct job *job = read_job(s, any_job(s));
    const int64_t seqs[] = {any_seq(s), any_seq(s)};
    struct edge_page page = {0};
    if (job && job->status.parents > 0)
        put_edge(s, job->spec.tenant, job->status.seq);
    CALL(s, edges, side, seqs, seqs[0] == seqs[1] ? 1 : 2, &page);
    for (size_t i = 0; i < page.n; i++) {
        const struct job_edge *edge = &page.edges[i];
        buf_printf(s->out, "edge %d to %d %d %s\n", place_of(s, edge->parent),
                   place_of(s, edge->child), (int)after_rule_number(edge->rule),
                   after_outcome_name(edge->outcome));
    }
    edge_page_release(&page);
}

/* Before any move, because a store need not show those of its transaction. */
static void do_parents(struct random_side *s)
{
    const int64_t seqs[] = {any_seq(s), any_seq(s)};
    struct parent_page page = {0};
    CALL(s, parents, seqs, seqs[0] == seqs[1] ? 1 : 2, &page);
    for (size_t i = 0; i < page.n; i++) {
        const struct job_parent *parent = &page.parents[i];
        buf_printf(s->out, "parent %.*s of %d: %s, %d, ", (int)parent->id.len, parent->id.ptr,
                   place_of(s, parent->child), redrive_state_name(parent->state),
                   parent->is_omitted);
        buf_add_str(s->out, parent->result);
        buf_putc(s->out, '\n');
    }
    parent_page_release(&page);
}

static void do_adopt(struct random_side *s)
{
    const struct edge_move moves[] = {{any_seq(s), 1}, {any_seq(s), 2}};
    struct move_result r[2];
    CALL(s, move, ADOPTS(moves, 2), r);
    for (int i = 0; i < 2; i++) {
        tell(s, "adopt", &r[i]);
        buf_printf(s->out, "%u children\n", r[i].code == 0 ? r[i].children : 0);
    }
}

static void do_release(struct random_side *s)
{
    const struct edge_move moves[] = {{any_seq(s), 1 + (uint32_t)below(s, 2)}, {any_seq(s), 1}};
    struct move_result r[2];
    CALL(s, move, RELEASES(moves, 2), r);
    tell(s, "release", &r[0]);
    tell(s, "release", &r[1]);
}

static void do_submit(struct random_side *s)
{
    struct job_spec specs[4];
    struct submit_result r[4];
    size_t n = 1 + below(s, 4);
    for (size_t i = 0; i < n; i++) {
        unsigned id = one_in(s, 10) && s->n_ids > 0 ? s->n_ids - 1 : s->n_ids++;
        specs[i] = (struct job_spec){
            .tenant = CHOICE(s, TENANTS),
            .id = str_of(arena_printf(&s->arena, "job-%u", id)),
            .task = CHOICE(s, TASKS),
            .queue = CHOICE(s, QUEUES),
            .payload = str_of(arena_printf(&s->arena, "{\"n\":%u}", id)),
            .user = WORD(s, TASKS),
            .unique_key = one_in(s, 3) ? CHOICE(s, KEYS) : (struct str){0},
            .unique_forever = one_in(s, 8),
            .breaker_key = WORD(s, GATES),
            .limit_key = WORD(s, GATES),
            .priority = (int32_t)below(s, 5) - 2,
            .max_attempts = 1 + (int32_t)below(s, 5),
            .process_after_ms = one_in(s, 3) ? s->now_ms + (int64_t)below(s, 9000) - 1000 : 0,
            .deadline_ms = one_in(s, 4) ? s->now_ms + 99 : 0,
        };
        specs[i].open_parents = one_in(s, 5) ? 1 + (uint32_t)below(s, 3) : 0;
        specs[i].parents = specs[i].open_parents + (uint32_t)below(s, 2);
        specs[i].children = (uint32_t)below(s, 2);
    }
    CALL(s, submit, specs, n, r, &s->arena);
    for (size_t i = 0; i < n; i++) {
        buf_printf(s->out, "submit %s %s %.*s\n",
                   r[i].code == 0 ? "ok" : redrive_err_name(r[i].code),
                   redrive_state_name(r[i].state), (int)r[i].id.len, r[i].id.ptr);
        keep_job(s, r[i].seq, specs[i].tenant, r[i].id);
        if (r[i].code == 0 && specs[i].parents > 0)
            put_edge(s, specs[i].tenant, r[i].seq);
    }
}

static void start_seq(struct random_side *s, int64_t seq)
{
    const struct start_move move = {
        .seq = seq,
        .token = ++s->next_token,
        .lease_until_ms = s->now_ms + (int64_t)below(s, 6000),
        .worker = CHOICE(s, TASKS),
        .permit = {.generation = below(s, 3), .probe = below(s, 2)},
    };
    struct move_result r;
    CALL(s, move, STARTS(&move, 1), &r);
    tell(s, "start", &r);
}

/* A filter, and what it points to. */
struct random_claim {
    struct str queues[2];
    struct str tasks[2];
    size_t task_limits[2];
    struct claim_filter filter;
};

/* Within one tenant: whose turn it is, is a store's own choice. */
static void any_claim(struct random_side *s, struct random_claim *ret)
{
    const size_t n_tasks = below(s, 3);
    *ret = (struct random_claim){
        .queues = {CHOICE(s, QUEUES), CHOICE(s, QUEUES)},
        .tasks = {STR("mail"), STR("resize")},
        .task_limits = {1 + below(s, 4), 1 + below(s, 4)},
    };
    ret->filter = (struct claim_filter){
        .tenant = CHOICE(s, TENANTS),
        .queues = ret->queues,
        .n_queues = str_eq(ret->queues[0], ret->queues[1]) ? 0 : 2,
        .tasks = ret->tasks,
        .n_tasks = n_tasks,
        .task_limits = n_tasks > 0 && one_in(s, 2) ? ret->task_limits : NULL,
        .limit = 1000,
    };
}

static void claim_by(struct random_side *s, const struct claim_filter *filter)
{
    CALL(s, ready, filter, &s->page);
    tell_page(s, "ready");
    int64_t seqs[3];
    size_t n = s->page.n < 3 ? s->page.n : 3;
    for (size_t i = 0; i < n; i++)
        seqs[i] = s->page.jobs[i].status.seq;
    for (size_t i = 0; i < n; i++)
        start_seq(s, seqs[i]);
}

static void do_claim(struct random_side *s)
{
    struct random_claim claim;
    any_claim(s, &claim);
    claim_by(s, &claim.filter);
}

/* The claim that the transaction before has let its commit look for. */
static void claim_as_expected(struct random_side *s)
{
    const struct rng rng = s->rng;
    struct random_claim claim;
    rng_seed(&s->rng, s->claim_seed);
    any_claim(s, &claim);
    s->rng = rng;
    claim_by(s, &claim.filter);
}

static void look_ahead(struct random_side *s)
{
    struct random_claim claim;
    const uint64_t seed = rng_next(&s->rng);
    const struct rng rng = s->rng;
    rng_seed(&s->rng, seed);
    any_claim(s, &claim);
    s->rng = rng;
    if (s->looks_ahead && store_ops(s->store)->look_ahead)
        store_ops(s->store)->look_ahead(s->store, &claim.filter);
    s->claim_seed = seed;
}

static void do_start(struct random_side *s)
{
    start_seq(s, any_seq(s));
}

static struct decision any_decision(struct random_side *s)
{
    struct decision d = {.uses_attempt = true, .crashes = (uint32_t)below(s, 3)};
    switch (below(s, 8)) {
    case 0:
    case 1: d.state = REDRIVE_STATE_COMPLETED; return d;
    case 2: d.state = REDRIVE_STATE_CANCELLED; return d;
    case 3:
        d.state = REDRIVE_STATE_QUEUED;
        d.uses_attempt = false;
        return d;
    case 4:
        d.state = REDRIVE_STATE_SCHEDULED;
        d.uses_attempt = false;
        d.delay_ms = (int64_t)below(s, 5000);
        d.why = DELAY_SNOOZE;
        return d;
    case 5:
        d.state = one_in(s, 2) ? REDRIVE_STATE_DEAD_LETTER : REDRIVE_STATE_FAILED;
        d.reason = REDRIVE_REASON_EXHAUSTED;
        break;
    default:
        d.state = REDRIVE_STATE_RETRYING;
        d.delay_ms = (int64_t)below(s, 5000);
        d.why = DELAY_BACKOFF;
        break;
    }
    d.class_ = (enum redrive_class)(1 + below(s, REDRIVE_CLASS_COUNT - 1));
    return d;
}

static void do_settle(struct random_side *s)
{
    const struct random_job *known = any_job(s);
    const struct job *job = read_job(s, known);
    uint64_t token = job && !one_in(s, 8) ? job->status.token : below(s, s->next_token + 2);
    struct decision d = any_decision(s);
    const struct settle_move move = {
        .seq = known->seq,
        .token = token,
        .decision = &d,
        .error = {.class_ = d.class_,
                  .type = WORD(s, TASKS),
                  .message = WORD(s, MESSAGES),
                  .stacktrace = WORD(s, GATES),
                  .code = (int32_t)below(s, 600)},
        .result = one_in(s, 3) ? STR("{}") : (struct str){0},
        .fingerprint = below(s, 3) * UINT64_C(0x9000000000000001),
    };
    struct move_result r;
    CALL(s, move, SETTLES(&move, 1), &r);
    tell(s, "settle", &r);
}

/* Takes over a twin of a job, as if it came from another store. A key that is unique for ever has
 * one holder, so the twin gets one of its own. */
static void do_import(struct random_side *s)
{
    const struct job *job = read_job(s, any_job(s));
    if (!job)
        return;
    struct job twin = *job;
    twin.status.children = 0;
    struct attempt_page attempts = {0};
    struct move_result r;
    CALL(s, history, &job->status.seq, 1, &attempts);
    if (!one_in(s, 4))
        twin.spec.id = str_of(arena_printf(&s->arena, "twin-%u", s->n_ids++));
    if (twin.spec.unique_forever)
        twin.spec.unique_key = str_of(arena_printf(&s->arena, "own-%u", s->n_ids));
    const struct imported_job imported = {
        .job = &twin, .attempts = attempts.attempts, .n_attempts = attempts.n};
    CALL(s, import, &imported, 1, &r);
    tell(s, "import", &r);
    attempt_page_release(&attempts);
    if (r.code != 0)
        return;
    /* The page that `twin` lives in is read anew: its id is not in it. */
    const struct job_filter filter = {.id = twin.spec.id, .limit = 1};
    CALL(s, list, &filter, &s->page);
    if (s->page.n == 1)
        keep_job(s, s->page.jobs[0].status.seq, s->page.jobs[0].spec.tenant,
                 s->page.jobs[0].spec.id);
}

static void do_import_key(struct random_side *s)
{
    const struct remembered_key key = {
        .tenant = CHOICE(s, TENANTS),
        .key = str_of(arena_printf(&s->arena, "held-%u", (unsigned)below(s, 200))),
        .id = CHOICE(s, MESSAGES),
        .state = (enum redrive_state)below(s, REDRIVE_STATE_COUNT),
    };
    CALL(s, import_keys, &key, 1);
}

static void do_extend(struct random_side *s)
{
    struct extend_move moves[3];
    struct move_result r[3];
    for (int i = 0; i < 3; i++) {
        const struct random_job *known = any_job(s);
        const struct job *job = read_job(s, known);
        moves[i] = (struct extend_move){known->seq, job && !one_in(s, 5) ? job->status.token : 7,
                                        s->now_ms + (int64_t)below(s, 9000)};
    }
    CALL(s, move, EXTENDS(moves, 3), r);
    for (int i = 0; i < 3; i++)
        tell(s, "extend", &r[i]);
}

static void do_park(struct random_side *s)
{
    const int64_t seqs[] = {any_seq(s), any_seq(s), any_seq(s)};
    struct move_result r[3];
    CALL(s, move, PARKS(seqs, 3, one_in(s, 2)), r);
    for (int i = 0; i < 3; i++)
        tell(s, "park", &r[i]);
}

static void do_unpark(struct random_side *s)
{
    struct move_result r;
    struct scan scan = {.index = (enum scan_index)(SCAN_PARKED_OLDEST + below(s, 3)),
                        .limit = 1 + below(s, 4),
                        .tenant = CHOICE(s, TENANTS),
                        .name = CHOICE(s, GATES)};
    CALL(s, scan, &scan, &s->page);
    tell_places(s, "parked");
    int64_t seq = s->page.n > 0 ? s->page.jobs[0].status.seq : any_seq(s);
    CALL(s, move, UNPARKS(&seq, 1), &r);
    tell(s, "unpark", &r);
}

static void do_promote(struct random_side *s)
{
    size_t moved = 0;
    int64_t next_ms = 0;
    DO(s, scan_promote, 1 + below(s, 5), &moved, &next_ms);
    buf_printf(s->out, "promote %zu next %" PRId64 "\n", moved, next_ms);
}

static void do_expired(struct random_side *s)
{
    struct scan scan = {.index = SCAN_LEASES, .limit = 1 + below(s, 5)};
    CALL(s, scan, &scan, &s->page);
    tell_page(s, "expired");
    buf_printf(s->out, "next %" PRId64 "\n", scan.next_ms);
}

static void do_overdue(struct random_side *s)
{
    struct scan scan = {.index = SCAN_DEADLINES, .limit = 1 + below(s, 5)};
    CALL(s, scan, &scan, &s->page);
    tell_page(s, "overdue");
}

static void do_credit(struct random_side *s)
{
    struct str tenant = word(s, TENANTS, 2), queue = word(s, QUEUES, 3);
    const struct pause_time pause = {.since_ms = s->now_ms - (int64_t)below(s, 3000),
                                     .until_ms = s->now_ms - (int64_t)below(s, 100)};
    struct scan scan = {.limit = 1 + below(s, 5), .tenant = tenant, .name = queue};
    bool more;
    do
        DO(s, scan_credit, &scan, pause, &more);
    while (more);
}

static void do_change(struct random_side *s)
{
    struct move_result r;
    const struct change_move move = {
        .seq = any_seq(s),
        .kind = (enum move_kind)(MOVE_CANCEL + below(s, MOVE_KIND_COUNT - MOVE_CANCEL)),
        .to = one_in(s, 2) ? REDRIVE_STATE_DEAD_LETTER : REDRIVE_STATE_FAILED,
        .reason = (enum redrive_reason)(1 + below(s, REDRIVE_REASON_COUNT - 1)),
        .payload = CHOICE(s, MESSAGES),
    };
    CALL(s, move, CHANGES(&move, 1), &r);
    tell(s, "change", &r);
}

static void do_sweep(struct random_side *s)
{
    struct scan scan = {.limit = 1 + below(s, 20),
                        .states = (uint32_t)below(s, 1u << REDRIVE_STATE_COUNT),
                        .before_ms = s->now_ms - 3000};
    size_t removed;
    bool more;
    DO(s, scan_remove, &scan, (struct str){0}, &removed, &more);
    buf_printf(s->out, "sweep %zu %d\n", removed, more);
}

static void do_sweep_tasks(struct random_side *s)
{
    const struct str task = CHOICE(s, TASKS);
    struct scan scan = {
        .limit = 1 + below(s, 20),
        .states = (uint32_t)below(s, 1u << REDRIVE_STATE_COUNT),
        .before_ms = s->now_ms - 3000,
        .after = {.ms = one_in(s, 2) ? 0 : s->now_ms - 6000},
    };
    size_t removed;
    bool more;
    DO(s, scan_remove, &scan, task, &removed, &more);
    buf_printf(s->out, "sweep_tasks %zu %d at %" PRId64 " %d\n", removed, more, scan.after.ms,
               place_of(s, scan.after.seq));
}

static void do_share(struct random_side *s)
{
    struct move_result r;
    struct shared_row row = {
        .kind = (enum shared_kind)below(s, SHARED_KIND_COUNT),
        .tenant = CHOICE(s, TENANTS),
        .key = CHOICE(s, QUEUES),
        .value = WORD(s, MESSAGES),
        .version = (int64_t)below(s, 3),
        .removed = one_in(s, 2),
    };
    /* No slots are left in use: whether these refuse it may be found out now or by the commit. */
    if (row.kind == SHARED_LIMIT)
        row.add = (struct gate_sums){row.removed ? -1000000 : (int64_t)below(s, 5) - 1,
                                     (int64_t)below(s, 5) - 1};
    CALL(s, shared_put, &row, 1, &r);
    buf_printf(s->out, "put %d\n", r.code);
}

static void do_count(struct random_side *s)
{
    const struct counter counter = {CHOICE(s, TENANTS), CHOICE(s, TASKS), WORD(s, QUEUES),
                                    1 + (int64_t)below(s, 9)};
    CALL(s, counters_add, &counter, 1);
}

/* Sweeps and cancels the oldest, so that the store stays small. */
static bool thin_out(struct random_side *s)
{
    const struct job_filter live = {.states = (1u << REDRIVE_STATE_COMPLETED) - 1, .limit = 40};
    struct scan scan = {.limit = 60, .states = ~0u, .before_ms = s->now_ms - 2000};
    size_t removed;
    bool more;
    CALL(s, list, &live, &s->page);
    if (!s->page.more)
        return false;
    DO(s, scan_remove, &scan, (struct str){0}, &removed, &more);
    buf_printf(s->out, "swept %zu\n", removed);
    for (size_t i = 0; i < 30; i++) {
        const struct change_move move = {.seq = s->page.jobs[i].status.seq, .kind = MOVE_CANCEL};
        struct move_result r;
        CALL(s, move, CHANGES(&move, 1), &r);
        tell(s, "cancel", &r);
    }
    return true;
}

static void end_transaction(struct random_side *s, const struct random_side *before)
{
    struct redrive_err err = {0};
    s->claim_seed = 0;
    if (one_in(s, 4)) {
        store_ops(s->store)->rollback(s->store);
        /* Whether their seqs are given to others later is the store's own affair. */
        memcpy(s->jobs, before->jobs, sizeof s->jobs);
        s->n_jobs = before->n_jobs;
        buf_puts(s->out, "rollback\n");
        return;
    }
    if (one_in(s, 2))
        look_ahead(s);
    if (store_ops(s->store)->commit(s->store, &err) < 0)
        fail_msg("commit: %s", err.message);
    buf_puts(s->out, "commit\n");
}

typedef void verb_fn(struct random_side *side);

static void any_verb(struct random_side *s, verb_fn *const *verbs, size_t n)
{
    verbs[below(s, n)](s);
}
#define ANY_VERB(s, verbs) any_verb(s, verbs, sizeof(verbs) / sizeof((verbs)[0]))

void random_transaction(struct random_side *s, uint64_t seed)
{
    static verb_fn *const READERS[] = {
        do_claim, do_claim,       do_claim,     do_unpark,  do_promote, do_promote, do_expired,
        do_sweep, do_sweep_tasks, random_lists, do_overdue, do_credit,  do_parents,
    };
    static verb_fn *const MOVERS[] = {
        do_submit, do_submit, do_start,   do_start,   do_start,  do_settle,     do_settle,
        do_settle, do_settle, do_settle,  do_settle,  do_extend, do_park,       do_change,
        do_change, do_change, do_share,   do_count,   do_import, do_import_key, do_edges,
        do_edges,  do_adopt,  do_release, do_release,
    };
    const struct random_side before = *s;
    int64_t now_ms, version;
    rng_seed(&s->rng, seed);
    buf_reset(s->out);
    arena_release(&s->arena);
    s->now_ms += one_in(s, 40) ? -3000 : (int64_t)below(s, 1500);
    const bool is_expected = s->claim_seed != 0 && !one_in(s, 4);
    store_look(s->store, is_expected);
    CALL(s, begin, s->now_ms, &now_ms, &version);
    if (is_expected)
        claim_as_expected(s);
    else if (!thin_out(s) && !one_in(s, 4))
        ANY_VERB(s, READERS);
    for (size_t n = below(s, 10); n > 0; n--)
        ANY_VERB(s, MOVERS);
    if (one_in(s, 8))
        random_late_reads(s);
    end_transaction(s, &before);
}

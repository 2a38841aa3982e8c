#include "scenario.h"

#include "check.h"
#include "scans.h"

#define START_MS INT64_C(1700000000000)
#define LIVE     ((1u << REDRIVE_STATE_COMPLETED) - 1)
#define HELD_MAX 16

/* A worker, and what it remembers: it may have been given up long ago. */
struct play {
    struct store *store;
    int64_t now_ms;
    uint64_t next_token;
    struct arena arena;
    struct job_page page;
    struct {
        int64_t seq;
        uint64_t token;
    } held[HELD_MAX];
    size_t n_held;
};

typedef int (*step_fn)(struct play *p);

#define CALL(p, slot, ...) store_ops((p)->store)->slot((p)->store, __VA_ARGS__, NULL)

static int run(struct play *p, step_fn step)
{
    int64_t now_ms, version;
    int rc = CALL(p, begin, p->now_ms, &now_ms, &version);
    if (rc < 0)
        return rc;
    rc = step(p);
    if (rc == 0)
        rc = store_ops(p->store)->commit(p->store, NULL);
    if (rc < 0)
        store_ops(p->store)->rollback(p->store);
    return rc;
}

static struct job_spec spec_of(const char *id, const char *key)
{
    return (struct job_spec){.tenant = STR("acme"),
                             .id = str_of(id),
                             .task = STR("mail"),
                             .queue = STR("main"),
                             .payload = str_of(id),
                             .unique_key = str_of(key),
                             .breaker_key = STR("gate"),
                             .max_attempts = 20};
}

static int submit_all(struct play *p)
{
    struct job_spec specs[] = {spec_of("a", NULL), spec_of("b", "k1"), spec_of("c", "k2"),
                               spec_of("d", NULL), spec_of("e", NULL), spec_of("f", "k3"),
                               spec_of("g", NULL), spec_of("s", NULL)};
    struct submit_result r[8];
    specs[5].unique_forever = true;
    specs[7].process_after_ms = START_MS + 5000;
    return CALL(p, submit, specs, 8, r, &p->arena);
}

static int submit_key_again(struct play *p)
{
    struct job_spec specs[] = {spec_of("b2", "k1"), spec_of("f2", "k3"), spec_of("a", NULL)};
    struct submit_result r[3];
    return CALL(p, submit, specs, 3, r, &p->arena);
}

static int claim(struct play *p)
{
    const struct claim_filter filter = {.tenant = STR("acme"), .limit = 3};
    int rc = CALL(p, ready, &filter, &p->page);
    for (size_t i = 0; rc == 0 && i < p->page.n; i++) {
        const struct start_move move = {.seq = p->page.jobs[i].status.seq,
                                        .token = ++p->next_token,
                                        .lease_until_ms = p->now_ms + 30000,
                                        .worker = STR("w")};
        struct move_result r;
        rc = CALL(p, move, STARTS(&move, 1), &r);
        assert_true(p->n_held < HELD_MAX);
        p->held[p->n_held].seq = move.seq;
        p->held[p->n_held++].token = move.token;
    }
    return rc;
}

static int extend_all(struct play *p)
{
    struct extend_move moves[HELD_MAX];
    struct move_result r[HELD_MAX];
    for (size_t i = 0; i < p->n_held; i++)
        moves[i] = (struct extend_move){p->held[i].seq, p->held[i].token, p->now_ms + 60000};
    return CALL(p, move, EXTENDS(moves, p->n_held), r);
}

static int settle_one(struct play *p, int64_t seq, uint64_t token, const struct decision *d)
{
    const struct settle_move move = {.seq = seq,
                                     .token = token,
                                     .decision = d,
                                     .error = {.class_ = d->class_, .message = STR("broken")}};
    struct move_result r;
    return CALL(p, move, SETTLES(&move, 1), &r);
}

/* Everything that is or was held, each in another way. */
static int settle_held(struct play *p)
{
    static const struct decision WAYS[] = {
        {.state = REDRIVE_STATE_COMPLETED, .uses_attempt = true},
        {.state = REDRIVE_STATE_RETRYING,
         .delay_ms = 1000,
         .uses_attempt = true,
         .class_ = REDRIVE_CLASS_NETWORK},
        {.state = REDRIVE_STATE_QUEUED},
        {.state = REDRIVE_STATE_DEAD_LETTER,
         .uses_attempt = true,
         .reason = REDRIVE_REASON_EXHAUSTED,
         .class_ = REDRIVE_CLASS_PERMANENT},
        {.state = REDRIVE_STATE_SCHEDULED, .delay_ms = 2000},
    };
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < p->n_held; i++)
        rc = settle_one(p, p->held[i].seq, p->held[i].token, &WAYS[i % 5]);
    return rc;
}

static int park_ready(struct play *p)
{
    const struct claim_filter filter = {.tenant = STR("acme"), .limit = 2};
    struct move_result r;
    int rc = CALL(p, ready, &filter, &p->page);
    for (size_t i = 0; rc == 0 && i < p->page.n; i++)
        rc = CALL(p, move, PARKS(&p->page.jobs[i].status.seq, 1, false), &r);
    return rc;
}

static int unpark_one(struct play *p)
{
    struct scan scan = {
        .index = SCAN_PARKED_PROBES, .limit = 1, .tenant = STR("acme"), .name = STR("gate")};
    struct move_result r;
    int rc = CALL(p, scan, &scan, &p->page);
    for (size_t i = 0; rc == 0 && i < p->page.n; i++)
        rc = CALL(p, move, UNPARKS(&p->page.jobs[i].status.seq, 1), &r);
    return rc;
}

static int promote(struct play *p)
{
    size_t moved;
    int64_t next_ms;
    return scan_promote(p->store, 10, &moved, &next_ms, NULL);
}

static int rescue(struct play *p)
{
    static const struct decision LOST = {
        .state = REDRIVE_STATE_RETRYING, .uses_attempt = true, .class_ = REDRIVE_CLASS_SYSTEM};
    struct scan scan = {.index = SCAN_LEASES, .limit = 10};
    int rc = CALL(p, scan, &scan, &p->page);
    for (size_t i = 0; rc == 0 && i < p->page.n; i++)
        rc = settle_one(p, p->page.jobs[i].status.seq, p->page.jobs[i].status.token, &LOST);
    return rc;
}

/* The same change for every job of a state. */
static int change_all(struct play *p, uint32_t states, struct change_move move)
{
    const struct job_filter filter = {.states = states, .limit = 2};
    struct move_result r;
    int rc = CALL(p, list, &filter, &p->page);
    for (size_t i = 0; rc == 0 && i < p->page.n; i++) {
        move.seq = p->page.jobs[i].status.seq;
        rc = CALL(p, move, CHANGES(&move, 1), &r);
    }
    return rc;
}

static int edit_and_redrive(struct play *p)
{
    const uint32_t dead = 1u << REDRIVE_STATE_DEAD_LETTER;
    int rc = change_all(p, dead, (struct change_move){.kind = MOVE_EDIT, .payload = STR("new")});
    return rc < 0 ? rc : change_all(p, dead, (struct change_move){.kind = MOVE_REDRIVE});
}

static int cancel_some(struct play *p)
{
    return change_all(p, 1u << REDRIVE_STATE_RUNNING, (struct change_move){.kind = MOVE_CANCEL});
}

static int end_some(struct play *p)
{
    return change_all(p, 1u << REDRIVE_STATE_RETRYING,
                      (struct change_move){.kind = MOVE_END,
                                           .to = REDRIVE_STATE_DEAD_LETTER,
                                           .reason = REDRIVE_REASON_DEADLINE});
}

static int remove_cancelled(struct play *p)
{
    return change_all(p, 1u << REDRIVE_STATE_CANCELLED, (struct change_move){.kind = MOVE_REMOVE});
}

static int sweep_completed(struct play *p)
{
    struct scan scan = {
        .limit = 1, .states = 1u << REDRIVE_STATE_COMPLETED, .before_ms = p->now_ms};
    size_t removed;
    bool more;
    return scan_remove(p->store, &scan, (struct str){0}, &removed, &more, NULL);
}

static int share(struct play *p)
{
    const struct shared_row row = {
        .kind = SHARED_BREAKER, .tenant = STR("acme"), .key = STR("gate"), .value = STR("open")};
    const struct counter counter = {STR("acme"), STR("completed"), STR(""), 1};
    struct move_result r;
    int rc = CALL(p, shared_put, &row, 1, &r);
    return rc < 0 ? rc : CALL(p, counters_add, &counter, 1);
}

static void leave(struct play *p)
{
    job_page_release(&p->page);
    arena_release(&p->arena);
}

void scenario_run(struct store *store)
{
    static const struct {
        int64_t wait_ms;
        step_fn step;
    } SCRIPT[] = {
        {0, submit_all},
        {10, submit_key_again},
        {10, claim},
        {10, extend_all},
        {10, settle_held},
        {10, settle_held},
        {10, park_ready},
        {10, share},
        {10, unpark_one},
        {5000, promote},
        {10, claim},
        {10, settle_held},
        {10, claim},
        {10, claim},
        {90000, rescue},
        {10, settle_held},
        {10, end_some},
        {10, promote},
        {10, claim},
        {10, settle_held},
        {10, edit_and_redrive},
        {10, claim},
        {10, cancel_some},
        {10, settle_held},
        {10, sweep_completed},
        {10, remove_cancelled},
        {10, submit_key_again},
        {10, park_ready},
    };
    struct play p = {.store = store, .now_ms = START_MS, .next_token = 100};
    for (size_t i = 0; i < sizeof SCRIPT / sizeof SCRIPT[0]; i++) {
        p.now_ms += SCRIPT[i].wait_ms;
        if (p.n_held > HELD_MAX - 4)
            p.n_held = 0;
        run(&p, SCRIPT[i].step);
    }
    leave(&p);
}

static int complete_all(struct play *p)
{
    static const struct decision DONE = {.state = REDRIVE_STATE_COMPLETED, .uses_attempt = true};
    struct scan scan = {.index = SCAN_LEASES, .limit = 10};
    int rc = CALL(p, scan, &scan, &p->page);
    for (size_t i = 0; rc == 0 && i < p->page.n; i++)
        rc = settle_one(p, p->page.jobs[i].status.seq, p->page.jobs[i].status.token, &DONE);
    return rc;
}

void scenario_drain(struct store *store)
{
    static const step_fn ROUND[] = {complete_all, promote, unpark_one, claim};
    struct play p = {.store = store, .now_ms = START_MS + 1000000, .next_token = 100000};
    const struct job_filter live = {.states = LIVE, .limit = 1};
    size_t left = 1;
    for (int round = 0; left > 0 && round < 50; round++) {
        p.now_ms += 3600000;
        p.n_held = 0;
        for (size_t i = 0; i < sizeof ROUND / sizeof ROUND[0]; i++)
            assert_int_equal(run(&p, ROUND[i]), 0);
        assert_int_equal(CALL(&p, list, &live, &p.page), 0);
        left = p.page.n;
    }
    assert_int_equal(left, 0);
    leave(&p);
}

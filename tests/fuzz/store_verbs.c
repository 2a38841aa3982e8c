#include "store_verbs.h"

#include <string.h>

#include "base/err.h"
#include "fuzz.h"
#include "store/job_json.h"

/* Jobs that verbs are about. */
#define SEQS 4

struct caller {
    struct store *store;
    const struct store_ops *ops;
    verbs_job_fn *on_job;
    bool in_transaction;
};

static const int64_t seqs[SEQS] = {1, 2, 3, 4};

/* ---- What every verb promises ---------------------------------------------------------------- */

/* The code of a verb, and the error that it may have set. */
static bool worked(struct caller *c, int rc, const struct redrive_err *err)
{
    FUZZ_CHECK(rc <= 0);
    if (rc == 0)
        return true;
    FUZZ_CHECK(err->code == rc && err->message[0] != '\0');
    FUZZ_CHECK(memchr(err->message, '\0', sizeof err->message));
    FUZZ_CHECK(memchr(err->detail, '\0', sizeof err->detail));
    FUZZ_CHECK(memchr(err->hint, '\0', sizeof err->hint));
    if (c->in_transaction)
        c->ops->rollback(c->store);
    c->in_transaction = false;
    return false;
}

static void see(struct str s)
{
    static volatile unsigned char sum;
    for (size_t i = 0; i < s.len; i++)
        sum = (unsigned char)(sum + (unsigned char)s.ptr[i]);
}

static void see_job(const struct job *job, const struct attempt_page *history)
{
    struct json_writer w;
    struct buf out;
    FUZZ_CHECK((unsigned)job->status.state < REDRIVE_STATE_COUNT);
    FUZZ_CHECK((unsigned)job->status.reason < REDRIVE_REASON_COUNT);
    FUZZ_CHECK((unsigned)job->status.error.class_ < REDRIVE_CLASS_COUNT);
    buf_init(&out, SIZE_MAX / 2);
    json_writer_init(&w, &out);
    job_write_json(&w, job, history);
    see(buf_str(&out));
    buf_release(&out);
    see(job->spec.breaker_key);
    see(job->spec.limit_key);
    (void)job_is_damaged(job);
}

static void see_page(struct caller *c, struct job_page *page, bool is_whole)
{
    for (size_t i = 0; i < page->n; i++) {
        see_job(&page->jobs[i], NULL);
        if (is_whole && c->on_job)
            c->on_job(&page->jobs[i]);
    }
    for (size_t i = 0; i < page->n_limits; i++) {
        see(page->limits[i].tenant);
        see(page->limits[i].key);
    }
    FUZZ_CHECK(!page->unreadable || page->unreadable->message[0] != '\0');
    job_page_release(page);
}

/* ---- Transactions and moves ------------------------------------------------------------------ */

static void begin(struct caller *c)
{
    struct redrive_err err = {0};
    int64_t now_ms, version;
    if (c->in_transaction)
        return;
    c->in_transaction =
        worked(c, c->ops->begin(c->store, VERBS_NOW_MS, &now_ms, &version, &err), &err);
}

static void commit(struct caller *c)
{
    struct redrive_err err = {0};
    if (!c->in_transaction)
        return;
    if (worked(c, c->ops->commit(c->store, &err), &err))
        c->in_transaction = false;
}

static void move(struct caller *c, const struct move_list *list)
{
    struct move_result ret[SEQS] = {{0}};
    struct redrive_err err = {0};
    if (!worked(c, c->ops->move(c->store, list, ret, &err), &err))
        return;
    for (size_t i = 0; i < list->n; i++)
        FUZZ_CHECK(ret[i].code <= 0);
}

/* Starts the jobs, extends their leases, and settles the first as dead, the second as done. */
static void run_jobs(struct caller *c)
{
    const struct decision dead = {.state = REDRIVE_STATE_DEAD_LETTER,
                                  .reason = REDRIVE_REASON_EXHAUSTED,
                                  .uses_attempt = true};
    const struct decision done = {.state = REDRIVE_STATE_COMPLETED, .uses_attempt = true};
    const struct job_error error = {.class_ = REDRIVE_CLASS_TRANSIENT, .type = STR("T")};
    struct start_move starts[SEQS];
    struct extend_move extends[SEQS];
    for (int i = 0; i < SEQS; i++) {
        starts[i] = (struct start_move){seqs[i], (uint64_t)i + 7, VERBS_NOW_MS + 9, STR("w"),
                                        .permit = {0}};
        extends[i] = (struct extend_move){seqs[i], (uint64_t)i + 7, VERBS_NOW_MS + 99};
    }
    const struct settle_move settles[] = {
        {seqs[0], 7, &dead, .error = error, .fingerprint = 5},
        {seqs[1], 8, &done, .result = STR("{}")},
    };
    move(c, STARTS(starts, SEQS));
    move(c, EXTENDS(extends, SEQS));
    move(c, SETTLES(settles, 2));
}

static void change_jobs(struct caller *c, enum move_kind kind)
{
    const struct job_error error = {.class_ = REDRIVE_CLASS_TRANSIENT, .type = STR("T")};
    struct change_move changes[SEQS];
    for (int i = 0; i < SEQS; i++)
        changes[i] = (struct change_move){.seq = seqs[i],
                                          .kind = kind,
                                          .to = REDRIVE_STATE_DEAD_LETTER,
                                          .reason = REDRIVE_REASON_EXHAUSTED,
                                          .payload = STR("[1]"),
                                          .error = error};
    move(c, CHANGES(changes, SEQS));
}

/* The moves that no holder of a lease makes. */
static void push_jobs(struct caller *c)
{
    const struct edge_move edges[] = {{1, 1}, {2, 1}};
    move(c, PARKS(seqs, SEQS, false));
    move(c, UNPARKS(seqs, SEQS));
    move(c, &(const struct move_list){MOVE_PROMOTE, .n = SEQS, .seqs = seqs});
    move(c, &(const struct move_list){MOVE_CREDIT, .n = SEQS, .seqs = seqs,
                                      .pause = {1, VERBS_NOW_MS}});
    move(c, ADOPTS(edges, 2));
    move(c, RELEASES(edges, 2));
}

static void submit(struct caller *c)
{
    const struct job_spec specs[] = {
        {.tenant = STR(VERBS_TENANT),
         .id = STR("new"),
         .task = STR(VERBS_TASK),
         .queue = STR(VERBS_QUEUE),
         .payload = STR("{}"),
         .unique_key = STR("u"),
         .unique_forever = true,
         .breaker_key = STR("g"),
         .limit_key = STR("g")},
        {.tenant = STR(VERBS_TENANT),
         .id = STR("new2"),
         .task = STR("another"),
         .queue = STR(VERBS_QUEUE),
         .unique_key = STR("u"),
         .deadline_ms = VERBS_NOW_MS + 1},
    };
    struct submit_result ret[2] = {{0}};
    struct redrive_err err = {0};
    struct arena arena = {0};
    if (worked(c, c->ops->submit(c->store, specs, 2, ret, &arena, &err), &err))
        for (int i = 0; i < 2; i++) {
            FUZZ_CHECK((unsigned)ret[i].state < REDRIVE_STATE_COUNT);
            see(ret[i].id);
        }
    arena_release(&arena);
}

static void import(struct caller *c)
{
    const struct job job = {
        .spec = {.tenant = STR(VERBS_TENANT),
                 .id = STR("old"),
                 .task = STR(VERBS_TASK),
                 .queue = STR(VERBS_QUEUE),
                 .unique_key = STR("u"),
                 .unique_forever = true},
        .status = {.state = REDRIVE_STATE_QUEUED, .created_ms = 1, .process_after_ms = 1}};
    const struct imported_job jobs[] = {{.job = &job}};
    const struct remembered_key key = {STR(VERBS_TENANT), STR("u2"), STR("old"),
                                       REDRIVE_STATE_COMPLETED};
    struct move_result ret[1] = {{0}};
    struct redrive_err err = {0};
    if (worked(c, c->ops->import(c->store, jobs, 1, ret, &err), &err))
        (void)worked(c, c->ops->import_keys(c->store, &key, 1, &err), &err);
}

static void put_shared(struct caller *c)
{
    struct merged_gate merged = {0};
    const struct shared_row rows[] = {
        {.kind = SHARED_LIMIT,
         .tenant = STR(VERBS_TENANT),
         .key = STR("g"),
         .value = STR("{}"),
         .version = 1,
         .add = {1, 1},
         .max_used = 9,
         .merged = &merged},
        {.kind = SHARED_LIMIT,
         .tenant = STR(VERBS_TENANT),
         .key = STR("g"),
         .is_delta = true,
         .add = {1, 1}},
        {.kind = SHARED_WORKER, .tenant = STR(VERBS_TENANT), .key = STR("w"), .value = STR("{}")},
        {.kind = SHARED_BREAKER,
         .tenant = STR(VERBS_TENANT),
         .key = STR("g"),
         .version = 1,
         .removed = true},
    };
    const struct counter counter = {STR(VERBS_TENANT), STR("n"), STR("l"), 1};
    const struct job_edge edge = {.parent = 1, .child = 2};
    struct move_result ret[4] = {{0}};
    struct redrive_err err = {0};
    if (worked(c, c->ops->shared_put(c->store, rows, 4, ret, &err), &err) &&
        worked(c, c->ops->counters_add(c->store, &counter, 1, &err), &err) &&
        worked(c, c->ops->edges_put(c->store, &edge, 1, &err), &err))
        commit(c); /* which writes to `merged` */
    else if (c->in_transaction)
        c->ops->rollback(c->store);
    c->in_transaction = false;
}

/* ---- Claims and scans ------------------------------------------------------------------------ */

static void claim(struct caller *c, bool is_narrow)
{
    const struct str queues[] = {STR(VERBS_QUEUE)}, tasks[] = {STR(VERBS_TASK)};
    const size_t limits[] = {2};
    const struct claim_filter any = {.limit = 3, .max_bytes = 4096};
    const struct claim_filter narrow = {.tenant = STR(VERBS_TENANT),
                                        .queues = queues,
                                        .n_queues = 1,
                                        .tasks = tasks,
                                        .n_tasks = 1,
                                        .task_limits = limits,
                                        .limit = 3};
    struct job_page page = {0};
    struct redrive_err err = {0};
    (void)worked(c, c->ops->ready(c->store, is_narrow ? &narrow : &any, &page, &err), &err);
    see_page(c, &page, true);
}

/* The claim of the next transaction goes with the commit of this one. */
static void claim_ahead(struct caller *c)
{
    const struct claim_filter any = {.limit = 3, .max_bytes = 4096};
    if (!c->in_transaction || !c->ops->look_ahead)
        return;
    c->ops->look_ahead(c->store, &any);
    commit(c);
    store_look(c->store, true);
    begin(c);
    if (c->in_transaction)
        claim(c, false);
}

static struct scan scan_of(enum scan_index index)
{
    return (struct scan){.index = index,
                         .limit = 2,
                         .tenant = STR(VERBS_TENANT),
                         .name = index == SCAN_READY ? STR(VERBS_QUEUE) : STR("g"),
                         .states = UINT32_MAX,
                         .before_ms = INT64_MAX};
}

static void scan(struct caller *c, enum scan_index index)
{
    struct scan asked = scan_of(index);
    struct job_page page = {0};
    struct redrive_err err = {0};
    (void)worked(c, c->ops->scan(c->store, &asked, &page, &err), &err);
    see_page(c, &page, false);
}

static void scan_ahead(struct caller *c)
{
    const struct scan scans[] = {scan_of(SCAN_DUE), scan_of(SCAN_LEASES), scan_of(SCAN_DEADLINES)};
    struct redrive_err err = {0};
    if (c->ops->scan_ahead)
        (void)worked(c, c->ops->scan_ahead(c->store, scans, 3, true, &err), &err);
}

/* ---- Reads ----------------------------------------------------------------------------------- */

static void read_jobs(struct caller *c, bool by_name)
{
    const struct job_name names[] = {{STR(VERBS_TENANT), STR("a")}, {STR(VERBS_TENANT), STR("b")}};
    struct job_page page = {0};
    struct redrive_err err = {0};
    (void)worked(c,
                 by_name ? c->ops->lookup(c->store, names, 2, &page, &err)
                         : c->ops->find(c->store, seqs, SEQS, &page, &err),
                 &err);
    see_page(c, &page, true);
}

static void list(struct caller *c, const struct job_filter *filter)
{
    struct job_page page = {0};
    struct redrive_err err = {0};
    (void)worked(c, c->ops->list(c->store, filter, &page, &err), &err);
    see_page(c, &page, true);
}

static void list_by(struct caller *c, char letter)
{
    const struct str tenant = STR(VERBS_TENANT);
    switch (letter) {
    case 'n': list(c, &(const struct job_filter){.order = ORDER_NEWEST, .limit = 2}); break;
    case 'o':
        list(c, &(const struct job_filter){.tenant = tenant,
                                           .queue = STR(VERBS_QUEUE),
                                           .states = 1u << REDRIVE_STATE_QUEUED,
                                           .limit = 2});
        break;
    case 'f':
        list(c, &(const struct job_filter){.tenant = tenant, .order = ORDER_FINISHED, .limit = 2});
        break;
    case 'd':
        list(c, &(const struct job_filter){.states = 1u << REDRIVE_STATE_DEAD_LETTER,
                                           .classes = UINT32_MAX,
                                           .reasons = UINT32_MAX,
                                           .text = STR("x"),
                                           .limit = 2});
        break;
    case 'i': list(c, &(const struct job_filter){.id = STR("a"), .limit = 2}); break;
    case 'u':
        list(c, &(const struct job_filter){.tenant = tenant, .unique_key = STR("u"), .limit = 2});
        break;
    default:
        list(c, &(const struct job_filter){.tenant = tenant,
                                           .user = STR("me"),
                                           .error_type = STR("T"),
                                           .fingerprint = 5,
                                           .limit = 2});
        break;
    }
}

static void read_histories(struct caller *c)
{
    static const struct job none;
    struct attempt_page pages[SEQS] = {{0}};
    struct redrive_err err = {0};
    (void)worked(c, c->ops->history(c->store, seqs, SEQS, pages, &err), &err);
    for (int i = 0; i < SEQS; i++) {
        see_job(&none, &pages[i]);
        for (size_t k = 0; k < pages[i].n; k++) {
            FUZZ_CHECK((unsigned)pages[i].attempts[k].outcome < REDRIVE_STATE_COUNT);
            FUZZ_CHECK((unsigned)pages[i].attempts[k].error.class_ < REDRIVE_CLASS_COUNT);
        }
    }
    attempt_pages_release(pages, SEQS);
}

static void read_edges(struct caller *c)
{
    struct edge_page page = {0};
    struct redrive_err err = {0};
    for (int side = EDGES_TO_CHILDREN; side <= EDGES_FROM_PARENTS; side++)
        if (worked(c, c->ops->edges(c->store, (enum edge_side)side, seqs, SEQS, &page, &err), &err))
            for (size_t i = 0; i < page.n; i++) {
                FUZZ_CHECK(after_on_name(page.edges[i].rule.on));
                FUZZ_CHECK(after_outcome_name(page.edges[i].outcome));
            }
    edge_page_release(&page);
}

static void read_parents(struct caller *c)
{
    struct parent_page page = {0};
    struct redrive_err err = {0};
    (void)worked(c, c->ops->parents(c->store, seqs, SEQS, &page, &err), &err);
    for (size_t i = 0; i < page.n; i++) {
        FUZZ_CHECK((unsigned)page.parents[i].state < REDRIVE_STATE_COUNT);
        see(page.parents[i].id);
        see(page.parents[i].result);
    }
    parent_page_release(&page);
}

static void count(struct caller *c)
{
    struct count_page page = {0};
    struct redrive_err err = {0};
    for (int kind = COUNT_QUEUES; kind <= COUNT_RUNNING; kind++) {
        (void)worked(
            c, c->ops->counts(c->store, (enum count_kind)kind, (struct str){0}, &page, &err), &err);
        for (size_t i = 0; i < page.n; i++) {
            see(page.counts[i].tenant);
            see(page.counts[i].queue);
            see(page.counts[i].task);
            see(page.counts[i].gate);
        }
        count_page_release(&page);
    }
}

static void see_cause(void *ctx, const struct cause_count *cause)
{
    (void)ctx;
    FUZZ_CHECK((unsigned)cause->reason < REDRIVE_REASON_COUNT);
    FUZZ_CHECK((unsigned)cause->class_ < REDRIVE_CLASS_COUNT);
    see(cause->task);
    see(cause->type);
}

static void group(struct caller *c)
{
    const struct job_filter dead = {.states = 1u << REDRIVE_STATE_DEAD_LETTER, .limit = 2};
    struct group_page page = {0};
    struct redrive_err err = {0};
    (void)worked(c, c->ops->groups(c->store, &dead, &page, &err), &err);
    for (size_t i = 0; i < page.n; i++)
        see_job(&page.groups[i].example, NULL);
    group_page_release(&page);
    (void)worked(c, c->ops->causes(c->store, &dead, see_cause, NULL, &err), &err);
}

static void list_shared(struct caller *c)
{
    struct shared_page page = {0};
    struct redrive_err err = {0};
    for (int kind = 0; kind <= (int)SHARED_TENANT; kind++) {
        (void)worked(
            c, c->ops->shared_list(c->store, (enum shared_kind)kind, (struct str){0}, &page, &err),
            &err);
        for (size_t i = 0; i < page.n; i++) {
            see(page.rows[i].tenant);
            see(page.rows[i].key);
            see(page.rows[i].value);
        }
        shared_page_release(&page);
    }
}

static void list_counters(struct caller *c)
{
    struct counter_page page = {0};
    struct redrive_err err = {0};
    (void)worked(c, c->ops->counters_list(c->store, STR(VERBS_TENANT), &page, &err), &err);
    for (size_t i = 0; i < page.n; i++) {
        see(page.counters[i].name);
        see(page.counters[i].label);
    }
    counter_page_release(&page);
}

static void list_keys(struct caller *c)
{
    const struct str none = {0}, keys[] = {STR("u"), STR("u2")};
    struct remembered_key_page page = {0};
    struct redrive_err err = {0};
    bool held[2];
    (void)worked(c, c->ops->remembered_keys(c->store, none, none, 2, &page, &err), &err);
    for (size_t i = 0; i < page.n; i++) {
        FUZZ_CHECK((unsigned)page.keys[i].state < REDRIVE_STATE_COUNT);
        see(page.keys[i].tenant);
        see(page.keys[i].key);
        see(page.keys[i].id);
    }
    remembered_key_page_release(&page);
    if (!c->in_transaction)
        (void)worked(c, c->ops->keys_held(c->store, STR(VERBS_TENANT), keys, 2, held, &err), &err);
}

/* ---- Care ------------------------------------------------------------------------------------ */

/* Outside of a transaction. */
static void care(struct caller *c, char letter)
{
    struct redrive_err err = {0};
    struct store_facts facts;
    struct store_election election;
    uint32_t notification;
    switch (letter) {
    case 'v': (void)worked(c, c->ops->verify(c->store, NULL, NULL, &err), &err); break;
    case 'w': (void)worked(c, c->ops->wait(c->store, 0, &notification, &err), &err); break;
    case 'x': (void)worked(c, c->ops->facts(c->store, &facts, &err), &err); break;
    case 'y':
        if (c->ops->elect)
            (void)worked(c, c->ops->elect(c->store, 1000, true, &election, &err), &err);
        break;
    case 'z':
        if (c->ops->upkeep)
            c->ops->upkeep(c->store);
        break;
    default: break;
    }
}

/* ---- Letters --------------------------------------------------------------------------------- */

/* Changes by hand or by the clock: which letter is which move. */
static const char CHANGE_LETTERS[] = "CWDEXBK";
static const enum move_kind CHANGE_KINDS[] = {MOVE_CANCEL, MOVE_RUN_NOW, MOVE_REDRIVE, MOVE_END,
                                              MOVE_REMOVE, MOVE_EDIT,    MOVE_SKIP};

/* Verbs that need a transaction, which is begun if there is none: digits are scans. */
static void obey_in_transaction(struct caller *c, char letter)
{
    const char *change = strchr(CHANGE_LETTERS, letter);
    begin(c);
    if (!c->in_transaction)
        return;
    switch (letter) {
    case 'R': claim(c, false); break;
    case 'N': claim(c, true); break;
    case 'A': claim_ahead(c); break;
    case 'Z': scan_ahead(c); break;
    case 'P': read_parents(c); break;
    case 'J': submit(c); break;
    case 'I': import(c); break;
    case 'S': put_shared(c); break;
    case 'M': push_jobs(c); break;
    case 'Q': run_jobs(c); break;
    default:
        if (change)
            change_jobs(c, CHANGE_KINDS[change - CHANGE_LETTERS]);
        else if (letter >= '0' && letter <= '7')
            scan(c, (enum scan_index)(letter - '0'));
        break;
    }
}

/* Verbs that work within a transaction and outside of one. */
static void obey_anywhere(struct caller *c, char letter)
{
    switch (letter) {
    case 'c': commit(c); break;
    case 'l': read_jobs(c, true); break;
    case 's': read_jobs(c, false); break;
    case 'h': read_histories(c); break;
    case 'e': read_edges(c); break;
    case 'k': count(c); break;
    case 'g': group(c); break;
    case 'r': list_shared(c); break;
    case 'm': list_counters(c); break;
    case 'q': list_keys(c); break;
    default:
        if (strchr("nofdiut", letter))
            list_by(c, letter);
        else if (!c->in_transaction)
            care(c, letter);
        break;
    }
}

size_t verbs_length(const uint8_t *data, size_t size)
{
    size_t n = 0;
    while (n < size && data[n] != '\n')
        n++;
    return n < size ? n + 1 : size;
}

void verbs_obey(struct store *store, const uint8_t *letters, size_t n, verbs_job_fn *on_job)
{
    struct caller c = {.store = store, .ops = store_ops(store), .on_job = on_job};
    for (size_t i = 0; i < n && i < VERBS_MAX && letters[i] != '\n'; i++) {
        const char letter = (char)letters[i];
        if (letter == '\0')
            continue;
        if ((letter >= 'A' && letter <= 'Z') || (letter >= '0' && letter <= '9'))
            obey_in_transaction(&c, letter);
        else
            obey_anywhere(&c, letter);
    }
    if (c.in_transaction)
        c.ops->rollback(store);
}

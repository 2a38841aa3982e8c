/* engine.c - an engine whose committer and clock are the fuzz target's. */
#include "session.h"

#include <sys/mman.h>
#include <unistd.h>

#include "base/time/clock.h"
#include "engine/engine.h"

#define START_MS     INT64_C(1800000000000)
#define MONOTONIC_MS INT64_C(1000000)

static struct {
    struct engine *engine;
    struct list waiting; /* operations */
    void (*on_ready)(void);
    int64_t passed_ms;
} live;

/* ---- Time and chance ------------------------------------------------------------------------- */

int64_t __wrap_clock_wall_ms(void);
int64_t __wrap_clock_monotonic_ms(void);
int64_t __wrap_clock_monotonic_ns(void);
uint64_t __wrap_rng_system_seed(void);

int64_t __wrap_clock_wall_ms(void)
{
    return START_MS + live.passed_ms;
}

int64_t __wrap_clock_monotonic_ms(void)
{
    return MONOTONIC_MS + live.passed_ms;
}

int64_t __wrap_clock_monotonic_ns(void)
{
    return __wrap_clock_monotonic_ms() * 1000000;
}

uint64_t __wrap_rng_system_seed(void)
{
    return 7;
}

int64_t session_now_ms(void)
{
    return __wrap_clock_monotonic_ms();
}

void session_move_clock(int64_t ms)
{
    live.passed_ms += ms;
}

static int64_t engine_clock(void *ctx)
{
    (void)ctx;
    return __wrap_clock_wall_ms();
}

/* ---- In the place of the committer ----------------------------------------------------------- */

void __wrap_committer_submit_all(struct committer *c, struct list *ops);
void __wrap_committer_submit(struct committer *c, struct op *op);
int __wrap_committer_run(struct committer *c, struct op *op, struct redrive_err *err);
const struct engine *__wrap_committer_engine(const struct committer *c);
struct store_status *__wrap_committer_store_status(const struct committer *c);
size_t __wrap_committer_n_shards(const struct committer *c);

struct committer *session_committer(void)
{
    return (struct committer *)(void *)&live;
}

void __wrap_committer_submit_all(struct committer *c, struct list *ops)
{
    (void)c;
    LIST_FOREACH (ops, link) {
        list_remove(link);
        list_insert(&live.waiting, link);
    }
}

void __wrap_committer_submit(struct committer *c, struct op *op)
{
    (void)c;
    list_insert(&live.waiting, &op->link);
}

static void note_done(struct op *op, void *ctx)
{
    (void)op;
    *(bool *)ctx = true;
}

int __wrap_committer_run(struct committer *c, struct op *op, struct redrive_err *err)
{
    bool is_done = false;
    op->done = note_done;
    op->done_ctx = &is_done;
    __wrap_committer_submit(c, op);
    while (!is_done)
        FUZZ_CHECK(session_commit());
    if (op->code < 0 && err)
        *err = op->err;
    return op->code;
}

const struct engine *__wrap_committer_engine(const struct committer *c)
{
    (void)c;
    return live.engine;
}

struct store_status *__wrap_committer_store_status(const struct committer *c)
{
    (void)c;
    return engine_store_status(live.engine);
}

size_t __wrap_committer_n_shards(const struct committer *c)
{
    (void)c;
    return 1;
}

static bool is_due(int64_t at_ms)
{
    return at_ms <= engine_now_ms(live.engine);
}

/* In the order of the committer's own thread. */
bool session_commit(void)
{
    struct op *ops[COMMITTER_MAX_OPS];
    size_t n = 0;
    const bool is_time = is_due(engine_next_ms(live.engine));
    while (!list_empty(&live.waiting) && n < COMMITTER_MAX_OPS) {
        ops[n] = LIST_ENTRY(live.waiting.next, struct op, link);
        list_remove(&ops[n++]->link);
    }
    if (is_time) {
        int64_t next_ms;
        FUZZ_CHECK(engine_tick(live.engine, &next_ms, NULL) == 0);
    }
    if (n > 0)
        engine_apply(live.engine, ops, n);
    const bool is_flush = is_due(engine_flush_ms(live.engine));
    if (is_flush)
        engine_flush(live.engine);
    const bool made_ready = engine_made_ready(live.engine);
    for (size_t i = 0; i < n; i++)
        ops[i]->done(ops[i], ops[i]->done_ctx);
    if (made_ready)
        live.on_ready();
    return is_time || is_flush || n > 0;
}

/* ---- Life ------------------------------------------------------------------------------------ */

const struct config *session_config(const char *yaml)
{
    static struct config_report report;
    struct config *config = NULL;
    char path[64];
    const size_t len = strlen(yaml);
    const int fd = memfd_create("config", 0);
    FUZZ_CHECK(fd >= 0 && write(fd, yaml, len) == (ssize_t)len);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    const struct config_sources sources = {.path = path, .path_required = true};
    if (config_load(&sources, &config, &report) < 0) {
        fprintf(stderr, "%s: %s\n", report.errors[0].message, report.errors[0].detail);
        abort();
    }
    close(fd);
    return config;
}

void session_open(const struct config *config, void (*on_ready)(void))
{
    const struct store_options create = {.create = true};
    struct engine_options options = {.config = config, .clock = engine_clock, .seed = 1};
    list_init(&live.waiting);
    live.on_ready = on_ready;
    live.passed_ms = 0;
    FUZZ_CHECK(store_open(SESSION_STORE, &create, &options.store, NULL) == 0);
    FUZZ_CHECK(engine_open(&options, &live.engine, NULL) == 0);
}

void session_close(void)
{
    FUZZ_CHECK(list_empty(&live.waiting));
    engine_close(live.engine);
    live.engine = NULL;
}

/* ---- Checks ---------------------------------------------------------------------------------- */

bool session_has_job(struct str id)
{
    struct store *store = engine_store(live.engine);
    struct job_page page = {0};
    const struct job_name name = {STR(ENGINE_TENANT_DEFAULT), id};
    FUZZ_CHECK(store_ops(store)->lookup(store, &name, 1, &page, NULL) == 0);
    const bool is_there = page.n == 1 && str_eq(page.jobs[0].spec.id, id);
    job_page_release(&page);
    return is_there;
}

static void count_job(const struct job *job, bool (*is_held)(struct str id),
                      uint64_t by_state[REDRIVE_STATE_COUNT])
{
    const struct job_status *status = &job->status;
    FUZZ_CHECK((unsigned)status->state < REDRIVE_STATE_COUNT);
    by_state[status->state]++;
    if (status->state != REDRIVE_STATE_RUNNING)
        return;
    FUZZ_CHECK(status->worker.len > 0 && status->token != 0 && status->lease_until_ms > 0);
    FUZZ_CHECK(!is_held || is_held(job->spec.id));
}

void session_check_store(bool (*is_held)(struct str id))
{
    struct store *store = engine_store(live.engine);
    uint64_t listed[REDRIVE_STATE_COUNT] = {0}, counted[REDRIVE_STATE_COUNT] = {0};
    struct job_filter filter = {.order = ORDER_OLDEST, .limit = STORE_PAGE_MAX};
    struct job_page page = {0};
    struct count_page counts = {0};
    do {
        FUZZ_CHECK(store_ops(store)->list(store, &filter, &page, NULL) == 0);
        for (size_t i = 0; i < page.n; i++)
            count_job(&page.jobs[i], is_held, listed);
        if (page.n > 0)
            filter.after_seq = page.jobs[page.n - 1].status.seq;
    } while (page.more);
    job_page_release(&page);
    FUZZ_CHECK(store_ops(store)->counts(store, COUNT_QUEUES, (struct str){0}, &counts, NULL) == 0);
    for (size_t i = 0; i < counts.n; i++)
        for (int state = 0; state < REDRIVE_STATE_COUNT; state++)
            counted[state] += counts.counts[i].by_state[state];
    count_page_release(&counts);
    FUZZ_CHECK(memcmp(listed, counted, sizeof listed) == 0);
    FUZZ_CHECK(store_ops(store)->verify(store, NULL, NULL, NULL) == 0);
}

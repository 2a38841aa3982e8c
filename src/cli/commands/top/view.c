/* view.c - reads a store or a server, keeps the pace of its numbers, and draws it as tables. */
#include "cli/commands/top/view.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/time/clock.h"
#include "cli/output/figures.h"
#include "cli/output/table.h"
#include "cli/output/term.h"
#include "cli/remote/remote.h"

/* ---- Pace ------------------------------------------------------------------------------------ */

#define SECOND_MS 1000

static unsigned slot(const struct pace *p, unsigned i)
{
    return (p->first + i) % PACE_LOOKS;
}

void pace_add(struct pace *p, int64_t at_ms, double value)
{
    if (p->n > 0) {
        unsigned last = slot(p, p->n - 1);
        if (value < p->looks[last].value)
            p->n = 0;
        else if (at_ms <= p->looks[last].at_ms)
            return;
    }
    if (p->n == PACE_LOOKS) {
        p->first = slot(p, 1);
        p->n--;
    }
    unsigned at = slot(p, p->n++);
    p->looks[at].at_ms = at_ms;
    p->looks[at].value = value;
}

/* The number at a time between the first look and the last. */
static double value_at(const struct pace *p, int64_t at_ms)
{
    unsigned i = 1;
    while (i + 1 < p->n && p->looks[slot(p, i)].at_ms < at_ms)
        i++;
    unsigned a = slot(p, i - 1), b = slot(p, i);
    double share =
        (double)(at_ms - p->looks[a].at_ms) / (double)(p->looks[b].at_ms - p->looks[a].at_ms);
    return p->looks[a].value + share * (p->looks[b].value - p->looks[a].value);
}

double pace_between(const struct pace *p, int64_t from_ms, int64_t to_ms)
{
    if (p->n < 2 || from_ms >= to_ms || from_ms < p->looks[p->first].at_ms ||
        to_ms > p->looks[slot(p, p->n - 1)].at_ms)
        return -1;
    return (value_at(p, to_ms) - value_at(p, from_ms)) * SECOND_MS / (double)(to_ms - from_ms);
}

double pace_recent(const struct pace *p, int64_t span_ms)
{
    if (p->n < 2)
        return 0;
    int64_t first_ms = p->looks[p->first].at_ms;
    int64_t last_ms = p->looks[slot(p, p->n - 1)].at_ms;
    return pace_between(p, last_ms - span_ms > first_ms ? last_ms - span_ms : first_ms, last_ms);
}

void pace_draw(const struct pace *p, unsigned seconds, struct buf *out)
{
    static const char *const SIGNS[] = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
    const int highest = (int)(sizeof SIGNS / sizeof SIGNS[0]) - 1;
    int64_t last_ms = p->n ? p->looks[slot(p, p->n - 1)].at_ms : 0;
    double most = 0;
    for (unsigned back = seconds; back > 0; back--) {
        double rate = pace_between(p, last_ms - back * SECOND_MS, last_ms - (back - 1) * SECOND_MS);
        most = rate > most ? rate : most;
    }
    for (unsigned back = seconds; back > 0; back--) {
        double rate = pace_between(p, last_ms - back * SECOND_MS, last_ms - (back - 1) * SECOND_MS);
        if (rate < 0)
            buf_putc(out, ' ');
        else
            buf_puts(out, SIGNS[most > 0 ? (int)(rate / most * highest + 0.5) : 0]);
    }
}

/* ---- Looking --------------------------------------------------------------------------------- */

/* What the counters are at the time of the look. */
static void count(struct top_look *look, double completed, double retried, double dead)
{
    pace_add(&look->completed, look->at_ms, completed);
    pace_add(&look->retried, look->at_ms, retried);
    pace_add(&look->dead_letters, look->at_ms, dead);
    look->counts.completed = completed;
    look->counts.retried = retried;
    look->counts.dead = dead;
}

static int look_at_counters(struct top_look *look, struct store *store, struct str tenant,
                            struct redrive_err *err)
{
    RELEASED_BY(counter_page_release) struct counter_page page = {0};
    double completed = 0, retried = 0, dead = 0;
    int rc = store_ops(store)->counters_list(store, tenant, &page, err);
    for (size_t i = 0; i < page.n; i++) {
        const struct counter *c = &page.counters[i];
        if (c->label.len > 0)
            continue;
        if (str_is(c->name, engine_event_counter(ENGINE_EVENT_COMPLETED)))
            completed += (double)c->value;
        else if (str_is(c->name, engine_event_counter(ENGINE_EVENT_RETRYING)))
            retried += (double)c->value;
        else if (str_is(c->name, engine_event_counter(ENGINE_EVENT_DEAD)) ||
                 str_is(c->name, engine_event_counter(ENGINE_EVENT_FAILED)))
            dead += (double)c->value;
    }
    if (rc == 0)
        count(look, completed, retried, dead);
    return rc;
}

static int look_at_store(struct top_look *look, struct store *store, struct str tenant,
                         const struct health_thresholds *thresholds, bool count_parked,
                         struct redrive_err *err)
{
    const struct store_ops *ops = store_ops(store);
    const int64_t now_ms = look->at_ms;
    int rc = look_at_counters(look, store, tenant, err);
    if (rc == 0)
        rc = ops->counts(store, COUNT_PARTITIONS, tenant, &look->partitions, err);
    if (rc == 0)
        rc = ops->shared_list(store, SHARED_PAUSE, tenant, &look->pauses, err);
    if (rc == 0)
        rc = breakers_read(store, tenant, now_ms, &look->breakers, err);
    if (rc == 0 && count_parked)
        rc = ops->counts(store, COUNT_PARKED, tenant, &look->parked, err);
    if (rc == 0)
        rc = workers_read(store, tenant, now_ms, &look->workers, err);
    if (rc == 0)
        workers_health(&look->workers, thresholds, (uint32_t)look->breakers.n,
                       breakers_open(&look->breakers), now_ms, &look->health);
    return rc;
}

void top_look_release(struct top_look *look)
{
    count_page_release(&look->partitions);
    shared_page_release(&look->pauses);
    breaker_page_release(&look->breakers);
    count_page_release(&look->parked);
    worker_page_release(&look->workers);
    answer_pages_release(&look->dead);
}

/* ---- Drawing --------------------------------------------------------------------------------- */

static void draw_title(const struct top_look *look, const char *title, unsigned width, bool color,
                       struct buf *out)
{
    char at[CLOCK_TEXT_MAX];
    RELEASED_BY(buf_release) struct buf clean = BUF_MAX(4096);
    text_add_clean(&clean, str_of(title));
    style_add(out, color, STYLE_BOLD, STR("redrive top"));
    size_t room = width > 40 ? width - 40 : width ? 0 : 200;
    buf_puts(out, "  ");
    buf_add_str(out, text_fit(buf_str(&clean), room));
    buf_printf(out, "  %.19sZ\n", clock_format(look->at_ms, at));
}

static void draw_rates(const struct top_look *look, unsigned width, bool color, struct buf *out)
{
    char a[FIGURE_MAX], b[FIGURE_MAX], c[FIGURE_MAX];
    uint64_t running = 0, slots = 0;
    const char *status = look->health.status ? look->health.status : "healthy";
    for (size_t i = 0; i < look->workers.n; i++) {
        running += look->workers.workers[i].running;
        slots += look->workers.workers[i].slots;
    }
    style_add(out, color, figure_health_style(str_of(status)), str_of(status));
    buf_printf(out, " %.2f   %s completed/s   %s retried/s   %s dead/s   ",
               look->health.health_score, figure_rate(pace_recent(&look->completed, 5000), a),
               figure_rate(pace_recent(&look->retried, 5000), b),
               figure_rate(pace_recent(&look->dead_letters, 5000), c));
    if (look->workers.n == 0)
        style_add(out, color, STYLE_YELLOW, STR("no workers"));
    else
        buf_printf(out, "%zu worker%s, %" PRIu64 " of %" PRIu64 " slots busy", look->workers.n,
                   look->workers.n == 1 ? "" : "s", running, slots);
    buf_printf(out, "\nin all: %.0f completed, %.0f retried, %.0f dead\n", look->counts.completed,
               look->counts.retried, look->counts.dead);
    unsigned seconds = width > 0 && width < TOP_MINUTE_S ? width : TOP_MINUTE_S;
    if (look->completed.n > 1)
        pace_draw(&look->completed, seconds, out);
    buf_putc(out, '\n');
}

static bool is_paused(const struct top_look *look, const struct job_count *line)
{
    if (line->paused)
        return true;
    for (size_t i = 0; i < look->pauses.n; i++)
        if (str_eq(look->pauses.rows[i].key, line->queue) &&
            str_eq(look->pauses.rows[i].tenant, line->tenant))
            return true;
    return false;
}

static void add_queue(struct table *t, const struct job_count *queue, bool paused)
{
    static const enum redrive_state SHOWN[] = {REDRIVE_STATE_QUEUED,    REDRIVE_STATE_RUNNING,
                                               REDRIVE_STATE_SCHEDULED, REDRIVE_STATE_RETRYING,
                                               REDRIVE_STATE_PARKED,    REDRIVE_STATE_WAITING,
                                               REDRIVE_STATE_COMPLETED, REDRIVE_STATE_DEAD_LETTER,
                                               REDRIVE_STATE_FAILED,    REDRIVE_STATE_CANCELLED};
    for (size_t i = 0; i < sizeof SHOWN / sizeof SHOWN[0]; i++) {
        char text[32];
        uint64_t n = queue->by_state[SHOWN[i]];
        (void)snprintf(text, sizeof text, "%" PRIu64, n);
        enum style style = n == 0                                  ? STYLE_DIM
                           : SHOWN[i] == REDRIVE_STATE_DEAD_LETTER ? STYLE_RED
                           : SHOWN[i] == REDRIVE_STATE_PARKED      ? STYLE_YELLOW
                                                                   : STYLE_PLAIN;
        table_add_styled(t, style, text);
    }
    bool is_default = str_is(queue->tenant, "default");
    table_addf(t, "%.*s%s%.*s%s", is_default ? 0 : (int)queue->tenant.len, queue->tenant.ptr,
               is_default ? "" : "/", (int)queue->queue.len, queue->queue.ptr,
               paused ? " (paused)" : "");
}

/* Partitions come by tenant, queue and task: those of a queue are next to each other. */
static void draw_queues(const struct top_look *look, unsigned width, bool color, struct buf *out)
{
    const struct count_page *partitions = &look->partitions;
    struct table t;
    table_init(&t, ">QUEUED|>RUNNING|>SCHEDULED|>RETRYING|>PARKED|>WAITING|>COMPLETED|>DEAD|>FAILED"
                   "|>CANCELLED|QUEUE");
    for (size_t i = 0; i < partitions->n;) {
        struct job_count queue = partitions->counts[i];
        size_t j = i + 1;
        for (; j < partitions->n && str_eq(partitions->counts[j].queue, queue.queue) &&
               str_eq(partitions->counts[j].tenant, queue.tenant);
             j++)
            for (int state = 0; state < REDRIVE_STATE_COUNT; state++)
                queue.by_state[state] += partitions->counts[j].by_state[state];
        add_queue(&t, &queue, is_paused(look, &queue));
        i = j;
    }
    buf_putc(out, '\n');
    table_finish(&t, width, color, out);
}

static uint64_t parked_of(const struct count_page *parked, const struct breaker_info *b)
{
    if (b->parked > 0)
        return b->parked;
    for (size_t i = 0; i < parked->n; i++)
        if (str_eq(parked->counts[i].gate, b->key) && str_eq(parked->counts[i].tenant, b->tenant))
            return parked->counts[i].jobs;
    return 0;
}

static void draw_breakers(const struct top_look *look, unsigned width, bool color, struct buf *out)
{
    char text[FIGURE_MAX];
    RELEASED_BY(table_release) struct table t;
    table_init(&t, "STATE|>FAILURES|>PARKED|>PROBE IN|>OPEN FOR|BREAKER");
    for (size_t i = 0; i < look->breakers.n; i++) {
        const struct breaker_info *b = &look->breakers.breakers[i];
        if (b->status.state == REDRIVE_BREAKER_CLOSED)
            continue;
        table_add_styled(&t, figure_breaker_style(b->status.state),
                         redrive_breaker_state_name(b->status.state));
        table_addf(&t, "%u", b->status.failure_count);
        table_addf(&t, "%" PRIu64, parked_of(&look->parked, b));
        table_add(&t, b->is_idle ? "next job"
                                 : figure_until(b->status.next_probe_ms, look->at_ms, text));
        table_add(&t, figure_since(b->status.opened_at_ms, look->at_ms, text));
        table_add_str(&t, b->key);
    }
    if (t.n_cells > 0) {
        buf_putc(out, '\n');
        (void)table_render(&t, width, color, out);
    }
}

static void draw_workers(const struct top_look *look, unsigned width, bool color, struct buf *out)
{
    char text[FIGURE_MAX];
    struct table t;
    if (look->workers.n == 0)
        return;
    table_init(&t, ">BUSY|>TASKS/S|>FAILED|>P50|>P99|>UP|>SEEN|WORKER");
    for (size_t i = 0; i < look->workers.n; i++) {
        const struct worker_info *w = &look->workers.workers[i];
        table_addf(&t, "%u/%u", w->running, w->slots);
        table_add(&t, figure_rate(w->tasks_per_second, text));
        table_addf(&t, "%" PRIu64, w->failed);
        table_add(&t, figure_span((int64_t)w->p50_ms, text));
        table_add(&t, figure_span((int64_t)w->p99_ms, text));
        table_add(&t, figure_since(w->started_ms, look->at_ms, text));
        table_add(&t, figure_since(w->seen_ms, look->at_ms, text));
        table_addf(&t, "%.*s (%.*s, %" PRId64 ")", (int)w->name.len, w->name.ptr, (int)w->host.len,
                   w->host.ptr, w->pid);
    }
    buf_putc(out, '\n');
    table_finish(&t, width, color, out);
}

static void add_dead(struct table *t, const struct object *job, int64_t now_ms)
{
    const struct object error = object_object(job, "last_error");
    const struct str class = object_text(&error, "class"), reason = object_text(job, "reason");
    char text[FIGURE_MAX];
    table_addf(t, "%s ago", figure_since(object_time(job, "finished_at"), now_ms, text));
    table_add_str(t, object_text(job, "task"));
    table_add_str(t, reason.len > 0 ? reason : STR("none"));
    table_add_str(t, class.len > 0 ? class : STR("-"));
    table_add_str(t, object_text(&error, "message"));
}

static void draw_dead(const struct top_look *look, unsigned width, bool color, struct buf *out)
{
    const struct answer *page = &look->dead.page;
    struct table t;
    if (page->n == 0)
        return;
    table_init(&t, ">DIED|TASK|REASON|CLASS|ERROR");
    for (size_t i = 0; i < page->n; i++) {
        RELEASED_BY(arena_release) struct arena arena = {0};
        const struct object job = answer_item(page, i, &arena);
        add_dead(&t, &job, look->at_ms);
    }
    buf_putc(out, '\n');
    table_finish(&t, width, color, out);
}

void top_draw(const struct top_look *look, const char *title, const char *problem, unsigned width,
              bool color, struct buf *out)
{
    draw_title(look, title, width, color, out);
    draw_rates(look, width, color, out);
    if (problem) {
        style_add_clean(out, color, STYLE_RED, str_of(problem));
        buf_putc(out, '\n');
    }
    draw_queues(look, width, color, out);
    draw_breakers(look, width, color, out);
    draw_workers(look, width, color, out);
    draw_dead(look, width, color, out);
}

/* ---- At a server ----------------------------------------------------------------------------- */

/* The server has counted everything; the look takes over the memory that the figures live in, as
 * that of its partitions. A queue without jobs, which is paused, is not drawn. */
static void take_figures(struct top_look *look, struct stats *stats)
{
    size_t n = 0;
    count_page_release(&look->partitions);
    worker_page_release(&look->workers);
    for (size_t i = 0; i < stats->queues.n; i++) {
        uint64_t jobs = 0;
        for (int state = 0; state < REDRIVE_STATE_COUNT; state++)
            jobs += stats->queues.counts[i].by_state[state];
        if (jobs > 0)
            stats->queues.counts[n++] = stats->queues.counts[i];
    }
    look->partitions.counts = stats->queues.counts;
    look->partitions.n = n;
    look->partitions.arena = stats->arena;
    look->workers.workers = stats->workers.workers;
    look->workers.n = stats->workers.n;
    look->health = stats->health;
    count(look, (double)stats->counts[ENGINE_EVENT_COMPLETED],
          (double)stats->counts[ENGINE_EVENT_RETRYING],
          (double)(stats->counts[ENGINE_EVENT_DEAD] + stats->counts[ENGINE_EVENT_FAILED]));
    *stats = (struct stats){0};
}

static int look_at_server(struct top_look *look, struct remote *remote, struct redrive_err *err)
{
    RELEASED_BY(stats_release) struct stats stats = {0};
    RELEASED_BY(http_answer_release) struct http_answer document;
    http_answer_init(&document);
    int rc = remote_stats(remote, &document, &stats, err);
    if (rc == 0)
        take_figures(look, &stats);
    return rc == 0 ? remote_breakers(remote, &look->breakers, err) : rc;
}

/* ---- Both ------------------------------------------------------------------------------------ */

/* Those that died last come first; very large ones may leave fewer on the page. */
static int look_at_dead(struct top_look *look, struct session *session, struct str tenant,
                        struct redrive_err *err)
{
    const struct ask ask = {.operation = &API_DEAD_LETTERS, .tenant = tenant};
    const struct answer *page;
    answer_pages_release(&look->dead);
    answer_pages_init(&look->dead, session, &ask, TOP_DEAD_LETTERS, NULL);
    const int rc = answer_pages_next(&look->dead, &page, err);
    return rc < 0 ? rc : 0;
}

int top_look(struct top_look *look, struct session *session, struct str tenant, bool count_parked,
             struct redrive_err *err)
{
    look->at_ms = session_now_ms(session);
    int rc = session->remote ? look_at_server(look, session->remote, err)
                             : look_at_store(look, session->store, tenant, &session->config->health,
                                             count_parked, err);
    return rc == 0 ? look_at_dead(look, session, tenant, err) : rc;
}

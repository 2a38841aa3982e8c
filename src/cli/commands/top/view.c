/* view.c - reads a store or a server, keeps the pace of its numbers, and draws it as tables. */
#include "cli/commands/top/view.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/err.h"
#include "base/time/clock.h"
#include "cli/output/figures.h"
#include "cli/output/table.h"
#include "cli/output/term.h"

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

static void each_parameter(void *from, api_take_fn take, void *ctx)
{
    if (*(const bool *)from)
        (void)take(STR("breakers"), STR("true"), ctx);
}

static int look_at_work(struct top_look *look, struct session *session, struct str tenant,
                        bool at_breakers, struct redrive_err *err)
{
    struct api_input input = {.each = each_parameter, .from = &at_breakers};
    const struct ask ask = {.operation = &API_TOP, .tenant = tenant, .input = &input};
    RELEASED_BY(answer_release) struct answer answer = {0};
    int rc = answer_ask(session, &ask, &answer, err);
    if (rc < 0)
        return rc;
    const struct object counters = object_object(&answer.object, "counters");
    const struct object health = object_object(&answer.object, "health");
    pace_add(&look->completed, look->at_ms, object_double(&counters, "jobs_completed", 0));
    pace_add(&look->retried, look->at_ms, object_double(&counters, "jobs_retried", 0));
    pace_add(&look->dead_letters, look->at_ms,
             object_double(&counters, "jobs_dlq", 0) + object_double(&counters, "jobs_failed", 0));
    look->n_workers = object_int(&health, "workers");
    if (answer.arena.failed)
        return err_nomem(err);
    if (at_breakers) {
        buf_release(&look->breakers);
        buf_init(&look->breakers, answer.text.max);
        buf_add_str(&look->breakers, object_json(&answer.object, "breakers"));
    }
    buf_release(&look->work);
    look->work = answer.text;
    answer.text = (struct buf){0};
    return 0;
}

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

int top_look(struct top_look *look, struct session *session, struct str tenant, bool at_breakers,
             struct redrive_err *err)
{
    look->at_ms = session_now_ms(session);
    int rc = look_at_work(look, session, tenant, at_breakers, err);
    return rc == 0 ? look_at_dead(look, session, tenant, err) : rc;
}

void top_look_release(struct top_look *look)
{
    buf_release(&look->work);
    buf_release(&look->breakers);
    answer_pages_release(&look->dead);
}

/* ---- Drawing --------------------------------------------------------------------------------- */

static void draw_title(const struct top_look *look, const char *title, unsigned width, bool color,
                       struct buf *out)
{
    char at[CLOCK_TEXT_MAX];
    RELEASED_BY(buf_release) struct buf clean = BUF_MAX(out->max);
    text_add_clean(&clean, str_of(title));
    style_add(out, color, STYLE_BOLD, STR("redrive top"));
    size_t room = width > 40 ? width - 40 : width ? 0 : 200;
    buf_puts(out, "  ");
    buf_add_str(out, text_fit(buf_str(&clean), room));
    buf_printf(out, "  %.19sZ\n", clock_format(look->at_ms, at));
    if (buf_failed(&clean))
        out->failed = buf_failed(&clean);
}

static void draw_health(const struct object *work, bool color, struct buf *out)
{
    const struct object health = object_object(work, "health");
    struct str status = object_text(&health, "status");
    if (status.len == 0)
        status = STR("healthy");
    style_add_clean(out, color, figure_health_style(status), status);
    buf_printf(out, " %.2f", object_double(&health, "health_score", 0));
}

static void draw_slots(const struct object *work, int64_t n_workers, bool color, struct buf *out)
{
    struct object *workers = NULL;
    const size_t n = object_objects(work, "workers", &workers);
    int64_t running = 0, slots = 0;
    for (size_t i = 0; i < n; i++) {
        running += object_int(&workers[i], "running");
        slots += object_int(&workers[i], "slots");
    }
    if (n_workers == 0)
        style_add(out, color, STYLE_YELLOW, STR("no workers"));
    else
        buf_printf(out, "%" PRId64 " worker%s, %" PRId64 " of %" PRId64 " slots busy", n_workers,
                   n_workers == 1 ? "" : "s", running, slots);
}

static void draw_rates(const struct top_look *look, const struct object *work, unsigned width,
                       bool color, struct buf *out)
{
    const struct object counters = object_object(work, "counters");
    char a[FIGURE_MAX], b[FIGURE_MAX], c[FIGURE_MAX];
    draw_health(work, color, out);
    buf_printf(out, "   %s completed/s   %s retried/s   %s dead/s   ",
               figure_rate(pace_recent(&look->completed, 5000), a),
               figure_rate(pace_recent(&look->retried, 5000), b),
               figure_rate(pace_recent(&look->dead_letters, 5000), c));
    draw_slots(work, look->n_workers, color, out);
    buf_printf(out, "\nin all: %" PRId64 " completed, %" PRId64 " retried, %" PRId64 " dead\n",
               object_int(&counters, "jobs_completed"), object_int(&counters, "jobs_retried"),
               object_int(&counters, "jobs_dlq") + object_int(&counters, "jobs_failed"));
    unsigned seconds = width > 0 && width < TOP_MINUTE_S ? width : TOP_MINUTE_S;
    if (look->completed.n > 1)
        pace_draw(&look->completed, seconds, out);
    buf_putc(out, '\n');
}

static const enum redrive_state SHOWN[] = {REDRIVE_STATE_QUEUED,    REDRIVE_STATE_RUNNING,
                                           REDRIVE_STATE_SCHEDULED, REDRIVE_STATE_RETRYING,
                                           REDRIVE_STATE_PARKED,    REDRIVE_STATE_WAITING,
                                           REDRIVE_STATE_COMPLETED, REDRIVE_STATE_DEAD_LETTER,
                                           REDRIVE_STATE_FAILED,    REDRIVE_STATE_CANCELLED};
#define N_SHOWN (sizeof SHOWN / sizeof SHOWN[0])

static void add_queue(struct table *t, const struct object *queue)
{
    const struct str name = object_text(queue, "queue"), tenant = object_text(queue, "tenant");
    const bool is_default = str_is(tenant, "default");
    char text[32];
    for (size_t i = 0; i < N_SHOWN; i++) {
        const int64_t n = object_int(queue, redrive_state_name(SHOWN[i]));
        (void)snprintf(text, sizeof text, "%" PRId64, n);
        table_add_styled(t,
                         n == 0                                  ? STYLE_DIM
                         : SHOWN[i] == REDRIVE_STATE_DEAD_LETTER ? STYLE_RED
                         : SHOWN[i] == REDRIVE_STATE_PARKED      ? STYLE_YELLOW
                                                                 : STYLE_PLAIN,
                         text);
    }
    table_addf(t, "%.*s%s%.*s%s", is_default ? 0 : (int)tenant.len, tenant.ptr,
               is_default ? "" : "/", (int)name.len, name.ptr,
               object_bool(queue, "paused") ? " (paused)" : "");
}

static void draw_queues(const struct object *work, unsigned width, bool color, struct buf *out)
{
    struct object *queues = NULL;
    const size_t n = object_objects(work, "queues", &queues);
    struct table t;
    table_init(&t, ">QUEUED|>RUNNING|>SCHEDULED|>RETRYING|>PARKED|>WAITING|>COMPLETED|>DEAD|>FAILED"
                   "|>CANCELLED|QUEUE");
    for (size_t i = 0; i < n; i++)
        add_queue(&t, &queues[i]);
    buf_putc(out, '\n');
    table_finish(&t, width, color, out);
}

static void add_breaker(struct table *t, const struct object *breaker, int64_t now_ms)
{
    const struct str state = object_text(breaker, "state");
    char text[FIGURE_MAX];
    table_add_str_styled(t, figure_breaker_style(state), state);
    table_addf(t, "%" PRId64, object_int(breaker, "failure_count"));
    table_addf(t, "%" PRId64, object_int(breaker, "parked"));
    table_add(t, object_bool(breaker, "idle")
                     ? "next job"
                     : figure_until(object_time(breaker, "next_probe_at"), now_ms, text));
    table_add(t, figure_since(object_time(breaker, "opened_at"), now_ms, text));
    table_add_str(t, object_text(breaker, "key"));
}

static void draw_breakers(const struct top_look *look, const struct object *work, unsigned width,
                          bool color, struct buf *out)
{
    const struct json_member member = {STR("breakers"), buf_str(&look->breakers)};
    const struct object last = {&member, 1, work->arena};
    struct object *breakers = NULL;
    const size_t n = object_objects(&last, "breakers", &breakers);
    RELEASED_BY(table_release) struct table t;
    table_init(&t, "STATE|>FAILURES|>PARKED|>PROBE IN|>OPEN FOR|BREAKER");
    for (size_t i = 0; i < n; i++)
        add_breaker(&t, &breakers[i], look->at_ms);
    if (t.n_cells > 0) {
        buf_putc(out, '\n');
        (void)table_render(&t, width, color, out);
    }
}

static void add_worker(struct table *t, const struct object *worker, int64_t now_ms)
{
    const struct str name = object_text(worker, "name"), host = object_text(worker, "host");
    char text[FIGURE_MAX];
    table_addf(t, "%" PRId64 "/%" PRId64, object_int(worker, "running"),
               object_int(worker, "slots"));
    table_add(t, figure_rate(object_double(worker, "tasks_per_second", 0), text));
    table_addf(t, "%" PRId64, object_int(worker, "failed"));
    table_add(t, figure_span(object_span(worker, "p50"), text));
    table_add(t, figure_span(object_span(worker, "p99"), text));
    table_add(t, figure_since(object_time(worker, "started_at"), now_ms, text));
    table_add(t, figure_since(object_time(worker, "seen_at"), now_ms, text));
    table_addf(t, "%.*s (%.*s, %" PRId64 ")", (int)name.len, name.ptr, (int)host.len, host.ptr,
               object_int(worker, "pid"));
}

static void draw_workers(const struct top_look *look, const struct object *work, unsigned width,
                         bool color, struct buf *out)
{
    struct object *workers = NULL;
    const size_t n = object_objects(work, "workers", &workers);
    struct table t;
    if (n == 0)
        return;
    table_init(&t, ">BUSY|>TASKS/S|>FAILED|>P50|>P99|>UP|>SEEN|WORKER");
    for (size_t i = 0; i < n; i++)
        add_worker(&t, &workers[i], look->at_ms);
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

static void draw_dead(const struct top_look *look, const struct object *work, unsigned width,
                      bool color, struct buf *out)
{
    const struct answer *page = &look->dead.page;
    struct table t;
    if (page->n == 0)
        return;
    table_init(&t, ">DIED|TASK|REASON|CLASS|ERROR");
    for (size_t i = 0; i < page->n; i++) {
        const struct object job = answer_item(page, i, work->arena);
        add_dead(&t, &job, look->at_ms);
    }
    buf_putc(out, '\n');
    table_finish(&t, width, color, out);
}

void top_draw(const struct top_look *look, const char *title, const char *problem, unsigned width,
              bool color, struct buf *out)
{
    RELEASED_BY(arena_release) struct arena arena = {0};
    const struct object work = object_of(buf_str(&look->work), &arena);
    draw_title(look, title, width, color, out);
    draw_rates(look, &work, width, color, out);
    if (problem) {
        style_add_clean(out, color, STYLE_RED, str_of(problem));
        buf_putc(out, '\n');
    }
    draw_queues(&work, width, color, out);
    draw_breakers(look, &work, width, color, out);
    draw_workers(look, &work, width, color, out);
    draw_dead(look, &work, width, color, out);
    if (arena.failed)
        out->failed = REDRIVE_E_NOMEM;
}

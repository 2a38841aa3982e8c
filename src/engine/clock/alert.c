/* alert.c - the rules of the configuration against the figures of the store. */
#include "engine/clock/alert.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/err.h"
#include "base/json/writer.h"
#include "base/text/buf.h"
#include "engine/report/worker_row.h"
#include "engine/rows.h"
#include "engine/state.h"
#include "store/job_json.h"

#define ROW_MAX_BYTES 4096

/* ---- The decision ---------------------------------------------------------------------------- */

bool alert_holds(const struct config_condition *when, double value)
{
    switch (when->compare) {
    case CONFIG_ABOVE: return value > when->number;
    case CONFIG_AT_LEAST: return value >= when->number;
    case CONFIG_BELOW: return value < when->number;
    case CONFIG_AT_MOST:
    default: return value <= when->number;
    }
}

enum alert_step alert_advance(struct alert_state *s, bool holds, int64_t now_ms)
{
    if (holds) {
        s->clear_ms = 0;
        if (s->firing)
            return ALERT_NOTHING;
        s->firing = true;
        s->since_ms = now_ms;
        return ALERT_BEGINS;
    }
    if (!s->firing)
        return ALERT_NOTHING;
    /* A clock that was set back starts the wait anew. */
    if (s->clear_ms == 0 || s->clear_ms > now_ms)
        s->clear_ms = now_ms;
    if (now_ms - s->clear_ms < ALERT_CLEAR_MS)
        return ALERT_NOTHING;
    s->firing = false;
    s->clear_ms = 0;
    return ALERT_IS_OVER;
}

static bool window_begins(const struct alert_state *s, uint64_t runs, uint64_t failures)
{
    return s->window_ms == 0 || runs < s->runs || failures < s->failures;
}

static double next_window(struct alert_state *s, uint64_t runs, uint64_t failures,
                          uint32_t min_runs, int64_t now_ms)
{
    uint64_t ran = window_begins(s, runs, failures) ? 0 : runs - s->runs;
    s->rate = ran > 0 && ran >= min_runs ? (double)(failures - s->failures) / (double)ran : 0;
    s->window_ms = now_ms;
    s->runs = runs;
    s->failures = failures;
    return s->rate;
}

double alert_window(struct alert_state *s, uint64_t runs, uint64_t failures, uint32_t min_runs,
                    int64_t now_ms)
{
    if (!window_begins(s, runs, failures) && now_ms - s->window_ms < ALERT_WINDOW_MS &&
        now_ms >= s->window_ms)
        return s->rate;
    return next_window(s, runs, failures, min_runs, now_ms);
}

double alert_window_end(struct alert_state *s, uint64_t runs, uint64_t failures, uint32_t min_runs,
                        int64_t now_ms)
{
    const bool has_enough =
        !window_begins(s, runs, failures) && runs > s->runs && runs - s->runs >= min_runs;
    return has_enough ? next_window(s, runs, failures, min_runs, now_ms)
                      : alert_window(s, runs, failures, min_runs, now_ms);
}

double alert_rounded(const struct config_condition *when, double value)
{
    char text[32];
    if (when->metric != CONFIG_METRIC_ERROR_RATE && when->metric != CONFIG_METRIC_HEALTH_SCORE)
        return value;
    (void)snprintf(text, sizeof text, "%.3g", value);
    return strtod(text, NULL);
}

/* ---- A rule's row ---------------------------------------------------------------------------- */

static void write_state(const struct alert_state *s, struct buf *out)
{
    struct json_writer w;
    buf_reset(out);
    json_writer_init(&w, out);
    json_begin_object(&w);
    json_field_bool(&w, "firing", s->firing);
    json_field_int(&w, "since_ms", s->since_ms);
    json_field_int(&w, "clear_ms", s->clear_ms);
    json_field_int(&w, "window_ms", s->window_ms);
    json_field_int(&w, "runs", (int64_t)s->runs);
    json_field_int(&w, "failures", (int64_t)s->failures);
    json_field_double(&w, "rate", s->rate);
    json_end_object(&w);
}

/* A row that cannot be read is no episode: it is better to tell twice than never. */
static void read_state(struct str text, struct alert_state *ret)
{
    int64_t runs = 0, failures = 0;
    const struct row_field fields[] = {
        {"firing", ROW_BOOL, &ret->firing},
        {"since_ms", ROW_INT, &ret->since_ms},
        {"clear_ms", ROW_INT, &ret->clear_ms},
        {"window_ms", ROW_INT, &ret->window_ms},
        {"runs", ROW_INT, &runs},
        {"failures", ROW_INT, &failures},
        {"rate", ROW_DOUBLE, &ret->rate},
    };
    *ret = (struct alert_state){0};
    const bool is_sound = shared_value_read(text, fields, sizeof fields / sizeof fields[0]);
    ret->runs = runs > 0 ? (uint64_t)runs : 0;
    ret->failures = failures > 0 ? (uint64_t)failures : 0;
    if (!is_sound || ret->since_ms < 0 || ret->clear_ms < 0 || ret->window_ms < 0)
        *ret = (struct alert_state){0};
}

static bool is_same_rule(const struct config_alert *a, const struct config_alert *b)
{
    return a->when.metric == b->when.metric && a->when.compare == b->when.compare &&
           a->when.number == b->when.number && str_eq(str_of(a->task), str_of(b->task));
}

/* The rule in words. Two that say the same, to tell different people, are numbered. */
static void rule_key(const struct config *config, size_t i, struct buf *out)
{
    const struct config_alert *alert = &config->alerts[i];
    char text[CONFIG_CONDITION_MAX];
    unsigned same = 1;
    for (size_t j = 0; j < i; j++)
        same += is_same_rule(&config->alerts[j], alert);
    buf_reset(out);
    buf_puts(out, config_condition_text(&alert->when, text));
    if (alert->task)
        buf_printf(out, " of %s", alert->task);
    if (same > 1)
        buf_printf(out, " #%u", same);
}

/* ---- Figures --------------------------------------------------------------------------------- */

struct look {
    struct engine *e;
    bool is_last;
    struct count_page partitions;
    struct worker_page workers;
    struct counter_page counters;
    struct shared_page rows;
    struct buf key;
    struct buf text;
};

static bool is_rate(const struct config_alert *alert)
{
    return alert->when.metric == CONFIG_METRIC_ERROR_RATE ||
           alert->when.metric == CONFIG_METRIC_HEALTH_SCORE;
}

static double jobs_in(const struct look *l, const char *task, enum redrive_state state)
{
    double n = 0;
    for (size_t i = 0; i < l->partitions.n; i++)
        if (!task || str_is(l->partitions.counts[i].task, task))
            n += (double)l->partitions.counts[i].by_state[state];
    return n;
}

static bool holds_work_back(const struct gate *gate, int64_t now_ms)
{
    return breaker_is_open(gate->breaker.state) && !gate_is_idle(gate, now_ms);
}

static double health_of_all(const struct look *l, const struct config_alert *alert)
{
    struct redrive_health health;
    struct health_share all = {.at_ms = l->e->now_ms};
    uint32_t breakers = 0, open = 0;
    MAP_FOREACH (&l->e->gates.breakers, slot) {
        const struct gate *gate = slot->value;
        breakers++;
        open += holds_work_back(gate, l->e->now_ms);
    }
    for (size_t i = 0; i < l->workers.n; i++)
        health_share_add(&all, &l->workers.workers[i].health, l->e->now_ms);
    if (l->is_last) {
        struct health_share own;
        health_share(&l->e->health, l->e->now_ms, &own);
        health_share_add(&all, &own, l->e->now_ms);
    }
    if (all.events < alert->min_runs)
        all.failures = 0;
    health_share_read(&all, NULL, breakers, open, l->e->now_ms, &health);
    return alert->when.metric == CONFIG_METRIC_ERROR_RATE ? health.error_rate : health.health_score;
}

static bool is_open(const struct engine *e, const char *task)
{
    MAP_FOREACH (&e->gates.breakers, slot) {
        const struct gate *gate = slot->value;
        if (strcmp(gate->key, task) == 0 && holds_work_back(gate, e->now_ms))
            return true;
    }
    return false;
}

/* Adds what a counter says about the runs of its task: the same runs as health_of_all has, and of
 * these the same failures. */
static void add_runs(const struct counter *c, int64_t *runs, int64_t *failures)
{
    const int64_t n = c->value > 0 ? c->value : 0;
    switch (engine_event_counted(c->name)) {
    case ENGINE_EVENT_COMPLETED: *runs += n; return;
    case ENGINE_EVENT_RETRYING:
    case ENGINE_EVENT_DEAD:
    case ENGINE_EVENT_FAILED:
        *runs += n;
        *failures += n;
        return;
    default: break;
    }
    if (str_is(c->name, COUNTER_WITHOUT_RUN))
        *runs -= n;
    if (str_is(c->name, COUNTER_WITHOUT_RUN) || str_is(c->name, COUNTER_OWN_FAULT))
        *failures -= n;
}

static double health_of_task(const struct look *l, const struct config_alert *alert,
                             struct alert_state *state)
{
    int64_t all = 0, failed = 0;
    for (size_t i = 0; i < l->counters.n; i++) {
        const struct counter *c = &l->counters.counters[i];
        struct str queue, task;
        if (counter_partition(c->label, &queue, &task) && str_is(task, alert->task))
            add_runs(c, &all, &failed);
    }
    const uint64_t runs = all > 0 ? (uint64_t)all : 0, failures = failed > 0 ? (uint64_t)failed : 0;
    const double error_rate =
        l->is_last ? alert_window_end(state, runs, failures, alert->min_runs, l->e->now_ms)
                   : alert_window(state, runs, failures, alert->min_runs, l->e->now_ms);
    if (alert->when.metric == CONFIG_METRIC_ERROR_RATE)
        return error_rate;
    return is_open(l->e, alert->task) ? 0 : 1 - error_rate;
}

/* The figure that a rule is about. */
static double figure_of(const struct look *l, const struct config_alert *alert,
                        struct alert_state *state)
{
    switch (alert->when.metric) {
    case CONFIG_METRIC_DEAD_LETTERS: return jobs_in(l, alert->task, REDRIVE_STATE_DEAD_LETTER);
    case CONFIG_METRIC_RETRY_BACKLOG: return jobs_in(l, alert->task, REDRIVE_STATE_RETRYING);
    case CONFIG_METRIC_ERROR_RATE:
    case CONFIG_METRIC_HEALTH_SCORE:
    default: return alert->task ? health_of_task(l, alert, state) : health_of_all(l, alert);
    }
}

/* ---- A look ---------------------------------------------------------------------------------- */

static void tell(struct look *l, const struct config_alert *alert, const struct alert_state *state,
                 double value)
{
    struct engine *e = l->e;
    char text[CONFIG_CONDITION_MAX];
    struct json_writer w;
    struct alert_event *event = &e->fired[e->n_fired];
    *event = (struct alert_event){.alert = alert,
                                  .firing = state->firing,
                                  .value = value,
                                  .at_ms = e->now_ms,
                                  .since_ms = state->since_ms};
    buf_reset(&l->text);
    json_writer_init(&w, &l->text);
    json_begin_object(&w);
    json_field_cstr(&w, "status", state->firing ? "firing" : "recovered");
    json_field_cstr(&w, "condition", config_condition_text(&alert->when, text));
    json_field_cstr(&w, "task", alert->task);
    if (e->options.n_shards > 0)
        json_field_int(&w, "shard", (int64_t)e->options.shard + 1);
    json_field_double(&w, "value", value);
    job_write_time(&w, "since", state->since_ms);
    job_write_time(&w, "at", e->now_ms);
    json_end_object(&w);
    event->json = arena_str(&e->arena, buf_str(&l->text));
    e->n_fired++;
}

static int put_state(struct look *l, int64_t version, const struct alert_state *state,
                     bool *ret_won, struct redrive_err *err)
{
    write_state(state, &l->text);
    const struct shared_row row = {
        .kind = SHARED_ALERT,
        .key = buf_str(&l->key),
        .value = buf_str(&l->text),
        .version = version,
    };
    if (buf_failed(&l->key) || buf_failed(&l->text))
        return err_nomem(err);
    return shared_row_put(l->e, &row, ret_won, err);
}

static int look_at_rule(struct look *l, size_t i, struct redrive_err *err)
{
    const struct config *config = l->e->options.config;
    const struct config_alert *alert = &config->alerts[i];
    struct alert_state state = {0};
    bool won = true;
    rule_key(config, i, &l->key);
    const struct shared_row *row = shared_row_find(&l->rows, buf_str(&l->key));
    if (row)
        read_state(row->value, &state);
    const struct alert_state before = state;
    const double value = figure_of(l, alert, &state);
    enum alert_step step = alert_advance(&state, alert_holds(&alert->when, value), l->e->now_ms);
    bool changed = step != ALERT_NOTHING || state.clear_ms != before.clear_ms ||
                   state.window_ms != before.window_ms;
    int rc = changed ? put_state(l, row ? row->version : 0, &state, &won, err) : 0;
    if (rc == 0 && step != ALERT_NOTHING && won)
        tell(l, alert, &state, alert_rounded(&alert->when, value));
    return rc;
}

static int read_figures(struct look *l, struct redrive_err *err)
{
    struct engine *e = l->e;
    const struct config *config = e->options.config;
    const struct str all = {0};
    bool by_task = false;
    for (size_t i = 0; i < config->n_alerts; i++)
        by_task |= config->alerts[i].task && is_rate(&config->alerts[i]);
    int rc = e->ops->counts(e->store, COUNT_PARTITIONS, all, &l->partitions, err);
    if (rc == 0)
        rc = workers_read(e->store, all, e->now_ms, &l->workers, err);
    if (rc == 0 && by_task)
        rc = e->ops->counters_list(e->store, all, &l->counters, err);
    if (rc == 0)
        rc = e->ops->shared_list(e->store, SHARED_ALERT, all, &l->rows, err);
    return rc;
}

static int look_at_all(struct engine *e, bool is_last, struct redrive_err *err)
{
    const struct config *config = e->options.config;
    struct look l = {.e = e, .is_last = is_last};
    buf_init(&l.key, ROW_MAX_BYTES);
    buf_init(&l.text, ROW_MAX_BYTES);
    e->n_fired = 0;
    e->fired = arena_array(&e->arena, config->n_alerts, sizeof *e->fired);
    int rc = e->fired ? read_figures(&l, err) : err_nomem(err);
    for (size_t i = 0; i < config->n_alerts && rc == 0; i++)
        rc = look_at_rule(&l, i, err);
    count_page_release(&l.partitions);
    worker_page_release(&l.workers);
    counter_page_release(&l.counters);
    shared_page_release(&l.rows);
    buf_release(&l.key);
    buf_release(&l.text);
    return rc;
}

static bool has_alerts(const struct engine *e)
{
    return e->options.on_alert && e->options.config && e->options.config->n_alerts > 0;
}

/* The next look is never further away than that, unless the clock was set back since. */
static bool is_due(const struct engine *e)
{
    const bool is_last = e->alert_ms == INT64_MAX;
    return e->now_ms >= e->alert_ms || (!is_last && e->alert_ms - e->now_ms > ALERT_EVERY_MS);
}

int alerts_look(struct engine *e, struct redrive_err *err)
{
    int rc = 0;
    if (!has_alerts(e))
        return 0;
    if (is_due(e)) {
        rc = look_at_all(e, false, err);
        e->alert_ms = e->now_ms + ALERT_EVERY_MS;
    }
    engine_want_own(e, e->alert_ms);
    return rc;
}

static int apply_last_look(struct engine *e, struct op *op, struct redrive_err *err)
{
    (void)op;
    e->alert_ms = INT64_MAX;
    return has_alerts(e) ? look_at_all(e, true, err) : 0;
}

static const struct op_route ALERT_ROUTE = {.to = ROUTE_EVERY};

void alert_op_init(struct op *op)
{
    *op = (struct op){.apply = apply_last_look, .route = &ALERT_ROUTE, .weight = 1};
}

void alerts_publish(struct engine *e)
{
    for (size_t i = 0; i < e->n_fired; i++) {
        const struct alert_event *event = &e->fired[i];
        char text[CONFIG_CONDITION_MAX];
        log_event(e->options.alert_log ? e->options.alert_log : e->options.log,
                  event->firing ? LOG_LEVEL_WARNING : LOG_LEVEL_INFO, event->at_ms,
                  event->firing ? "alert" : "alert_over",
                  LOG_S("condition", config_condition_text(&event->alert->when, text)),
                  LOG_S("task", event->alert->task ? event->alert->task : ""),
                  LOG_D("value", event->value));
        e->options.on_alert(event, e->options.alert_ctx);
    }
    e->n_fired = 0;
}

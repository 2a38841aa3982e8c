#include "sim/report.h"

#include "base/json_writer.h"

static const struct figures *figures_of(const struct comparison *c, size_t row)
{
    return &c->rows[row].figures;
}

size_t comparison_best(const struct comparison *c)
{
    size_t best = 0;
    for (size_t i = 1; i < c->options.n_strategies; i++) {
        const struct figures *a = figures_of(c, i);
        const struct figures *b = figures_of(c, best);
        if (a->dead != b->dead ? a->dead < b->dead : a->wasted < b->wasted)
            best = i;
    }
    return best;
}

void comparison_describe(const struct comparison *c, struct buf *out)
{
    const struct compare_options *o = &c->options;
    buf_printf(out, "%g jobs/s for %g s, %u attempts each", o->jobs_per_s,
               (double)o->duration_ms / 1000, o->attempts);
    if (o->outage_ms > 0)
        buf_printf(out, "; the service is down from %g s to %g s",
                   (double)c->outage_start_ms / 1000, (double)c->outage_end_ms / 1000);
    if (o->capacity_per_s > 0)
        buf_printf(out, "; it takes %g calls/s", o->capacity_per_s);
}

/* The next best among those that lost as few, or the same row when there is none. */
static size_t runner_up(const struct comparison *c, size_t best)
{
    size_t second = best;
    for (size_t i = 0; i < c->options.n_strategies; i++) {
        if (i == best || figures_of(c, i)->dead != figures_of(c, best)->dead)
            continue;
        if (second == best || figures_of(c, i)->wasted < figures_of(c, second)->wasted)
            second = i;
    }
    return second;
}

void comparison_read(const struct comparison *c, struct buf *out)
{
    size_t best = comparison_best(c);
    const struct figures *f = figures_of(c, best);
    const char *title = c->options.strategies[best]->title;
    size_t second = runner_up(c, best);

    if (f->dead > 0)
        buf_printf(out, "Every strategy lost jobs; %s lost the fewest, %llu of %llu.", title,
                   (unsigned long long)f->dead, (unsigned long long)f->submitted);
    else if (second == best)
        buf_printf(out, "Only %s lost no job; it wasted %llu calls.", title,
                   (unsigned long long)f->wasted);
    else if (figures_of(c, second)->wasted == f->wasted)
        buf_printf(out, "%s and %s lost no job and wasted the same, %llu calls.", title,
                   c->options.strategies[second]->title, (unsigned long long)f->wasted);
    else
        buf_printf(out,
                   "Of the strategies that lost no job, %s wasted the fewest calls: %llu; the next "
                   "is %s with %llu.",
                   title, (unsigned long long)f->wasted, c->options.strategies[second]->title,
                   (unsigned long long)figures_of(c, second)->wasted);
}

static void put_ms(struct json_writer *w, const char *key, int64_t ms)
{
    json_key(w, key);
    if (ms < 0)
        json_put_null(w);
    else
        json_put_int(w, ms);
}

static void put_options(struct json_writer *w, const struct comparison *c)
{
    const struct compare_options *o = &c->options;
    json_begin_object(w);
    json_field_double(w, "jobs_per_s", o->jobs_per_s);
    json_field_int(w, "duration_ms", o->duration_ms);
    json_field_int(w, "outage_start_ms", c->outage_start_ms);
    json_field_int(w, "outage_ms", o->outage_ms);
    json_field_int(w, "latency_ms", o->latency_ms);
    json_field_double(w, "capacity_per_s", o->capacity_per_s);
    json_field_double(w, "error_rate", o->error_rate);
    json_field_int(w, "attempts", o->attempts);
    json_field_int(w, "workers", o->workers);
    json_key(w, "seed");
    json_put_uint(w, o->seed);
    json_end_object(w);
}

static void put_row(struct json_writer *w, const struct strategy *strategy, const struct figures *f)
{
    json_begin_object(w);
    json_field_cstr(w, "name", strategy->name);
    json_field_cstr(w, "title", strategy->title);
    json_field_int(w, "submitted", (int64_t)f->submitted);
    json_field_int(w, "completed", (int64_t)f->completed);
    json_field_int(w, "dead", (int64_t)f->dead);
    json_field_int(w, "calls", (int64_t)f->calls);
    json_field_int(w, "wasted_calls", (int64_t)f->wasted);
    json_field_int(w, "peak_calls_per_s", f->peak_per_s);
    put_ms(w, "drain_ms", f->drain_ms);
    put_ms(w, "p50_ms", f->p50_ms);
    put_ms(w, "p99_ms", f->p99_ms);
    json_end_object(w);
}

void comparison_json(const struct comparison *c, struct buf *out)
{
    struct json_writer w;
    json_writer_init(&w, out);
    json_begin_object(&w);
    json_key(&w, "options");
    put_options(&w, c);
    json_key(&w, "strategies");
    json_begin_array(&w);
    for (size_t i = 0; i < c->options.n_strategies; i++)
        put_row(&w, c->options.strategies[i], figures_of(c, i));
    json_end_array(&w);
    json_field_cstr(&w, "best", c->options.strategies[comparison_best(c)]->name);
    json_end_object(&w);
}

/* report.c - writes a comparison as sentences and JSON. */
#include "sim/compare.h"

static const struct figures *figures_of(const struct comparison *c, size_t row)
{
    return &c->rows[row].figures;
}

static uint64_t lost(const struct comparison *c, size_t row)
{
    return figures_lost(figures_of(c, row));
}

static uint64_t wasted(const struct comparison *c, size_t row)
{
    return figures_of(c, row)->wasted;
}

static uint64_t jobs(const struct comparison *c, size_t row)
{
    return figures_of(c, row)->submitted + figures_of(c, row)->rejected;
}

size_t comparison_best(const struct comparison *c)
{
    size_t best = 0;
    for (size_t i = 1; i < c->options.n_strategies; i++) {
        bool fewer_lost = lost(c, i) < lost(c, best);
        if (fewer_lost || (lost(c, i) == lost(c, best) && wasted(c, i) < wasted(c, best)))
            best = i;
    }
    return best;
}

/* "1 call", "2 calls", "no calls". */
static void put_count(struct buf *out, uint64_t n, const char *thing)
{
    if (n == 0)
        buf_printf(out, "no %ss", thing);
    else
        buf_printf(out, "%llu %s%s", (unsigned long long)n, thing, n == 1 ? "" : "s");
}

static void put_share(struct buf *out, uint64_t n, uint64_t total)
{
    buf_printf(out, "%llu of %llu", (unsigned long long)n, (unsigned long long)total);
}

/* Of the arm that has the fewest, and of the one that has the most. */
static void put_attempts_of_arms(const struct compare_options *o, struct buf *out)
{
    uint32_t least = UINT32_MAX, most = 0;
    for (size_t i = 0; i < o->n_strategies; i++) {
        const uint32_t n = strategy_attempts(o->strategies[i], o->attempts);
        least = n < least ? n : least;
        most = n > most ? n : most;
    }
    if (least < most)
        buf_printf(out, "%u to ", least);
    put_count(out, most, "attempt");
}

void comparison_attempts(const struct comparison *c, const char *after, struct buf *out)
{
    const struct compare_options *o = &c->options;
    if (o->experiment) {
        put_attempts_of_arms(o, out);
        buf_puts(out, after);
        return;
    }
    const struct strategy *configured = NULL;
    for (size_t i = 0; i < o->n_strategies; i++)
        if (o->strategies[i]->configured)
            configured = o->strategies[i];
    uint32_t own = configured ? strategy_attempts(configured, o->attempts) : 0;
    bool alone = configured && o->n_strategies == 1;

    put_count(out, alone ? own : o->attempts, "attempt");
    buf_puts(out, after);
    if (configured && !alone)
        buf_printf(out, " (%s: %u)", configured->title, own);
}

void comparison_describe(const struct comparison *c, struct buf *out)
{
    const struct compare_options *o = &c->options;
    buf_printf(out, "%g jobs/s for %g s, ", o->jobs_per_s, (double)o->duration_ms / 1000);
    comparison_attempts(c, " each", out);
    if (o->outage_ms > 0) {
        if (compare_is_brownout(o))
            buf_printf(out, "; %g %% of the calls fail", 100 * o->brownout);
        else
            buf_puts(out, "; the service is down");
        buf_printf(out, " from %g s to %g s", (double)c->outage_start_ms / 1000,
                   (double)c->outage_end_ms / 1000);
    }
    if (o->capacity_per_s > 0)
        buf_printf(out, "; %s takes %g calls/s%s",
                   o->outage_ms > 0 && !compare_is_brownout(o) ? "it" : "the service",
                   o->capacity_per_s, o->overload_waits ? ", and further calls wait" : "");
    if (o->rate_limit_per_s > 0)
        buf_printf(out, "; more than %g calls/s get a 429", o->rate_limit_per_s);
    if (o->timeout_ms > 0)
        buf_printf(out, "; calls time out after %g s", (double)o->timeout_ms / 1000);
}

/* Whether it did as well as the best: lost as few, and if `in_waste` wasted as few. */
static bool equals(const struct comparison *c, size_t row, size_t best, bool in_waste)
{
    return lost(c, row) == lost(c, best) && (!in_waste || wasted(c, row) == wasted(c, best));
}

static size_t count_equals(const struct comparison *c, size_t best, bool in_waste)
{
    size_t n = 0;
    for (size_t i = 0; i < c->options.n_strategies; i++)
        n += equals(c, i, best, in_waste);
    return n;
}

/* "a", "a and b", "a, b and c". */
static void put_equals(const struct comparison *c, size_t best, bool in_waste, struct buf *out)
{
    size_t left = count_equals(c, best, in_waste);
    for (size_t i = 0; i < c->options.n_strategies; i++) {
        if (!equals(c, i, best, in_waste))
            continue;
        left--;
        buf_printf(out, "%s%s", c->options.strategies[i]->title,
                   left == 0   ? ""
                   : left == 1 ? " and "
                               : ", ");
    }
}

/* The next best among those that lost as few; there is one. */
static size_t runner_up(const struct comparison *c, size_t best)
{
    size_t second = best;
    for (size_t i = 0; i < c->options.n_strategies; i++) {
        if (i == best || !equals(c, i, best, false))
            continue;
        if (second == best || wasted(c, i) < wasted(c, second))
            second = i;
    }
    return second;
}

/* One strategy, or several that cannot be told apart. */
static void read_alike(const struct comparison *c, struct buf *out)
{
    bool alone = c->options.n_strategies == 1;
    if (lost(c, 0) == 0 && wasted(c, 0) == 0) {
        buf_puts(out, alone ? "No job was lost and no call wasted."
                            : "No strategy lost a job or wasted a call.");
        return;
    }
    if (lost(c, 0) == 0) {
        buf_puts(out, alone ? "No job was lost; " : "No strategy lost a job; ");
    } else {
        buf_puts(out, alone ? "Lost: " : "Every strategy lost ");
        put_share(out, lost(c, 0), jobs(c, 0));
        buf_puts(out, " jobs; ");
    }
    if (!alone)
        buf_puts(out, "each wasted ");
    put_count(out, wasted(c, 0), "call");
    if (alone)
        buf_puts(out, wasted(c, 0) == 1 ? " was wasted" : " were wasted");
    buf_putc(out, '.');
}

static void read_losses(const struct comparison *c, size_t best, struct buf *out)
{
    if (count_equals(c, best, false) == c->options.n_strategies) {
        buf_puts(out, "Every strategy lost ");
        put_share(out, lost(c, best), jobs(c, best));
        buf_puts(out, " jobs; ");
        put_equals(c, best, true, out);
        buf_puts(out, " wasted the fewest calls: ");
        buf_printf(out, "%llu.", (unsigned long long)wasted(c, best));
        return;
    }
    buf_puts(out, "Every strategy lost jobs; ");
    put_equals(c, best, false, out);
    buf_puts(out, " lost the fewest, ");
    put_share(out, lost(c, best), jobs(c, best));
    buf_putc(out, '.');
}

static void read_survivors(const struct comparison *c, size_t best, struct buf *out)
{
    const char *title = c->options.strategies[best]->title;
    if (count_equals(c, best, false) == 1) {
        buf_printf(out, "Only %s lost no job; it wasted ", title);
        put_count(out, wasted(c, best), "call");
        buf_putc(out, '.');
    } else if (count_equals(c, best, true) > 1) {
        put_equals(c, best, true, out);
        buf_puts(out, " lost no job and wasted the same, ");
        put_count(out, wasted(c, best), "call");
        buf_putc(out, '.');
    } else {
        size_t second = runner_up(c, best);
        buf_printf(out,
                   "Of the strategies that lost no job, %s wasted the fewest calls: %llu; the next "
                   "is %s with %llu.",
                   title, (unsigned long long)wasted(c, best), c->options.strategies[second]->title,
                   (unsigned long long)wasted(c, second));
    }
}

void comparison_read(const struct comparison *c, struct buf *out)
{
    size_t best = comparison_best(c);
    uint64_t rejected = 0;

    if (jobs(c, best) == 0) {
        buf_puts(out, "No job arrived: there is nothing to compare.");
        return;
    }
    if (count_equals(c, best, true) == c->options.n_strategies)
        read_alike(c, out);
    else if (lost(c, best) > 0)
        read_losses(c, best, out);
    else
        read_survivors(c, best, out);

    for (size_t i = 0; i < c->options.n_strategies; i++)
        rejected += figures_of(c, i)->rejected;
    if (rejected > 0) {
        buf_puts(out, " Your policy refused ");
        put_count(out, rejected, "job");
        buf_puts(out, " while its breaker was open; they count as lost.");
    }
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
    json_field_double(w, "rate_limit_per_s", o->rate_limit_per_s);
    json_field_double(w, "error_rate", o->error_rate);
    json_field_double(w, "brownout", o->brownout);
    json_field_int(w, "timeout_ms", o->timeout_ms);
    json_field_bool(w, "overload_waits", o->overload_waits);
    json_field_int(w, "attempts", o->attempts);
    json_field_int(w, "workers", o->workers);
    json_key(w, "seed");
    json_put_uint(w, o->seed);
    json_end_object(w);
}

static void put_row(struct json_writer *w, const struct comparison *c, size_t row)
{
    const struct strategy *strategy = c->options.strategies[row];
    const struct figures *f = figures_of(c, row);
    json_begin_object(w);
    json_field_cstr(w, "name", strategy->name);
    json_field_cstr(w, "title", strategy->title);
    json_field_int(w, "attempts", strategy_attempts(strategy, c->options.attempts));
    json_field_int(w, "submitted", (int64_t)f->submitted);
    json_field_int(w, "rejected", (int64_t)f->rejected);
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

void comparison_write_members(const struct comparison *c, struct json_writer *w)
{
    json_key(w, "options");
    put_options(w, c);
    json_open_array(w, "strategies");
    for (size_t i = 0; i < c->options.n_strategies; i++)
        put_row(w, c, i);
    json_end_array(w);
    json_field_cstr(w, "best", c->options.strategies[comparison_best(c)]->name);
}

void comparison_json(const struct comparison *c, struct buf *out)
{
    struct json_writer w;
    json_writer_init(&w, out);
    json_begin_object(&w);
    comparison_write_members(c, &w);
    json_end_object(&w);
}

/* Samples over time: what counters and histograms grew by, gaps, and tenants that come later. */
#include "check.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/text/buf.h"
#include "server/dashboard/samples.h"
#include "store/store.h"

#define SECOND 1000
#define HOUR   (3600 * SECOND)

static void start(struct run_times *times, const char *tenant, int64_t wait_ms)
{
    const struct engine_event event = {.kind = ENGINE_EVENT_STARTED,
                                       .tenant = str_of(tenant),
                                       .task = STR("mail"),
                                       .queue = STR("main"),
                                       .wait_ms = wait_ms};
    run_times_event(times, &event);
}

static void complete(struct run_times *times, const char *tenant, int64_t run_ms)
{
    const struct engine_event event = {.kind = ENGINE_EVENT_COMPLETED,
                                       .tenant = str_of(tenant),
                                       .task = STR("mail"),
                                       .queue = STR("main"),
                                       .ran = true,
                                       .run_ms = run_ms};
    run_times_event(times, &event);
}

static void count(struct store *store, const char *tenant, const char *name, int64_t n)
{
    const struct counter counter = {.tenant = str_of(tenant), .name = str_of(name), .value = n};
    int64_t now_ms, version;
    assert_int_equal(store_ops(store)->begin(store, 1, &now_ms, &version, NULL), 0);
    assert_int_equal(store_ops(store)->counters_add(store, &counter, 1, NULL), 0);
    assert_int_equal(store_ops(store)->commit(store, NULL), 0);
}

/* What samples are taken of; the store is of each test's own. */
struct source {
    struct samples *samples;
    struct run_times *times;
    struct store *store;
};

static struct source open_source(bool of_rates)
{
    static unsigned number;
    const struct store_options options = {.create = true};
    struct source s = {.times = run_times_new()};
    char url[32];
    (void)snprintf(url, sizeof url, "memory:rates%u", ++number);
    assert_int_equal(store_open(url, &options, &s.store, NULL), 0);
    assert_int_equal((of_rates ? samples_new_rates : samples_new_latencies)(&s.samples, NULL), 0);
    return s;
}

static void close_source(struct source *s)
{
    samples_free(s->samples);
    run_times_free(s->times);
    store_close(s->store);
}

static const char *told(struct samples *samples, const char *tenant, int64_t span_ms)
{
    static char text[200000];
    struct json_writer w;
    struct buf out;
    buf_init(&out, sizeof text);
    json_writer_init(&w, &out);
    json_begin_array(&w);
    samples_write(samples, str_of(tenant), span_ms, &w);
    json_end_array(&w);
    assert_true(str_copy(text, sizeof text, buf_str(&out)));
    buf_release(&out);
    return text;
}

static size_t spans(const char *text)
{
    size_t n = 0;
    for (; (text = strstr(text, "\"at\":")); text++)
        n++;
    return n;
}

/* After twice as many as are kept. */
static void check_all_kept(struct samples *samples)
{
    assert_int_equal(spans(told(samples, "red", 2 * HOUR)), SAMPLES_KEPT - 1);
    assert_int_equal(spans(told(samples, "red", 60 * SECOND)), 6);
}

TEST(latencies_are_those_of_their_span)
{
    struct source s = open_source(false);
    start(s.times, "red", 90000);
    samples_take_latencies(s.samples, s.times, 10 * SECOND);
    assert_string_equal(told(s.samples, "red", HOUR), "[]");
    for (int i = 0; i < 4; i++)
        start(s.times, "red", 80);
    complete(s.times, "red", 400);
    complete(s.times, "blue", 400);
    samples_take_latencies(s.samples, s.times, 20 * SECOND);
    const char *text = told(s.samples, "red", HOUR);
    assert_int_equal(spans(text), 1);
    /* Four between 0.05 and 0.1 s: the half is at 0.075. */
    assert_non_null(strstr(text, "\"seconds\":10,\"started\":4,\"wait\":{\"p50\":0.075"));
    assert_non_null(strstr(text, "\"ended\":1,\"run\":{\"p50\":0.375"));
    assert_non_null(
        strstr(told(s.samples, "blue", HOUR), "\"started\":0,\"wait\":null,\"ended\":1"));
    assert_string_equal(told(s.samples, "green", HOUR), "[]");
    close_source(&s);
}

TEST(old_latencies_make_room)
{
    struct source s = open_source(false);
    start(s.times, "red", 1);
    for (int64_t i = 1; i <= 2 * SAMPLES_KEPT; i++)
        samples_take_latencies(s.samples, s.times, i * 10 * SECOND);
    check_all_kept(s.samples);
    close_source(&s);
}

TEST(percentiles_are_interpolated)
{
    uint64_t counts[RUN_TIMES_N_BOUNDS + 1] = {0};
    assert_true(latency_percentile(counts, 0.5) < 0);
    counts[0] = 100; /* up to 0.005 s */
    assert_true(fabs(latency_percentile(counts, 0.5) - 0.0025) < 1e-9);
    counts[7] = 100; /* 0.5 to 1 s */
    assert_true(fabs(latency_percentile(counts, 0.5) - 0.005) < 1e-9);
    assert_true(fabs(latency_percentile(counts, 0.75) - 0.75) < 1e-9);
    counts[RUN_TIMES_N_BOUNDS] = 1000; /* beyond the last bound, which is all that is known */
    assert_true(fabs(latency_percentile(counts, 0.99) - 1800) < 1e-9);
}

TEST(rates_are_what_counters_grew_by)
{
    struct source s = open_source(true);
    count(s.store, "red", "jobs_completed", 5);
    assert_true(samples_take_rates(s.samples, s.store, 10 * SECOND) >= SAMPLES_STEP_MS);
    assert_string_equal(told(s.samples, "red", HOUR), "[]");
    count(s.store, "red", "jobs_completed", 7);
    count(s.store, "blue", "jobs_received", 3);
    samples_take_rates(s.samples, s.store, 20 * SECOND);
    const char *text = told(s.samples, "red", HOUR);
    assert_int_equal(spans(text), 1);
    assert_non_null(strstr(text, "\"seconds\":10,\"submitted\":0,"));
    assert_non_null(strstr(text, "\"completed\":7,"));
    /* A tenant that was not there the time before began with nothing. */
    assert_non_null(strstr(told(s.samples, "blue", HOUR), "\"submitted\":3,"));
    assert_string_equal(told(s.samples, "green", HOUR), "[]");
    close_source(&s);
}

TEST(old_rates_make_room)
{
    struct source s = open_source(true);
    for (int64_t i = 1; i <= 2 * SAMPLES_KEPT; i++) {
        count(s.store, "red", "jobs_completed", 1);
        samples_take_rates(s.samples, s.store, i * 10 * SECOND);
    }
    check_all_kept(s.samples);
    close_source(&s);
}

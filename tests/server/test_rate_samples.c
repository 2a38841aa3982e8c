/* Rates from counters: spans, gaps, and tenants that come later. */
#include "check.h"

#include <stdio.h>
#include <string.h>

#include "base/text/buf.h"
#include "server/dashboard/rate_samples.h"
#include "server/dashboard/tenant_rings.h"
#include "store/store.h"

#define SECOND 1000

static void count(struct store *store, const char *tenant, const char *name, int64_t n)
{
    const struct counter counter = {.tenant = str_of(tenant), .name = str_of(name), .value = n};
    int64_t now_ms, version;
    assert_int_equal(store_ops(store)->begin(store, 1, &now_ms, &version, NULL), 0);
    assert_int_equal(store_ops(store)->counters_add(store, &counter, 1, NULL), 0);
    assert_int_equal(store_ops(store)->commit(store, NULL), 0);
}

/* A store of each test's own. */
static const char *url(void)
{
    static char text[32];
    static unsigned number;
    (void)snprintf(text, sizeof text, "memory:rates%u", ++number);
    return text;
}

/* The rates of a tenant as text, in static memory. */
static const char *rates(struct rate_samples *samples, const char *tenant, int64_t span_ms)
{
    static char text[100000];
    struct buf out;
    struct json_writer w;
    buf_init(&out, sizeof text);
    json_writer_init(&w, &out);
    json_begin_array(&w);
    rate_samples_write(samples, str_of(tenant), span_ms, &w);
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

static void rates_are_what_counters_grew_by(void **state)
{
    const struct store_options options = {.create = true};
    struct rate_samples *samples;
    struct store *store;
    (void)state;
    assert_int_equal(store_open(url(), &options, &store, NULL), 0);
    assert_int_equal(rate_samples_new(&samples, NULL), 0);
    count(store, "red", "jobs_completed", 5);
    assert_true(rate_samples_take(samples, store, 10 * SECOND) >= RATE_STEP_MS);
    assert_string_equal(rates(samples, "red", 3600 * SECOND), "[]");
    count(store, "red", "jobs_completed", 7);
    count(store, "blue", "jobs_received", 3);
    rate_samples_take(samples, store, 20 * SECOND);
    const char *text = rates(samples, "red", 3600 * SECOND);
    assert_int_equal(spans(text), 1);
    assert_non_null(strstr(text, "\"seconds\":10,\"submitted\":0,"));
    assert_non_null(strstr(text, "\"completed\":7,"));
    /* A tenant that was not there the time before began with nothing. */
    assert_non_null(strstr(rates(samples, "blue", 3600 * SECOND), "\"submitted\":3,"));
    assert_string_equal(rates(samples, "green", 3600 * SECOND), "[]");
    rate_samples_free(samples);
    store_close(store);
}

static void old_samples_make_room(void **state)
{
    const struct store_options options = {.create = true};
    struct rate_samples *samples;
    struct store *store;
    (void)state;
    assert_int_equal(store_open(url(), &options, &store, NULL), 0);
    assert_int_equal(rate_samples_new(&samples, NULL), 0);
    for (int64_t i = 1; i <= 2 * TENANT_RING_SAMPLES; i++) {
        count(store, "red", "jobs_completed", 1);
        rate_samples_take(samples, store, i * 10 * SECOND);
    }
    assert_int_equal(spans(rates(samples, "red", 7200 * SECOND)), TENANT_RING_SAMPLES - 1);
    assert_int_equal(spans(rates(samples, "red", 60 * SECOND)), 6);
    rate_samples_free(samples);
    store_close(store);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rates_are_what_counters_grew_by),
        cmocka_unit_test(old_samples_make_room),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

#include "check.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/text/buf.h"
#include "server/events.h"
#include "waiting.h"

#define NOW_MS   INT64_C(1767225600000)
#define FIRST_ID "1767225600000000"

/* A client that keeps what it gets. */
struct ear {
    pthread_mutex_t mutex;
    pthread_cond_t heard;
    struct buf text;
    bool is_gone;   /* says so at the next write */
    bool is_closed; /* by the hub */
    bool is_held;   /* does not return from a write */
};

static bool ear_write(struct str bytes, void *ctx)
{
    struct ear *ear = ctx;
    pthread_mutex_lock(&ear->mutex);
    (void)buf_add_str(&ear->text, bytes);
    pthread_cond_broadcast(&ear->heard);
    while (ear->is_held)
        pthread_cond_wait(&ear->heard, &ear->mutex);
    bool is_there = !ear->is_gone;
    pthread_mutex_unlock(&ear->mutex);
    return is_there;
}

static void ear_close(void *ctx)
{
    struct ear *ear = ctx;
    pthread_mutex_lock(&ear->mutex);
    ear->is_closed = true;
    pthread_cond_broadcast(&ear->heard);
    pthread_mutex_unlock(&ear->mutex);
}

static void ear_init(struct ear *ear)
{
    *ear = (struct ear){0};
    pthread_mutex_init(&ear->mutex, NULL);
    pthread_cond_init(&ear->heard, NULL);
    buf_init(&ear->text, 16u * 1024 * 1024);
}

static void ear_release(struct ear *ear)
{
    buf_release(&ear->text);
    pthread_cond_destroy(&ear->heard);
    pthread_mutex_destroy(&ear->mutex);
}

static bool ear_has(struct ear *ear, const char *words)
{
    pthread_mutex_lock(&ear->mutex);
    bool has = strstr(buf_cstr(&ear->text), words) != NULL;
    pthread_mutex_unlock(&ear->mutex);
    return has;
}

static bool ear_is_closed(struct ear *ear)
{
    pthread_mutex_lock(&ear->mutex);
    const bool is_closed = ear->is_closed;
    pthread_mutex_unlock(&ear->mutex);
    return is_closed;
}

/* Waits until it has been closed, or has heard the words. */
static void ear_wait(struct ear *ear, const char *words)
{
    WAIT_TELLING(
        words ? ear_has(ear, words) : ear_is_closed(ear), pass_ms(1),
        print_error("not heard: %s; but: %s\n", words ? words : "(the end)", buf_cstr(&ear->text)));
}

static void ear_hold(struct ear *ear, bool is_held)
{
    pthread_mutex_lock(&ear->mutex);
    ear->is_held = is_held;
    pthread_cond_broadcast(&ear->heard);
    pthread_mutex_unlock(&ear->mutex);
}

static struct event_hub *hub_of(size_t capacity, int64_t keep_alive_ms)
{
    const struct event_hub_options options = {
        .capacity = capacity, .keep_alive_ms = keep_alive_ms, .now_ms = NOW_MS};
    struct event_hub *hub;
    assert_int_equal(event_hub_new(&options, &hub, NULL), 0);
    return hub;
}

static int join(struct event_hub *hub, const struct event_filter *filter, const char *last_id,
                struct ear *ear)
{
    const struct event_sink sink = {.write = ear_write, .close = ear_close, .ctx = ear};
    return event_hub_join(hub, filter, str_of(last_id), &sink, NULL);
}

static const struct event_filter ALL = {.tenant = {"default", 7}};

static void tell(struct event_hub *hub, enum engine_event_kind kind, const char *task,
                 const char *id)
{
    const struct engine_event event = {
        .kind = kind,
        .at_ms = NOW_MS,
        .tenant = STR("default"),
        .id = str_of(id),
        .task = str_of(task),
        .queue = STR("main"),
        .attempt = 1,
        .max_attempts = 6,
    };
    event_hub_event(&event, hub);
}

TEST(a_client_hears_what_happens_after_it_came)
{
    struct event_hub *hub = hub_of(0, 0);
    struct ear ear;
    ear_init(&ear);
    tell(hub, ENGINE_EVENT_SUBMITTED, "mail", "before");
    assert_int_equal(join(hub, &ALL, NULL, &ear), 0);
    tell(hub, ENGINE_EVENT_SUBMITTED, "mail", "after");
    ear_wait(&ear, "after");
    ear_wait(&ear, "retry: 2000\n\n"
                   "id: 1767225600000001\n"
                   "event: submitted\n"
                   "data: {\"type\":\"submitted\",\"at\":\"2026-01-01T00:00:00.000Z\","
                   "\"job_id\":\"after\",\"task\":\"mail\",\"queue\":\"main\",\"attempt\":1,"
                   "\"max_attempts\":6}\n\n");
    assert_false(ear_has(&ear, "before"));
    event_hub_free(hub);
    assert_true(ear.is_closed);
    ear_release(&ear);
}

TEST(a_failure_says_why)
{
    struct event_hub *hub = hub_of(0, 0);
    struct ear ear;
    const struct engine_event event = {
        .kind = ENGINE_EVENT_RETRYING,
        .tenant = STR("default"),
        .id = STR("a"),
        .task = STR("mail"),
        .queue = STR("main"),
        .worker = STR("w1"),
        .ran = true,
        .run_ms = 1500,
        .delay_ms = 4000,
        .class_ = REDRIVE_CLASS_NETWORK,
        .message = STR("line one\nline \"two\""),
    };
    ear_init(&ear);
    assert_int_equal(join(hub, &ALL, NULL, &ear), 0);
    event_hub_event(&event, hub);
    ear_wait(&ear, "\"worker\":\"w1\",");
    ear_wait(&ear, "\"duration_ms\":1500,\"delay_ms\":4000,\"class\":\"network\","
                   "\"error\":\"line one\\nline \\\"two\\\"\"}\n\n");
    event_hub_free(hub);
    ear_release(&ear);
}

TEST(a_breaker_that_changes_is_told_of_as_such)
{
    struct event_hub *hub = hub_of(0, 0);
    struct ear ear;
    const struct event_filter filter = {.tenant = STR("default"),
                                        .kinds = 1u << ENGINE_EVENT_BREAKER};
    const struct engine_event event = {
        .kind = ENGINE_EVENT_BREAKER,
        .at_ms = NOW_MS,
        .tenant = STR("default"),
        .breaker = STR("mail:example.org"),
        .was = REDRIVE_BREAKER_CLOSED,
        .state = REDRIVE_BREAKER_OPEN,
        .failures = 5,
        .rate = -1,
        .next_probe_ms = NOW_MS + 30000,
    };
    ear_init(&ear);
    assert_int_equal(join(hub, &filter, NULL, &ear), 0);
    tell(hub, ENGINE_EVENT_SUBMITTED, "mail", "a");
    event_hub_event(&event, hub);
    ear_wait(&ear, "event: breaker\n"
                   "data: {\"type\":\"breaker\",\"at\":\"2026-01-01T00:00:00.000Z\","
                   "\"key\":\"mail:example.org\",\"state\":\"open\",\"previous_state\":\"closed\","
                   "\"failure_count\":5,\"failure_rate\":null,"
                   "\"next_probe_at\":\"2026-01-01T00:00:30.000Z\"}\n\n");
    assert_false(ear_has(&ear, "submitted"));
    event_hub_free(hub);
    ear_release(&ear);
}

TEST(a_client_hears_of_its_own_tenant_only)
{
    struct event_hub *hub = hub_of(0, 0);
    const struct event_filter zoo = {.tenant = STR("zoo")};
    struct ear ear, other;
    ear_init(&ear);
    ear_init(&other);
    assert_int_equal(join(hub, &zoo, NULL, &ear), 0);
    assert_int_equal(join(hub, &ALL, NULL, &other), 0);
    tell(hub, ENGINE_EVENT_SUBMITTED, "mail", "secret");
    ear_wait(&other, "secret");
    const struct engine_event own = {.tenant = STR("zoo"), .id = STR("own")};
    event_hub_event(&own, hub);
    ear_wait(&ear, "own");
    assert_false(ear_has(&ear, "secret"));
    event_hub_free(hub);
    ear_release(&ear);
    ear_release(&other);
}

TEST(filters_let_through_what_they_name)
{
    struct event_hub *hub = hub_of(0, 0);
    struct event_filter filter = {.tenant = STR("default"), .task = STR("mail")};
    struct ear ear;
    ear_init(&ear);
    assert_int_equal(event_kinds_parse(STR("completed, dead_letter"), &filter.kinds, NULL), 0);
    assert_int_equal(join(hub, &filter, NULL, &ear), 0);
    tell(hub, ENGINE_EVENT_SUBMITTED, "mail", "wrong-type");
    tell(hub, ENGINE_EVENT_COMPLETED, "sms", "wrong-task");
    tell(hub, ENGINE_EVENT_DEAD, "mail", "right");
    ear_wait(&ear, "right");
    assert_false(ear_has(&ear, "wrong"));
    event_hub_free(hub);
    ear_release(&ear);
}

TEST(a_digest_says_how_many_there_were)
{
    struct event_hub *hub = hub_of(0, 0);
    const struct event_filter filter = {.tenant = STR("default"), .digest_ms = 50};
    struct ear ear;
    ear_init(&ear);
    assert_int_equal(join(hub, &filter, NULL, &ear), 0);
    tell(hub, ENGINE_EVENT_SUBMITTED, "mail", "job-1");
    ear_wait(&ear, "event: digest\ndata: {\"type\":\"digest\",\"counts\":{\"submitted\":1}}\n\n");
    /* The rest comes together, however many digests it takes: none has an event of its own. */
    for (int i = 0; i < 6000; i++)
        tell(hub, ENGINE_EVENT_COMPLETED, "mail", "job-2");
    tell(hub, ENGINE_EVENT_DEAD, "mail", "job-3");
    ear_wait(&ear, "\"dead_letter\":1");
    assert_false(ear_has(&ear, "job-"));
    unsigned long sum = 0;
    size_t digests = 0;
    for (const char *at = buf_cstr(&ear.text); (at = strstr(at, "\"completed\":")); digests++) {
        at += strlen("\"completed\":");
        sum += strtoul(at, NULL, 10);
    }
    assert_int_equal(sum, 6000);
    assert_true(digests < 6000 / 10);
    event_hub_free(hub);
    ear_release(&ear);
}

TEST(an_unknown_type_is_refused_with_the_nearest)
{
    struct redrive_err err = {0};
    uint32_t kinds;
    assert_int_equal(event_kinds_parse(STR("complete"), &kinds, &err), REDRIVE_E_UNKNOWN);
    assert_string_equal(err.message, "there is no type of event 'complete'");
    assert_string_equal(err.hint, "did you mean 'completed'?");
    assert_int_equal(event_kinds_parse(STR(""), &kinds, NULL), 0);
    assert_int_equal(kinds, 0);
}

TEST(a_client_that_comes_back_misses_nothing)
{
    struct event_hub *hub = hub_of(0, 0);
    struct ear ear;
    ear_init(&ear);
    tell(hub, ENGINE_EVENT_SUBMITTED, "mail", "seen");
    tell(hub, ENGINE_EVENT_SUBMITTED, "mail", "missed-1");
    tell(hub, ENGINE_EVENT_SUBMITTED, "mail", "missed-2");
    assert_int_equal(join(hub, &ALL, FIRST_ID, &ear), 0);
    ear_wait(&ear, "missed-2");
    assert_true(ear_has(&ear, "missed-1"));
    assert_false(ear_has(&ear, "\"seen\""));
    assert_false(ear_has(&ear, "reset"));
    event_hub_free(hub);
    ear_release(&ear);
}

TEST(a_gap_is_told_once)
{
    static const char *const IDS[] = {
        FIRST_ID,              /* no longer kept */
        "17",                  /* of a former process */
        "1999999999999999999", /* of nobody */
        "99999999999999999999999",
        "not a number",
    };
    for (size_t i = 0; i < sizeof IDS / sizeof IDS[0]; i++) {
        struct event_hub *hub = hub_of(4, 0);
        struct ear ear;
        ear_init(&ear);
        for (int j = 0; j < 8; j++)
            tell(hub, ENGINE_EVENT_SUBMITTED, "mail", "old");
        assert_int_equal(join(hub, &ALL, IDS[i], &ear), 0);
        ear_wait(&ear, "id: 1767225600000007\nevent: reset\ndata: {\"type\":\"reset\"}\n\n");
        tell(hub, ENGINE_EVENT_SUBMITTED, "mail", "new");
        ear_wait(&ear, "new");
        assert_false(ear_has(&ear, "old"));
        event_hub_free(hub);
        ear_release(&ear);
    }
}

TEST(one_that_is_too_slow_gets_a_reset_and_holds_up_nobody)
{
    struct event_hub *hub = hub_of(8, 0);
    struct ear ear;
    ear_init(&ear);
    ear_hold(&ear, true);
    assert_int_equal(join(hub, &ALL, NULL, &ear), 0);
    ear_wait(&ear, "retry");
    for (int i = 0; i < 100; i++)
        tell(hub, ENGINE_EVENT_SUBMITTED, "mail", "many");
    ear_hold(&ear, false);
    ear_wait(&ear, "id: 1767225600000099\nevent: reset");
    assert_false(ear_has(&ear, "many"));
    event_hub_free(hub);
    ear_release(&ear);
}

TEST(one_that_has_gone_is_closed)
{
    struct event_hub *hub = hub_of(0, 20);
    struct ear ear;
    ear_init(&ear);
    ear.is_gone = true;
    assert_int_equal(join(hub, &ALL, NULL, &ear), 0);
    ear_wait(&ear, NULL);
    event_hub_free(hub);
    ear_release(&ear);
}

/* Joins another one at the moment at which it is dropped itself. */
struct successor {
    struct ear ear;
    struct event_hub *hub;
};

static bool leave_at_once(struct str bytes, void *ctx)
{
    (void)bytes, (void)ctx;
    return false;
}

static void join_successor(void *ctx)
{
    struct successor *s = ctx;
    assert_int_equal(join(s->hub, &ALL, NULL, &s->ear), 0);
}

TEST(one_that_comes_as_another_goes_is_greeted_at_once)
{
    /* Without being woken the hub sleeps for longer than a test waits. */
    struct successor s = {.hub = hub_of(0, 10 * WAIT_LIMIT_MS)};
    const struct event_sink sink = {.write = leave_at_once, .close = join_successor, .ctx = &s};
    ear_init(&s.ear);
    assert_int_equal(event_hub_join(s.hub, &ALL, (struct str){0}, &sink, NULL), 0);
    ear_wait(&s.ear, "retry: 2000");
    event_hub_free(s.hub);
    ear_release(&s.ear);
}

TEST(silence_is_filled_with_comments)
{
    struct event_hub *hub = hub_of(0, 20);
    struct ear ear;
    ear_init(&ear);
    assert_int_equal(join(hub, &ALL, NULL, &ear), 0);
    ear_wait(&ear, ": still here\n\n: still here\n\n");
    event_hub_free(hub);
    ear_release(&ear);
}

TEST(a_crowd_is_bounded)
{
    struct event_hub *hub = hub_of(0, 0);
    struct ear ear;
    ear_init(&ear);
    for (int i = 0; i < EVENT_HUB_MAX_CLIENTS; i++)
        assert_int_equal(join(hub, &ALL, NULL, &ear), 0);
    assert_int_equal(join(hub, &ALL, NULL, &ear), REDRIVE_E_STOPPING);
    event_hub_free(hub);
    ear_release(&ear);
}

TEST(many_events_arrive_in_order)
{
    enum {
        N = 5000
    };
    struct event_hub *hub = hub_of(2 * N, 0);
    struct ear ear;
    char id[32];
    ear_init(&ear);
    assert_int_equal(join(hub, &ALL, NULL, &ear), 0);
    for (int i = 0; i < N; i++) {
        (void)snprintf(id, sizeof id, "job-%d", i);
        tell(hub, ENGINE_EVENT_COMPLETED, "mail", id);
    }
    (void)snprintf(id, sizeof id, "\"job-%d\"", N - 1);
    ear_wait(&ear, id);
    const char *at = buf_cstr(&ear.text);
    for (int i = 0; i < N; i++) {
        (void)snprintf(id, sizeof id, "\"job-%d\"", i);
        at = strstr(at, id);
        assert_non_null(at);
    }
    event_hub_free(hub);
    ear_release(&ear);
}

TEST(a_client_that_may_not_see_errors_gets_none)
{
    const struct event_filter hiding = {.tenant = STR("default"), .hides_errors = true};
    struct event_hub *hub = hub_of(0, 0);
    struct ear ear, other;
    ear_init(&ear);
    ear_init(&other);
    assert_int_equal(join(hub, &hiding, NULL, &ear), 0);
    assert_int_equal(join(hub, &ALL, NULL, &other), 0);
    const struct engine_event event = {.kind = ENGINE_EVENT_DEAD,
                                       .tenant = STR("default"),
                                       .id = STR("job-1"),
                                       .task = STR("mail"),
                                       .class_ = REDRIVE_CLASS_PERMANENT,
                                       .message = STR("no login with hunter2")};
    event_hub_event(&event, hub);
    ear_wait(&ear, "\"class\":\"permanent\"");
    ear_wait(&other, "hunter2");
    assert_false(ear_has(&ear, "hunter2"));
    event_hub_free(hub);
    ear_release(&ear);
    ear_release(&other);
}

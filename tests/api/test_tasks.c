/* What the list of tasks says of definitions that processes have published. */
#include "api/api.h"

#include "base/text/buf.h"
#include "check.h"

static struct store *store;
static struct config *config;
static struct arena arena;

static int setup(void **state)
{
    const struct config_sources sources = {.path = "/dev/null"};
    const struct store_options options = {.create = true};
    struct config_report report;
    (void)state;
    arena_init(&arena);
    assert_int_equal(config_load(&sources, &config, &report), 0);
    return store_open("memory:", &options, &store, NULL);
}

static int teardown(void **state)
{
    (void)state;
    store_close(store);
    config_free(config);
    arena_release(&arena);
    return 0;
}

static void publish(const char *name, const char *definition)
{
    const struct shared_row row = {.kind = SHARED_TASK,
                                   .tenant = STR("default"),
                                   .key = str_of(name),
                                   .value = str_of(definition)};
    struct move_result result = {0};
    int64_t now_ms, version;
    assert_int_equal(store_ops(store)->begin(store, 1, &now_ms, &version, NULL), 0);
    assert_int_equal(store_ops(store)->shared_put(store, &row, 1, &result, NULL), 0);
    assert_int_equal(store_ops(store)->commit(store, NULL), 0);
    assert_int_equal(result.code, 0);
}

static bool answer_has(const struct operation *operation, const char *name, const char *text)
{
    struct json_writer w;
    RELEASED_BY(buf_release) struct buf out = BUF_MAX(1 << 20);
    const struct api_context context = {
        .store = store, .config = config, .name = str_of(name), .arena = &arena, .now_ms = 1};
    json_writer_init(&w, &out);
    assert_int_equal(operation->read(&context, &w, NULL), 0);
    return str_contains(buf_str(&out), str_of(text));
}

TEST_AROUND(published_tasks_are_listed_with_their_definition, setup, teardown)
{
    publish("call", "{\"queue\":\"media\",\"retry\":{\"max_attempts\":2}}");
    assert_true(
        answer_has(&API_TASKS, NULL, "{\"task\":\"call\",\"declared\":true,\"queue\":\"media\""));
    assert_true(answer_has(&API_TASKS, NULL, "\"run_time\":null"));
    assert_true(answer_has(&API_TASKS, NULL, "\"attempts\":2}"));
    assert_true(answer_has(&API_TASK, "call", "\"attempts\":2}"));
    assert_true(answer_has(&API_TASK, "other", "\"declared\":false,\"queue\":null"));
}

/* A newer version has published the first, and the second is damaged. */
TEST_AROUND(definitions_that_are_not_understood_leave_the_defaults_in_force, setup, teardown)
{
    publish("a", "{\"queue\":\"media\",\"colour\":\"red\"}");
    publish("b", "{\"queue\":");
    assert_true(answer_has(&API_TASKS, NULL, "{\"task\":\"a\",\"declared\":false,\"queue\":null"));
    assert_true(answer_has(&API_TASKS, NULL, "{\"task\":\"b\",\"declared\":false,\"queue\":null"));
    assert_true(answer_has(&API_TASK, "a", "\"declared\":false,\"queue\":null"));
}

#include "run/otlp/settings.h"

#include "check.h"

/* ---- An environment of the test's own ---------------------------------------------------------
 */

#define VARIABLES_MAX 8
static const char *variables[VARIABLES_MAX][2];

static const char *env(const char *name)
{
    for (size_t i = 0; i < VARIABLES_MAX && variables[i][0]; i++)
        if (strcmp(variables[i][0], name) == 0)
            return variables[i][1];
    return NULL;
}

static void set(const char *name, const char *value)
{
    size_t i = 0;
    while (variables[i][0] && strcmp(variables[i][0], name) != 0)
        i++;
    variables[i][0] = name;
    variables[i][1] = value;
}

static int clear(void **state)
{
    (void)state;
    memset(variables, 0, sizeof variables);
    return 0;
}

#define ENDPOINT "OTEL_EXPORTER_OTLP_ENDPOINT"

static void read_settings(struct otlp_settings *ret)
{
    struct redrive_err err = {0};
    if (otlp_settings_read(ret, env, &err) < 0)
        fail_msg("%s: %s", err.message, err.detail);
}

static void refuses(const char *name, const char *value)
{
    struct otlp_settings settings;
    struct redrive_err err = {0};
    set(name, value);
    if (otlp_settings_read(&settings, env, &err) != REDRIVE_E_CONFIG)
        fail_msg("%s=%s was accepted", name, value);
    assert_non_null(strstr(err.message, name));
    otlp_settings_release(&settings);
    set(name, NULL);
}

#define FIXTURE_TEST(test) TEST_AROUND(test, clear, NULL)

/* ---- Where to -------------------------------------------------------------------------------- */

FIXTURE_TEST(without_an_endpoint_there_is_no_tracing)
{
    struct otlp_settings settings;
    set(ENDPOINT, "");
    set("OTEL_TRACES_SAMPLER", "not looked at");
    read_settings(&settings);
    assert_null(settings.base);
    otlp_settings_release(&settings);
}

FIXTURE_TEST(the_path_is_added_to_a_general_endpoint_only)
{
    static const char *const CASES[][4] = {
        {"http://localhost:4318", "", "http://localhost:4318", "/v1/traces"},
        {"http://localhost:4318/", "", "http://localhost:4318", "/v1/traces"},
        {"https://c.example/otlp//", "", "https://c.example", "/otlp/v1/traces"},
        {"http://ignored", "https://c.example/own", "https://c.example", "/own"},
        {"", "http://c.example:1/", "http://c.example:1", "/"},
        {"", "http://c.example", "http://c.example", "/"},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        struct otlp_settings settings;
        set(ENDPOINT, CASES[i][0]);
        set("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", CASES[i][1]);
        read_settings(&settings);
        assert_string_equal(settings.base, CASES[i][2]);
        assert_string_equal(settings.path, CASES[i][3]);
        otlp_settings_release(&settings);
    }
}

FIXTURE_TEST(an_endpoint_that_is_no_address_is_refused)
{
    static const char *const BAD[] = {"localhost:4318", "ftp://a",      "http://",
                                      "http:///v1",     "http://a b",   "http://a?x",
                                      "http://a\n",     "grpc://a:4317"};
    for (size_t i = 0; i < sizeof BAD / sizeof BAD[0]; i++)
        refuses(ENDPOINT, BAD[i]);
}

FIXTURE_TEST(it_can_be_switched_off)
{
    static const char *const OFF[][2] = {{"OTEL_SDK_DISABLED", "true"},
                                         {"OTEL_SDK_DISABLED", "TRUE"},
                                         {"OTEL_TRACES_EXPORTER", "none"}};
    for (size_t i = 0; i < sizeof OFF / sizeof OFF[0]; i++) {
        struct otlp_settings settings;
        (void)clear(NULL);
        set(ENDPOINT, "http://localhost:4318");
        set(OFF[i][0], OFF[i][1]);
        read_settings(&settings);
        assert_null(settings.base);
        otlp_settings_release(&settings);
    }
    struct otlp_settings settings;
    (void)clear(NULL);
    set(ENDPOINT, "http://localhost:4318");
    set("OTEL_SDK_DISABLED", "false");
    set("OTEL_TRACES_EXPORTER", "otlp");
    set("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf");
    read_settings(&settings);
    assert_non_null(settings.base);
    otlp_settings_release(&settings);
    refuses("OTEL_TRACES_EXPORTER", "console");
    refuses("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc");
    refuses("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "grpc");
}

/* ---- What with ------------------------------------------------------------------------------- */

FIXTURE_TEST(the_defaults_are_those_of_the_specification)
{
    struct otlp_settings settings;
    set(ENDPOINT, "http://localhost:4318");
    read_settings(&settings);
    assert_int_equal(settings.timeout_ms, 10000);
    assert_int_equal(settings.delay_ms, 5000);
    assert_int_equal(settings.export_timeout_ms, 30000);
    assert_int_equal(settings.queue_max, 2048);
    assert_int_equal(settings.batch_max, 512);
    assert_int_equal(settings.n_headers, 0);
    assert_null(settings.ca_file);
    assert_true(settings.sampler.follows_parent);
    assert_int_equal(settings.n_resource, 2);
    check_str(settings.resource[0].name, "service.name");
    check_str(settings.resource[0].value, "redrive");
    otlp_settings_release(&settings);
}

FIXTURE_TEST(numbers_have_bounds)
{
    struct otlp_settings settings;
    set(ENDPOINT, "http://localhost:4318");
    set("OTEL_EXPORTER_OTLP_TIMEOUT", "5");
    set("OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", "7");
    set("OTEL_BSP_MAX_QUEUE_SIZE", "10");
    set("OTEL_BSP_SCHEDULE_DELAY", "0");
    read_settings(&settings);
    assert_int_equal(settings.timeout_ms, 7);
    assert_int_equal(settings.delay_ms, 0);
    assert_int_equal(settings.queue_max, 10);
    assert_int_equal(settings.batch_max, 10); /* no more than there can be */
    otlp_settings_release(&settings);
    refuses("OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", "0");
    refuses("OTEL_EXPORTER_OTLP_TIMEOUT", "soon");
    set("OTEL_EXPORTER_OTLP_TIMEOUT", NULL);
    refuses("OTEL_BSP_MAX_QUEUE_SIZE", "0");
    refuses("OTEL_BSP_MAX_QUEUE_SIZE", "1000001");
    refuses("OTEL_BSP_SCHEDULE_DELAY", "-1");
    refuses("OTEL_BSP_EXPORT_TIMEOUT", "10s");
    refuses("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", " 1");
}

FIXTURE_TEST(headers_are_decoded)
{
    struct otlp_settings settings;
    set(ENDPOINT, "http://localhost:4318");
    set("OTEL_EXPORTER_OTLP_HEADERS", " Authorization = Basic%20abc= , x-tenant=a%2Cb,,empty=");
    set("OTEL_EXPORTER_OTLP_CERTIFICATE", "/etc/ca.pem");
    read_settings(&settings);
    assert_int_equal(settings.n_headers, 3);
    assert_string_equal(settings.headers[0].name, "Authorization");
    assert_string_equal(settings.headers[0].value, "Basic abc=");
    assert_string_equal(settings.headers[1].value, "a,b");
    assert_string_equal(settings.headers[2].value, "");
    assert_string_equal(settings.ca_file, "/etc/ca.pem");
    otlp_settings_release(&settings);
    static const char *const BAD[] = {"alone", "=a",    "a b=c", "a=%0d%0aEvil: 1",
                                      "a=%2",  "a=%zz", "a=%"};
    for (size_t i = 0; i < sizeof BAD / sizeof BAD[0]; i++)
        refuses("OTEL_EXPORTER_OTLP_HEADERS", BAD[i]);
    static char many[2000];
    for (size_t i = 0; i < 129; i++)
        strcat(many, "a=1,");
    refuses("OTEL_EXPORTER_OTLP_HEADERS", many);
}

FIXTURE_TEST(a_service_has_a_name)
{
    struct otlp_settings settings;
    set(ENDPOINT, "http://localhost:4318");
    set("OTEL_RESOURCE_ATTRIBUTES",
        "service.name=from-list,host.name=x,service.version=2,host.name=a%20b");
    read_settings(&settings);
    check_str(settings.resource[0].value, "from-list");
    assert_int_equal(settings.n_resource, 3);
    check_str(settings.resource[2].name, "host.name");
    check_str(settings.resource[2].value, "a b");
    otlp_settings_release(&settings);
    set("OTEL_SERVICE_NAME", "named");
    read_settings(&settings);
    check_str(settings.resource[0].value, "named");
    assert_int_equal(settings.n_resource, 3);
    otlp_settings_release(&settings);
    refuses("OTEL_RESOURCE_ATTRIBUTES", "alone");
    refuses("OTEL_RESOURCE_ATTRIBUTES", "=a");
}

FIXTURE_TEST(the_sampler_is_read)
{
    struct otlp_settings settings;
    set(ENDPOINT, "http://localhost:4318");
    set("OTEL_TRACES_SAMPLER", "always_off");
    read_settings(&settings);
    assert_false(settings.sampler.follows_parent);
    otlp_settings_release(&settings);
    refuses("OTEL_TRACES_SAMPLER", "always");
}

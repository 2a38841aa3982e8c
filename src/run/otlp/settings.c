/* settings.c - reads the variables of OpenTelemetry. */
#include "run/otlp/settings.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/err.h"

#define TRACES_PATH "/v1/traces"
#define PAIRS_MAX   128
#define MS_MAX      (INT64_C(24) * 3600 * 1000)
#define QUEUE_MAX   INT64_C(1000000)

/* NULL: it is not set, or empty. */
static const char *value_of(otlp_env_fn env, const char *name)
{
    const char *value = env(name);
    return value && *value ? value : NULL;
}

/* OTEL_EXPORTER_OTLP_TRACES_<name>, or else OTEL_EXPORTER_OTLP_<name>; `ret_name` is the one that
 * was found. */
static const char *exporter_value(otlp_env_fn env, const char *const names[2],
                                  const char **ret_name)
{
    const char *value = value_of(env, names[0]);
    *ret_name = value ? names[0] : names[1];
    return value ? value : value_of(env, names[1]);
}

#define EXPORTER(name)                                                \
    (const char *const[])                                             \
    {                                                                 \
        "OTEL_EXPORTER_OTLP_TRACES_" name, "OTEL_EXPORTER_OTLP_" name \
    }

static int refuse_value(const char *name, const char *value, const char *expected,
                        struct redrive_err *err)
{
    (void)err_set(err, REDRIVE_E_CONFIG, "%s: expected %s", name, expected);
    err_detail(err, "it is '%.100s'", value);
    return REDRIVE_E_CONFIG;
}

/* ---- Where to -------------------------------------------------------------------------------- */

/* Takes the address apart; `path` is added to what the address has. */
static int split_url(struct otlp_settings *s, const char *name, const char *url, const char *path,
                     struct redrive_err *err)
{
    const struct str text = str_of(url);
    const char *host = strstr(url, "://");
    if (!(str_starts_with(text, STR("http://")) || str_starts_with(text, STR("https://"))) ||
        host[3] == '\0' || host[3] == '/' || str_has_control(text) || strpbrk(url, " ?#"))
        /* Not what it is: an address may have a password. */
        return err_set(err, REDRIVE_E_CONFIG,
                       "%s: expected an address such as http://localhost:4318", name);
    const char *slash = strchr(host + 3, '/');
    const struct str base = {url, slash ? (size_t)(slash - url) : text.len};
    struct str own = str_of(slash);
    while (*path && own.len > 0 && own.ptr[own.len - 1] == '/')
        own.len--;
    s->base = arena_dup(&s->arena, base);
    s->path = own.len > 0 || *path ? arena_printf(&s->arena, "%.*s%s", (int)own.len,
                                                  own.len > 0 ? own.ptr : "", path)
                                   : "/";
    return 0;
}

static int read_endpoint(struct otlp_settings *s, otlp_env_fn env, struct redrive_err *err)
{
    const char *name;
    const char *const *names = EXPORTER("ENDPOINT");
    const char *url = exporter_value(env, names, &name);
    if (!url)
        return 0;
    return split_url(s, name, url, name == names[0] ? "" : TRACES_PATH, err);
}

/* Whether spans are wanted at all. */
static int read_switches(otlp_env_fn env, bool *ret_off, struct redrive_err *err)
{
    const char *name;
    const char *disabled = value_of(env, "OTEL_SDK_DISABLED");
    const char *exporter = value_of(env, "OTEL_TRACES_EXPORTER");
    const char *protocol = exporter_value(env, EXPORTER("PROTOCOL"), &name);
    *ret_off = (disabled && str_eq_nocase(str_of(disabled), STR("true"))) ||
               (exporter && strcmp(exporter, "none") == 0);
    if (*ret_off)
        return 0;
    if (exporter && strcmp(exporter, "otlp") != 0)
        return refuse_value("OTEL_TRACES_EXPORTER", exporter, "otlp or none", err);
    /* A collector takes JSON on the port of http/protobuf, and nothing on that of grpc. */
    if (protocol && strcmp(protocol, "http/json") != 0 && strcmp(protocol, "http/protobuf") != 0)
        return refuse_value(name, protocol, "http/json, which is what redrive sends", err);
    return 0;
}

/* ---- Lists of name=value --------------------------------------------------------------------- */

/* Decodes %XX; NULL: it is not encoded well, or there is no memory, which the arena remembers. */
static char *decode(struct arena *arena, struct str text)
{
    char *out = arena_dup(arena, text);
    size_t n = 0;
    for (size_t i = 0; out && i < text.len; i++) {
        if (text.ptr[i] != '%') {
            out[n++] = text.ptr[i];
            continue;
        }
        const int high = i + 2 < text.len ? str_hex_digit(text.ptr[i + 1]) : -1;
        const int low = i + 2 < text.len ? str_hex_digit(text.ptr[i + 2]) : -1;
        if (high < 0 || low < 0)
            return NULL;
        out[n++] = (char)(high << 4 | low);
        i += 2;
    }
    if (out)
        out[n] = '\0';
    return out;
}

/* The next part of a list, without the space around it; false: there is none. */
static bool next_pair(const char **at, struct str *ret_name, struct str *ret_value)
{
    while (**at == ',' || **at == ' ')
        (*at)++;
    if (!**at)
        return false;
    const size_t len = strcspn(*at, ",");
    const struct str pair = {*at, len};
    const char *equals = memchr(pair.ptr, '=', len);
    *ret_name = str_trim((struct str){pair.ptr, equals ? (size_t)(equals - pair.ptr) : len});
    *ret_value = equals ? str_trim((struct str){equals + 1, len - (size_t)(equals + 1 - pair.ptr)})
                        : (struct str){0};
    *at += len;
    return true;
}

static bool add_header(struct otlp_settings *s, struct str name, struct str value)
{
    char *decoded = value.ptr ? decode(&s->arena, value) : NULL;
    if (!decoded || !str_is_token(name) || str_has_control(str_of(decoded)))
        return false;
    s->headers[s->n_headers++] = (struct http_client_header){arena_dup(&s->arena, name), decoded};
    return true;
}

static bool add_attribute(struct otlp_settings *s, struct str name, struct str value)
{
    char *decoded = value.ptr ? decode(&s->arena, value) : NULL;
    if (!decoded || name.len == 0)
        return false;
    if (str_is(name, "service.name") && s->resource[0].value.len > 0)
        return true; /* OTEL_SERVICE_NAME comes first */
    size_t at = 0;   /* a name that is there already gets the new value */
    while (at < s->n_resource && !str_eq(s->resource[at].name, name))
        at++;
    s->n_resource += at == s->n_resource;
    s->resource[at] = (struct trace_attribute){name, str_of(decoded)};
    return true;
}

static int read_pairs(struct otlp_settings *s, const char *name, const char *list,
                      bool (*add)(struct otlp_settings *s, struct str name, struct str value),
                      struct redrive_err *err)
{
    struct str key, value;
    int n = 0;
    for (const char *at = list; at && next_pair(&at, &key, &value); n++)
        if (n == PAIRS_MAX || !add(s, key, value)) {
            if (s->arena.failed)
                return err_nomem(err);
            /* Not what it is: headers may be secret. */
            (void)err_set(err, REDRIVE_E_CONFIG, "%s: expected name=value,name=value", name);
            err_detail(err, "its part %d is none; there may be %d", n + 1, PAIRS_MAX);
            return REDRIVE_E_CONFIG;
        }
    return 0;
}

static int read_headers(struct otlp_settings *s, otlp_env_fn env, struct redrive_err *err)
{
    const char *name;
    const char *list = exporter_value(env, EXPORTER("HEADERS"), &name);
    s->headers = arena_array(&s->arena, PAIRS_MAX, sizeof *s->headers);
    return s->headers ? read_pairs(s, name, list, add_header, err) : err_nomem(err);
}

/* service.name is the first of them. */
static int read_resource(struct otlp_settings *s, otlp_env_fn env, struct redrive_err *err)
{
    static const char LIST[] = "OTEL_RESOURCE_ATTRIBUTES";
    const char *service = value_of(env, "OTEL_SERVICE_NAME");
    s->resource = arena_array(&s->arena, PAIRS_MAX + 2, sizeof *s->resource);
    if (!s->resource)
        return err_nomem(err);
    s->resource[0] = (struct trace_attribute){
        STR("service.name"), service ? arena_str(&s->arena, str_of(service)) : (struct str){0}};
    s->resource[1] = (struct trace_attribute){STR("service.version"), STR(REDRIVE_VERSION)};
    s->n_resource = 2;
    const char *list = value_of(env, LIST);
    list = list ? arena_dup(&s->arena, str_of(list)) : NULL;
    int rc = read_pairs(s, LIST, list, add_attribute, err);
    if (rc == 0 && s->resource[0].value.len == 0)
        s->resource[0].value = STR("redrive");
    return rc;
}

/* ---- Numbers --------------------------------------------------------------------------------- */

static int read_number(const char *name, const char *value, int64_t min, int64_t max, int64_t *ret,
                       struct redrive_err *err)
{
    char *end, expected[64];
    if (!value)
        return 0;
    const long long number = strtoll(value, &end, 10);
    if (str_is_digit(*value) && *end == '\0' && number >= min && number <= max) {
        *ret = number;
        return 0;
    }
    (void)snprintf(expected, sizeof expected, "a number from %" PRId64 " to %" PRId64, min, max);
    return refuse_value(name, value, expected, err);
}

static int read_numbers(struct otlp_settings *s, otlp_env_fn env, struct redrive_err *err)
{
    const char *name;
    const char *timeout = exporter_value(env, EXPORTER("TIMEOUT"), &name);
    const struct {
        const char *name;
        int64_t min, max;
        int64_t *ret;
    } numbers[] = {
        {"OTEL_BSP_SCHEDULE_DELAY", 0, MS_MAX, &s->delay_ms},
        {"OTEL_BSP_EXPORT_TIMEOUT", 1, MS_MAX, &s->export_timeout_ms},
        {"OTEL_BSP_MAX_QUEUE_SIZE", 1, QUEUE_MAX, &s->queue_max},
        {"OTEL_BSP_MAX_EXPORT_BATCH_SIZE", 1, QUEUE_MAX, &s->batch_max},
    };
    s->timeout_ms = 10000;
    s->delay_ms = 5000;
    s->export_timeout_ms = 30000;
    s->queue_max = 2048;
    s->batch_max = 512;
    int rc = read_number(name, timeout, 1, MS_MAX, &s->timeout_ms, err);
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0] && rc == 0; i++)
        rc = read_number(numbers[i].name, value_of(env, numbers[i].name), numbers[i].min,
                         numbers[i].max, numbers[i].ret, err);
    if (s->batch_max > s->queue_max)
        s->batch_max = s->queue_max;
    return rc;
}

/* ---- All of it ------------------------------------------------------------------------------- */

int otlp_settings_read(struct otlp_settings *s, otlp_env_fn env, struct redrive_err *err)
{
    const char *name;
    bool is_off;
    *s = (struct otlp_settings){0};
    arena_init(&s->arena);
    int rc = read_endpoint(s, env, err);
    if (rc < 0 || !s->base)
        return rc == 0 && s->arena.failed ? err_nomem(err) : rc;
    rc = read_switches(env, &is_off, err);
    if (rc < 0 || is_off) {
        s->base = NULL;
        return rc;
    }
    const char *ca_file = exporter_value(env, EXPORTER("CERTIFICATE"), &name);
    s->ca_file = ca_file ? arena_dup(&s->arena, str_of(ca_file)) : NULL;
    rc = read_headers(s, env, err);
    if (rc == 0)
        rc = read_resource(s, env, err);
    if (rc == 0)
        rc = read_numbers(s, env, err);
    if (rc == 0)
        rc = trace_sampler_read(str_of(value_of(env, "OTEL_TRACES_SAMPLER")),
                                str_of(value_of(env, "OTEL_TRACES_SAMPLER_ARG")), &s->sampler, err);
    return rc == 0 && s->arena.failed ? err_nomem(err) : rc;
}

void otlp_settings_release(struct otlp_settings *s)
{
    arena_release(&s->arena);
    *s = (struct otlp_settings){0};
}

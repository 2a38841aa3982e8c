/* root.c - the keys of the top level, and the small sections. */
#include "config/schema/root.h"

#include "base/text/buf.h"
#include "base/text/url_mask.h"
#include "config/check.h"
#include "config/schema/alert.h"
#include "config/schema/retry.h"
#include "config/schema/types.h"
#include "core/retry/policy.h"

#define AT(member) .offset = offsetof(struct config, member)
/* A member of a nameless struct inside struct config, counted from the start of that struct. */
#define IN(part, member) \
    .offset = offsetof(struct config, part.member) - offsetof(struct config, part)

/* ---- Small tables ---------------------------------------------------------------------------- */

static const struct field TLS_FIELDS[] = {
    {.name = "cert",
     .type = &TYPE_STRING,
     .offset = offsetof(struct config_tls, cert),
     .help = "a PEM file: the certificate, then those between it and the root"},
    {.name = "key",
     .type = &TYPE_STRING,
     .offset = offsetof(struct config_tls, key),
     .help = "a PEM file: the certificate's private key, without a password"},
};

/* Kept for the server, which reads the files later. */
static const char *place_of(struct binder *b, const struct node *map, const char *key)
{
    const struct node *node = node_find(map, str_of(key));
    return node ? bind_place(b, node) : "";
}

static void finish_tls(struct binder *b, const struct node *map, void *object)
{
    struct config_tls *tls = object;
    if (tls->cert && !tls->key)
        bind_lack(b, map, "key", "a certificate needs its key");
    else if (tls->key && !tls->cert)
        bind_lack(b, map, "cert", "a key needs its certificate");
    tls->cert_at = place_of(b, map, "cert");
    tls->key_at = place_of(b, map, "key");
}

const struct table TABLE_TLS = {.name = "tls", FIELDS(TLS_FIELDS), .finish = finish_tls};

/* In the order of enum config_socket_mode. */
static const char *const SOCKET_MODES[] = {"0600", "0660", "0666", NULL};

static const struct field LISTEN_FIELDS[] = {
    {.name = "http",
     .type = &TYPE_HTTP_ADDRESS,
     IN(listen, http),
     .default_text = "127.0.0.1:7070",
     .help = "where the HTTP API answers; `off` closes it"},
    {.name = "faktory",
     .type = &TYPE_ADDRESS,
     IN(listen, faktory),
     .default_text = "127.0.0.1:7419",
     .help = "where Faktory clients and workers are served; `off` closes it"},
    {.name = "metrics",
     .type = &TYPE_ADDRESS,
     IN(listen, metrics),
     .default_text = "off",
     .help = "where `redrive work` answers with its metrics; a server has them at `listen.http`"},
    {.name = "max_connections",
     .type = &TYPE_COUNT,
     IN(listen, max_connections),
     .min = 1,
     .max = 1e6,
     .default_text = "10000",
     .help =
         "clients that each server accepts at one time, as far as the limit on open files allows"},
    {.name = "max_per_address",
     .type = &TYPE_COUNT,
     IN(listen, max_per_address),
     .min = 1,
     .max = 1e6,
     .help = "clients of one address that each server accepts at one time; three quarters of all, "
             "unless given"},
    {.name = "drain",
     .type = &TYPE_DURATION,
     IN(listen, drain_ms),
     .default_text = "0s",
     .help = "how long `/ready` answers 503 before HTTP is closed at a stop"},
    {.name = "socket_mode",
     .type = &TYPE_WORD,
     IN(listen, socket_mode),
     .words = SOCKET_MODES,
     .default_text = "0600",
     .help = "the permissions of a Unix socket: its owner, its group too, or every user"},
    {.name = "tls",
     .type = &TYPE_TABLE,
     IN(listen, tls),
     .table = &TABLE_TLS,
     .help = "serve with TLS 1.2 or later; the files are read again on SIGHUP"},
    {.name = "insecure",
     .type = &TYPE_BOOL,
     IN(listen, insecure),
     .default_text = "false",
     .help = "serve other machines without TLS"},
};
const struct table TABLE_LISTEN = {.name = "listen", FIELDS(LISTEN_FIELDS)};

static const char *const LEVELS[] = {"debug", "info", "warning", "error", "off", NULL};
static const char *const FORMATS[] = {"text", "json", NULL};

static const struct field LOG_FIELDS[] = {
    {.name = "level",
     .type = &TYPE_WORD,
     IN(log, level),
     .words = LEVELS,
     .default_text = "info",
     .help = "the least that is written"},
    {.name = "format",
     .type = &TYPE_WORD,
     IN(log, format),
     .words = FORMATS,
     .default_text = "text",
     .help = "lines for people or for machines"},
};
const struct table TABLE_LOG = {.name = "log", FIELDS(LOG_FIELDS)};

static const struct field RETENTION_FIELDS[] = {
    {.name = "completed",
     .type = &TYPE_DURATION,
     IN(retention, completed_ms),
     .default_text = "1d",
     .help = "how long completed jobs are kept"},
    {.name = "cancelled",
     .type = &TYPE_DURATION,
     IN(retention, cancelled_ms),
     .default_text = "1d",
     .help = "how long cancelled jobs are kept"},
};
const struct table TABLE_RETENTION = {.name = "retention", FIELDS(RETENTION_FIELDS)};

static const struct field HEALTH_FIELDS[] = {
    {.name = "healthy",
     .type = &TYPE_DOUBLE,
     IN(health, healthy),
     .min = 0,
     .max = 1,
     .default_text = "0.8",
     .help = "the least score that is healthy"},
    {.name = "degraded",
     .type = &TYPE_DOUBLE,
     IN(health, degraded),
     .min = 0,
     .max = 1,
     .default_text = "0.5",
     .help = "the least score that is degraded; below it is unhealthy"},
};

static void finish_health(struct binder *b, const struct node *map, void *object)
{
    const struct health_thresholds *health = &b->config->health;
    (void)object;
    if (health->degraded > health->healthy)
        bind_error(b, map, "degraded is above healthy");
}

const struct table TABLE_HEALTH = {
    .name = "health", FIELDS(HEALTH_FIELDS), .finish = finish_health};

static const struct field PATHS_FIELDS[] = {
    {.name = "retry_queue",
     .type = &TYPE_STRING,
     IN(paths, retry_queue),
     .help = "where jobs wait: the directory of the store, if `store` does not say otherwise"},
    {.name = "final_results",
     .type = &TYPE_STRING,
     IN(paths, final_results),
     .help = "`redrive batch`: where results are exported to"},
    {.name = "dead_letter_queue",
     .type = &TYPE_STRING,
     IN(paths, dead_letter_queue),
     .help = "`redrive batch`: where dead letters are exported to"},
};
const struct table TABLE_PATHS = {.name = "paths", FIELDS(PATHS_FIELDS)};

/* ---- defaults -------------------------------------------------------------------------------- */

static const struct field DEFAULTS_FIELDS[] = {
    {.name = "retry",
     .type = &TYPE_TABLE,
     IN(defaults, retry),
     .table = &TABLE_RETRY,
     .help = "how tasks are retried that do not say otherwise"},
    {.name = "on",
     .type = &TYPE_CLASS_RULES,
     IN(defaults, retry),
     .help = "what differs for a failure class"},
    {.name = "breaker",
     .type = &TYPE_TABLE,
     IN(defaults, breaker),
     .table = &TABLE_BREAKER,
     .help = "when work is held back"},
};

static void finish_defaults(struct binder *b, const struct node *map, void *object)
{
    (void)object;
    b->default_rules = node_find(map, STR("on"));
    policy_bind_rules(b, NULL, b->default_rules, &b->config->defaults.retry);
}

const struct table TABLE_DEFAULTS = {
    .name = "defaults", FIELDS(DEFAULTS_FIELDS), .finish = finish_defaults};

/* ---- The root -------------------------------------------------------------------------------- */

/* Moved to `defaults` before anything is bound; the row is there for people and for hints. */
static void bind_moved(struct binder *b, const struct field *field, const struct node *node,
                       void *member)
{
    (void)b, (void)field, (void)node, (void)member;
}

const struct field_type TYPE_SHORT_FORM = {FIELD_NESTED, bind_moved, NULL, type_table_expects};

static const struct field ROOT_FIELDS[] = {
    {.name = "store",
     .type = &TYPE_STORE,
     AT(store),
     .secret = true,
     .default_text = "sqlite:redrive.db",
     .help = "where jobs are stored"},
    {.name = "listen",
     .type = &TYPE_TABLE,
     AT(listen),
     .table = &TABLE_LISTEN,
     .help = "the addresses of the server"},
    {.name = "log",
     .type = &TYPE_TABLE,
     AT(log),
     .table = &TABLE_LOG,
     .help = "what is logged, and how"},
    {.name = "strict_tasks",
     .type = &TYPE_BOOL,
     AT(strict_tasks),
     .first = true,
     .default_text = "false",
     .help = "whether jobs of undeclared tasks are refused"},
    {.name = "defaults",
     .type = &TYPE_TABLE,
     AT(defaults),
     .table = &TABLE_DEFAULTS,
     .first = true,
     .help = "what holds for tasks that do not say otherwise"},
    {.name = "retry",
     .type = &TYPE_SHORT_FORM,
     .table = &TABLE_RETRY,
     .help = "short for `defaults.retry`"},
    {.name = "breaker",
     .type = &TYPE_SHORT_FORM,
     .table = &TABLE_BREAKER,
     .help = "short for `defaults.breaker`"},
    {.name = "tasks",
     .type = &TYPE_MAP,
     AT(tasks),
     .table = &TABLE_TASK,
     .count_offset = offsetof(struct config, n_tasks),
     .first = true,
     .help = "the tasks, by name"},
    {.name = "classify",
     .type = &TYPE_LIST,
     AT(classify),
     .table = &TABLE_CLASSIFY,
     .count_offset = offsetof(struct config, n_classify),
     .help = "what kind of failure an error is: rows that come before the built-in ones, the first "
             "match wins"},
    {.name = "cron",
     .type = &TYPE_MAP,
     AT(cron),
     .table = &TABLE_CRON,
     .count_offset = offsetof(struct config, n_cron),
     .help = "periodic jobs, by name"},
    {.name = "tokens",
     .type = &TYPE_LIST,
     AT(tokens),
     .table = &TABLE_TOKEN,
     .count_offset = offsetof(struct config, n_tokens),
     .help = "tokens of clients; with none, only this machine is served"},
    {.name = "faktory_passwords",
     .type = &TYPE_LIST,
     AT(faktory_passwords),
     .table = &TABLE_FAKTORY_PASSWORD,
     .count_offset = offsetof(struct config, n_faktory_passwords),
     .help = "passwords of Faktory clients; with none, only this machine is served"},
    {.name = "alerts",
     .type = &TYPE_LIST,
     AT(alerts),
     .table = &TABLE_ALERT,
     .count_offset = offsetof(struct config, n_alerts),
     .help = "conditions that send a notification; replaces the built-in four"},
    {.name = "health",
     .type = &TYPE_TABLE,
     AT(health),
     .table = &TABLE_HEALTH,
     .help = "the limits of the health score"},
    {.name = "retention",
     .type = &TYPE_TABLE,
     AT(retention),
     .table = &TABLE_RETENTION,
     .help = "how long jobs that have ended are kept"},
    {.name = "paths",
     .type = &TYPE_TABLE,
     AT(paths),
     .table = &TABLE_PATHS,
     .help = "directories of `redrive batch`"},
};

void config_init(struct binder *b)
{
    struct config *config = b->config;
    config->store = "sqlite:redrive.db";
    config->listen.http = "127.0.0.1:7070";
    config->listen.faktory = "127.0.0.1:7419";
    config->listen.max_connections = 10000;
    config->log.level = LOG_LEVEL_INFO;
    config->log.format = LOG_TEXT;
    policy_init_queue(&config->defaults.retry);
    redrive_breaker_config_init(&config->defaults.breaker.config);
    config->defaults.breaker.key = "{task}";
    config->health = HEALTH_THRESHOLDS_DEFAULT;
    config->retention.completed_ms = INT64_C(24) * 3600 * 1000;
    config->retention.cancelled_ms = INT64_C(24) * 3600 * 1000;
    alerts_init(b);
}

static const char *shown(struct binder *b, const char *url)
{
    struct buf out;
    buf_init(&out, TYPE_TEXT_MAX + 16);
    url_mask(&out, str_of(url));
    const char *copy = arena_dup(b->arena, buf_str(&out));
    b->arena->failed |= buf_failed(&out) == REDRIVE_E_NOMEM;
    buf_release(&out);
    return copy;
}

static void finish_root(struct binder *b, const struct node *root, void *object)
{
    (void)object;
    b->config->store_shown = shown(b, b->config->store);
    check_whole(b, root);
}

const struct table TABLE_ROOT = {
    .name = "top level", FIELDS(ROOT_FIELDS), .size = sizeof(struct config), .finish = finish_root};

const struct table *section_at(size_t index)
{
    static const struct table *const TABLES[] = {
        &TABLE_ROOT,
        &TABLE_LISTEN,
        &TABLE_TLS,
        &TABLE_LOG,
        &TABLE_DEFAULTS,
        &TABLE_RETRY,
        &TABLE_JITTER,
        &TABLE_BREAKER,
        &TABLE_CLASS_RULE,
        &TABLE_TASK,
        &TABLE_RUN,
        &TABLE_HTTP,
        &TABLE_LIMITS,
        &TABLE_CLASSIFY,
        &TABLE_CRON,
        &TABLE_TOKEN,
        &TABLE_FAKTORY_PASSWORD,
        &TABLE_ALERT,
        &TABLE_HEALTH,
        &TABLE_RETENTION,
        &TABLE_PATHS,
    };
    return index < sizeof TABLES / sizeof TABLES[0] ? TABLES[index] : NULL;
}

/* root.c - the keys of the top level, and the small sections. */
#include "config/schema/schema.h"

#include "base/err.h"
#include "base/text/buf.h"
#include "base/text/url_mask.h"
#include "config/schema/bind.h"
#include "config/schema/types.h"
#include "core/retry/policy.h"

#define COUNTED_BY(member) .count_offset = offsetof(struct config, member)
#define AT(member)         offsetof(struct config, member)
/* A member of a nameless struct inside struct config, counted from the start of that struct. */
#define IN(part, member) (offsetof(struct config, part.member) - offsetof(struct config, part))

/* ---- Small tables ---------------------------------------------------------------------------- */

static const struct field TLS_FIELDS[] = {
    ROW("cert", FIELD_TEXT, offsetof(struct config_tls, cert),
        "a PEM file: the certificate, then those between it and the root"),
    ROW("key", FIELD_TEXT, offsetof(struct config_tls, key),
        "a PEM file: the certificate's private key, without a password"),
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
    ROW("http", TYPE_HTTP_ADDRESS, IN(listen, http), "where the HTTP API answers; `off` closes it",
        DEFAULT("127.0.0.1:7070")),
    ROW("faktory", TYPE_ADDRESS, IN(listen, faktory),
        "where Faktory clients and workers are served; `off` closes it", DEFAULT("127.0.0.1:7419")),
    ROW("metrics", TYPE_ADDRESS, IN(listen, metrics),
        "where `redrive work` answers with its metrics; a server has them at `listen.http`",
        DEFAULT("off")),
    ROW("max_connections", FIELD_UINT, IN(listen, max_connections),
        "clients that each server accepts at one time, as far as the limit on open files allows",
        RANGE(1, 1e6), DEFAULT("10000")),
    ROW("max_per_address", FIELD_UINT, IN(listen, max_per_address),
        "clients of one address that each server accepts at one time; three quarters of all, "
        "unless given",
        RANGE(1, 1e6), .sparse = true),
    ROW("drain", FIELD_SPAN, IN(listen, drain_ms),
        "how long `/ready` answers 503 before HTTP is closed at a stop", DEFAULT("0s")),
    ROW("socket_mode", FIELD_WORD, IN(listen, socket_mode),
        "the permissions of a Unix socket: its owner, its group too, or every user",
        .words = SOCKET_MODES, DEFAULT("0600")),
    ROW("tls", TYPE_TABLE, IN(listen, tls),
        "serve with TLS 1.2 or later; the files are read again on SIGHUP", .table = &TABLE_TLS),
    ROW("insecure", FIELD_BOOL, IN(listen, insecure), "serve other machines without TLS",
        DEFAULT("false")),
};
const struct table TABLE_LISTEN = {.name = "listen", FIELDS(LISTEN_FIELDS)};

static const char *const LEVELS[] = {"debug", "info", "warning", "error", "off", NULL};
static const char *const FORMATS[] = {"text", "json", NULL};

static const struct field LOG_FIELDS[] = {
    ROW("level", FIELD_WORD, IN(log, level), "the least that is written", .words = LEVELS,
        DEFAULT("info")),
    ROW("format", FIELD_WORD, IN(log, format), "lines for people or for machines", .words = FORMATS,
        DEFAULT("text")),
};
const struct table TABLE_LOG = {.name = "log", FIELDS(LOG_FIELDS)};

static const struct field RETENTION_FIELDS[] = {
    ROW("completed", FIELD_SPAN, IN(retention, completed_ms), "how long completed jobs are kept",
        DEFAULT("1d")),
    ROW("cancelled", FIELD_SPAN, IN(retention, cancelled_ms), "how long cancelled jobs are kept",
        DEFAULT("1d")),
};
const struct table TABLE_RETENTION = {.name = "retention", FIELDS(RETENTION_FIELDS)};

static const struct field HEALTH_FIELDS[] = {
    ROW("healthy", FIELD_DOUBLE, IN(health, healthy), "the least score that is healthy",
        DOUBLE_RANGE(0, 1), DEFAULT("0.8")),
    ROW("degraded", FIELD_DOUBLE, IN(health, degraded),
        "the least score that is degraded; below it is unhealthy", DOUBLE_RANGE(0, 1),
        DEFAULT("0.5")),
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
    ROW("retry_queue", FIELD_TEXT, IN(paths, retry_queue),
        "where jobs wait: the directory of the store, if `store` does not say otherwise"),
    ROW("final_results", FIELD_TEXT, IN(paths, final_results),
        "`redrive batch`: where results are exported to"),
    ROW("dead_letter_queue", FIELD_TEXT, IN(paths, dead_letter_queue),
        "`redrive batch`: where dead letters are exported to"),
};
const struct table TABLE_PATHS = {.name = "paths", FIELDS(PATHS_FIELDS)};

/* ---- defaults -------------------------------------------------------------------------------- */

static const struct field DEFAULTS_FIELDS[] = {
    ROW("retry", TYPE_TABLE, IN(defaults, retry), "how tasks are retried that do not say otherwise",
        .table = &TABLE_RETRY),
    ROW("on", TYPE_CLASS_RULES, IN(defaults, retry), "what differs for a failure class"),
    ROW("breaker", TYPE_TABLE, IN(defaults, breaker), "when work is held back",
        .table = &TABLE_BREAKER),
};

static void finish_defaults(struct binder *b, const struct node *map, void *object)
{
    (void)object;
    b->defaults = (struct policy_scope){node_find(map, STR("retry")), node_find(map, STR("on"))};
    policy_bind_rules(b, &b->defaults, NULL, &b->config->defaults.retry,
                      b->config->defaults.retries_from);
}

const struct table TABLE_DEFAULTS = {
    .name = "defaults", FIELDS(DEFAULTS_FIELDS), .finish = finish_defaults};

#define REDACT_RULE_MAX 200

/* ---- The root -------------------------------------------------------------------------------- */

static const struct field ROOT_FIELDS[] = {
    ROW("store", TYPE_STORE, AT(store), "where jobs are stored", .secret = true,
        DEFAULT("sqlite:redrive.db")),
    ROW("listen", TYPE_TABLE, AT(listen), "the addresses of the server", .table = &TABLE_LISTEN),
    ROW("log", TYPE_TABLE, AT(log), "what is logged, and how", .table = &TABLE_LOG),
    ROW("strict_tasks", FIELD_BOOL, AT(strict_tasks),
        "whether jobs of undeclared tasks are refused", .first = true, DEFAULT("false")),
    ROW("defaults", TYPE_TABLE, AT(defaults), "what holds for tasks that do not say otherwise",
        .table = &TABLE_DEFAULTS, .first = true),
    ROW("tasks", TYPE_MAP, AT(tasks), "the tasks, by name", .table = &TABLE_TASK,
        COUNTED_BY(n_tasks), .first = true),
    ROW("classify", TYPE_LIST, AT(classify),
        "what kind of failure an error is: rows that come before the built-in ones, the first "
        "match wins",
        .table = &TABLE_CLASSIFY, COUNTED_BY(n_classify)),
    ROW("cron", TYPE_MAP, AT(cron), "periodic jobs, by name", .table = &TABLE_CRON,
        COUNTED_BY(n_cron)),
    ROW("experiments", TYPE_MAP, AT(experiments),
        "policies that are compared on the jobs of a task, by name", .table = &TABLE_EXPERIMENT,
        COUNTED_BY(n_experiments)),
    ROW("tokens", TYPE_LIST, AT(tokens),
        "tokens of clients; with none, only this machine is served", .table = &TABLE_TOKEN,
        COUNTED_BY(n_tokens)),
    ROW("faktory_passwords", TYPE_LIST, AT(faktory_passwords),
        "passwords of Faktory clients; with none, only this machine is served",
        .table = &TABLE_FAKTORY_PASSWORD, COUNTED_BY(n_faktory_passwords)),
    ROW("redact", TYPE_STRINGS, AT(redact),
        "keys of payloads and results whose values are hidden from clients without the scope "
        "admin",
        .expects = "a list of keys such as [password, card.number]"),
    ROW("alerts", TYPE_LIST, AT(alerts),
        "conditions that send a notification; replaces the built-in four", .table = &TABLE_ALERT,
        COUNTED_BY(n_alerts)),
    ROW("health", TYPE_TABLE, AT(health), "the limits of the health score", .table = &TABLE_HEALTH),
    ROW("retention", TYPE_TABLE, AT(retention), "how long completed and cancelled jobs are kept",
        .table = &TABLE_RETENTION),
    ROW("paths", TYPE_TABLE, AT(paths), "directories of `redrive batch`", .table = &TABLE_PATHS),
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
    breaker_init_built_in(&config->defaults.breaker);
    config->health = HEALTH_THRESHOLDS_DEFAULT;
    config->retention.completed_ms = INT64_C(24) * 3600 * 1000;
    config->retention.cancelled_ms = INT64_C(24) * 3600 * 1000;
    alerts_init(b);
}

static const char *shown(struct binder *b, const char *url)
{
    RELEASED_BY(buf_release) struct buf out = BUF_MAX(4 * NODE_TEXT_MAX); /* stars may be longer */
    url_mask(&out, str_of(url));
    const char *copy = arena_dup(b->arena, buf_str(&out));
    b->arena->failed |= buf_failed(&out) == REDRIVE_E_NOMEM;
    return copy;
}

/* A name, or names with dots between them. */
static bool is_redact_rule(const char *rule)
{
    const size_t len = strlen(rule);
    return len > 0 && len <= REDACT_RULE_MAX && rule[0] != '.' && rule[len - 1] != '.' &&
           !strstr(rule, "..");
}

static void check_redact(struct binder *b, const struct node *root)
{
    const struct node *list = root ? node_find(root, STR("redact")) : NULL;
    const struct config_strings *rules = &b->config->redact;
    for (size_t i = 0; list && i < rules->n; i++) {
        if (is_redact_rule(rules->items[i]))
            continue;
        struct redrive_err *err = bind_error(b, list, "'%.60s' is no key", rules->items[i]);
        err_detail(err, "expected the name of a key, or names with dots, such as card.number");
        return;
    }
}

static void finish_root(struct binder *b, const struct node *root, void *object)
{
    (void)object;
    check_redact(b, root);
    b->config->store_shown = shown(b, b->config->store);
}

const struct table TABLE_ROOT = {
    .name = "top level", FIELDS(ROOT_FIELDS), .size = sizeof(struct config), .finish = finish_root};

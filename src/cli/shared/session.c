/* session.c - opens configuration, store and engine for a command; the keys of the configuration as
 * options. */
#include "cli/shared/session.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/err.h"
#include "base/os/log.h"
#include "base/rng.h"
#include "base/time/clock.h"
#include "cli/shared/remote.h"
#include "config/config.h"
#include "engine/shards/router.h"
#include "store/shards/record.h"
#include "engine/tasks.h"
#include "run/otlp/exporter.h"
#include "server/listen/endpoint.h"

/* ---- Configuration --------------------------------------------------------------------------- */

#define FLAGS_MAX 64

/* One command line, one list. */
static struct {
    struct config_setting items[FLAGS_MAX];
    size_t n;
    bool has_faktory_passwords;
} flags;

static bool known(void *ctx, struct str name)
{
    (void)ctx;
    return config_flag_known(name);
}

/* A key that a global option sets as well is shown there only. */
static bool find_flag(size_t index, struct config_flag *ret)
{
    for (size_t i = 0; config_flag_enumerate(i, ret); i++)
        if (!option_find(GLOBAL_OPTIONS, str_of(ret->name)) && index-- == 0)
            return true;
    return false;
}

static bool enumerate(void *ctx, size_t index, struct field *ret)
{
    (void)ctx;
    struct config_flag flag;
    if (!find_flag(index, &flag))
        return false;
    *ret = (struct field){
        .name = flag.name,
        .kind = &OPTION_STRING,
        .placeholder = "VALUE",
        .help = flag.help,
        .default_text = flag.default_text,
        .words = flag.choices,
    };
    return true;
}

static int remember(const char *name, const char *value, struct redrive_err *err)
{
    if (flags.n == FLAGS_MAX)
        return err_set(err, REDRIVE_E_USAGE, "more than %d configuration flags", FLAGS_MAX);
    flags.items[flags.n++] = (struct config_setting){name, value};
    return 0;
}

int load_config_flag(const char *name, const char *value, struct redrive_err *err)
{
    return remember(name, value, err);
}

void load_config_faktory_passwords(void)
{
    flags.has_faktory_passwords = true;
}

/* The name on the command line may end in `=value`; that of the table is static. */
static int set(void *ctx, struct str name, const char *value, struct redrive_err *err)
{
    (void)ctx;
    struct config_flag flag;
    for (size_t i = 0; config_flag_enumerate(i, &flag); i++)
        if (str_is(name, flag.name))
            return remember(flag.name, value, err);
    return err_set(err, REDRIVE_E_UNKNOWN, "unknown configuration flag");
}

/* What the keys are for, by their names or how they begin; the first row counts. */
static const struct {
    const char *begins;
    uint32_t settings;
} USES[] = {
    {"paths.retry_queue", SETTINGS_STORE},
    {"paths.", SETTINGS_EXPORTS},
    {"strict_tasks", SETTINGS_SUBMIT},
    {"breaker.key", SETTINGS_SUBMIT | SETTINGS_BREAKER},
    {"breaker.on_open", SETTINGS_SUBMIT | SETTINGS_BREAKER},
    {"breaker.", SETTINGS_BREAKER},
    {"retry.", SETTINGS_POLICY},
    {"retention.", SETTINGS_RETENTION},
    {"health.", SETTINGS_HEALTH},
    {"listen.metrics", SETTINGS_METRICS},
    {"listen.tls.", SETTINGS_LISTEN | SETTINGS_METRICS},
    {"listen.insecure", SETTINGS_LISTEN | SETTINGS_METRICS},
    {"listen.", SETTINGS_LISTEN},
};

static bool counts(void *ctx, struct str name, const struct command *command)
{
    const uint32_t settings =
        command->settings | (command->run_on_store ? (uint32_t)SETTINGS_STORE : 0);
    struct config_flag flag;
    (void)ctx;
    for (size_t i = 0; config_flag_enumerate(i, &flag); i++)
        if (str_is(name, flag.name))
            for (size_t j = 0; j < sizeof USES / sizeof USES[0]; j++)
                if (str_starts_with(str_of(flag.key), str_of(USES[j].begins)))
                    return settings & USES[j].settings;
    return true; /* a global option has the same name */
}

const struct option_source CONFIG_FLAGS = {
    .known = known,
    .set = set,
    .enumerate = enumerate,
    .counts = counts,
};

bool load_config_has_flags(void)
{
    return flags.n > 0;
}

/* Global options that name a key of the configuration. */
static int remember_globals(const struct globals *globals, struct redrive_err *err)
{
    int rc = 0;
    if (globals->store)
        rc = remember("store", globals->store, err);
    if (rc == 0 && globals->log_level >= 0)
        rc = remember("log-level", log_level_name((enum log_level)globals->log_level), err);
    if (rc == 0 && globals->log_format >= 0)
        rc = remember("log-format", globals->log_format == LOG_JSON ? "json" : "text", err);
    return rc;
}

static int report_errors(struct cli *cli, const struct config_report *report,
                         struct redrive_err *err)
{
    const size_t last = report->n_errors - 1;
    for (size_t i = 0; i < last; i++)
        cli_report(cli, &report->errors[i]);
    if (report->n_omitted > 0) {
        struct redrive_err omitted;
        err_set(&omitted, REDRIVE_E_CONFIG, "%zu more errors are not shown", report->n_omitted);
        cli_report(cli, &omitted);
    }
    *err = report->errors[last];
    return err->code;
}

int load_config_again(struct cli *cli, struct config **ret, struct config_report *report)
{
    const struct config_sources sources = {
        .path = cli->globals->config,
        .path_required = cli->globals->config != NULL,
        .environ = environ,
        .flags = flags.items,
        .n_flags = flags.n,
        .has_faktory_passwords = flags.has_faktory_passwords,
    };
    return config_load(&sources, ret, report);
}

int load_config(struct cli *cli, struct config **ret, struct redrive_err *err)
{
    int rc = remember_globals(cli->globals, err);
    if (rc < 0)
        return rc;
    struct config_report report;
    rc = load_config_again(cli, ret, &report);
    if (rc < 0)
        return report_errors(cli, &report, err);
    for (size_t i = 0; i < (*ret)->n_warnings; i++)
        cli_warn(cli, &(*ret)->warnings[i]);
    return 0;
}

/* The defaults alone, for a command whose server has a configuration of its own. It reads the empty
 * file, so that neither ./redrive.yaml nor a .env is looked for. Keys of the configuration on the
 * command line are refused. */
static int load_defaults(struct config **ret, struct redrive_err *err)
{
    const struct config_sources sources = {.path = "/dev/null"};
    struct config_report report;
    *ret = NULL;
    if (flags.n > 0) {
        (void)err_set(err, REDRIVE_E_USAGE, "--%s is a key of the configuration",
                      flags.items[0].name);
        err_hint(err, "the server goes by its own configuration: leave the option out");
        return REDRIVE_E_USAGE;
    }
    int rc = config_load(&sources, ret, &report);
    if (rc < 0 && err)
        *err = report.errors[0];
    return rc;
}

/* The nearest task, or all of them, as far as there is space. */
static void hint_tasks(const struct config *config, const char *name, struct redrive_err *err)
{
    const char *nearest = config_task_nearest(config, str_of(name));
    RELEASED_BY(buf_release) struct buf names = BUF_MAX(1024);
    for (size_t i = 0; i < config->n_tasks && names.len < sizeof err->hint; i++)
        buf_printf(&names, "%s%s", i > 0 ? ", " : "", config->tasks[i].name);
    if (nearest)
        err_suggest(err, nearest);
    else if (config->n_tasks == 0)
        err_hint(err, "the configuration declares no task; -c FILE names another one");
    else
        err_hint(err, "its tasks are %s", buf_cstr(&names));
}

int load_config_task(const struct config *config, const char *name, const struct config_task **ret,
                     struct redrive_err *err)
{
    *ret = config_task(config, str_of(name));
    if (!name || (*ret)->name[0] != '\0')
        return 0;
    err_set(err, REDRIVE_E_CONFIG, "no task '%s' in the configuration", name);
    hint_tasks(config, name, err);
    return REDRIVE_E_CONFIG;
}

/* ---- Sessions -------------------------------------------------------------------------------- */

static int open_store(const struct session *session, const char *url, bool create,
                      struct store **ret, struct redrive_err *err)
{
    const struct store_options options = {.create = create, .origin = session->origin};
    return store_open(url, &options, ret, err);
}

bool session_may_set_up(const struct session *session)
{
    return !session->config->store_is_borrowed;
}

int session_load(struct cli *cli, struct session *ret, struct redrive_err *err)
{
    *ret = (struct session){.origin = rng_system_seed()};
    const bool has_server = cli_server(cli) != NULL;
    int rc = has_server ? load_defaults(&ret->config, err) : load_config(cli, &ret->config, err);
    if (rc == 0 && has_server)
        rc = remote_open(cli, &ret->remote, err);
    if (rc < 0)
        return rc;
    ret->log = (struct log){
        .level = ret->config->log.level,
        .format = ret->config->log.format,
        .sink = log_to_stderr,
        .takes_several = true,
    };
    return 0;
}

/* The variables of other programs that are used, with commas between them. */
static void list_borrowed(const struct config *config, struct buf *out)
{
    for (size_t i = 0; i < config->n_origins; i++) {
        const struct config_origin *origin = &config->origins[i];
        if (origin->is_borrowed && !str_contains(buf_str(out), str_of(origin->from)))
            buf_printf(out, "%s%s", out->len > 0 ? ", " : "", origin->from);
    }
}

void session_log_config(const struct session *session)
{
    const struct config *config = session->config;
    RELEASED_BY(buf_release) struct buf borrowed = BUF_MAX(1024);
    list_borrowed(config, &borrowed);
    struct log_field fields[4] = {LOG_S("store", config->store_shown),
                                  LOG_S("store_from", config->store_from)};
    size_t n = 2;
    if (config->path)
        fields[n++] = LOG_S("path", config->path);
    if (borrowed.len > 0)
        fields[n++] = LOG_STR("variables", buf_str(&borrowed));
    log_write(&session->log, LOG_LEVEL_INFO, clock_wall_ms(), "configuration", fields, n);
}

void session_log_exposed(const struct session *session, const struct config *config,
                         const char *password_file)
{
    struct exposed files[EXPOSED_MAX];
    const size_t n = exposed_find(config, password_file, files);
    for (size_t i = 0; i < n; i++) {
        struct redrive_err warning = {0};
        exposed_warning(&files[i], &warning);
        log_event(&session->log, LOG_LEVEL_WARNING, clock_wall_ms(), "secrets_exposed",
                  LOG_S("path", files[i].path), LOG_S("error", warning.message),
                  LOG_S("detail", warning.detail), LOG_S("hint", warning.hint));
    }
}

/* An engine a shard, and a handle that reads from all of them. */
static int connect_to_shards(struct session *session, const char *url, bool create,
                             const struct engine_options *options, struct redrive_err *err)
{
    const struct router_options router = {
        .url = url, .create = create, .origin = session->origin, .engine = *options};
    int rc = router_open(&router, &session->router, err);
    if (rc < 0)
        return rc;
    const struct store_options reads = {
        .origin = session->origin, .late = true, .away = router_away(session->router)};
    return store_open(url, &reads, &session->store, err);
}

static int connect_to(struct session *session, const char *url, bool create,
                      const struct engine_options *options, struct redrive_err *err)
{
    struct engine_options all = *options;
    all.config = session->config;
    all.log = &session->log;
    int rc;
    if (shards_is(url)) {
        rc = connect_to_shards(session, url, create, &all, err);
        return config_store_missing(session->config, rc, err);
    }
    rc = open_store(session, url, create, &all.store, err);
    rc = config_store_missing(session->config, rc, err);
    if (rc == 0 && (rc = shard_record_refuse(all.store, err)) < 0)
        store_close(all.store);
    if (rc == 0)
        rc = engine_open(&all, &session->engine, err);
    if (rc == 0)
        session->store = engine_store(session->engine);
    return rc;
}

const char *session_store_url(const struct session *session)
{
    return store_common_url(session->config->store);
}

int session_connect(struct session *session, const struct engine_options *options,
                    struct redrive_err *err)
{
    if (session->remote)
        return 0;
    return connect_to(session, session_store_url(session), session_may_set_up(session), options,
                      err);
}

void session_hush(struct cli *cli, struct session *session)
{
    if (cli->globals->log_level < 0 && session->log.level < LOG_LEVEL_WARNING)
        session->log.level = LOG_LEVEL_WARNING;
}

int session_open_existing(struct cli *cli, struct session *ret, struct redrive_err *err)
{
    const struct engine_options options = {0};
    int rc = session_load(cli, ret, err);
    if (rc < 0)
        return rc;
    session_hush(cli, ret);
    return ret->remote ? 0 : connect_to(ret, ret->config->store, false, &options, err);
}

int64_t session_now_ms(const struct session *session)
{
    return session->remote ? remote_now_ms(session->remote)
                           : engine_now_ms(session_engine(session));
}

const struct engine *session_engine(const struct session *session)
{
    if (session->all)
        return committer_engine(session->all);
    return session->router ? router_engine(session->router) : session->engine;
}

/* Shards have a committer each from the first operation on. */
static int start_shards(struct session *session, struct redrive_err *err)
{
    struct router *router = session->router;
    const struct router_start start = {0};
    if (session->all)
        return 0;
    if (!router)
        return err_set(err, REDRIVE_E_STATE, "the store could not be opened");
    session->router = NULL;
    return router_start(router, &start, &session->all, err);
}

int session_apply(struct session *session, struct op *op, struct redrive_err *err)
{
    if (session->engine)
        return engine_apply_one(session->engine, op, err);
    int rc = start_shards(session, err);
    return rc < 0 ? rc : committer_run(session->all, op, err);
}

int session_refuse_shards(const struct session *session, const char *what, struct redrive_err *err)
{
    if (!shards_is(session->config->store))
        return 0;
    err_set(err, REDRIVE_E_STATE, "not with shards yet: %s", what);
    err_hint(err, "docs/stores.md says what works over shards");
    return REDRIVE_E_STATE;
}

int session_run(struct cli *cli, store_command_fn fn, struct redrive_err *err)
{
    struct session session;
    int rc = session_open_existing(cli, &session, err);
    if (rc == 0)
        rc = fn(cli, &session, err);
    session_close(&session);
    return rc;
}

int session_go_without(struct session *session, struct redrive_err *err)
{
    const struct engine_options options = {0};
    return connect_to(session, "memory:", true, &options, err);
}

void session_close(struct session *session)
{
    committer_stop(session->all);
    router_close(session->router);
    if (!session->engine)
        store_close(session->store);
    engine_close(session->engine);
    remote_close(session->remote);
    config_free(session->config);
    *session = (struct session){0};
}

int session_another_store(const struct session *session, struct store **ret,
                          struct redrive_err *err)
{
    return open_store(session, session_store_url(session), session_may_set_up(session), ret, err);
}

int session_committer(struct session *session, void (*on_ready)(void *ctx), void *ready_ctx,
                      struct committer **ret, struct redrive_err *err)
{
    struct committer_options options = {.on_ready = on_ready, .ready_ctx = ready_ctx};
    *ret = NULL;
    if (session->router) {
        const struct router_start start = {
            .watches = true, .publishes = true, .on_ready = on_ready, .ready_ctx = ready_ctx};
        struct router *router = session->router;
        session->router = NULL;
        return router_start(router, &start, ret, err);
    }
    int rc = session_another_store(session, &options.watch, err);
    if (rc < 0)
        return rc;
    struct publish_op publish;
    publish_op_init(&publish);
    rc = engine_apply_one(session->engine, &publish.op, err);
    if (rc < 0) {
        store_close(options.watch);
        return rc;
    }
    options.engine = session->engine;
    session->engine = NULL;
    session->store = NULL;
    return committer_start(&options, ret, err);
}

int session_quiet_committer(struct session *session, struct committer **ret,
                            struct redrive_err *err)
{
    const struct committer_options options = {.engine = session->engine, .no_ticks = true};
    *ret = NULL;
    if (session->router) {
        int rc = start_shards(session, err);
        *ret = session->all;
        session->all = NULL;
        return rc;
    }
    session->engine = NULL;
    session->store = NULL;
    return committer_start(&options, ret, err);
}

static const char *from_environment(const char *name)
{
    return getenv(name);
}

int session_start_tracing(const struct session *session, struct otlp_exporter **ret,
                          struct redrive_err *err)
{
    return otlp_exporter_start(from_environment, &session->log, ret, err);
}

void session_log_listening(const struct session *session, const char *interface,
                           const char *address, uint16_t port)
{
    char text[300];
    const char *colon = strrchr(address, ':');
    const int host = colon ? (int)(colon - address) : (int)strlen(address);
    if (unix_socket_is_address(address))
        (void)snprintf(text, sizeof text, "%s", address);
    else
        (void)snprintf(text, sizeof text, "%.*s:%u", host, address, port);
    log_event(&session->log, LOG_LEVEL_INFO, clock_wall_ms(), "listening",
              LOG_S("interface", interface), LOG_S("address", text),
              LOG_I("pid", (int64_t)getpid()));
}

/* ---- Workers --------------------------------------------------------------------------------- */

void worker_name(const char *given, char out[WORKER_NAME_MAX])
{
    char host[256] = "";
    if (given) {
        (void)str_copy(out, WORKER_NAME_MAX, str_of(given));
        return;
    }
    bool is_known = gethostname(host, sizeof host - 1) == 0 && *host != '\0';
    (void)snprintf(out, WORKER_NAME_MAX, "%s:%ld", is_known ? host : "localhost", (long)getpid());
}

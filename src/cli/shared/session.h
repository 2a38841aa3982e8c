/* session.h - what every command on a store needs: its configuration, its store, an engine.
 *
 * A command that can ask a server as well (struct command, `run_on_store` and `over_http`) may get
 * a session that has a server in place of store and engine, and a configuration of nothing but
 * defaults.
 *
 * A command that looks at what is there, or needs something that is, names a function on a store
 * (struct command, `run_on_store`); session_run opens the session for it. A command that puts
 * something in sets up a store that is not there, once it has checked all that can be checked
 * without one: session_load, its checks, session_connect. One command is one session; it uses the
 * engine itself, on its own thread, unless it hands it to a committer (session_committer).
 */
#ifndef CLI_SHARED_SESSION_H
#define CLI_SHARED_SESSION_H

#include "base/os/log.h"
#include "cli/frame/cli.h"
#include "config/config.h"
#include "engine/committer.h"
#include "engine/engine.h"

struct otlp_exporter;

struct session {
    struct config *config;
    struct log log;        /* standard error, as the configuration says */
    struct engine *engine; /* NULL once a committer has it, and if the store has shards */
    struct store *store;   /* the engine's, for reads; over all shards the session's own */
    struct router *router; /* of a store with shards, until a committer has it */
    struct committer *all; /* over all shards, for session_apply; NULL: not needed yet */
    struct remote
        *remote;     /* the server that is asked in place of these (shared/remote.h), or NULL */
    uint64_t origin; /* of all handles on its store */
};

/* Opens a session on a store that is there, calls the function, and closes the session. Where there
 * is no store it makes none, and fails with REDRIVE_E_NOT_FOUND. The session logs nothing below a
 * warning, unless --log-level asks for it. */
int session_run(struct cli *cli, store_command_fn fn, struct redrive_err *err);

/* The two halves of it. Zeroes `ret` first, so that it can be closed whatever happened. */
int session_open_existing(struct cli *cli, struct session *ret, struct redrive_err *err);
void session_close(struct session *session);

/* Runs an operation on the session's store, and returns its code. */
int session_apply(struct session *session, struct op *op, struct redrive_err *err);
/* For what any thread may ask of an engine: submit_op_init, cron_put_op_init. */
const struct engine *session_engine(const struct session *session);

/* Whether the store has shards: then REDRIVE_E_STATE, for what cannot be done over all of them. */
int session_refuse_shards(const struct session *session, const char *what, struct redrive_err *err);

/* The time by the clock of the jobs: that of the store, or of the server. */
int64_t session_now_ms(const struct session *session);

/* After session_open_existing has found no store: opens an empty one in memory instead, for a
 * command that can work with the configuration alone. */
int session_go_without(struct session *session, struct redrive_err *err);

/* For a command that puts something in or works: configuration and log, which zeroes `ret` first,
 * then store and engine, for which options->config, store and log are filled in here. A store that
 * is not there is set up, if session_may_set_up. The log is as the configuration has it, unless
 * session_hush is called. */
int session_load(struct cli *cli, struct session *ret, struct redrive_err *err);
void session_hush(struct cli *cli, struct session *session); /* as session_open_existing does */
int session_connect(struct session *session, const struct engine_options *options,
                    struct redrive_err *err);

/* With this URL other handles of the process open the session's store, after session_connect. */
const char *session_store_url(const struct session *session);

/* Starts to send spans, if the environment names a collector; NULL in `ret`: it does not. The
 * exporter has SESSION_TRACING_GRACE_MS at the end, before the session is closed. */
#define SESSION_TRACING_GRACE_MS 5000
int session_start_tracing(const struct session *session, struct otlp_exporter **ret,
                          struct redrive_err *err);

/* Another handle on the session's store, for another thread. The caller closes it. */
int session_another_store(const struct session *session, struct store **ret,
                          struct redrive_err *err);

/* Publishes the tasks of the configuration, for it is about to work, and hands the engine to a
 * committer that also watches what other processes do. `on_ready` as in
 * committer.h. The caller stops the committer before it closes the session. */
int session_committer(struct session *session, void (*on_ready)(void *ctx), void *ready_ctx,
                      struct committer **ret, struct redrive_err *err);

/* The same for a command that only shows what is there: time is left to other processes. */
int session_quiet_committer(struct session *session, struct committer **ret,
                            struct redrive_err *err);

/* Whether a command may set up the store if there is none: not one that a variable of another
 * program names. */
bool session_may_set_up(const struct session *session);

/* The first line of a process that goes on: which store, and what says so. */
void session_log_config(const struct session *session);

/* A warning for each file with secrets that other users can read, of this configuration. */
void session_log_exposed(const struct session *session, const struct config *config,
                         const char *password_file);

/* Says where clients can connect now, with the port, also when the address left it open. */
void session_log_listening(const struct session *session, const char *interface,
                           const char *address, uint16_t port);

/* ---- Workers --------------------------------------------------------------------------------- */

/* How a process that works is called in leases, in the history and in statistics: as `given` says,
 * or HOST:PID where that is NULL. */
#define WORKER_NAME_MAX 320
void worker_name(const char *given, char out[WORKER_NAME_MAX]);

/* What a command that runs jobs is told, and the rows of its options. */
struct worker_options {
    int64_t concurrency;
    int64_t grace_ms;
    const char *name;
};

#define WORKER_ROWS(S, m)                                                                  \
    OPTION("concurrency", 0, "N", "run at most N jobs at one time, of all tasks together", \
           INTO_INT(S, m.concurrency), .min = 1, .max = 100000, .not_with = "no-work"),    \
        OPTION("grace", 0, "SPAN", "how long jobs may go on after the first signal",       \
               INTO_DURATION(S, m.grace_ms), .default_text = "30s"),                       \
        OPTION("worker", 0, "NAME",                                                        \
               "name of this worker in leases and in the history; HOST:PID unless given",  \
               INTO_STRING(S, m.name))

/* ---- The configuration, as the command line asks for it ----------------------------------------
 *
 * Every key of the configuration is a flag as well. The option parser finds them in CONFIG_FLAGS,
 * which only remembers them; they are read, together with file and environment, when a command
 * asks for its configuration.
 */

/* The flags that the configuration's keys make; for cli_main. */
extern const struct option_source CONFIG_FLAGS;

/* What settings are for: bits of struct command, `settings`. A command on a store that must be
 * there (`run_on_store`) has SETTINGS_STORE by that. */
enum settings {
    SETTINGS_STORE = 1 << 0,  /* which store */
    SETTINGS_SUBMIT = 1 << 1, /* what is submitted, and what is refused */
    SETTINGS_POLICY = 1 << 2, /* when a job is tried again */
    SETTINGS_BREAKER = 1 << 3,
    SETTINGS_RETENTION = 1 << 4,
    SETTINGS_HEALTH = 1 << 5,
    SETTINGS_METRICS = 1 << 6, /* the address of a worker's metrics */
    SETTINGS_LISTEN = 1 << 7,  /* addresses of a server */
    SETTINGS_EXPORTS = 1 << 8, /* files of `redrive batch` */
    SETTINGS_RUN =
        SETTINGS_STORE | SETTINGS_SUBMIT | SETTINGS_POLICY | SETTINGS_BREAKER | SETTINGS_RETENTION,
    SETTINGS_ALL = (1 << 9) - 1,
};

/* Adds a flag as if it were at the end of the command line. Both strings are borrowed until the
 * configuration has been loaded. */
int load_config_flag(const char *name, const char *value, struct redrive_err *err);
/* The command has Faktory passwords from elsewhere (config_sources.has_faktory_passwords). */
void load_config_faktory_passwords(void);

/* Loads it and prints its warnings. Of several errors all but the last are printed here. The
 * caller frees `ret`. */
int load_config(struct cli *cli, struct config **ret, struct redrive_err *err);

/* Loads it once more, for a process that goes on whatever the file says now: prints nothing. On
 * failure the report has the errors. */
int load_config_again(struct cli *cli, struct config **ret, struct config_report *report);

/* The task that a command names; NULL: the defaults. A name that the configuration does not know is
 * a typo more often than an undeclared task: REDRIVE_E_CONFIG, with the nearest one. */
int load_config_task(const struct config *config, const char *name, const struct config_task **ret,
                     struct redrive_err *err);

/* Whether the command line has a flag that sets a key of the configuration. */
bool load_config_has_flags(void);

#endif

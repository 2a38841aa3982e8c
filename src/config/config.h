/* config.h - the whole configuration as one typed struct.
 *
 * There are four sources, and a later one overrides an earlier one: the file (`redrive.yaml`), the
 * `.env` file beside it, the environment, the flags. One rule names a setting in all of them:
 * `retry.max_delay`, REDRIVE_RETRY_MAX_DELAY, --retry-max-delay. A loaded configuration has passed
 * every check, is complete (what was not set has its default) and never changes, so threads may
 * share it. Everything in it belongs to it.
 */
#ifndef CONFIG_CONFIG_H
#define CONFIG_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/json/writer.h"
#include "base/mem/arena.h"
#include "base/os/log.h"
#include "base/text/buf.h"
#include "base/text/str.h"
#include "core/breaker/health.h"
#include "core/cron/cron.h"
#include "core/experiment/arm.h"
#include "core/limit/adaptive.h"
#include "core/limit/budget.h"
#include "core/limit/limit.h"
#include "core/time/tz.h"
#include "redrive.h"

struct config_strings {
    const char *const *items; /* ends with NULL, so that it can be an argv; NULL when empty */
    size_t n;
};

/* ---- Tasks ----------------------------------------------------------------------------------- */

enum config_run_kind {
    CONFIG_RUN_NONE, /* not run by this process: it waits for remote workers */
    CONFIG_RUN_EXEC,
    CONFIG_RUN_STREAM,
    CONFIG_RUN_HTTP,
};

#define CONFIG_SECRET_MAX 64

/* What requests are signed with. */
struct config_secret {
    uint8_t bytes[CONFIG_SECRET_MAX];
    size_t len;
    const char *shown; /* for people: its reference, or nothing of it */
};

struct config_header {
    const char *name;
    const char *value;
    const char *shown;
};

struct config_http {
    const char *url;
    struct config_secret *secrets;
    size_t n_secrets;
    struct config_header *headers;
    size_t n_headers;
    const char *missing; /* says which variable is not set: it cannot be run here; NULL: none */
};

struct config_run {
    enum config_run_kind kind;
    struct config_strings exec;   /* argv, a process for each job */
    struct config_strings stream; /* argv of long-lived processes */
    struct config_http http;
    uint32_t processes;             /* stream */
    uint32_t in_flight;             /* stream: jobs at one time in each of its processes */
    uint32_t concurrency;           /* jobs at one time in this process */
    int64_t timeout_ms;             /* 0: none */
    int64_t kill_grace_ms;          /* exec, stream: between SIGTERM and SIGKILL */
    struct config_strings pass_env; /* exec, stream: names of variables */
    bool allow_private;             /* http: also when the host is made of job data */
    int64_t connect_timeout_ms;     /* http */
};

struct config_breaker {
    struct redrive_breaker_config config;
    const char *key; /* template of the breaker's name, see docs/configuration.md */
};

enum config_limit_per {
    CONFIG_PER_TASK,
    CONFIG_PER_USER,
    CONFIG_PER_PROJECT,
    CONFIG_PER_KEY,
};

#define CONFIG_ADAPTIVE UINT32_MAX

struct config_limits {
    struct rate rate; /* all zero: none */
    enum config_limit_per per;
    const char *key;      /* template, with CONFIG_PER_KEY */
    uint32_t concurrency; /* 0: no limit; or CONFIG_ADAPTIVE */
    struct adaptive_config adaptive;
    struct budget_config budget;
};

enum config_payload {
    CONFIG_PAYLOAD_OPTIONAL,
    CONFIG_PAYLOAD_REQUIRED, /* a job without one is refused */
};

struct config_task {
    const char *name;
    const char *queue;
    enum config_payload payload;
    bool client_retries; /* `retry: N` of a Faktory client counts */
    struct config_run run;
    struct redrive_policy retry; /* complete: profile, defaults and class rules resolved */
    /* What says how many retries a failure of a class has: "redrive.yaml:7:
     * defaults.on.network.max_retries", "MAX_RETRIES"; NULL: nothing does, the number is built in.
     */
    const char *retries_from[REDRIVE_CLASS_COUNT];
    struct config_breaker breaker;
    struct config_limits limits;
    int64_t lease_ms;
    int64_t heartbeat_ms;
    struct experiment *experiment; /* that its new jobs take part in, or NULL */
};

/* ---- Everything else ------------------------------------------------------------------------- */

enum config_overlap {
    CONFIG_OVERLAP_ALLOW,
    CONFIG_OVERLAP_SKIP,
    CONFIG_OVERLAP_QUEUE_ONE,
};

/* As the file has it. */
const char *config_overlap_name(enum config_overlap overlap);

struct config_cron {
    const char *name;
    const char *task;
    const char *schedule; /* as written */
    struct cron cron;
    const char *timezone;
    const struct tz *tz;
    const char *payload; /* JSON */
    enum config_overlap overlap;
};

enum config_scope {
    CONFIG_SCOPE_ENQUEUE = 1 << 0,
    CONFIG_SCOPE_WORK = 1 << 1,
    CONFIG_SCOPE_READ = 1 << 2,
    CONFIG_SCOPE_ADMIN = 1 << 3,
};

/* As the file has it: "read"; of several the first; "" for what is no scope. */
const char *config_scope_name(enum config_scope scope);

#define CONFIG_TOKEN_HASH_BYTES 32

struct config_token {
    const char *name;
    uint8_t hash[CONFIG_TOKEN_HASH_BYTES]; /* SHA-256 of the token */
    uint32_t scopes;                       /* bits of enum config_scope */
    const char *tenant;
};

/* The Faktory protocol needs the password itself, which the server reads when it starts and when it
 * reloads. */
struct config_faktory_password {
    const char *name;
    const char *password_file; /* a path, or NULL: password_env is set */
    const char *password_env;
    uint32_t scopes; /* bits of enum config_scope */
    const char *tenant;
};

enum config_metric {
    CONFIG_METRIC_DEAD_LETTERS,
    CONFIG_METRIC_RETRY_BACKLOG,
    CONFIG_METRIC_ERROR_RATE,
    CONFIG_METRIC_HEALTH_SCORE,
};

enum config_compare {
    CONFIG_ABOVE,
    CONFIG_AT_LEAST,
    CONFIG_BELOW,
    CONFIG_AT_MOST,
};

struct config_condition {
    enum config_metric metric;
    enum config_compare compare;
    double number;
};

/* As it would be written: "dead_letters > 100". */
#define CONFIG_CONDITION_MAX 64
const char *config_condition_text(const struct config_condition *when,
                                  char out[CONFIG_CONDITION_MAX]);

struct config_alert {
    struct config_condition when;
    const char *task;  /* NULL: all of them together */
    uint32_t min_runs; /* with fewer the rate means nothing */
    const char *webhook;
    struct config_strings command; /* argv */
};

enum config_socket_mode {
    CONFIG_SOCKET_OWNER, /* 0600 */
    CONFIG_SOCKET_GROUP, /* 0660 */
    CONFIG_SOCKET_ALL,   /* 0666 */
};

/* Files; only a server reads them (server/listen/tls.h), so that every other command can do
 * without. Both are set, or neither. */
struct config_tls {
    const char *cert; /* PEM: the certificate, then those between it and the root; NULL: no TLS */
    const char *key;  /* PEM */
    const char *cert_at; /* what errors begin with: "redrive.yaml:7: listen.tls.cert: " */
    const char *key_at;
};

/* Where a setting comes from that is not in the file. */
struct config_origin {
    const char *key;  /* retry.max_delay */
    const char *from; /* "REDRIVE_RETRY_MAX_DELAY", ".env:3: MAX_RETRIES", "--retry-max-delay" */
    bool is_borrowed; /* by a variable of another program */
};

struct config {
    const char *path;  /* of the file that was read, or NULL */
    const char *store; /* sqlite:PATH, postgres://…, redis://…, memory: or shards:URL URL … */
    const char *store_shown; /* the same without its password, for logs and for people */
    const char *store_from;  /* where it is set: "redrive.yaml:3", "REDRIVE_STORE", "default" */
    bool store_is_borrowed;  /* by a variable of another program, such as DATABASE_URL: it is used,
                                but only `redrive migrate` sets it up */
    struct {
        const char *http; /* host:port or unix:PATH; NULL: closed */
        const char *faktory;
        const char *metrics;      /* of `redrive work` */
        uint32_t max_connections; /* of each */
        int64_t drain_ms; /* between the signal to stop and the end of listening, at least */
        uint32_t max_per_address;            /* connections of one address, of each; 0: not said */
        enum config_socket_mode socket_mode; /* of the file of a Unix socket */
        struct config_tls tls;
        bool insecure; /* other machines may connect without TLS */
    } listen;
    struct {
        enum log_level level;
        enum log_format format;
    } log;
    bool strict_tasks;
    struct {
        struct redrive_policy retry;
        const char *retries_from[REDRIVE_CLASS_COUNT]; /* as those of a task */
        struct config_breaker breaker;
    } defaults;
    struct config_task *tasks; /* in the order of the file */
    size_t n_tasks;
    struct redrive_classify_row *classify;
    size_t n_classify;
    struct config_cron *cron;
    size_t n_cron;
    struct experiment *experiments;
    size_t n_experiments;
    struct config_token *tokens;
    size_t n_tokens;
    struct config_faktory_password *faktory_passwords;
    size_t n_faktory_passwords;
    struct config_strings redact; /* keys whose values only clients with `admin` are shown */
    struct config_alert *alerts;
    size_t n_alerts;
    struct health_thresholds health;
    struct {
        int64_t completed_ms;
        int64_t cancelled_ms;
    } retention;
    struct {
        const char *retry_queue; /* directories of `redrive batch`; NULL: not said */
        const char *final_results;
        const char *dead_letter_queue;
    } paths;

    struct config_origin *origins; /* of the settings that variables and flags made */
    size_t n_origins;

    struct redrive_err *warnings; /* worth telling, but nothing is wrong */
    size_t n_warnings;

    struct config_task undeclared;            /* used for every task that is not in `tasks` */
    const struct config_task **tasks_by_name; /* sorted */
    struct config_owned *owned;               /* memory, time zones */
};

/* ---- Loading --------------------------------------------------------------------------------- */

#define CONFIG_MAX_ERRORS   20
#define CONFIG_MAX_WARNINGS 20

/* Everything that is wrong: settings first, then the file from top to bottom. */
struct config_report {
    struct redrive_err errors[CONFIG_MAX_ERRORS];
    uint32_t lines[CONFIG_MAX_ERRORS]; /* of the file; 0: a setting */
    size_t n_errors;                   /* of `errors` */
    size_t n_omitted;                  /* further ones, which did not fit */
};

/* A flag: `--NAME VALUE`. */
struct config_setting {
    const char *name; /* without the dashes */
    const char *value;
};

struct config_sources {
    /* NULL: REDRIVE_CONFIG of the environment, or else ./redrive.yaml if there is one. */
    const char *path;
    bool path_required;                 /* whether it is an error when there is no file at `path` */
    char *const *environ;               /* NAME=VALUE, ends with NULL; NULL: empty */
    const struct config_setting *flags; /* the last of a name counts */
    size_t n_flags;
    /* Faktory clients need passwords that are in no source: `faktory_passwords` may be empty, and
     * `listen.faktory` be open to other machines nevertheless. */
    bool has_faktory_passwords;
};

/* Reads and checks. On failure returns the code of the first error, fills the report (which need
 * not be initialized) and leaves `ret` NULL. */
int config_load(const struct config_sources *sources, struct config **ret,
                struct config_report *report);

/* Another holder of the same configuration; gives it back. The last config_free of as many as there
 * are holders, the loader included, frees it. Any thread. NULL does nothing. */
struct config *config_hold(const struct config *config);
/* How many holders there are, for tests: other threads may change it meanwhile. */
unsigned config_holders(const struct config *config);
void config_free(struct config *config);

/* The task of that name or, for an undeclared one, the defaults, whose name is "". */
const struct config_task *config_task(const struct config *config, struct str name);

/* The declared task whose name looks most like this one, or NULL: for hints about slips. */
const char *config_task_nearest(const struct config *config, struct str name);

/* What a person can do about a borrowed store that is not set up. */
#define CONFIG_BORROWED_HINT                                                                   \
    "`redrive migrate` sets it up; or name another store: `store:` in redrive.yaml, --store, " \
    "REDRIVE_STORE"

/* For the code of an open of the store, which it returns: where a borrowed store is not set up, the
 * error becomes one that names the variable. */
int config_store_missing(const struct config *config, int rc, struct redrive_err *err);

/* Writes the configuration in force as one JSON object in the form of the file. Passwords, token
 * hashes and the paths of webhooks are written as `***`; but for them it gives the same
 * configuration when it is read as a file again. */
void config_write(const struct config *config, struct json_writer *w);

/* ---- Flags and variables --------------------------------------------------------------------- */

/* A key that can be set by a variable and by a flag. All strings are static. */
struct config_flag {
    const char *name;     /* retry-max-delay */
    const char *key;      /* retry.max_delay */
    const char *variable; /* REDRIVE_RETRY_MAX_DELAY */
    const char *help;
    const char *default_text;   /* or NULL */
    const char *const *choices; /* ends with NULL; NULL: not a choice */
};

bool config_flag_known(struct str name);
/* The flag with that number, from 0; false after the last. */
bool config_flag_enumerate(size_t index, struct config_flag *ret);

/* ---- The reference of all keys (schema/reference.c) ------------------------------------------ */

/* The names of its sections, with `index` from 0; NULL after the last. */
const char *config_section(size_t index);

/* Append the keys of a section, or of all if it is NULL: as tables of Markdown, or as JSON. */
void config_reference(const char *section, struct buf *out);
void config_reference_json(const char *section, struct json_writer *w);

/* ---- Parts on their own ---------------------------------------------------------------------- */

/* One of these, together with what it points to. */
struct config_part {
    union {
        struct redrive_policy policy;
        struct config_task task;
        struct config_cron cron;
    };
    struct zone *zones;
    struct arena arena;
};
/* NULL does nothing. */
void config_part_free(struct config_part *part);

/* Reads a policy in the form of the file's `retry` section, which here may also have `on`, on top
 * of `defaults` (NULL: the built-in ones), of which it keeps no reference. An error names the
 * first thing that is wrong. */
int policy_parse_json(struct str json, const struct redrive_policy *defaults,
                      struct config_part **ret, struct redrive_err *err);

/* The policy of a job by the text that it keeps: its own on top of its task's, or the one of its
 * arm, which is complete (core/experiment/arm.h). */
int policy_parse_kept(struct str kept, const struct redrive_policy *task, struct config_part **ret,
                      struct redrive_err *err);

/* Writes the definition of a task as one object in the form of the file, complete, so that it
 * depends on no defaults; all but `run`, which each worker takes from its own configuration.
 * Reading it gives the same task, without a way to run it. */
void task_write_json(const struct config_task *task, struct json_writer *w);
int task_parse_json(struct str name, struct str json, struct config_part **ret,
                    struct redrive_err *err);

/* Reads a section of `tasks` as if it stood in the configuration (NULL: the built-in defaults),
 * which must outlive the result; `run` and `experiment` are refused. An error names the task. */
int task_parse_section(const struct config *config, struct str name, struct str json,
                       struct config_part **ret, struct redrive_err *err);

/* Writes an entry as one object in the form of the file's `cron` section, complete. Reading it
 * gives the same entry. */
void cron_write_json(const struct config_cron *entry, struct json_writer *w);
/* Reads and checks an entry. Time zones are looked for where `config` (may be NULL) found its own.
 * With `among` the entry is also looked at as one of that configuration: its task must be declared
 * under strict_tasks, and its payload be there if the task requires one. An error is about the
 * first thing that is wrong; `ret_field` (may be NULL) then names the key, "": the whole. */
#define CONFIG_FIELD_MAX 96
int cron_parse_json(const struct config *config, bool among, struct str name, struct str json,
                    struct config_part **ret, char ret_field[CONFIG_FIELD_MAX],
                    struct redrive_err *err);

/* The same for a breaker: the keys of the file's `breaker` section but for `key`. */
int breaker_parse_json(struct str json, const struct redrive_breaker_config *defaults,
                       struct redrive_breaker_config *ret, struct redrive_err *err);

/* ---- Time zones ------------------------------------------------------------------------------ */

#define ZONE_DIR "/usr/share/zoneinfo"

/* Reads the zone from the files below `dir` (NULL: ZONE_DIR); `UTC` needs no file. The error says
 * what is wrong with the name. Release `ret` with tz_release, after a failure too. */
int zone_read(const char *dir, struct str name, struct tz *ret, struct redrive_err *err);

/* ---- Files with secrets ---------------------------------------------------------------------- */

/* Files with secrets that other users of this machine can read.
 *
 * Looked at are the configuration file, if it has tokens, a password of the store or secrets of
 * `run.http` in so many words; the `.env` beside it, if one of these comes from there; password
 * files; and the private key of TLS.
 */
#define EXPOSED_MAX 16

struct exposed {
    const char *path;  /* the configuration's, or the caller's */
    const char *holds; /* "tokens" */
    unsigned mode;     /* 0644 */
};

/* Those that others can read or write, at most EXPOSED_MAX; returns how many. `password_file` is
 * another one to look at; NULL: there is none. A file that belongs to another user or to root may
 * be shared with a group, because that is how a server of another user gets to read it. */
size_t exposed_find(const struct config *config, const char *password_file,
                    struct exposed ret[EXPOSED_MAX]);

/* In words, with a hint. */
void exposed_warning(const struct exposed *file, struct redrive_err *ret);

#endif

/* config.c - `redrive config`: is it right, and what is in force? */
#include "cli/commands/commands.h"

#include <stdio.h>
#include <unistd.h>

#include "base/err.h"
#include "base/json/writer.h"
#include "base/time/duration.h"
#include "cli/frame/cli.h"
#include "cli/shared/session.h"
#include "config/config.h"
#include "core/explain.h"
#include "run/from_config.h"
#include "server/listen/tls.h"

/* ---- Time for all attempts -------------------------------------------------------------------
 *
 * A policy whose time is up before its attempts are is most often an oversight, but may be meant:
 * only `config check` warns of it.
 */
struct lack {
    int64_t total_timeout_ms;
    int64_t run_ms;    /* that each run was taken to last */
    uint32_t attempts; /* that fit; 0: all do */
    uint32_t of;
};

static struct lack lack_of(const struct redrive_policy *policy, int64_t run_ms)
{
    struct lack lack = {.total_timeout_ms = policy->total_timeout_ms, .run_ms = run_ms};
    if (explain_fits(policy, run_ms, &lack.attempts, &lack.of))
        lack.attempts = 0;
    return lack;
}

/* What is lacking with runs that fail at once or, if that is enough, with runs that take all of
 * the time that they have. */
static struct lack lack_of_task(const struct config_task *task)
{
    const struct lack lack = lack_of(&task->retry, 0);
    if (lack.attempts > 0 || task->run.kind == CONFIG_RUN_NONE)
        return lack;
    return lack_of(&task->retry, task->run.timeout_ms);
}

static void warn_of(struct cli *cli, const char *kind, const char *name, const struct lack *lack)
{
    char timeout[DURATION_TEXT_MAX], run[DURATION_TEXT_MAX], runs[64] = "";
    struct redrive_err warning;
    if (lack->run_ms > 0)
        (void)snprintf(runs, sizeof runs, " that run into run.timeout (%s)",
                       duration_format(lack->run_ms, run));
    (void)err_set(&warning, REDRIVE_E_CONFIG,
                  "%s%.60s: total_timeout of %s leaves time for about %u of %u attempts%s", kind,
                  name, duration_format(lack->total_timeout_ms, timeout), lack->attempts, lack->of,
                  runs);
    err_detail(&warning, "a retry that would begin later is not made: the job ends with reason "
                         "deadline");
    err_hint(&warning, "raise total_timeout, or set it to 0s; `redrive policy explain` shows more");
    cli_warn(cli, &warning);
}

/* Tasks that lack what the defaults lack are not named. Returns how many warnings there were. */
static int64_t check_time(struct cli *cli, const struct config *config)
{
    const struct lack usual = lack_of(&config->defaults.retry, 0);
    int64_t n = usual.attempts > 0;
    if (n > 0)
        warn_of(cli, "defaults", "", &usual);
    for (size_t i = 0; i < config->n_tasks; i++) {
        const struct lack lack = lack_of_task(&config->tasks[i]);
        if (lack.attempts == 0 ||
            (lack.attempts == usual.attempts && lack.of == usual.of && lack.run_ms == 0 &&
             lack.total_timeout_ms == usual.total_timeout_ms))
            continue;
        warn_of(cli, "task ", config->tasks[i].name, &lack);
        n++;
    }
    return n;
}

/* Programs that are not there, or cannot be run: no worker would start with such a configuration
 * here, but it may be meant for another machine. Returns how many there are. */
static int64_t check_programs(struct cli *cli, const struct config *config)
{
    int64_t n = 0;
    for (size_t i = 0; i < config->n_tasks; i++) {
        struct redrive_err why = {0};
        if (config->tasks[i].run.kind == CONFIG_RUN_NONE ||
            from_config_check(&config->tasks[i], environ, &why) == 0)
            continue;
        cli_warn(cli, &why);
        n++;
    }
    return n;
}

/* A certificate or key that is there and cannot be used is an error. Files that are missing are
 * warnings: they may be on another machine. */
static int check_tls(struct cli *cli, const struct config *config, int64_t *n_warnings,
                     struct redrive_err *err)
{
    struct tls_identity *identity = NULL;
    struct redrive_err why = {0};
    if (!config->listen.tls.cert)
        return 0;
    const int rc = tls_identity_load(&config->listen.tls, &identity, &why);
    tls_identity_free(identity);
    if (rc == REDRIVE_E_CONFIG) {
        *err = why;
        return rc;
    }
    if (rc < 0) {
        cli_warn(cli, &why);
        ++*n_warnings;
    }
    return 0;
}

/* Returns how many there are. */
static int64_t check_exposed(struct cli *cli, const struct config *config)
{
    struct exposed files[EXPOSED_MAX];
    const size_t n = exposed_find(config, NULL, files);
    for (size_t i = 0; i < n; i++) {
        struct redrive_err warning = {0};
        exposed_warning(&files[i], &warning);
        cli_warn(cli, &warning);
    }
    return (int64_t)n;
}

struct checked {
    const struct config *config;
    int64_t more_warnings; /* than those of the configuration itself */
};

static void checked_as_json(struct json_writer *w, const void *thing)
{
    const struct config *config = ((const struct checked *)thing)->config;
    json_begin_object(w);
    json_field_bool(w, "ok", true);
    json_field_cstr(w, "file", config->path);
    json_field_cstr(w, "store", config->store_shown);
    json_field_cstr(w, "store_from", config->store_from);
    json_field_int(w, "tasks", (int64_t)config->n_tasks);
    json_field_int(w, "classify", (int64_t)config->n_classify);
    json_field_int(w, "cron", (int64_t)config->n_cron);
    json_field_int(w, "tokens", (int64_t)config->n_tokens);
    json_field_int(w, "alerts", (int64_t)config->n_alerts);
    json_field_int(w, "warnings",
                   (int64_t)config->n_warnings + ((const struct checked *)thing)->more_warnings);
    json_end_object(w);
}

static void checked_as_text(struct buf *out, const struct term *term, const void *thing)
{
    const struct config *config = ((const struct checked *)thing)->config;
    (void)term;
    buf_printf(out, "%s: ok\n", config->path ? config->path : "defaults (no file)");
    buf_printf(out, "  %zu task%s, %zu classification row%s, %zu periodic task%s, %zu alert%s\n",
               config->n_tasks, config->n_tasks == 1 ? "" : "s", config->n_classify,
               config->n_classify == 1 ? "" : "s", config->n_cron, config->n_cron == 1 ? "" : "s",
               config->n_alerts, config->n_alerts == 1 ? "" : "s");
    buf_puts(out, "  store ");
    text_add_clean(out, str_of(config->store_shown));
    buf_puts(out, ", from ");
    text_add_clean(out, str_of(config->store_from));
    buf_putc(out, '\n');
}

static int run_check(struct cli *cli, struct redrive_err *err)
{
    struct config *config = NULL;
    int rc = load_config(cli, &config, err);
    if (rc < 0)
        return rc;
    struct checked checked = {config, check_time(cli, config) + check_programs(cli, config) +
                                          check_exposed(cli, config)};
    rc = check_tls(cli, config, &checked.more_warnings, err);
    if (rc == 0)
        rc = cli_show(cli, &checked, checked_as_json, checked_as_text, err);
    config_free(config);
    return rc;
}

/* On standard error, because the output is a configuration file. */
static void say_origins(struct cli *cli, const struct config *config)
{
    RELEASED_BY(buf_release) struct buf line = BUF_MAX(8192);
    buf_puts(&line, "where settings come from:\nstore: ");
    text_add_clean(&line, str_of(config->store_from));
    for (size_t i = 0; i < config->n_origins; i++) {
        if (strcmp(config->origins[i].key, "store") == 0)
            continue;
        buf_printf(&line, "\n%s: ", config->origins[i].key);
        text_add_clean(&line, str_of(config->origins[i].from));
    }
    cli_say(cli, "%s\n", buf_cstr(&line));
}

static int run_show(struct cli *cli, struct redrive_err *err)
{
    struct config *config = NULL;
    int rc = load_config(cli, &config, err);
    if (rc < 0)
        return rc;
    struct buf out;
    struct json_writer w;
    buf_init(&out, CLI_OUTPUT_MAX);
    json_writer_init(&w, &out);
    config_write(config, &w);
    say_origins(cli, config);
    config_free(config);
    if (cli->out.width > 0) { /* a person looks */
        struct buf laid_out;
        buf_init(&laid_out, CLI_OUTPUT_MAX);
        json_indent(buf_str(&out), 0, &laid_out);
        buf_release(&out);
        out = laid_out;
    }
    buf_putc(&out, '\n');
    return cli_print(cli, &out, err);
}

static const struct command CMD_CHECK = {
    .name = "check",
    .summary = "check the configuration and say what is wrong with it",
    .description = "Reads file, .env, environment and flags as every other command does, and "
                   "reports all errors with file, line, what was expected, and the nearest valid "
                   "name. The exit code is 2 if there is one, 1 if a file cannot be read. Programs "
                   "of tasks that are missing or cannot be run here, with which nothing would "
                   "start, and files with secrets that other users can read, are warnings.",
    .examples = EXAMPLES({"redrive config check -c redrive.yaml", "before a deployment"}),
    .run = run_check,
    .settings = SETTINGS_ALL,
    .needs_no_store = true,
};

static const struct command CMD_SHOW = {
    .name = "show",
    .summary = "print the configuration in force, as JSON",
    .description = "Defaults, file, .env, environment and flags, put together. Secrets are "
                   "hidden; but for them the output can be used as a configuration file. Standard "
                   "error says where the store comes from, and each setting that a variable or a "
                   "flag makes; not with --json.",
    .examples = EXAMPLES({"redrive config show --retry-max-delay 5m", "see what a flag changes"}),
    .run = run_show,
    .settings = SETTINGS_ALL,
    .needs_no_store = true,
};

const struct command cmd_config = {
    .name = "config",
    .summary = "check and show the configuration",
    .examples = EXAMPLES({"redrive config check -c redrive.yaml", "before a deployment"},
                         {"redrive config show", "what is in force here"}),
    .commands = (const struct command *const[]){&CMD_CHECK, &CMD_SHOW, NULL},
};

/* cmd_config.c - `redrive config`: is it right, and what is in force? */
#include "cli/commands.h"

#include "base/json_writer.h"
#include "cli/cli.h"
#include "cli/load_config.h"

#define OUTPUT_MAX (16u * 1024 * 1024)

static void check_as_json(const struct config *config, struct buf *out)
{
    struct json_writer w;
    json_writer_init(&w, out);
    json_begin_object(&w);
    json_field_bool(&w, "ok", true);
    json_field_cstr(&w, "file", config->path);
    json_field_cstr(&w, "store", config->store_shown);
    json_field_int(&w, "tasks", (int64_t)config->n_tasks);
    json_field_int(&w, "classify", (int64_t)config->n_classify);
    json_field_int(&w, "cron", (int64_t)config->n_cron);
    json_field_int(&w, "tokens", (int64_t)config->n_tokens);
    json_field_int(&w, "alerts", (int64_t)config->n_alerts);
    json_field_int(&w, "warnings", (int64_t)config->n_warnings);
    json_end_object(&w);
    buf_putc(out, '\n');
}

static void check_as_text(const struct config *config, struct buf *out)
{
    buf_printf(out, "%s: ok\n", config->path ? config->path : "defaults (no file)");
    buf_printf(out, "  %zu task%s, %zu classification row%s, %zu periodic task%s, %zu alert%s\n",
               config->n_tasks, config->n_tasks == 1 ? "" : "s", config->n_classify,
               config->n_classify == 1 ? "" : "s", config->n_cron, config->n_cron == 1 ? "" : "s",
               config->n_alerts, config->n_alerts == 1 ? "" : "s");
}

static int run_check(struct cli *cli, struct redrive_err *err)
{
    struct config *config = NULL;
    int rc = load_config(cli, &config, err);
    if (rc < 0)
        return rc;
    struct buf out;
    buf_init(&out, OUTPUT_MAX);
    if (cli->globals->json)
        check_as_json(config, &out);
    else
        check_as_text(config, &out);
    config_free(config);
    return cli_print(cli, &out, err);
}

static int run_show(struct cli *cli, struct redrive_err *err)
{
    struct config *config = NULL;
    int rc = load_config(cli, &config, err);
    if (rc < 0)
        return rc;
    struct buf out;
    struct json_writer w;
    buf_init(&out, OUTPUT_MAX);
    json_writer_init(&w, &out);
    config_write(config, &w);
    buf_putc(&out, '\n');
    config_free(config);
    return cli_print(cli, &out, err);
}

static const struct command CMD_CHECK = {
    .name = "check",
    .summary = "check the configuration and say what is wrong with it",
    .description = "Reads file, .env, environment and flags as every other command does, and "
                   "reports all errors with file, line, what was expected, and the nearest valid "
                   "name. The exit code is 2 if there is one, 1 if a file cannot be read.",
    .examples =
        (const struct example[]){
            {"redrive config check -c redrive.yaml", "before a deployment"},
            {0},
        },
    .run = run_check,
};

static const struct command CMD_SHOW = {
    .name = "show",
    .summary = "print the configuration in force, as JSON",
    .description = "Defaults, file, .env, environment and flags, put together. Secrets are "
                   "hidden; but for them the output can be used as a configuration file.",
    .examples =
        (const struct example[]){
            {"redrive config show --retry-max-delay 5m", "see what a flag changes"},
            {0},
        },
    .run = run_show,
};

const struct command cmd_config = {
    .name = "config",
    .summary = "check and show the configuration",
    .examples =
        (const struct example[]){
            {"redrive config check -c redrive.yaml", "before a deployment"},
            {"redrive config show", "what is in force here"},
            {0},
        },
    .commands = (const struct command *const[]){&CMD_CHECK, &CMD_SHOW, NULL},
};

/* load_config.c - the keys of the configuration as options, and its loading. */
#include "cli/shared/load_config.h"

#include <unistd.h>

#include "base/err.h"
#include "base/os/log.h"

#define FLAGS_MAX 64

/* One command line, one list. */
static struct {
    struct config_setting items[FLAGS_MAX];
    size_t n;
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

static bool enumerate(void *ctx, size_t index, struct option *ret)
{
    (void)ctx;
    struct config_flag flag;
    if (!find_flag(index, &flag))
        return false;
    *ret = (struct option){
        .name = flag.name,
        .type = OPTION_STRING,
        .placeholder = "VALUE",
        .help = flag.help,
        .default_text = flag.default_text,
        .choices = flag.choices,
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

const struct option_source CONFIG_FLAGS = {
    .known = known,
    .set = set,
    .enumerate = enumerate,
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

/* The empty file, so that neither ./redrive.yaml nor a .env is looked for. */
int load_defaults(struct config **ret, struct redrive_err *err)
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

int load_config_task(const struct config *config, const char *name, const struct config_task **ret,
                     struct redrive_err *err)
{
    *ret = config_task(config, str_of(name));
    if (!name || (*ret)->name[0] != '\0')
        return 0;
    err_set(err, REDRIVE_E_CONFIG, "no task '%s' in the configuration", name);
    err_suggest(err, config_task_nearest(config, str_of(name)));
    return REDRIVE_E_CONFIG;
}

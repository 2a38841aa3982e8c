/* policy.c - `redrive policy`: what a retry policy will do, before it does it. */
#include "cli/commands/commands.h"

#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/json/writer.h"
#include "base/time/duration.h"
#include "cli/frame/cli.h"
#include "cli/shared/session.h"
#include "core/classify/classify.h"
#include "core/explain.h"
#include "core/retry/policy.h"

/* The class names without `success`, which is never retried. */
#define XX(name, text, retried, counts, severity) text,
static const char *const CLASSES[] = {REDRIVE_CLASS_MAP(XX) NULL};
#undef XX

struct explain_options {
    const char *profile;
    const char *task;
    int class_;       /* index into CLASSES + 1; -1: not given */
    const char *type; /* and what it derives from, behind commas */
    int64_t run_ms;
};

static const struct field EXPLAIN_OPTIONS[] = {
    OPTION("profile", 'p', "NAME", "explain a named profile (see `redrive policy list`)",
           INTO_STRING(struct explain_options, profile)),
    OPTION("task", 't', "NAME", "explain a task of the configuration, like the argument TASK",
           INTO_STRING(struct explain_options, task)),
    OPTION("class", 0, "CLASS", "the class of every failure, transient unless --type is given",
           INTO_CHOICE(struct explain_options, class_), .words = CLASSES + 1),
    OPTION("type", 0, "TYPE[,BASE...]",
           "the type of its error, and after commas those that it derives from: the class is "
           "found as for a job",
           INTO_STRING(struct explain_options, type)),
    OPTION("run-time", 0, "DURATION",
           "how long each attempt runs before it fails; counts for total_timeout",
           INTO_DURATION(struct explain_options, run_ms), .default_text = "0s"),
    {0},
};

static void add_span(struct table *t, int64_t min_ms, int64_t max_ms)
{
    char min[DURATION_TEXT_MAX], max[DURATION_TEXT_MAX];
    if (min_ms == max_ms)
        table_add(t, duration_format(min_ms, min));
    else
        table_addf(t, "%s – %s", duration_format(min_ms, min), duration_format(max_ms, max));
}

static void put_end(const struct explain *e, const char *class_name, struct buf *out)
{
    char delay[DURATION_TEXT_MAX], timeout[DURATION_TEXT_MAX];
    const uint32_t attempts = e->usual + 1;
    const bool varies = e->certain < e->row.n;
    buf_printf(out, "\nAfter %s%u attempt%s", varies ? "about " : "", attempts,
               attempts == 1 ? "" : "s");
    if (varies)
        buf_printf(out, " (%u to %u)", e->certain + 1, e->row.n + 1);
    buf_printf(out, " that failed as %s: %s (%s).\n", class_name, redrive_state_name(e->end.state),
               redrive_reason_name(e->end.reason));
    if (e->end.why == DELAY_TOO_LATE)
        buf_printf(out,
                   "The next delay, %s, goes beyond total_timeout: %s. Of %u attempts that are "
                   "allowed the\nrest is not made: a larger total_timeout, or 0, allows them.\n",
                   duration_format(e->end.too_late.delay_ms, delay),
                   duration_format(e->end.too_late.total_timeout_ms, timeout),
                   (uint32_t)policy_max_retries(e->policy, e->class_) + 1);
    if (e->class_ == REDRIVE_CLASS_RATE_LIMITED && e->policy->total_timeout_ms > 0)
        buf_printf(out,
                   "A delay that the failing side asks for (Retry-After) and that goes beyond "
                   "total_timeout: %s\nends the job at once.\n",
                   duration_format(e->policy->total_timeout_ms, timeout));
    if (!e->row.certain)
        buf_puts(out, "Retries marked ? are not reached by the slower schedules: the total "
                      "time-out comes first.\n");
}

/* How many attempts there are, and the line that says so. */
static void put_number(const struct explain *e, const struct config_task *task, struct buf *out)
{
    const char *from = task->retries_from[e->class_];
    buf_printf(out, "Attempts for failures that are %s: %u at most, by ",
               redrive_class_name(e->class_),
               (uint32_t)policy_max_retries(e->policy, e->class_) + 1);
    text_add_clean(out, str_of(from ? from : "default"));
    buf_puts(out, ".\n");
}

static void explain_as_table(struct explain *e, const char *class_name, const struct term *term,
                             struct buf *out)
{
    struct table t;
    table_init(&t, ">ATTEMPT|>RETRY|WAITS BEFORE|WAITED IN ALL");
    table_add(&t, "1");
    table_add(&t, "-");
    table_add(&t, "-");
    table_add(&t, "-");
    while (explain_next(e)) {
        table_addf(&t, "%u", e->row.n + 1);
        table_addf(&t, "%u%s", e->row.n, e->row.certain ? "" : "?");
        add_span(&t, e->row.min_ms, e->row.max_ms);
        add_span(&t, e->row.total_min_ms, e->row.total_max_ms);
    }
    table_finish(&t, 0, term->color, out); /* numbers are never cut */
    put_end(e, class_name, out);
}

/* With a time-out for runs and one for all of them, how far a job comes that uses its runs up. */
static void put_run_time(const struct config_task *task, struct buf *out)
{
    char total[DURATION_TEXT_MAX], run[DURATION_TEXT_MAX];
    uint32_t attempts, of;
    if (task->run.kind == CONFIG_RUN_NONE ||
        explain_fits(&task->retry, task->run.timeout_ms, &attempts, &of))
        return;
    buf_printf(out,
               "If each run takes its time-out, %s, total_timeout: %s leaves time for %u of %u "
               "attempts.\n",
               duration_format(task->run.timeout_ms, run),
               duration_format(task->retry.total_timeout_ms, total), attempts, of);
}

static int print_explanation(struct cli *cli, struct explain *e, const struct config_task *task,
                             struct redrive_err *err)
{
    const char *from = task->retries_from[e->class_];
    struct buf out;
    buf_init(&out, CLI_OUTPUT_MAX);
    if (cli->globals->json) {
        struct json_writer w;
        json_writer_init(&w, &out);
        json_begin_object(&w);
        explain_write_members(e, UINT32_MAX, &w);
        if (e->end.reason != REDRIVE_REASON_NOT_RETRIABLE) {
            json_field_int(&w, "max_attempts", policy_max_retries(e->policy, e->class_) + 1);
            json_field_cstr(&w, "max_attempts_from", from ? from : "default");
        }
        json_end_object(&w);
        buf_putc(&out, '\n');
    } else {
        explain_as_table(e, CLASSES[e->class_], &cli->out, &out);
        if (e->end.reason != REDRIVE_REASON_NOT_RETRIABLE)
            put_number(e, task, &out);
        if (e->run_ms == 0)
            put_run_time(task, &out);
    }
    return cli_print(cli, &out, err);
}

/* Names between commas, in `text`, which is cut up for it. */
static size_t split_types(char *text, const char *types[REDRIVE_ERROR_TYPES_MAX])
{
    size_t n = 0;
    char *rest = text;
    for (char *type = strtok_r(text, ", ", &rest); type && n < REDRIVE_ERROR_TYPES_MAX;
         type = strtok_r(NULL, ", ", &rest))
        types[n++] = type;
    return n;
}

static int explain_one(struct cli *cli, const struct config *config, const struct config_task *task,
                       const struct explain_options *options, struct redrive_err *err)
{
    const char *types[REDRIVE_ERROR_TYPES_MAX];
    struct redrive_failure failure = {.failed = true};
    const struct classify_context names = {.task = task->name, .queue = task->queue};
    struct classifier *classifier = NULL;
    char *text = str_dup(str_of(options->type ? options->type : ""));
    int rc = text ? classifier_new(config->classify, config->n_classify, &classifier, err)
                  : err_nomem(err);
    if (rc == 0) {
        failure.error_types = types;
        failure.n_error_types = split_types(text, types);
        if (options->class_ >= 0)
            failure.status = CLASSES[options->class_ + 1];
        else if (failure.n_error_types == 0)
            failure.status = CLASSES[REDRIVE_CLASS_TRANSIENT];
        struct explain e;
        explain_init_failure(&e, &task->retry, &failure, classifier, &names);
        e.run_ms = options->run_ms;
        rc = print_explanation(cli, &e, task, err);
    }
    classifier_free(classifier);
    free(text);
    return rc;
}

static int explain_task(struct cli *cli, const char *name, const struct explain_options *options,
                        struct redrive_err *err)
{
    struct config *config = NULL;
    const struct config_task *task = NULL;
    int rc = load_config(cli, &config, err);
    if (rc == 0)
        rc = load_config_task(config, name, &task, err);
    if (rc == 0)
        rc = explain_one(cli, config, task, options, err);
    config_free(config);
    return rc;
}

static int run_explain(struct cli *cli, struct redrive_err *err)
{
    const struct explain_options *options = invocation_options(&cli->invocation);
    const char *task = cli->invocation.n_args > 0 ? cli->invocation.args[0] : options->task;

    if (options->profile && task)
        return err_set(err, REDRIVE_E_USAGE, "--profile and a task exclude each other");
    if (cli->invocation.n_args > 0 && options->task)
        return err_set(err, REDRIVE_E_USAGE, "the task is given twice");
    if (!options->profile)
        return explain_task(cli, task, options, err);

    /* A profile is a schedule to start from: other settings change it here as they do in a file. */
    struct redrive_policy policy;
    int rc = redrive_policy_profile(&policy, options->profile, err);
    if (rc == 0)
        rc = load_config_flag("retry-profile", options->profile, err);
    return rc < 0 ? rc : explain_task(cli, NULL, options, err);
}

static const struct command CMD_EXPLAIN = {
    .name = "explain",
    .summary = "show when a failing job is retried, and how it ends",
    .arguments = "[TASK]",
    .description =
        "Lists every retry of a job that fails each time: how long it waits before it, "
        "and how long it has waited in all. Where jitter makes a delay random, its "
        "bounds are shown, and the line that says how many attempts there are. Without a "
        "profile or a task it explains the defaults of the configuration. With the type of an "
        "error it also shows what class the "
        "configuration makes of it, and whether the policy retries it.",
    OPTIONS_INTO(EXPLAIN_OPTIONS, struct explain_options),
    .examples = EXAMPLES(
        {"redrive policy explain --profile records", "2, 4, 8, 16, 32 minutes, then dead"},
        {"redrive policy explain thumbnail -c redrive.yaml", "a task of a configuration"},
        {"redrive policy explain --retry-max-retries 3", "try a setting out"},
        {"redrive policy explain --type ConnectTimeout,HTTPError", "is this error retried?"}),
    .run = run_explain,
    .settings = SETTINGS_POLICY,
    .needs_no_store = true,
};

static void add_profile_json(struct json_writer *w, const void *list, size_t i)
{
    const struct policy_profile *profiles = list;
    json_begin_object(w);
    json_field_cstr(w, "name", profiles[i].name);
    json_field_cstr(w, "summary", profiles[i].summary);
    json_end_object(w);
}

static void add_profile_row(struct table *t, const void *list, size_t i)
{
    const struct policy_profile *profiles = list;
    table_add(t, profiles[i].name);
    table_add(t, profiles[i].summary);
}

static int run_list(struct cli *cli, struct redrive_err *err)
{
    struct listing listing = {
        .columns = "PROFILE|WHAT", .item = add_profile_json, .row = add_profile_row};
    listing.list = policy_profiles(&listing.n);
    return cli_list(cli, &listing, err);
}

static const struct command CMD_LIST = {
    .name = "list",
    .summary = "list the named profiles",
    .description = "A profile is a retry policy with a name, to start from: `profile: NAME` in a "
                   "task's `retry` section, and the other keys of that section change it.",
    .examples = EXAMPLES({"redrive policy list --json", "read the names in a script"}),
    .run = run_list,
    .needs_no_store = true,
};

const struct command cmd_policy = {
    .name = "policy",
    .summary = "look at retry policies",
    .examples =
        EXAMPLES({"redrive policy explain --profile records", "when a failing job is retried"},
                 {"redrive policy list", "which profiles there are"}),
    .commands = (const struct command *const[]){&CMD_EXPLAIN, &CMD_LIST, NULL},
};

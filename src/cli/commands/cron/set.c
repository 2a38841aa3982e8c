/* set.c - `redrive cron set` and `cron remove`: cron entries in the store. */
#include "cli/commands/commands.h"

#include "base/err.h"
#include "base/json/json.h"
#include "cli/frame/when.h"
#include "cli/shared/session.h"
#include "engine/clock/cron_edit.h"

#define OUTPUT_MAX (1024u * 1024)

/* Above the limit of an entry, so that one that is too big is measured and not cut. */
#define TEXT_MAX (4u * 1024 * 1024)

static const char *const OVERLAPS[] = {"allow", "skip", "queue_one", NULL};

struct set_options {
    const char *task;
    const char *schedule;
    const char *timezone;
    const char *payload;
    int overlap;
    const char *tenant;
};

static const struct option SET_OPTIONS[] = {
    {.name = "task",
     .letter = 't',
     INTO_STRING(struct set_options, task),
     .placeholder = "TASK",
     .help = "the task of the jobs it makes; required"},
    {.name = "schedule",
     .letter = 's',
     INTO_STRING(struct set_options, schedule),
     .placeholder = "SCHEDULE",
     .help = "when, such as '*/15 * * * *' or @daily; required"},
    {.name = "timezone",
     .letter = 'z',
     INTO_STRING(struct set_options, timezone),
     .placeholder = "ZONE",
     .default_text = "UTC",
     .help = "the time zone of the schedule, such as Europe/Berlin"},
    {.name = "payload",
     INTO_STRING(struct set_options, payload),
     .placeholder = "JSON",
     .default_text = "null",
     .help = "the payload of its jobs"},
    {.name = "overlap",
     INTO_CHOICE(struct set_options, overlap),
     .choices = OVERLAPS,
     .placeholder = "RULE",
     .default_text = "skip",
     .help = "when its last job has not ended: start one all the same, skip the tick, or keep one "
             "waiting"},
    {.name = "tenant",
     INTO_STRING(struct set_options, tenant),
     .placeholder = "TENANT",
     .default_text = ENGINE_TENANT_DEFAULT,
     .help = "whose entry it is"},
    {0},
};

/* ---- set ------------------------------------------------------------------------------------- */

/* The entry in the form of the configuration, which is where its rules are. */
static int write_definition(const struct set_options *options, struct buf *out,
                            struct redrive_err *err)
{
    struct json_writer w;
    int rc = json_check(str_of(options->payload), NULL, err);
    if (rc < 0) {
        err_hint(err, "quote --payload for the shell, and a string once more: '{\"a\": 1}', "
                      "'\"text\"'");
        return rc;
    }
    json_writer_init(&w, out);
    json_begin_object(&w);
    if (options->task)
        json_field_cstr(&w, "task", options->task);
    if (options->schedule)
        json_field_cstr(&w, "schedule", options->schedule);
    json_field_cstr(&w, "timezone", options->timezone);
    json_field_cstr(&w, "overlap", OVERLAPS[options->overlap]);
    json_key(&w, "payload");
    json_put_raw(&w, str_of(options->payload));
    json_end_object(&w);
    return buf_failed(out) ? err_full(err, buf_failed(out), "the entry is too long") : 0;
}

static int say_set(struct cli *cli, const struct cron_put_op *op, struct redrive_err *err)
{
    const struct cron_item *item = &op->shown;
    char text[WHEN_TEXT_MAX];
    struct json_writer w;
    struct buf out;
    buf_init(&out, OUTPUT_MAX);
    if (cli->globals->json) {
        json_writer_init(&w, &out);
        cron_item_write_json(&w, item);
        buf_putc(&out, '\n');
        return cli_print(cli, &out, err);
    }
    buf_printf(&out, "%s is %s; next tick %s\n", item->entry->name,
               op->created ? "set" : "replaced",
               item->next_ms ? when_format(item->entry->tz, item->next_ms, text) : "never");
    term_write(&cli->err, &out);
    buf_release(&out);
    return 0;
}

/* What cannot be an entry makes no store where there is none. */
static int check_definition(const struct config *config, const char *name, struct str definition,
                            struct redrive_err *err)
{
    struct parsed_cron *box = NULL;
    int rc = cron_parse_json(config, true, str_of(name), definition, &box, NULL, err);
    parsed_cron_free(box);
    return rc;
}

static int run_set(struct cli *cli, struct redrive_err *err)
{
    const struct set_options *options = invocation_options(&cli->invocation);
    const struct engine_options plain = {0};
    struct session session = {0};
    struct cron_put_op op = {0};
    struct buf definition;
    buf_init(&definition, TEXT_MAX);
    int rc = write_definition(options, &definition, err);
    if (rc == 0)
        rc = session_load(cli, &session, err);
    if (rc == 0) {
        session_hush(cli, &session);
        rc = check_definition(session.config, cli->invocation.args[0], buf_str(&definition), err);
    }
    if (rc == 0)
        rc = session_connect(&session, &plain, err);
    if (rc == 0)
        rc = cron_put_op_init(&op, session.engine, str_of(options->tenant),
                              str_of(cli->invocation.args[0]), buf_str(&definition), err);
    if (rc == 0)
        rc = engine_apply_one(session.engine, &op.op, err);
    if (rc == 0)
        rc = say_set(cli, &op, err);
    cron_put_op_release(&op);
    buf_release(&definition);
    session_close(&session);
    return rc;
}

const struct command cmd_cron_set = {
    .name = "set",
    .summary = "store a periodic task, or replace one",
    .arguments = "NAME",
    .description =
        "The entry is kept in the store: every process that works on it makes its ticks, "
        "each exactly once, from the next one on. An entry of the configuration with "
        "the same name cannot be set here. Options that are not given have their "
        "defaults, also when an entry is replaced.",
    .options = SET_OPTIONS,
    .options_size = sizeof(struct set_options),
    .examples =
        (const struct example[]){
            {"redrive cron set tidy --task cleanup --schedule @daily", "every day at midnight"},
            {"redrive cron set wake -t call -s '30 7 * * mon-fri' -z Europe/Berlin",
             "half past seven on working days"},
            {0},
        },
    .run = run_set,
};

/* ---- remove ---------------------------------------------------------------------------------- */

struct remove_options {
    const char *tenant;
};

static const struct option REMOVE_OPTIONS[] = {
    {.name = "tenant",
     INTO_STRING(struct remove_options, tenant),
     .placeholder = "TENANT",
     .default_text = ENGINE_TENANT_DEFAULT,
     .help = "whose entry it is"},
    {0},
};

static int run_remove(struct cli *cli, struct redrive_err *err)
{
    const struct remove_options *options = invocation_options(&cli->invocation);
    const char *name = cli->invocation.args[0];
    struct session session;
    struct cron_remove_op op;
    struct buf text;
    cron_remove_op_init(&op, str_of(options->tenant), str_of(name));
    int rc = session_open_existing(cli, &session, err);
    if (rc == 0)
        rc = engine_apply_one(session.engine, &op.op, err);
    session_close(&session);
    if (rc < 0 || cli->globals->json)
        return rc;
    buf_init(&text, OUTPUT_MAX);
    buf_printf(&text, "%s is removed; jobs that it has made stay\n", name);
    term_write(&cli->err, &text);
    buf_release(&text);
    return 0;
}

const struct command cmd_cron_remove = {
    .name = "remove",
    .summary = "remove a stored periodic task",
    .arguments = "NAME",
    .description = "Jobs that it has made stay. What the configuration has is removed there.",
    .options = REMOVE_OPTIONS,
    .options_size = sizeof(struct remove_options),
    .examples = (const struct example[]){{"redrive cron remove tidy", "no more of it"}, {0}},
    .run = run_remove,
};

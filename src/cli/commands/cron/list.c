/* list.c - `redrive cron list` and `cron run`: the cron entries. */
#include "cli/commands/commands.h"

#include "base/err.h"
#include "cli/frame/when.h"
#include "cli/output/listing.h"
#include "cli/output/table.h"
#include "cli/shared/session.h"
#include "engine/clock/cron.h"
#include "engine/clock/cron_edit.h"

#define OUTPUT_MAX (128u * 1024 * 1024)

struct cron_entries_options {
    const char *tenant;
};

static const struct option OPTIONS[] = {
    {.name = "tenant",
     INTO_STRING(struct cron_entries_options, tenant),
     .placeholder = "TENANT",
     .default_text = ENGINE_TENANT_DEFAULT,
     .help = "whose cron entries they are"},
    {0},
};

static void put_json(const struct cron_page *page, struct buf *out)
{
    struct json_writer w;
    listing_begin(&w, out);
    for (size_t i = 0; i < page->n; i++)
        cron_item_write_json(&w, &page->items[i]);
    listing_end(&w, NULL);
}

static void put_table(const struct cron_page *page, const struct term *term, struct buf *out)
{
    static const struct table_column COLUMNS[] = {
        {"NAME", ALIGN_LEFT},      {"TASK", ALIGN_LEFT},      {"SCHEDULE", ALIGN_LEFT},
        {"TIME ZONE", ALIGN_LEFT}, {"OVERLAP", ALIGN_LEFT},   {"SOURCE", ALIGN_LEFT},
        {"LAST TICK", ALIGN_LEFT}, {"NEXT TICK", ALIGN_LEFT},
    };
    struct table t;
    char text[WHEN_TEXT_MAX];
    table_init(&t, COLUMNS, sizeof COLUMNS / sizeof COLUMNS[0]);
    for (size_t i = 0; i < page->n; i++) {
        const struct cron_item *item = &page->items[i];
        const struct config_cron *entry = item->entry;
        table_add(&t, entry->name);
        table_add(&t, entry->task);
        table_add(&t, entry->schedule);
        table_add(&t, entry->timezone);
        table_add(&t, config_overlap_name(entry->overlap));
        table_add(&t, item->is_stored ? "stored" : "configuration");
        table_add(&t, item->last_ms ? when_format(entry->tz, item->last_ms, text) : "-");
        table_add(&t, item->next_ms ? when_format(entry->tz, item->next_ms, text) : "never");
    }
    table_render(&t, term->width, term->color, out);
    table_release(&t);
}

static int read_page(const struct session *session, const char *tenant, struct cron_page *ret,
                     struct redrive_err *err)
{
    return cron_page_read(session->store, session->config, str_of(tenant),
                          engine_now_ms(session->engine), ret, err);
}

/* Where there is no store, the entries of the configuration are all there is. */
static int open_for_list(struct cli *cli, struct session *ret, struct redrive_err *err)
{
    struct redrive_err why = {0};
    int rc = session_open_existing(cli, ret, &why);
    if (rc == REDRIVE_E_NOT_FOUND && ret->config && ret->config->n_cron > 0)
        return session_go_without(ret, err);
    if (rc < 0 && err)
        *err = why;
    return rc;
}

static int run_list(struct cli *cli, struct redrive_err *err)
{
    const struct cron_entries_options *options = invocation_options(&cli->invocation);
    struct session session;
    struct cron_page page = {0};
    struct buf out;
    buf_init(&out, OUTPUT_MAX);
    int rc = open_for_list(cli, &session, err);
    if (rc == 0)
        rc = read_page(&session, options->tenant, &page, err);
    if (rc == 0 && cli->globals->json)
        put_json(&page, &out);
    else if (rc == 0)
        put_table(&page, &cli->out, &out);
    if (rc == 0)
        rc = cli_print(cli, &out, err);
    buf_release(&out);
    cron_page_release(&page);
    session_close(&session);
    return rc;
}

static void add_hint(const struct session *session, const char *tenant, const char *name,
                     struct redrive_err *err)
{
    struct words names = WORDS_INIT;
    struct cron_page page = {0};
    (void)read_page(session, tenant, &page, NULL);
    for (size_t i = 0; i < page.n; i++)
        words_add(&names, "", page.items[i].entry->name);
    const char *nearest = words_nearest(&names, str_of(name));
    if (nearest)
        err_hint(err, "did you mean '%s'?", nearest);
    else
        err_hint(err, "`redrive cron list` names them");
    words_release(&names);
    cron_page_release(&page);
}

static int run_by_hand(struct cli *cli, struct redrive_err *err)
{
    const struct cron_entries_options *options = invocation_options(&cli->invocation);
    const char *name = cli->invocation.args[0];
    struct session session;
    struct cron_op op;
    struct buf out;
    cron_op_init(&op, str_of(options->tenant), str_of(name));
    int rc = session_open_existing(cli, &session, err);
    if (rc == 0) {
        rc = engine_apply_one(session.engine, &op.op, err);
        if (rc == REDRIVE_E_NOT_FOUND)
            add_hint(&session, options->tenant, name, err);
        else if (rc == REDRIVE_E_STATE)
            err_hint(err, "`overlap: allow` in its entry would make a second one");
    }
    session_close(&session);
    if (rc < 0)
        return rc;
    buf_init(&out, OUTPUT_MAX);
    if (cli->globals->json) {
        struct json_writer w;
        json_writer_init(&w, &out);
        json_begin_object(&w);
        json_field_cstr(&w, "id", op.id);
        json_field_cstr(&w, "state", redrive_state_name(op.state));
        json_end_object(&w);
    } else {
        buf_puts(&out, op.id);
    }
    buf_putc(&out, '\n');
    return cli_print(cli, &out, err);
}

const struct command cmd_cron_list = {
    .name = "list",
    .summary = "show the periodic tasks",
    .description = "Those of the configuration and those that were stored with `redrive cron set` "
                   "or over HTTP, each with the last tick that any process has made, as the store "
                   "remembers it, "
                   "and the next one, both on the clocks of its time zone.",
    .options = OPTIONS,
    .options_size = sizeof(struct cron_entries_options),
    .examples =
        (const struct example[]){
            {"redrive cron list", "what runs when"},
            {"redrive cron list --json", "the same for programs"},
            {0},
        },
    .run = run_list,
};

const struct command cmd_cron_run = {
    .name = "run",
    .summary = "submit the job of a periodic task now",
    .arguments = "NAME",
    .description = "A tick by hand: prints the id of the new job, and leaves the cron entry as it "
                   "is. The entry's rule of overlap holds: where it allows no further job, none is "
                   "made, and the exit code is 1.",
    .options = OPTIONS,
    .options_size = sizeof(struct cron_entries_options),
    .examples =
        (const struct example[]){
            {"redrive cron run fetch-joke", "do not wait for the next tick"},
            {0},
        },
    .run = run_by_hand,
};

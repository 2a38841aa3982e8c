/* cmd_cron_list.c - `redrive cron list` and `cron run`: the timetable of the configuration. */
#include "cli/commands.h"

#include "base/clock.h"
#include "base/err.h"
#include "cli/listing.h"
#include "cli/session.h"
#include "cli/table.h"
#include "cli/when.h"
#include "engine/cron.h"
#include "store/job_json.h"

#define OUTPUT_MAX (4u * 1024 * 1024)

static const char *const OVERLAPS[] = {
    [CONFIG_OVERLAP_ALLOW] = "allow",
    [CONFIG_OVERLAP_SKIP] = "skip",
    [CONFIG_OVERLAP_QUEUE_ONE] = "queue_one",
};

/* An entry with what the store and the clock say about it. */
struct entry {
    const struct config_cron *cron;
    int64_t last_ms; /* 0: it has not ticked yet */
    int64_t next_ms; /* 0: never again */
};

/* The row of an entry that has not ticked has the time when it was first seen, which is no time of
 * its schedule. */
static int64_t last_tick(const struct config_cron *cron, const struct shared_page *rows)
{
    int64_t last_ms, at_ms;
    for (size_t i = 0; i < rows->n; i++)
        if (str_is(rows->rows[i].key, cron->name) && cron_row_last(rows->rows[i].value, &last_ms) &&
            cron_next(&cron->cron, cron->tz, last_ms - 1, &at_ms) == 0 && at_ms == last_ms)
            return last_ms;
    return 0;
}

static struct entry look_up(const struct config_cron *cron, const struct shared_page *rows)
{
    struct entry entry = {.cron = cron, .last_ms = last_tick(cron, rows)};
    if (cron_next(&cron->cron, cron->tz, clock_wall_ms(), &entry.next_ms) < 0)
        entry.next_ms = 0;
    return entry;
}

static void put_json(const struct config *config, const struct shared_page *rows, struct buf *out)
{
    struct json_writer w;
    listing_begin(&w, out);
    for (size_t i = 0; i < config->n_cron; i++) {
        struct entry e = look_up(&config->cron[i], rows);
        json_begin_object(&w);
        json_field_cstr(&w, "name", e.cron->name);
        json_field_cstr(&w, "task", e.cron->task);
        json_field_cstr(&w, "schedule", e.cron->schedule);
        json_field_cstr(&w, "timezone", e.cron->timezone);
        json_field_cstr(&w, "overlap", OVERLAPS[e.cron->overlap]);
        job_write_time(&w, "last_tick", e.last_ms);
        job_write_time(&w, "next_tick", e.next_ms);
        json_end_object(&w);
    }
    listing_end(&w, NULL);
}

static void put_table(const struct config *config, const struct shared_page *rows,
                      const struct term *term, struct buf *out)
{
    static const struct table_column COLUMNS[] = {
        {"NAME", ALIGN_LEFT},      {"TASK", ALIGN_LEFT},    {"SCHEDULE", ALIGN_LEFT},
        {"TIME ZONE", ALIGN_LEFT}, {"OVERLAP", ALIGN_LEFT}, {"LAST TICK", ALIGN_LEFT},
        {"NEXT TICK", ALIGN_LEFT},
    };
    struct table t;
    char text[WHEN_TEXT_MAX];
    table_init(&t, COLUMNS, sizeof COLUMNS / sizeof COLUMNS[0]);
    for (size_t i = 0; i < config->n_cron; i++) {
        struct entry e = look_up(&config->cron[i], rows);
        table_add(&t, e.cron->name);
        table_add(&t, e.cron->task);
        table_add(&t, e.cron->schedule);
        table_add(&t, e.cron->timezone);
        table_add(&t, OVERLAPS[e.cron->overlap]);
        table_add(&t, e.last_ms ? when_format(e.cron->tz, e.last_ms, text) : "-");
        table_add(&t, e.next_ms ? when_format(e.cron->tz, e.next_ms, text) : "never");
    }
    table_render(&t, term->width, term->color, out);
    table_release(&t);
}

static int run_list(struct cli *cli, struct redrive_err *err)
{
    struct session session;
    struct shared_page rows = {0};
    struct buf out;
    buf_init(&out, OUTPUT_MAX);
    int rc = session_open(cli, &session, err);
    if (rc == 0)
        rc = store_ops(session.store)
                 ->shared_list(session.store, SHARED_CRON, STR(ENGINE_TENANT_DEFAULT), &rows, err);
    if (rc == 0 && cli->globals->json)
        put_json(session.config, &rows, &out);
    else if (rc == 0)
        put_table(session.config, &rows, &cli->out, &out);
    if (rc == 0)
        rc = cli_print(cli, &out, err);
    buf_release(&out);
    shared_page_release(&rows);
    session_close(&session);
    return rc;
}

static void add_hint(const struct config *config, const char *name, struct redrive_err *err)
{
    struct words names = WORDS_INIT;
    for (size_t i = 0; i < config->n_cron; i++)
        words_add(&names, "", config->cron[i].name);
    const char *nearest = words_nearest(&names, str_of(name));
    if (nearest)
        err_hint(err, "did you mean '%s'?", nearest);
    else
        err_hint(err, "`redrive cron list` names them");
    words_release(&names);
}

static int run_by_hand(struct cli *cli, struct redrive_err *err)
{
    struct session session;
    struct cron_op op;
    struct buf out;
    cron_op_init(&op, cli->invocation.args[0]);
    int rc = session_open(cli, &session, err);
    if (rc == 0) {
        rc = engine_apply_one(session.engine, &op.op, err);
        if (rc == REDRIVE_E_NOT_FOUND)
            add_hint(session.config, op.name, err);
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
    .summary = "show the periodic tasks of the configuration",
    .description = "Each with the last tick that any process has made, as the store remembers it, "
                   "and the next one, both on the clocks of its time zone.",
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
    .description = "A tick by hand: prints the id of the new job, and leaves the timetable as it "
                   "is. The entry's rule of overlap holds: where it allows no further job, none is "
                   "made, and the exit code is 1.",
    .examples =
        (const struct example[]){
            {"redrive cron run fetch-joke", "do not wait for the next tick"},
            {0},
        },
    .run = run_by_hand,
};

/* queues.c - `redrive queues`: how full they are, and which are paused. */
#include "cli/commands/commands.h"

#include <inttypes.h>

#include "base/err.h"
#include "cli/output/figures.h"
#include "cli/shared/remote.h"
#include "cli/shared/answer.h"
#include "engine/op.h"

struct queue_options {
    const char *tenant;
};

static const struct field LIST_OPTIONS[] = {
    OPTION("tenant", 0, "TENANT", "only the queues of this tenant",
           INTO_STRING(struct queue_options, tenant)),
    {0},
};

static const struct field PAUSE_OPTIONS[] = {
    OPTION("tenant", 0, "TENANT", "whose queue it is", INTO_STRING(struct queue_options, tenant),
           .default_text = ENGINE_TENANT_DEFAULT),
    {0},
};

static int read_queues(const struct cli *cli, const struct session *session, struct answer *ret,
                       struct redrive_err *err)
{
    const struct queue_options *options = invocation_options(&cli->invocation);
    return answer_read(session, &API_QUEUES, str_of(options->tenant), ret, err);
}

/* ---- list ------------------------------------------------------------------------------------ */

/* Where each state is in the table. */
static const struct {
    enum redrive_state state;
    const char *title;
} STATES[] = {
    {REDRIVE_STATE_QUEUED, "QUEUED"},       {REDRIVE_STATE_RUNNING, "RUNNING"},
    {REDRIVE_STATE_SCHEDULED, "SCHEDULED"}, {REDRIVE_STATE_RETRYING, "RETRYING"},
    {REDRIVE_STATE_PARKED, "PARKED"},       {REDRIVE_STATE_COMPLETED, "COMPLETED"},
    {REDRIVE_STATE_FAILED, "FAILED"},       {REDRIVE_STATE_DEAD_LETTER, "DEAD"},
    {REDRIVE_STATE_CANCELLED, "CANCELLED"}, {REDRIVE_STATE_WAITING, "WAITING"},
};
#define N_STATES (sizeof STATES / sizeof STATES[0])
_Static_assert(N_STATES == REDRIVE_STATE_COUNT, "every state has a column");

struct queue_list {
    unsigned shown; /* which states have a column, by their place in the table */
    int64_t now_ms;
};

/* The states that jobs are in, and those that are always shown: a table has to fit. */
static unsigned states_to_show(const struct answer *queues)
{
    unsigned shown = 1u << 0 | 1u << 1; /* queued and running */
    for (size_t i = 0; i < queues->n; i++) {
        RELEASED_BY(arena_release) struct arena arena = {0};
        const struct object queue = answer_item(queues, i, &arena);
        for (size_t k = 0; k < N_STATES; k++)
            if (object_int(&queue, redrive_state_name(STATES[k].state)) > 0)
                shown |= 1u << k;
    }
    return shown;
}

static void add_queue(struct table *t, const struct object *queue, const void *ctx)
{
    const struct queue_list *list = ctx;
    const int64_t oldest_ms = object_time(queue, "oldest_ready");
    const int64_t due_ms = object_time(queue, "next_due");
    char text[WHEN_TEXT_MAX];
    table_add_str(t, object_text(queue, "queue"));
    table_add_str(t, object_text(queue, "tenant"));
    if (object_bool(queue, "paused"))
        table_add_styled(t, STYLE_YELLOW, "paused");
    else
        table_add(t, "open");
    for (size_t k = 0; k < N_STATES; k++)
        if (list->shown & 1u << k)
            table_addf(t, "%" PRId64, object_int(queue, redrive_state_name(STATES[k].state)));
    const int64_t age_ms = list->now_ms - oldest_ms;
    table_add(t, oldest_ms ? when_span(age_ms > 0 ? age_ms : 0, text) : "-");
    if (due_ms == 0)
        table_add(t, "-");
    else if (due_ms <= list->now_ms)
        table_add(t, "now");
    else
        table_addf(t, "in %s", when_span(due_ms - list->now_ms, text));
}

static int print_queues(struct cli *cli, const struct session *session, const struct answer *queues,
                        struct redrive_err *err)
{
    const struct queue_list list = {states_to_show(queues), session_now_ms(session)};
    char room[256]; /* more than all titles together */
    struct buf columns;
    buf_init_fixed(&columns, room, sizeof room);
    buf_puts(&columns, "QUEUE|TENANT|STATE");
    for (size_t i = 0; i < N_STATES; i++)
        if (list.shown & 1u << i)
            buf_printf(&columns, "|>%s", STATES[i].title);
    buf_puts(&columns, "|>OLDEST READY|>NEXT DUE");
    const struct answer_table table = {
        .columns = buf_cstr(&columns),
        .row = add_queue,
        .ctx = &list,
    };
    return answer_print_list(cli, queues, &table, err);
}

static int run_list(struct cli *cli, struct session *session, struct redrive_err *err)
{
    RELEASED_BY(answer_release) struct answer queues = {0};
    int rc = read_queues(cli, session, &queues, err);
    return rc == 0 ? print_queues(cli, session, &queues, err) : rc;
}

/* ---- pause, resume --------------------------------------------------------------------------- */

/* A pause of a queue without jobs is no error, but may be a misspelt name. */
static void note_unused(struct cli *cli, const struct answer *queues, const char *name)
{
    struct words names = WORDS_INIT;
    struct redrive_err note;
    answer_words(queues, "queue", &names);
    err_set(&note, REDRIVE_E_NOT_FOUND, "no job is or was in a queue '%s'", name);
    words_hint(&names, name, "", &note);
    cli_warn(cli, &note);
}

/* What has become of a queue, of which `queues` has what it was before. */
static int say(struct cli *cli, const struct answer *queues, const char *name, bool pause,
               struct redrive_err *err)
{
    RELEASED_BY(arena_release) struct arena arena = {0};
    struct object before = {0};
    size_t i;
    int rc = answer_find(queues, "queue", str_of(name), (struct str){0}, &i, err);
    if (rc < 0)
        return rc;
    if (rc == 0)
        note_unused(cli, queues, name);
    else
        before = answer_item(queues, i, &arena);
    if (object_bool(&before, "paused") == pause)
        cli_say(cli, "queue %s %s\n", name, pause ? "was paused already" : "was not paused");
    else if (!pause)
        cli_say(cli, "queue %s goes on\n", name);
    else
        cli_say(cli, "queue %s is paused; jobs that run now go on to their end\n", name);
    return arena.failed ? err_nomem(err) : 0;
}

static int check_name(struct cli *cli, struct redrive_err *err)
{
    return *cli->invocation.args[0] ? 0 : err_set(err, REDRIVE_E_USAGE, "a queue has a name");
}

/* Pauses the queue, or lets it go on, as the variant says. */
static int set_pause(struct cli *cli, struct session *session, struct redrive_err *err)
{
    const char *name = cli->invocation.args[0];
    const bool pause = cli_variant(cli);
    const struct queue_options *options = invocation_options(&cli->invocation);
    const struct ask ask = {.operation = pause ? &API_PAUSE : &API_RESUME,
                            .tenant = str_of(options->tenant),
                            .name = str_of(name)};
    RELEASED_BY(answer_release) struct answer queues = {0}, answer = {0};
    int rc = read_queues(cli, session, &queues, err);
    if (rc == 0)
        rc = answer_change(session, &ask, &answer, err);
    if (rc == 0)
        rc = say(cli, &queues, name, pause, err);
    return rc == 0 ? answer_print(cli, &answer, err) : rc;
}

/* ---- The tables ------------------------------------------------------------------------------ */

static const struct command CMD_LIST = {
    .name = "list",
    .summary = "show every queue with its jobs by state",
    .description = "OLDEST READY is the age of the job that has waited longest to be started, NEXT "
                   "DUE when the next time lock of a scheduled or retrying job ends.",
    OPTIONS_INTO(LIST_OPTIONS, struct queue_options),
    .examples = EXAMPLES({"redrive queues list", "all of them"},
                         {"redrive queues list --json", "the same for programs"}),
    .run_on_store = run_list,
};

static const struct command CMD_PAUSE = {
    .name = "pause",
    .summary = "let no job of a queue start",
    .arguments = "QUEUE",
    .description = "Jobs may still be submitted, and those that run go on to their end. Waiting in "
                   "a paused queue uses no attempt. A queue that has never had a job can be paused "
                   "too; the program says so.",
    OPTIONS_INTO(PAUSE_OPTIONS, struct queue_options),
    .examples = EXAMPLES({"redrive queues pause media", "hold it"}),
    .check = check_name,
    .run_on_store = set_pause,
    .variant = true,
};

static const struct command CMD_RESUME = {
    .name = "resume",
    .summary = "let the jobs of a paused queue start again",
    .arguments = "QUEUE",
    OPTIONS_INTO(PAUSE_OPTIONS, struct queue_options),
    .examples = EXAMPLES({"redrive queues resume media", "let it go on"}),
    .check = check_name,
    .run_on_store = set_pause,
};

const struct command cmd_queues = {
    .name = "queues",
    .summary = "look at queues, pause and resume them",
    .examples = EXAMPLES({"redrive queues list", "how many jobs wait, and where"},
                         {"redrive queues pause media", "hold one of them"}),
    .commands = (const struct command *const[]){&CMD_LIST, &CMD_PAUSE, &CMD_RESUME, NULL},
};

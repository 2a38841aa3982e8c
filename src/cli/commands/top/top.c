/* top.c - `redrive top`: what happens in a store, as it happens. */
#include "cli/commands/commands.h"

#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "base/err.h"
#include "base/time/clock.h"
#include "cli/commands/top/view.h"
#include "cli/frame/cli.h"
#include "cli/output/screen.h"
#include "cli/remote/remote.h"
#include "cli/shared/session.h"

#define FRAME_MAX (1024u * 1024)

/* Looking may take this share of the time: a store on which it is slow is looked at less often. */
#define LOOK_SHARE 20

struct top_options {
    int64_t interval_ms;
    bool once;
    const char *tenant;
};

static const struct option OPTIONS[] = {
    {.name = "interval",
     .letter = 'i',
     INTO_DURATION(struct top_options, interval_ms),
     .min = 100,
     .max = 3600000,
     .placeholder = "SPAN",
     .default_text = "1s",
     .help = "how often to look"},
    {.name = "once",
     INTO_FLAG(struct top_options, once),
     .help = "print one frame and end; where workers are, after --interval"},
    {.name = "tenant",
     INTO_STRING(struct top_options, tenant),
     .placeholder = "NAME",
     .help = "only what belongs to this tenant"},
    {0},
};

struct top {
    struct cli *cli;
    const struct top_options *options;
    struct session *session;
    struct top_look *look;
    int64_t parked_ms; /* when parked jobs may be counted again, monotonic */
    struct redrive_err problem;
};

/* Looks, and says when to look next. */
static int64_t look(struct top *top)
{
    int64_t began_ms = clock_monotonic_ms();
    bool count = began_ms >= top->parked_ms;
    top->problem = (struct redrive_err){0};
    if (top->session->remote)
        (void)top_look_at_server(top->look, top->session->remote, &top->problem);
    else
        (void)top_look(top->look, top->session->store, str_of(top->options->tenant),
                       &top->session->config->health, count, engine_now_ms(top->session->engine),
                       &top->problem);
    int64_t ended_ms = clock_monotonic_ms();
    int64_t rest_ms = (ended_ms - began_ms) * LOOK_SHARE;
    if (count)
        top->parked_ms = ended_ms + rest_ms;
    else if (rest_ms > top->options->interval_ms)
        return ended_ms + rest_ms;
    return began_ms + top->options->interval_ms;
}

static void draw(const struct top *top, unsigned width, struct buf *out)
{
    buf_reset(out);
    const struct session *session = top->session;
    top_draw(
        top->look, session->remote ? remote_url(session->remote) : session->config->store_shown,
        top->problem.message[0] ? top->problem.message : NULL, width, top->cli->out.color, out);
}

/* Rates are differences between two looks. Where nothing works there is nothing to wait for. */
static void look_twice(struct top *top)
{
    const int64_t next_ms = look(top);
    if (top->problem.message[0] || top->look->workers.n == 0)
        return;
    int64_t left_ms = next_ms - clock_monotonic_ms();
    struct timespec left = {.tv_sec = left_ms / 1000, .tv_nsec = left_ms % 1000 * 1000000};
    if (left_ms > 0)
        (void)nanosleep(&left, NULL);
    (void)look(top);
}

static int print_once(struct top *top, struct redrive_err *err)
{
    struct buf out;
    look_twice(top);
    if (top->problem.message[0]) {
        if (err)
            *err = top->problem;
        return top->problem.code;
    }
    buf_init(&out, FRAME_MAX);
    draw(top, top->cli->out.width, &out);
    return cli_print(top->cli, &out, err);
}

static bool quits(enum screen_event event, char key)
{
    return event == SCREEN_END || (event == SCREEN_KEY && (key == 'q' || key == 'Q'));
}

static int run_live(struct top *top, struct redrive_err *err)
{
    struct screen screen;
    struct buf frame;
    int rc = screen_open(&screen, STDIN_FILENO, fileno(top->cli->out.file), err);
    if (rc < 0)
        return rc;
    buf_init(&frame, FRAME_MAX);
    int64_t next_ms = look(top);
    for (;;) {
        char key = 0;
        draw(top, screen.width, &frame);
        screen_show(&screen, &frame);
        int64_t left_ms = next_ms - clock_monotonic_ms();
        enum screen_event event = screen_wait(&screen, left_ms > 0 ? left_ms : 0, &key);
        if (quits(event, key))
            break;
        if (event == SCREEN_TIME)
            next_ms = look(top);
    }
    buf_release(&frame);
    screen_close(&screen);
    return 0;
}

/* A program that asked for JSON gets an error rather than a drawing. */
static int refuse_json(struct cli *cli, struct redrive_err *err)
{
    if (!cli->globals->json)
        return 0;
    (void)err_set(err, REDRIVE_E_USAGE, "top draws for people and has no --json");
    err_hint(err, "`redrive stats --json` has the numbers");
    return REDRIVE_E_USAGE;
}

static int run_top(struct cli *cli, struct session *session, struct redrive_err *err)
{
    struct top top = {
        .cli = cli, .options = invocation_options(&cli->invocation), .session = session};
    int rc = session->remote ? remote_check_tenant(session->remote, top.options->tenant, err) : 0;
    if (rc < 0)
        return rc;
    top.look = calloc(1, sizeof *top.look);
    if (!top.look)
        return err_nomem(err);
    rc = top.options->once || !cli->out.is_tty ? print_once(&top, err) : run_live(&top, err);
    top_look_release(top.look);
    free(top.look);
    return rc;
}

const struct command cmd_top = {
    .name = "top",
    .summary = "watch a store live",
    .description = "Shows queues by state, throughput of the last minute, breakers that are not "
                   "closed, workers and the latest dead letters, and renews them until `q` is "
                   "pressed. It only reads. Without a terminal it prints one frame, with the rates "
                   "of one --interval. For programs `redrive stats --json` has the numbers.",
    .options = OPTIONS,
    .options_size = sizeof(struct top_options),
    .examples =
        (const struct example[]){
            {"redrive top", "watch the store of the configuration"},
            {"redrive top --interval 5s --tenant acme", "less often, one tenant"},
            {"redrive top --once", "one frame, for a script or a mail"},
            {0},
        },
    .check = refuse_json,
    .run_on_store = run_top,
    .over_http = true,
};

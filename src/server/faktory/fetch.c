/* fetch.c - FETCH: a job now, or when there is one, or nothing after two seconds.
 *
 * Fetches that wait for the same queues are in a line (server/claim_lines.h), in whichever order
 * they name them.
 */
#include "server/faktory/private.h"

#include <stdlib.h>

#include "engine/verbs/claim.h"
#include "engine/verbs/settle.h"
#include "server/faktory/format/job.h"
#include "server/faktory/format/request.h"

#define QUEUES_MAX 100
#define RUN_MAX    64
/* How many fetches of a line ask at one time. */
#define LINE_WIDTH 64
/* How often it asks again at once because there was more to look at than one claim does. */
#define TRIES_MAX 8

struct fetch_call {
    struct faktory_call call;
    struct str args; /* the queues, as written */
    struct str queues[QUEUES_MAX];
    size_t n_queues;
    size_t n_left; /* commands that have no answer yet */
    int64_t deadline_ms;

    struct claim_op claim;
    unsigned tries;
    struct settle_op give_back;
    bool is_giving_back;

    struct claim_turn turn; /* while it waits */
    bool is_expired;
    struct list wait_link; /* of the server's fetches */
};

/* ---- Asking ---------------------------------------------------------------------------------- */

static struct fetch_call *fetch_of(struct faktory_call *call)
{
    return (struct fetch_call *)(void *)call;
}

static bool is_muted(const struct fetch_call *f)
{
    return faktory_state_of(f->call.conn) != FAKTORY_RUNNING;
}

static void ask(struct fetch_call *f)
{
    const struct claim_filter filter = {
        .tenant = f->call.conn->tenant,
        .queues = f->queues,
        .n_queues = f->n_queues,
        .limit = f->n_left,
    };
    claim_op_release(&f->claim); /* of the time before */
    claim_op_init(&f->claim, &filter, faktory_worker_name(f->call.conn), FAKTORY_RESERVE_MS);
    f->claim.lease_of = faktory_job_lease_ms;
    faktory_call_send(&f->call, &f->claim.op);
}

/* For its line; false: it asks already, or its worker takes no more jobs. */
static bool ask_in_turn(struct claim_turn *turn, void *ctx)
{
    struct fetch_call *f = LIST_ENTRY(turn, struct fetch_call, turn);
    (void)ctx;
    if (f->call.is_under_way || is_muted(f))
        return false;
    f->tries = 0;
    ask(f);
    return true;
}

void faktory_fetch_init(struct faktory_server *server, uint64_t seed)
{
    list_init(&server->fetches);
    claim_lines_init(&server->lines, LINE_WIDTH, ask_in_turn, seed);
}

void faktory_fetch_wake(struct faktory_server *server)
{
    claim_lines_ready(&server->lines, NULL);
}

/* ---- Waiting --------------------------------------------------------------------------------- */

/* Clients shuffle the names of their queues: the key does not depend on their order. */
static bool join_line(struct fetch_call *f)
{
    struct faktory_server *server = f->call.conn->server;
    struct str queues[QUEUES_MAX];
    memcpy(queues, f->queues, f->n_queues * sizeof queues[0]);
    const struct str key =
        claim_lines_key(&server->text, f->call.conn->tenant, queues, f->n_queues);
    return !buf_failed(&server->text) && claim_lines_join(&server->lines, key, &f->turn);
}

static void leave_line(struct fetch_call *f)
{
    struct claim_lines *lines = &f->call.conn->server->lines;
    list_remove(&f->wait_link);
    claim_line_ask(lines, claim_lines_leave(lines, &f->turn), NULL);
}

static int64_t now_ms(const struct faktory_server *server)
{
    return (int64_t)uv_now(server->options.loop);
}

static void on_timer(uv_timer_t *timer);

static void start_timer(struct faktory_server *server)
{
    if (list_empty(&server->fetches) || uv_is_active((const uv_handle_t *)&server->fetch_timer))
        return;
    const struct fetch_call *first = LIST_ENTRY(server->fetches.next, struct fetch_call, wait_link);
    int64_t in_ms = first->deadline_ms - now_ms(server);
    (void)uv_timer_start(&server->fetch_timer, on_timer, in_ms > 0 ? (uint64_t)in_ms : 0, 0);
}

/* All of them wait for the same time, so that the last to come is nearly always the last to go. */
static void insert_by_deadline(struct faktory_server *server, struct fetch_call *f)
{
    struct list *where = &server->fetches;
    while (where->prev != &server->fetches &&
           LIST_ENTRY(where->prev, struct fetch_call, wait_link)->deadline_ms > f->deadline_ms)
        where = where->prev;
    list_insert(where, &f->wait_link);
}

static void finish_empty(struct fetch_call *f)
{
    for (; f->n_left > 0; f->n_left--)
        faktory_put_nil(&f->call.reply);
    leave_line(f);
    faktory_call_finish(&f->call);
}

static void wait_for_jobs(struct fetch_call *f)
{
    struct faktory_server *server = f->call.conn->server;
    if (f->turn.line) {
        claim_line_ask(&server->lines, f->turn.line, NULL);
        return;
    }
    if (!join_line(f)) {
        finish_empty(f);
        return;
    }
    insert_by_deadline(server, f);
    start_timer(server);
}

static void on_timer(uv_timer_t *timer)
{
    struct faktory_server *server = timer->data;
    LIST_FOREACH (&server->fetches, link) {
        struct fetch_call *f = LIST_ENTRY(link, struct fetch_call, wait_link);
        if (f->deadline_ms > now_ms(server))
            break;
        f->is_expired = true;
        list_remove(&f->wait_link);
        if (!f->call.is_under_way)
            finish_empty(f);
    }
    start_timer(server);
}

/* ---- Answers --------------------------------------------------------------------------------- */

static void hand_out(struct fetch_call *f, const struct job *job)
{
    struct faktory_server *server = f->call.conn->server;
    buf_reset(&server->text);
    if (faktory_job_write(job, &server->text) < 0)
        faktory_put_error(&f->call.reply, "job %.*s cannot be written",
                          FAKTORY_QUOTE(job->spec.id));
    else
        faktory_put_bulk(&f->call.reply, buf_str(&server->text));
    f->n_left--;
    faktory_held_add(server, job);
}

/* The connection has gone: no worker will run them. */
static void give_back(struct fetch_call *f)
{
    const size_t n = f->claim.n;
    struct settlement *items = arena_array(&f->call.arena, n, sizeof *items);
    leave_line(f);
    if (!items) {
        finish_empty(f);
        return;
    }
    for (size_t i = 0; i < n; i++)
        items[i] = (struct settlement){
            .seq = f->claim.jobs[i].status.seq,
            .token = f->claim.jobs[i].status.token,
            .outcome = {.ending = ENDING_RELEASED},
        };
    f->is_giving_back = true;
    settle_op_init(&f->give_back, items, n);
    faktory_call_send(&f->call, &f->give_back.op);
}

static void fail_all(struct fetch_call *f)
{
    for (; f->n_left > 0; f->n_left--)
        faktory_put_failure(f->call.conn, &f->call.reply, &f->claim.op.err);
    leave_line(f);
    faktory_call_finish(&f->call);
}

/* Some or none have come, and some are still wanted. */
static void go_on(struct fetch_call *f, bool found)
{
    const struct faktory_conn *conn = f->call.conn;
    if (f->is_expired || conn->is_ending) {
        finish_empty(f);
        return;
    }
    if (!found && f->claim.more && f->tries++ < TRIES_MAX && !is_muted(f)) {
        ask(f);
        return;
    }
    wait_for_jobs(f);
}

static void on_answered(struct faktory_call *call)
{
    struct fetch_call *f = fetch_of(call);
    const size_t n = f->claim.n;
    if (f->is_giving_back) {
        finish_empty(f);
        return;
    }
    claim_turn_answered(&call->conn->server->lines, &f->turn, n > 0);
    if (f->claim.op.code < 0) {
        fail_all(f);
        return;
    }
    const bool may_have = call->conn->scopes & CONFIG_SCOPE_WORK; /* no longer, after a reload */
    if ((call->conn->is_closing || call->conn->has_left || !may_have) && n > 0) {
        give_back(f);
        return;
    }
    for (size_t i = 0; i < n; i++)
        hand_out(f, &f->claim.jobs[i]);
    if (f->n_left > 0) {
        go_on(f, n > 0);
        return;
    }
    leave_line(f);
    faktory_call_finish(call);
}

static void on_seal(struct faktory_call *call)
{
    struct fetch_call *f = fetch_of(call);
    if (is_muted(f))
        wait_for_jobs(f);
    else
        ask(f);
}

static void on_cancel(struct faktory_call *call)
{
    finish_empty(fetch_of(call));
}

static void on_release(struct faktory_call *call)
{
    claim_op_release(&fetch_of(call)->claim);
}

static const struct faktory_call_kind FETCH = {
    .seal = on_seal,
    .answered = on_answered,
    .cancel = on_cancel,
    .release = on_release,
};

/* ---- The command ----------------------------------------------------------------------------- */

static const char *read_queues(struct fetch_call *f, struct str args)
{
    struct str word;
    while (faktory_word_next(&args, &word)) {
        if (name_check_queue(word, NULL) < 0)
            return "queue names must match [a-zA-Z0-9._-]+";
        if (f->n_queues == QUEUES_MAX)
            return "too many queues";
        f->queues[f->n_queues++] = word;
    }
    return f->n_queues > 0 ? NULL : "must call fetch with at least one queue";
}

void faktory_fetch(struct faktory_conn *conn, struct str args)
{
    struct faktory_call *open = faktory_conn_open_call(conn, &FETCH);
    if (open && str_eq(fetch_of(open)->args, args) && fetch_of(open)->n_left < RUN_MAX) {
        fetch_of(open)->n_left++;
        faktory_call_add_load(open, FAKTORY_LOAD_FETCH);
        return;
    }
    faktory_conn_seal(conn);
    struct fetch_call *f = faktory_call_new(conn, &FETCH, sizeof *f);
    if (!f)
        return;
    list_init(&f->wait_link);
    f->args = args;
    f->n_left = 1;
    f->deadline_ms = now_ms(conn->server) + conn->server->options.fetch_wait_ms;
    faktory_call_add_load(&f->call, FAKTORY_LOAD_FETCH);
    const char *wrong = read_queues(f, args);
    if (!wrong)
        return;
    conn->open = NULL;
    faktory_put_error(&f->call.reply, "%s", wrong);
    faktory_call_finish(&f->call);
}

/* Whole sessions of Faktory clients (session/session.h): the server survives them and still serves,
 * every answer is RESP, each command has one answer in its place, a job whose PUSH was answered +OK
 * is in the store, a job that a FETCH gave was pushed, a job that runs was given to a client, the
 * store is sound, and connections and the server end with nothing left behind. */
#include "session/session.h"

#include <uv.h>

#include "base/json/json.h"
#include "base/text/encode.h"
#include "server/faktory/format/job.h"
#include "server/faktory/private.h"
#include "session/uv_time.h"

#define LINE_MAX_BYTES 2048
#define MAX_TURNS      100000
#define HOUR_MS        (INT64_C(3600) * 1000)
#define FETCH_WAIT_MS  2000
#define DRAIN_GRACE_MS 1000
#define NO_TIME_OUT_MS 400 /* less than every time-out of the server */

static uv_loop_t loop;
static struct faktory_server *server;
static struct session session;
static bool is_stopped;

/* ---- The server ------------------------------------------------------------------------------ */

/* Nothing is left to be looked at before the loop waits again. */
static bool is_quiet(void)
{
    return is_stopped || (list_empty(&server->touched) && list_empty(&server->mailbox.outgoing));
}

/* What one turn of the loop begins, such as an answer of the committer or the end of a handle, the
 * next one goes on with. */
static void turn(bool commits)
{
    int n_quiet = 0;
    for (int i = 0; n_quiet < 2; i++) {
        FUZZ_CHECK(i < MAX_TURNS);
        const bool fired = uv_time_fire();
        (void)uv_run(&loop, UV_RUN_NOWAIT);
        const bool has_read = session_read(&session);
        const bool committed = commits && session_commit();
        n_quiet = fired || has_read || committed || !is_quiet() ? 0 : n_quiet + 1;
    }
}

/* Twice half of it: what is late by then begins the second half. */
static void pass(int64_t ms)
{
    session_move_clock(ms / 2);
    turn(true);
    session_move_clock(ms - ms / 2);
    turn(true);
}

static void on_stopped(void *ctx)
{
    (void)ctx;
    is_stopped = true;
}

static void stop(void)
{
    faktory_server_stop(server, on_stopped, NULL);
}

static void on_drained(void *ctx)
{
    (void)ctx;
}

static void drain(void)
{
    faktory_server_drain(server, DRAIN_GRACE_MS, on_drained, NULL);
}

static void on_ready(void)
{
    if (!is_stopped)
        faktory_server_wake(server);
}

static void write_nowhere(struct str line, void *ctx)
{
    (void)ctx;
    FUZZ_CHECK(line.len > 0 && line.ptr[line.len - 1] == '\n');
}

static void start(void)
{
    static const struct log log = {.level = LOG_LEVEL_DEBUG, .sink = write_nowhere};
    static const struct config *config;
    if (!config)
        config = session_config(
            "tasks: {mail: {retry: {max_retries: 1}}, report: {limits: {concurrency: 1}}}\n");
    const struct faktory_options options = {
        .loop = &loop,
        .committer = session_committer(),
        .config = config,
        .address = "127.0.0.1:0",
        .log = &log,
        .max_line_bytes = LINE_MAX_BYTES,
        .max_held_bytes = (size_t)32 * 1024,
    };
    is_stopped = false;
    uv_time_reset();
    session_open(config, on_ready);
    FUZZ_CHECK(uv_loop_init(&loop) == 0);
    FUZZ_CHECK(faktory_server_start(&options, &server, NULL) == 0);
}

static void finish(void)
{
    if (!session.has_stopped)
        stop();
    turn(true);
    FUZZ_CHECK(is_stopped);
    FUZZ_CHECK(server->n_conns == 0 && server->n_under_way == 0 && server->held_bytes == 0);
    FUZZ_CHECK(list_empty(&server->worker_list) && list_empty(&server->fetches));
    faktory_server_free(server);
    FUZZ_CHECK(uv_loop_close(&loop) == 0);
}

/* ---- What was said and what was answered ----------------------------------------------------- */

struct reply {
    char kind;       /* `+`, `-`, `$`, or `0` for nil */
    struct str text; /* without its frame */
};

/* Takes the next reply off the front; false: what is there is only a part of one. */
static bool next_reply(struct str *rest, struct reply *ret)
{
    const char *end = memchr(rest->ptr, '\n', rest->len);
    if (!end)
        return false;
    struct str line = {rest->ptr + 1, (size_t)(end - rest->ptr) - 2};
    FUZZ_CHECK(end - rest->ptr >= 2 && end[-1] == '\r');
    *ret = (struct reply){rest->ptr[0], line};
    size_t used = line.len + 3;
    FUZZ_CHECK(memchr("+-$", ret->kind, 3) && utf8_valid(line) && !str_has_control(line));
    if (ret->kind == '-')
        FUZZ_CHECK(str_starts_with(line, STR("ERR ")) && line.len > 4);
    if (ret->kind == '$' && str_is(line, "-1")) {
        ret->kind = '0';
    } else if (ret->kind == '$') {
        char *digits_end;
        const size_t n = strtoul(line.ptr, &digits_end, 10);
        FUZZ_CHECK(str_is_digit(line.ptr[0]) && digits_end == end - 1);
        if (rest->len < used + n + 2)
            return false;
        ret->text = (struct str){rest->ptr + used, n};
        FUZZ_CHECK(memcmp(rest->ptr + used + n, "\r\n", 2) == 0);
        used += n + 2;
    }
    rest->ptr += used;
    rest->len -= used;
    return true;
}

/* The next line, without its end; false: there is no whole one. */
static bool next_line(struct str *rest, struct str *ret)
{
    const char *end = rest->len ? memchr(rest->ptr, '\n', rest->len) : NULL;
    if (!end)
        return false;
    *ret = (struct str){rest->ptr, (size_t)(end - rest->ptr)};
    rest->ptr += ret->len + 1;
    rest->len -= ret->len + 1;
    if (ret->len > 0 && ret->ptr[ret->len - 1] == '\r')
        ret->len--;
    return true;
}

static bool is_verb(struct str line, const char *verb, struct str *ret_args)
{
    const size_t n = strlen(verb);
    if (line.len < n || memcmp(line.ptr, verb, n) != 0 || (line.len > n && line.ptr[n] != ' '))
        return false;
    *ret_args = line.len > n ? (struct str){line.ptr + n + 1, line.len - n - 1} : STR("");
    return true;
}

static struct arena arena;                   /* of one input */
static struct str pushed[SESSION_MAX_BYTES]; /* jids that clients have named */
static size_t n_pushed;
static struct str fetched[SESSION_MAX_BYTES];
static size_t n_fetched;
static bool may_remove; /* a client has asked for what takes jobs out of the store */

/* Calls for each job of a PUSH or PUSHB that can be read. */
static void each_job(struct str line, void (*each)(struct str jid))
{
    RELEASED_BY(json_reader_release) struct json_reader r;
    struct faktory_job job;
    struct str args, item;
    json_reader_init(&r, STR("[]"), NULL);
    if (is_verb(line, "PUSH", &args)) {
        if (faktory_job_read(args, &arena, &job, NULL) == 0)
            each(job.jid);
        return;
    }
    if (!is_verb(line, "PUSHB", &args))
        return;
    json_reader_init(&r, args, NULL);
    int rc = json_enter_array(&r);
    while (rc == 0 && (rc = json_next_item(&r)) > 0) {
        rc = json_skip(&r, &item);
        if (rc == 0 && faktory_job_read(item, &arena, &job, NULL) == 0)
            each(job.jid);
    }
}

static void note_pushed(struct str jid)
{
    FUZZ_CHECK(n_pushed < SESSION_MAX_BYTES);
    pushed[n_pushed++] = jid;
}

static void check_kept(struct str jid)
{
    FUZZ_CHECK(may_remove || session_has_job(jid));
}

static bool is_among(const struct str *jids, size_t n, struct str jid)
{
    size_t i = 0;
    while (i < n && !str_eq(jids[i], jid))
        i++;
    return i < n;
}

static bool was_fetched(struct str jid)
{
    return is_among(fetched, n_fetched, jid);
}

static void note_said(const struct client *client)
{
    struct str rest = buf_str(&client->said), line, args;
    while (next_line(&rest, &line)) {
        each_job(line, note_pushed);
        may_remove |= is_verb(line, "FLUSH", &args) || is_verb(line, "MUTATE", &args);
    }
}

static void check_answer(struct str line, const struct reply *reply)
{
    struct faktory_job job;
    struct str args;
    const bool is_push = is_verb(line, "PUSH", &args);
    const bool is_bulk = is_verb(line, "PUSHB", &args);
    if (is_push)
        FUZZ_CHECK(reply->kind == '-' || (reply->kind == '+' && str_is(reply->text, "OK")));
    if ((is_push && reply->kind == '+') || (is_bulk && str_is(reply->text, "{}")))
        each_job(line, check_kept);
    if (reply->kind == '$')
        FUZZ_CHECK(json_check(reply->text, NULL, NULL) == 0);
    if (is_verb(line, "FETCH", &args)) {
        FUZZ_CHECK(reply->kind != '+');
        if (reply->kind != '$')
            return;
        FUZZ_CHECK(faktory_job_read(reply->text, &arena, &job, NULL) == 0);
        FUZZ_CHECK(is_among(pushed, n_pushed, job.jid) && n_fetched < SESSION_MAX_BYTES);
        fetched[n_fetched++] = job.jid;
    }
}

/* How many of the commands after HELLO are answered, at most. */
static void check_client(const struct client *client)
{
    struct str said = buf_str(&client->said), got = buf_str(&client->got), line, args;
    struct reply reply;
    bool is_whole = true;
    if (got.len == 0)
        return; /* it came when the server had stopped, or was gone before it was greeted */
    FUZZ_CHECK(next_reply(&got, &reply) && reply.kind == '+' && str_is(reply.text, "HI {\"v\":2}"));
    if (got.len == 0 || !next_line(&said, &line)) {
        FUZZ_CHECK(got.len == 0);
        return;
    }
    FUZZ_CHECK(is_verb(line, "HELLO", &args) && next_reply(&got, &reply));
    const bool is_in = reply.kind == '+';
    bool goes_on = is_in;
    while (goes_on && next_line(&said, &line)) {
        goes_on = !is_verb(line, "END", &args) && line.len <= LINE_MAX_BYTES;
        if (!goes_on && line.len <= LINE_MAX_BYTES)
            break;
        is_whole = got.len > 0 && next_reply(&got, &reply);
        if (!is_whole)
            break;
        check_answer(line, &reply);
    }
    /* One that was cut off in the middle of a command is told so. */
    if (is_whole && got.len > 0)
        FUZZ_CHECK(next_reply(&got, &reply) && reply.kind == '-');
    FUZZ_CHECK(got.len == 0 || client->is_reset);
    if (!client->is_reset && !session.has_stopped && session.passed_ms < NO_TIME_OUT_MS)
        FUZZ_CHECK(is_whole);
}

/* No client has gone without reading, or was cut off for its silence. */
static bool is_all_read(void)
{
    bool is_reset = false;
    for (size_t i = 0; i < session.n_clients; i++)
        is_reset |= session.clients[i].is_reset;
    return !is_reset && session.passed_ms < NO_TIME_OUT_MS;
}

/* ---- One input ------------------------------------------------------------------------------- */

/* A connection with as many commands as it may have under way, some fifty FETCHes, is not read
 * from. That its client has left shows when these have waited for long enough, and so have those
 * that it has sent after them. */
#define ROUNDS_MAX 10
static bool is_over(void)
{
    size_t i = 0;
    while (i < session.n_clients && (session.clients[i].is_over || session.clients[i].is_reset))
        i++;
    return i == session.n_clients;
}

static void check_alive(void)
{
    static const struct str ASKS =
        STR("HELLO {\"v\":2}\r\n"
            "PUSH {\"jid\":\"still-alive\",\"jobtype\":\"x\",\"args\":[]}\r\n"
            "INFO\r\nEND\r\n");
    const struct client *client = session_ask(&session, ASKS);
    if (!client)
        return;
    FUZZ_CHECK(client->is_over &&
               str_starts_with(buf_str(&client->got), STR("+HI {\"v\":2}\r\n+OK\r\n+OK\r\n$")));
    FUZZ_CHECK(session_has_job(STR("still-alive")));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct session_server SERVER = {
        .turn = turn, .pass = pass, .stop = stop, .drain = drain};
    if (size > SESSION_MAX_BYTES)
        return 0;
    start();
    session_play(&session, &SERVER, data, size);
    session_leave(&session);
    for (int i = 0; i < ROUNDS_MAX && !is_over(); i++)
        pass(FETCH_WAIT_MS);
    FUZZ_CHECK(is_over());
    check_alive();
    arena_init(&arena);
    n_pushed = n_fetched = 0;
    may_remove = session.passed_ms > HOUR_MS;
    for (size_t i = 0; i < session.n_clients; i++)
        note_said(&session.clients[i]);
    for (size_t i = 0; i < session.n_clients; i++)
        check_client(&session.clients[i]);
    session_check_store(is_all_read() ? was_fetched : NULL);
    finish();
    arena_release(&arena);
    session_release(&session);
    session_close();
    return 0;
}

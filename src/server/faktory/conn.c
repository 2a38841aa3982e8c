/* conn.c - a connection: bytes in, commands in order, replies out. */
#include "server/faktory/private.h"

#include <stdlib.h>

#include "base/time/clock.h"
#include "server/faktory/format/request.h"

/* Of the first line. */
#define HELLO_MAX_BYTES ((size_t)16 * 1024)

/* ---- Bytes that are not a whole command yet -------------------------------------------------- */

/* All connections together may hold options.max_held_bytes; a few kilobytes of each are free. When
 * the budget is used up, the client with the longest unfinished command is disconnected: clients
 * that send short ones never notice.
 */

/* Of each connection, whatever the others hold. */
#define FREE_BYTES ((size_t)16 * 1024)

static struct faktory_block *block_new(struct faktory_server *server, size_t capacity)
{
    struct faktory_block *block = malloc(sizeof *block + capacity);
    if (!block)
        return NULL;
    *block = (struct faktory_block){.refs = 1, .capacity = capacity, .held = &server->held_bytes};
    server->held_bytes += capacity;
    return block;
}

/* Ends the connection with this error, and drops what it has sent of a command. Not while a line
 * is being looked at. */
static void faktory_input_refuse(struct faktory_conn *conn, const char *why)
{
    log_event(conn->server->options.log, LOG_LEVEL_WARNING, clock_wall_ms(), "faktory_cut_off",
              LOG_S("error", why));
    faktory_put_error(faktory_conn_reply(conn), "%s", why);
    faktory_conn_end(conn);
    faktory_block_unref(conn->in);
    conn->in = NULL;
    conn->start = conn->scanned = 0;
}

static size_t unfinished(const struct faktory_conn *conn)
{
    return conn->in && !conn->is_ending ? conn->in->len - conn->start : 0;
}

static struct faktory_conn *longest_unfinished(struct faktory_server *server)
{
    struct faktory_conn *longest = NULL;
    size_t most = FREE_BYTES;
    LIST_FOREACH (&server->conns, link) {
        struct faktory_conn *conn = LIST_ENTRY(link, struct faktory_conn, link);
        if (unfinished(conn) > most) {
            most = unfinished(conn);
            longest = conn;
        }
    }
    return longest;
}

/* Whether the connection, which will have `total` unfinished bytes, may have a block of this size;
 * other clients may be disconnected for it. */
static bool make_room(struct faktory_conn *conn, size_t capacity, size_t total)
{
    struct faktory_server *server = conn->server;
    while (capacity > FREE_BYTES &&
           server->held_bytes + capacity > server->options.max_held_bytes) {
        struct faktory_conn *victim = longest_unfinished(server);
        if (!victim || unfinished(victim) < total)
            victim = conn;
        faktory_input_refuse(victim, "too much is held of commands that are not finished");
        if (victim == conn)
            return false;
    }
    return true;
}

/* Space for as much again, but for no more than the longest line and what is read behind it. */
static size_t grown(const struct faktory_conn *conn, size_t total)
{
    const size_t most = conn->server->options.max_line_bytes + FAKTORY_READ_BYTES;
    return total > most / 2 && total <= most ? most : 2 * total;
}

/* Takes bytes that have come; ends a connection if the budget is used up. Calls borrow from the
 * block, so it never moves: when it is full what is left goes to another. */
static void faktory_input_append(struct faktory_conn *conn, const char *bytes, size_t n)
{
    struct faktory_block *in = conn->in;
    if (!in || in->capacity - in->len < n) {
        const size_t left = in ? in->len - conn->start : 0;
        const size_t capacity = left > 0 ? grown(conn, left + n) : n;
        if (!make_room(conn, capacity, left + n))
            return;
        struct faktory_block *next = block_new(conn->server, capacity);
        if (!next) {
            faktory_conn_close(conn);
            return;
        }
        next->len = left;
        if (left > 0)
            memcpy(next->bytes, in->bytes + conn->start, left);
        faktory_block_unref(in);
        conn->in = in = next;
        conn->start = 0;
    }
    memcpy(in->bytes + in->len, bytes, n);
    in->len += n;
}

/* More than half of the budget is used: clients that have commands under way send no more for the
 * time being. */
static bool faktory_input_is_scarce(const struct faktory_server *server)
{
    return server->held_bytes > server->options.max_held_bytes / 2;
}

/* ---- Start and end --------------------------------------------------------------------------- */

static void free_if_over(struct faktory_conn *conn)
{
    struct faktory_server *server = conn->server;
    if (!conn->is_closed || conn->is_hashing || !list_empty(&conn->calls))
        return;
    list_remove(&conn->touched);
    list_remove(&conn->link);
    server->n_conns--;
    if (conn->is_counted)
        address_counts_leave(&server->addresses, (struct sockaddr *)&conn->address);
    faktory_worker_leave(server, conn->worker);
    faktory_passwords_free(conn->passwords);
    faktory_tls_free(conn->tls);
    faktory_block_unref(conn->in);
    buf_release(&conn->out);
    buf_release(&conn->sending);
    free(conn);
}

static size_t unsent(const struct faktory_conn *conn)
{
    const size_t wired = conn->tls ? faktory_tls_wire(conn->tls)->len : 0;
    return conn->out.len + wired + conn->sending.len - conn->sent;
}

void faktory_conn_check(struct faktory_conn *conn, int64_t now_ms)
{
    const struct faktory_options *o = &conn->server->options;
    const size_t queued = uv_stream_get_write_queue_size((const uv_stream_t *)&conn->tcp);
    if (queued < conn->queued)
        conn->taken_ms = now_ms;
    conn->queued = queued;
    bool is_late = !conn->has_said_hello && !conn->is_hashing &&
                   now_ms - conn->opened_ms >= o->handshake_timeout_ms;
    bool is_slow = (unsent(conn) > 0 || (conn->is_ending && list_empty(&conn->calls))) &&
                   now_ms - conn->taken_ms >= o->send_timeout_ms;
    bool is_idle = o->idle_timeout_ms > 0 && list_empty(&conn->calls) &&
                   now_ms - conn->active_ms >= o->idle_timeout_ms;
    bool is_unfinished = conn->has_said_hello && !conn->is_ending && conn->unfinished_ms > 0 &&
                         now_ms - conn->unfinished_ms >= o->command_timeout_ms;
    if (is_late || is_slow || is_idle)
        faktory_conn_close(conn);
    else if (is_unfinished)
        faktory_input_refuse(conn, "the command was not finished in time");
}

/* ---- Out ------------------------------------------------------------------------------------- */

static void on_written(uv_write_t *request, int status)
{
    struct faktory_conn *conn = request->data;
    conn->is_writing = false;
    conn->taken_ms = clock_monotonic_ms();
    conn->sent = conn->sending.len;
    if (status < 0)
        faktory_conn_close(conn);
    faktory_conn_touch(conn);
}

static void write_rest(struct faktory_conn *conn)
{
    uv_buf_t rest =
        uv_buf_init(conn->sending.data + conn->sent, (unsigned)(conn->sending.len - conn->sent));
    conn->write.data = conn;
    conn->is_writing = true;
    if (uv_write(&conn->write, (uv_stream_t *)&conn->tcp, &rest, 1, on_written) < 0) {
        conn->is_writing = false;
        faktory_conn_close(conn);
    }
}

/* What goes to the network next: the replies, or what TLS has made of them. NULL: it is broken. */
static struct buf *envelope(struct faktory_conn *conn)
{
    if (buf_failed(&conn->out) < 0)
        return NULL;
    if (!conn->tls)
        return &conn->out;
    if (conn->out.len > 0 && faktory_tls_is_open(conn->tls)) {
        if (!faktory_tls_put(conn->tls, buf_str(&conn->out)))
            return NULL;
        buf_reset(&conn->out);
    }
    return faktory_tls_wire(conn->tls);
}

static void send_out(struct faktory_conn *conn)
{
    if (conn->is_writing || conn->is_closing)
        return;
    struct buf *next = envelope(conn);
    if (!next || buf_failed(next) < 0) {
        faktory_conn_close(conn);
        return;
    }
    if (next->len == 0)
        return;
    struct buf sent = conn->sending;
    conn->sending = *next;
    *next = sent;
    buf_reset(next);
    conn->sent = 0;
    uv_buf_t all = uv_buf_init(conn->sending.data, (unsigned)conn->sending.len);
    int n = uv_try_write((uv_stream_t *)&conn->tcp, &all, 1);
    conn->taken_ms = clock_monotonic_ms();
    if (n > 0)
        conn->sent = (size_t)n;
    if (n < 0 && n != UV_EAGAIN)
        faktory_conn_close(conn);
    else if (conn->sent < conn->sending.len)
        write_rest(conn);
}

/* What has been sent need not be kept; a few bytes may be. */
static void give_back(struct faktory_conn *conn)
{
    if (conn->is_writing || conn->sent < conn->sending.len)
        return;
    conn->sent = 0;
    if (conn->sending.capacity > 4096)
        buf_release(&conn->sending);
    buf_reset(&conn->sending);
    if (conn->out.len == 0 && conn->out.capacity > 4096)
        buf_release(&conn->out);
    struct buf *wire = conn->tls ? faktory_tls_wire(conn->tls) : NULL;
    if (wire && wire->len == 0 && wire->capacity > 4096)
        buf_release(wire);
}

/* ---- In -------------------------------------------------------------------------------------- */

static bool has_room(const struct faktory_conn *conn)
{
    return !conn->is_ending && !conn->is_hashing && conn->load < FAKTORY_LOAD_MAX &&
           unsent(conn) < FAKTORY_UNSENT_MAX;
}

/* What a line needs is kept until the last call that it is part of has been answered. */
static void count_bytes(struct faktory_conn *conn, size_t n)
{
    if (!list_empty(&conn->calls))
        faktory_call_add_load(LIST_ENTRY(conn->calls.prev, struct faktory_call, link),
                              n / FAKTORY_LOAD_BYTES);
}

/* What is left is the beginning of a command, unless the connection already had too many
 * commands. */
static void note_unfinished(struct faktory_conn *conn, bool has_taken_any)
{
    const bool is_begun = conn->in && has_room(conn);
    if (!is_begun || has_taken_any)
        conn->unfinished_ms = is_begun ? clock_monotonic_ms() : 0;
    else if (conn->unfinished_ms == 0)
        conn->unfinished_ms = clock_monotonic_ms();
}

/* Takes whole lines as long as the connection may have more commands; whether there was one. */
static bool parse(struct faktory_conn *conn)
{
    bool any = false;
    while (conn->in && has_room(conn)) {
        struct str bytes = {conn->in->bytes + conn->start, conn->in->len - conn->start};
        size_t max = conn->has_said_hello ? conn->server->options.max_line_bytes : HELLO_MAX_BYTES;
        struct faktory_line line;
        size_t used;
        int rc = faktory_line_next(bytes, max, &conn->scanned, &line, &used);
        if (rc == 0)
            break;
        if (rc < 0) {
            if (conn->has_said_hello)
                faktory_put_error(faktory_conn_reply(conn), "line is over %zu bytes", max);
            faktory_conn_end(conn);
            break;
        }
        any = true;
        conn->start += used;
        if (conn->has_said_hello)
            faktory_verb(conn, &line);
        else
            faktory_conn_hello(conn, line.verb, line.args);
        count_bytes(conn, used);
    }
    faktory_conn_seal(conn);
    if (conn->in && conn->start == conn->in->len) {
        faktory_block_unref(conn->in);
        conn->in = NULL;
        conn->start = 0;
    }
    note_unfinished(conn, any);
    return any;
}

static void on_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *ret)
{
    struct faktory_conn *conn = handle->data;
    (void)suggested;
    *ret = uv_buf_init(conn->server->read_buffer, (unsigned)FAKTORY_READ_BYTES);
}

static void take_plain(void *ctx, const char *bytes, size_t n)
{
    struct faktory_conn *conn = ctx;
    if (!conn->is_ending)
        faktory_input_append(conn, bytes, n);
}

static void unwrap(struct faktory_conn *conn, const char *bytes, size_t n)
{
    const bool was_open = faktory_tls_is_open(conn->tls);
    switch (faktory_tls_feed(conn->tls, bytes, n, take_plain, conn)) {
    case FAKTORY_TLS_HAS_LEFT: conn->has_left = true; break;
    case FAKTORY_TLS_BROKEN: faktory_conn_end(conn); break;
    case FAKTORY_TLS_GOES_ON:
    default: break;
    }
    /* The time for HELLO begins when the client can read the greeting. */
    if (!was_open && faktory_tls_is_open(conn->tls))
        conn->opened_ms = conn->active_ms;
}

static void on_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *buffer)
{
    struct faktory_conn *conn = stream->data;
    if (n == 0)
        return;
    if (n == UV_EOF) {
        conn->has_left = true;
        faktory_conn_touch(conn);
        return;
    }
    if (n < 0) {
        faktory_conn_close(conn);
        return;
    }
    conn->active_ms = clock_monotonic_ms();
    if (conn->tls)
        unwrap(conn, buffer->base, (size_t)n);
    else
        faktory_input_append(conn, buffer->base, (size_t)n);
    faktory_conn_touch(conn);
}

/* Reads only while the connection may have more commands. */
static void choose_reading(struct faktory_conn *conn)
{
    bool must_wait = !list_empty(&conn->calls) && faktory_input_is_scarce(conn->server);
    bool wants = has_room(conn) && !conn->has_left && !must_wait;
    if (wants == conn->is_reading || conn->is_closing)
        return;
    conn->is_reading = wants;
    if (wants && uv_read_start((uv_stream_t *)&conn->tcp, on_alloc, on_read) < 0)
        faktory_conn_close(conn);
    else if (!wants)
        (void)uv_read_stop((uv_stream_t *)&conn->tcp);
}

/* ---- A turn ---------------------------------------------------------------------------------- */

/* The replies of calls that are done, in order, and what the first of the others has so far. */
static void take_replies(struct faktory_conn *conn)
{
    LIST_FOREACH (&conn->calls, link) {
        struct faktory_call *call = LIST_ENTRY(link, struct faktory_call, link);
        if (buf_failed(&call->reply) < 0)
            faktory_conn_close(conn);
        if (!conn->is_closing)
            (void)buf_add_str(&conn->out, buf_str(&call->reply));
        buf_reset(&call->reply);
        if (!call->is_done)
            break;
        faktory_call_free(call);
    }
}

/* After a close, calls are waited for in any order. */
static void drop_finished(struct faktory_conn *conn)
{
    LIST_FOREACH (&conn->calls, link) {
        struct faktory_call *call = LIST_ENTRY(link, struct faktory_call, link);
        if (call->is_done && !call->is_under_way)
            faktory_call_free(call);
    }
}

void faktory_conn_advance(struct faktory_conn *conn)
{
    do {
        take_replies(conn);
        send_out(conn);
    } while (parse(conn));
    if (conn->has_left && has_room(conn))
        faktory_conn_end(conn); /* there was no whole line left */
    take_replies(conn);
    send_out(conn);
    give_back(conn);
    if (conn->is_ending && !conn->is_hashing && list_empty(&conn->calls) && unsent(conn) == 0) {
        if (conn->tls && faktory_tls_bye(conn->tls))
            send_out(conn);
        if (unsent(conn) == 0)
            faktory_conn_close(conn);
    }
    choose_reading(conn);
    if (conn->is_closing)
        drop_finished(conn);
    free_if_over(conn);
}

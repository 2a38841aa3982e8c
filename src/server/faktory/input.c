/* input.c - bytes of clients that are not a whole command yet, within a budget.
 *
 * All connections together may hold options.max_held_bytes; a few kilobytes of each are free. When
 * the budget is used up, the client with the longest unfinished command is disconnected: clients
 * that send short ones never notice.
 */
#include "server/faktory/private.h"

#include <stdlib.h>

#include "base/time/clock.h"
#include "server/faktory/format/line.h"

/* Of each connection, whatever the others hold. */
#define FREE_BYTES ((size_t)16 * 1024)

void faktory_block_unref(struct faktory_block *block)
{
    if (!block || --block->refs > 0)
        return;
    *block->held -= block->capacity;
    free(block);
}

static struct faktory_block *block_new(struct faktory_server *server, size_t capacity)
{
    struct faktory_block *block = malloc(sizeof *block + capacity);
    if (!block)
        return NULL;
    *block = (struct faktory_block){.refs = 1, .capacity = capacity, .held = &server->held_bytes};
    server->held_bytes += capacity;
    return block;
}

void faktory_input_refuse(struct faktory_conn *conn, const char *why)
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

/* Calls borrow from the block, so it never moves: when it is full what is left goes to another. */
void faktory_input_append(struct faktory_conn *conn, const char *bytes, size_t n)
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

/* Clients that have commands under way send no more for the time being. */
bool faktory_input_is_scarce(const struct faktory_server *server)
{
    return server->held_bytes > server->options.max_held_bytes / 2;
}

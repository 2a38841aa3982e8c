/* link.h - the connection of a store: which server it leads to, requests and replies. */
#ifndef STORE_REDIS_LINK_H
#define STORE_REDIS_LINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/text/buf.h"
#include "base/text/str.h"
#include "redrive.h"
#include "store/redis/net/place.h"
#include "store/redis/net/wire.h"
#include "store/server_time.h"

struct store;

/* A server has a name for the history of its data, which changes at each start, and each time that
 * it becomes the primary. Within one history no commit is lost. */
#define RD_HISTORY_MAX 48

/* What every answer carries beside the reply, as of the last one. */
struct told {
    bool is_known;
    bool has_history; /* on this connection */
    struct server_time time;
    int64_t shared_version;
    int64_t commits;
    char history[RD_HISTORY_MAX];
    char id[24]; /* of the store, a new one each time that it is set up */
};

/* ---- protocol.c: requests and replies -------------------------------------------------------- */

/* The largest request. */
#define RD_WORDS_MAX ((size_t)512 << 20)
/* Starts a request: a function of the library with the root as its key, or any command. */
void rd_ask(struct store *store, const char *function);
void rd_ask_command(struct store *store, const char *command);
void rd_ask_str(struct store *store, struct str word);
void rd_ask_text(struct store *store, const char *word);
void rd_ask_int(struct store *store, int64_t number);
/* A number as text, terminated; its length. */
#define RD_DIGITS_MAX 24
size_t rd_digits(int64_t number, char ret[RD_DIGITS_MAX]);
/* Adds a word in the form of requests. */
void rd_add_word(struct buf *b, struct str word);
/* Starts a read, which rd_link_read sends. */
void rd_ask_read(struct store *store, const char *what);

/* A number that text begins with, 0 if there is none, cut at 2^53: the server's scripts know no
 * larger ones, and sums of some of these do not overflow. `ret_end` may be NULL. */
int64_t rd_number(const char *text, const char **ret_end);
/* An element of a reply as text or as a number; absent, or 0, if there is none. */
struct str rd_reply_str(const redisReply *reply, size_t i);
int64_t rd_reply_int(const redisReply *reply, size_t i);
/* A line of INFO, or absent. */
struct str rd_info_line(const redisReply *info, const char *name);

/* What an error reply means. */
int rd_link_error(struct str text, struct redrive_err *err);
/* Whether an error reply says that the store is, or may soon be, elsewhere. A request with this
 * answer was not carried out. */
bool rd_says_elsewhere(struct str text);
/* The same, but not where: it is worth asking again. */
bool rd_says_later(struct str text);
/* The same, and that the node knows no node which serves the store. A node that has left the
 * cluster says so for ever: other nodes may know one. */
bool rd_says_nowhere(struct str text);
/* Whether an error reply to a function says that none of it was carried out: the server looks at
 * its own state before the function begins, and never after it has written. */
bool rd_says_undone(struct str text);

/* ---- handle.c: closing ----------------------------------------------------------------------- */

void rd_link_close(struct store *store);
void rd_listener_close(struct store *store);
/* Closes what has broken. REDRIVE_E_CANCELLED in a transaction, which is lost; else REDRIVE_E_IO.
 */
int rd_link_broken(struct store *store, struct redrive_err *err);

/* ---- nodes.c: which server has the store ----------------------------------------------------- */

/* A connection to place->at; rd_link_greet logs in and chooses the database. */
int rd_link_connect(const struct place *place, struct rd_wire **ret, struct redrive_err *err);
int rd_link_greet(struct rd_wire *link, const struct place *place, struct redrive_err *err);
/* Connects to the server that has the store. Nodes are asked until one leads there or some seconds
 * are over. */
int rd_link_open(struct store *store, struct redrive_err *err);
/* Notes the address that a MOVED tells, for the next rd_link_open. */
void rd_node_told(struct place *place, struct str text);

/* ---- link.c: calls --------------------------------------------------------------------------- */

/* Gives the library of functions its name. A call loads it where the server does not have it. */
int rd_library_name(struct store *store, struct redrive_err *err);
/* Whether there is a connection that the other side has not closed, as far as is known here. */
bool rd_link_is_alive(const struct store *store);

/* Sends a request and gives the reply, which the caller frees with freeReplyObject. An error reply
 * is an error here. Connects again when the connection has gone; if that fails an open transaction
 * is lost. */
int rd_link_call(struct store *store, redisReply **ret, struct redrive_err *err);
/* The same for a function whose answer begins with a struct told, which is noted; *ret is what
 * follows it. In a transaction an answer of another store, or of another history, is
 * REDRIVE_E_CANCELLED: it does not fit what was read before. */
int rd_link_told(struct store *store, redisReply **ret, struct redrive_err *err);
/* The same for a commit, which is sent only once. If the connection breaks, there is no link any
 * more, and the caller asks for the outcome (learn_outcome in transaction.c). *ret_undone: it has
 * failed, and is known not to have been carried out. */
int rd_link_commit(struct store *store, redisReply **ret, bool *ret_undone,
                   struct redrive_err *err);
/* The same for a read that ask_read has started. A store that is gone is REDRIVE_E_NOT_FOUND, and
 * one in whose place another was set up REDRIVE_E_CANCELLED, once. */
int rd_link_read(struct store *store, redisReply **ret, struct redrive_err *err);
/* Sends it without waiting; the reply is read later, and dropped. */
void rd_link_tell(struct store *store);
/* Outside of a transaction, another store was found: all that is known is forgotten, and the next
 * read is one of that store. REDRIVE_E_CANCELLED. */
int rd_store_replaced(struct store *store, struct str id, struct redrive_err *err);

#endif

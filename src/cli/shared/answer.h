/* answer.h - what an operation answers, of the store in this process or of a server, and how it is
 * printed.
 *
 *     RELEASED_BY(answer_release) struct answer answer = {0};
 *     int rc = answer_read(session, &API_LIMITS, tenant, &answer, err);
 *     if (rc == 0)
 *         rc = answer_print_list(cli, &answer, &LIMITS, err);
 *
 * --json prints the items as they are. A row of text is made from the members of an item: one that
 * is missing, null or of another type gives the value for "not there", so that a newer server can
 * add words and members, and an older one can lack them. An answer that is no list of objects, or
 * not the whole of it, is REDRIVE_E_PARSE.
 */
#ifndef CLI_SHARED_ANSWER_H
#define CLI_SHARED_ANSWER_H

#include "api/api.h"
#include "base/json/json.h"
#include "base/mem/arena.h"
#include "cli/frame/cli.h"
#include "cli/shared/session.h"

struct answer {
    struct buf text;
    struct str *items; /* the text of each, in `text` */
    size_t n;
    struct arena arena;
};

/* Calls a read that answers with a list. `tenant`, where there is a store: whose things; absent:
 * everybody's; a server shows those of the token. To be released in any case. */
int answer_read(const struct session *session, const struct operation *operation, struct str tenant,
                struct answer *ret, struct redrive_err *err);
/* The same of a change, whose answer is one object. `name` as api_begin takes it. */
int answer_change(struct session *session, const struct operation *operation, struct str tenant,
                  struct str name, struct answer *ret, struct redrive_err *err);
void answer_release(struct answer *answer);

/* An object of an answer. Texts that members give have the lifetime of the arena. */
struct object {
    const struct json_member *members; /* NULL: there is no object */
    size_t n;
    struct arena *arena;
};

/* How the items of a list are printed: columns as table_init takes them, and the cells of an item.
 * `ctx` is the list's own. */
struct answer_table {
    const char *columns;
    void (*row)(struct table *t, const struct object *item, const void *ctx);
    const void *ctx;
};
int answer_print_list(struct cli *cli, const struct answer *answer,
                      const struct answer_table *table, struct redrive_err *err);

/* The answer of a change, with --json; people are told by the command. */
int answer_print(struct cli *cli, const struct answer *answer, struct redrive_err *err);

/* ---- Members --------------------------------------------------------------------------------- */

/* An item, with its members in the arena. */
struct object answer_item(const struct answer *answer, size_t i, struct arena *arena);

/* The first item whose member `name` is this text, and that is of this tenant (absent: of any). 1
 * and its number; 0: there is none; or REDRIVE_E_NOMEM. */
int answer_find(const struct answer *answer, const char *name, struct str text, struct str tenant,
                size_t *ret_i, struct redrive_err *err);
/* Adds that member of all items to a list of words. */
void answer_words(const struct answer *answer, const char *name, struct words *words);

struct str object_text(const struct object *o, const char *name); /* not there: absent */
int64_t object_int(const struct object *o, const char *name);     /* not there: 0 */
double object_double(const struct object *o, const char *name, double otherwise);
bool object_bool(const struct object *o, const char *name);
int64_t object_time(const struct object *o, const char *name); /* ms; not there: 0 */
struct object object_object(const struct object *o, const char *name);

#endif

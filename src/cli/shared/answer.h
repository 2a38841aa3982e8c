/* answer.h - what an operation answers, of the store in this process or of a server, and how it is
 * printed.
 *
 *     RELEASED_BY(answer_release) struct answer answer = {0};
 *     int rc = answer_read(session, &API_LIMITS, tenant, &answer, err);
 *     if (rc == 0)
 *         rc = answer_print_list(cli, &answer, &LIMITS, err);
 *
 * --json prints the items as they are. Text is made from the members of an object: one that is
 * missing, null or of another type gives the value for "not there", so that a newer server can add
 * words and members, and an older one can lack them. An answer that is no object, or no list of
 * objects, or not the whole of it, is REDRIVE_E_PARSE. What is answered must not be moved.
 */
#ifndef CLI_SHARED_ANSWER_H
#define CLI_SHARED_ANSWER_H

#include "api/api.h"
#include "cli/frame/cli.h"
#include "cli/shared/object.h"
#include "cli/shared/session.h"
#include "store/page.h"

/* What is asked for. */
struct ask {
    const struct operation *operation;
    struct str tenant; /* whose things, in a store; absent: everybody's; at a server the token's */
    struct str name;   /* in place of the placeholder of the path */
    struct api_input *input; /* NULL: neither parameters nor a body */
};

struct answer {
    struct buf text;
    int status;           /* the HTTP status of a change; 204: `text` is empty */
    struct object object; /* of answer_ask and answer_change; its arena is the answer's */
    struct str *items;    /* of a list: the text of each, in `text` */
    size_t n;
    struct str next;       /* of a list: where the next page begins; absent: there is none */
    int64_t n_unreadable;  /* of a list: what was left out because it cannot be read, */
    struct str unreadable; /* and why the first of it */
    struct arena arena;
};

/* Calls a read that answers with one object, */
int answer_ask(const struct session *session, const struct ask *ask, struct answer *ret,
               struct redrive_err *err);
/* or with a whole list. An answer is to be released in any case. */
int answer_read(const struct session *session, const struct operation *operation, struct str tenant,
                struct answer *ret, struct redrive_err *err);
/* The same of a change, whose answer is one object, or nothing (204). */
int answer_change(struct session *session, const struct ask *ask, struct answer *ret,
                  struct redrive_err *err);
/* The same of a change of many things, {"items":[…]}: their objects are the answer's. */
int answer_change_many(struct session *session, const struct ask *ask, struct answer *ret,
                       struct object **ret_objects, size_t *ret_n, struct redrive_err *err);
void answer_release(struct answer *answer);

/* ---- Lists in pages --------------------------------------------------------------------------
 *
 *     struct answer_pages pages;
 *     answer_pages_init(&pages, session, &ask, limit, cursor);
 *     while ((rc = answer_pages_next(&pages, &page, err)) > 0)
 *         …
 *
 * A page is there until the next one is read, and the last one until answer_pages_release.
 */
struct answer_pages {
    const struct session *session;
    struct ask ask;
    size_t left;                 /* items that are still wanted */
    char cursor[JOB_CURSOR_MAX]; /* where the next page begins; "": at the start, or nowhere */
    bool is_over;                /* no page follows */
    int64_t n_unreadable;        /* of all pages so far */
    struct redrive_err unreadable;
    struct answer page;
};
/* At most `limit` items (0: all), from a cursor on (NULL: from the start). The ask is kept. */
void answer_pages_init(struct answer_pages *pages, const struct session *session,
                       const struct ask *ask, size_t limit, const char *cursor);
/* 1 and a page, perhaps an empty one; 0: there is no more; or a code. */
int answer_pages_next(struct answer_pages *pages, const struct answer **ret,
                      struct redrive_err *err);
void answer_pages_release(struct answer_pages *pages);

/* How the items of a list are printed: columns as table_init takes them, and the cells of an item.
 * `ctx` is the list's own. */
struct answer_table {
    const char *columns;
    void (*row)(struct table *t, const struct object *item, const void *ctx);
    const void *ctx;
    bool hides_first; /* the first column, where all its cells are the same */
};
int answer_print_list(struct cli *cli, const struct answer *answer,
                      const struct answer_table *table, struct redrive_err *err);
/* All pages. --json writes items as they come: a failure in between leaves what was written. */
int answer_print_pages(struct cli *cli, struct answer_pages *pages,
                       const struct answer_table *table, struct redrive_err *err);

/* The answer of a change, with --json; people are told by the command. */
int answer_print(struct cli *cli, const struct answer *answer, struct redrive_err *err);
/* An answer that is one object: as it is with --json, else as `text` writes the struct object. */
int answer_show(struct cli *cli, const struct answer *answer, cli_text_fn text,
                struct redrive_err *err);

/* ---- Items ----------------------------------------------------------------------------------- */

/* An item, with its members in the arena. */
struct object answer_item(const struct answer *answer, size_t i, struct arena *arena);

/* The first item whose member `name` is this text, and that is of this tenant (absent: of any). 1
 * and its number; 0: there is none; or REDRIVE_E_NOMEM. */
int answer_find(const struct answer *answer, const char *name, struct str text, struct str tenant,
                size_t *ret_i, struct redrive_err *err);
/* Adds that member of all items to a list of words. */
void answer_words(const struct answer *answer, const char *name, struct words *words);

#endif

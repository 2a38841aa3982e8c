/* ends.h - the two stores of `redrive move`: are they there, are they two, are they of use? */
#ifndef CLI_COMMANDS_MOVE_ENDS_H
#define CLI_COMMANDS_MOVE_ENDS_H

#include <sys/stat.h>

#include "base/text/buf.h"
#include "store/store.h"

/* One of both stores. Its name is its URL without secrets; that of a file is the same however it
 * was written. */
struct move_end {
    const char *url;
    const char *side; /* "source", "destination" */
    struct store *store;
    struct store_facts facts;
    bool is_there;
    dev_t device; /* of its file, if it has one */
    ino_t inode;
    struct buf name;
};

/* The strings are borrowed. */
void move_end_init(struct move_end *end, const char *url, const char *side);
void move_end_release(struct move_end *end);

/* Looks at both without a change to either. REDRIVE_E_NOT_FOUND: there is no source;
 * REDRIVE_E_USAGE: they are the same file, or were given the same name. A destination that is not
 * there is no error. */
int move_ends_look(struct move_end *from, struct move_end *to, struct redrive_err *err);

/* Opens both. Neither a dry run nor one that is refused sets the destination up. REDRIVE_E_STATE:
 * workers are alive on the source, unless forced; REDRIVE_E_USAGE: they are the same store under
 * two names, which a dry run does not find out. */
int move_ends_open(struct move_end *from, struct move_end *to, bool dry_run, bool force,
                   struct redrive_err *err);

#endif

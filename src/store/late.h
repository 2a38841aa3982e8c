/* late.h - a handle of a store that could not be opened yet.
 *
 * Every call that needs the store tries to open it first, at most once in LATE_AGAIN_MS; until that
 * has worked the call fails with REDRIVE_E_IO and says why. So callers see what they see of a
 * server that goes away later: begin and reads fail, and work again when it is back. Whatever else
 * is wrong with the store then (another schema, a refusal of `check`) is a reason to leave it
 * alone: it counts as away, with that reason.
 *
 * Handles have the slots and capabilities that the store will have.
 */
#ifndef STORE_LATE_H
#define STORE_LATE_H

#include "store/store.h"

#define LATE_AGAIN_MS 1000

struct late_options {
    const char *url; /* borrowed until the handle is closed */
    struct store_options store;
    /* Called with the store once it is open, before anything else is asked of it. A failure closes
     * it again. May be NULL. */
    int (*check)(struct store *store, void *ctx, struct redrive_err *err);
    void *ctx;
    const struct redrive_err *why; /* of the try that has just failed; NULL: there was none */
};

/* Opens nothing: fails only without memory, or if no store has this URL. */
int store_open_late(const struct late_options *options, struct store **ret,
                    struct redrive_err *err);

#endif

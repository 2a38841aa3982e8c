/* exposed.h - files with secrets that other users of this machine can read.
 *
 * Looked at are the configuration file, if it has tokens, a password of the store or secrets of
 * `run.http` in so many words; the `.env` beside it, if one of these comes from there; password
 * files; and the private key of TLS.
 */
#ifndef CONFIG_LOAD_EXPOSED_H
#define CONFIG_LOAD_EXPOSED_H

#include "config/config.h"

#define EXPOSED_MAX 16

struct exposed {
    const char *path;  /* the configuration's, or the caller's */
    const char *holds; /* "tokens" */
    unsigned mode;     /* 0644 */
};

/* Those that others can read or write, at most EXPOSED_MAX; returns how many. `password_file` is
 * another one to look at; NULL: there is none. A file that belongs to another user or to root may
 * be shared with a group, because that is how a server of another user gets to read it. */
size_t exposed_find(const struct config *config, const char *password_file,
                    struct exposed ret[EXPOSED_MAX]);

/* In words, with a hint. */
void exposed_warning(const struct exposed *file, struct redrive_err *ret);

#endif

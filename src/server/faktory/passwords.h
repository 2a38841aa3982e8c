/* passwords.h - which clients may use the Faktory server, and what they may do.
 *
 * The protocol has the client prove that it knows the password by a hash with the server's salt, so
 * the server needs the passwords themselves; the hashes of `tokens` cannot serve here. A set never
 * changes after it has been filled: a reload makes another one. Sets are held by threads that hash
 * while the server has a newer one.
 */
#ifndef SERVER_FAKTORY_PASSWORDS_H
#define SERVER_FAKTORY_PASSWORDS_H

#include "config/config.h"
#include "redrive.h"

#define FAKTORY_SCOPES_ALL \
    (CONFIG_SCOPE_ENQUEUE | CONFIG_SCOPE_WORK | CONFIG_SCOPE_READ | CONFIG_SCOPE_ADMIN)

struct faktory_password {
    const char *name; /* for logs */
    const char *password;
    const char *tenant;
    uint32_t scopes; /* bits of enum config_scope */
};

struct faktory_passwords;

/* An empty set with one holder; NULL without memory. */
struct faktory_passwords *faktory_passwords_new(void);
/* Adds a copy; a tenant that is NULL or empty is the default one. REDRIVE_E_TOO_BIG after the
 * hundredth. */
int faktory_passwords_add(struct faktory_passwords *set, const struct faktory_password *password,
                          struct redrive_err *err);

/* The set of `faktory_passwords` of the configuration and of a file with a password a line (NULL:
 * none), each `PASSWORD` or `TENANT PASSWORD` with every scope. Errors say where the password is
 * named and never what it is. */
int faktory_passwords_load(const struct config *config, const char *path, char *const *environ,
                           struct faktory_passwords **ret, struct redrive_err *err);

/* One more holder; gives it back. Any thread. */
struct faktory_passwords *faktory_passwords_hold(struct faktory_passwords *set);
/* Lets go of one hold; the last one wipes and frees it. NULL does nothing. */
void faktory_passwords_free(struct faktory_passwords *set);

/* 0 also for NULL. */
size_t faktory_passwords_count(const struct faktory_passwords *set);

/* The password that a client has hashed, or NULL. Looks at every one. Any thread. */
const struct faktory_password *faktory_passwords_find(const struct faktory_passwords *set,
                                                      struct str pwdhash, struct str salt,
                                                      int iterations);
/* The one with the same password and tenant as `password` of another set, or NULL. */
const struct faktory_password *faktory_passwords_same(const struct faktory_passwords *set,
                                                      const struct faktory_password *password);

#endif

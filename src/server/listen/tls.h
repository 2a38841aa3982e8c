/* tls.h - the certificate with which servers answer over TLS, and its key.
 *
 * An identity never changes. A reload makes another one, which connections that come afterwards
 * use; each connection holds the one that it began with. Only listen/tls.c, http/server.c and
 * the sessions of the Faktory server know GnuTLS.
 */
#ifndef SERVER_LISTEN_TLS_H
#define SERVER_LISTEN_TLS_H

#include "base/text/str.h"
#include "config/config.h"
#include "redrive.h"

struct gnutls_certificate_credentials_st;
struct gnutls_pcert_st;
struct gnutls_privkey_st;
struct gnutls_session_int;

/* For gnutls_priority_init: TLS 1.2 and 1.3, and the ciphers that GnuTLS considers safe. */
#define TLS_PRIORITIES "NORMAL:-VERS-ALL:+VERS-TLS1.3:+VERS-TLS1.2"

struct tls_identity;

/* Reads the files of `listen.tls`, which must be set, and checks that they are a certificate and
 * its key. A file that cannot be read fails as file_read does; one that cannot be used, or a key of
 * another certificate, with REDRIVE_E_CONFIG. The message says where the configuration names the
 * file. */
int tls_identity_load(const struct config_tls *files, struct tls_identity **ret,
                      struct redrive_err *err);
/* The same of PEM texts; `names` says what errors begin with. */
int tls_identity_new(struct str cert_pem, struct str key_pem, const struct config_tls *names,
                     struct tls_identity **ret, struct redrive_err *err);
/* Whether both have the same certificate: nothing needs to be replaced. */
bool tls_identity_same(const struct tls_identity *a, const struct tls_identity *b);

/* How long before its end a certificate is warned about. */
#define TLS_WARN_BEFORE_MS (INT64_C(30) * 24 * 60 * 60 * 1000)

/* When the certificate ends, or the one of its chain that ends first, in ms of the wall clock. */
int64_t tls_identity_end_ms(const struct tls_identity *identity);
/* Whether clients refuse the certificate at this time, or will within TLS_WARN_BEFORE_MS; then
 * `err` says so, with the time and a hint. It is a warning: the identity can be used. */
bool tls_identity_is_ending(const struct tls_identity *identity, int64_t now_ms,
                            struct redrive_err *err);

/* One more holder; gives it back. Any thread. */
struct tls_identity *tls_identity_hold(struct tls_identity *identity);
/* Lets go of one hold; the last one frees it. Any thread. NULL does nothing. */
void tls_identity_free(struct tls_identity *identity);

/* For gnutls_credentials_set; valid as long as the identity is held. */
struct gnutls_certificate_credentials_st *tls_identity_credentials(
    const struct tls_identity *identity);
/* For a gnutls_certificate_retrieve_function2; valid as long as the identity is held. */
void tls_identity_parts(const struct tls_identity *identity, struct gnutls_pcert_st **ret_chain,
                        unsigned *ret_n, struct gnutls_privkey_st **ret_key);

/* Before the handshake of a server's session: clients may ask for any server name. GnuTLS itself
 * ends the handshake (illegal_parameter) if a name has more than letters, digits, dots and dashes,
 * as `redrive_server` and `host:7070` have. The name chooses nothing: a server has one
 * certificate, and whether the name is in it is for the client to check. */
void tls_accept_any_name(struct gnutls_session_int *session);

#endif

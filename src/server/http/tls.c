/* tls.c - which certificate a connection is shown.
 *
 * libmicrohttpd asks for each handshake, on its own thread. It leaves itself in the session's
 * pointer, which leads to the connection and its server.
 */
#include "server/http/private.h"

#include <gnutls/abstract.h>
#include <gnutls/gnutls.h>

/* A gnutls_certificate_retrieve_function2. */
static int choose(gnutls_session_t session, const gnutls_datum_t *ca, int n_ca,
                  const gnutls_pk_algorithm_t *algorithms, int n_algorithms,
                  gnutls_pcert_st **ret_chain, unsigned *ret_n, gnutls_privkey_t *ret_key)
{
    struct http_connection *c = http_connection_of(gnutls_session_get_ptr(session));
    (void)ca, (void)n_ca, (void)algorithms, (void)n_algorithms;
    if (!c)
        return GNUTLS_E_INTERNAL_ERROR;
    pthread_mutex_lock(&c->server->lock);
    if (!c->tls)
        c->tls = tls_identity_hold(c->server->tls);
    pthread_mutex_unlock(&c->server->lock);
    tls_identity_parts(c->tls, ret_chain, ret_n, ret_key);
    return 0;
}

void http_tls_options(struct MHD_OptionItem options[3])
{
    options[0] = (struct MHD_OptionItem){MHD_OPTION_HTTPS_CERT_CALLBACK, 0, (void *)choose};
    options[1] = (struct MHD_OptionItem){MHD_OPTION_HTTPS_PRIORITIES, 0, (void *)(TLS_PRIORITIES)};
    options[2] = (struct MHD_OptionItem){MHD_OPTION_END, 0, NULL};
}

void http_server_set_tls(struct http_server *server, struct tls_identity *identity)
{
    pthread_mutex_lock(&server->lock);
    struct tls_identity *former = server->tls;
    if (former)
        server->tls = tls_identity_hold(identity);
    pthread_mutex_unlock(&server->lock);
    tls_identity_free(former);
}

/* tls.c - a GnuTLS session over two buffers. */
#include "server/faktory/private.h"

#include <errno.h>
#include <gnutls/gnutls.h>
#include <stdlib.h>

#define WIRE_MAX_BYTES  ((size_t)512 * 1024 * 1024)
#define PLAIN_MAX_BYTES ((size_t)16 * 1024)

struct faktory_tls {
    gnutls_session_t session;
    struct tls_identity *identity;
    bool is_open;
    bool has_said_bye;
    const char *bytes; /* that have come and were not taken yet */
    size_t n;
    struct buf wire;
};

/* ---- What GnuTLS takes for a socket ---------------------------------------------------------- */

static ssize_t pull(gnutls_transport_ptr_t ctx, void *out, size_t size)
{
    struct faktory_tls *tls = ctx;
    if (tls->n == 0) {
        gnutls_transport_set_errno(tls->session, EAGAIN);
        return -1;
    }
    const size_t n = size < tls->n ? size : tls->n;
    memcpy(out, tls->bytes, n);
    tls->bytes += n;
    tls->n -= n;
    return (ssize_t)n;
}

static ssize_t push(gnutls_transport_ptr_t ctx, const void *bytes, size_t n)
{
    struct faktory_tls *tls = ctx;
    if (buf_add(&tls->wire, bytes, n) == 0)
        return (ssize_t)n;
    gnutls_transport_set_errno(tls->session, ENOMEM);
    return -1;
}

/* ---- Start and end --------------------------------------------------------------------------- */

struct faktory_tls *faktory_tls_new(struct tls_identity *identity)
{
    struct faktory_tls *tls = calloc(1, sizeof *tls);
    if (!tls)
        return NULL;
    buf_init(&tls->wire, WIRE_MAX_BYTES);
    tls->identity = tls_identity_hold(identity);
    if (gnutls_init(&tls->session, GNUTLS_SERVER | GNUTLS_NONBLOCK | GNUTLS_NO_SIGNAL) < 0) {
        tls->session = NULL;
        faktory_tls_free(tls);
        return NULL;
    }
    if (gnutls_priority_set_direct(tls->session, TLS_PRIORITIES, NULL) < 0 ||
        gnutls_credentials_set(tls->session, GNUTLS_CRD_CERTIFICATE,
                               tls_identity_credentials(identity)) < 0) {
        faktory_tls_free(tls);
        return NULL;
    }
    gnutls_certificate_server_set_request(tls->session, GNUTLS_CERT_IGNORE);
    tls_accept_any_name(tls->session);
    gnutls_transport_set_ptr(tls->session, tls);
    gnutls_transport_set_pull_function(tls->session, pull);
    gnutls_transport_set_push_function(tls->session, push);
    return tls;
}

void faktory_tls_free(struct faktory_tls *tls)
{
    if (!tls)
        return;
    if (tls->session)
        gnutls_deinit(tls->session);
    tls_identity_free(tls->identity);
    buf_release(&tls->wire);
    free(tls);
}

bool faktory_tls_is_open(const struct faktory_tls *tls)
{
    return tls->is_open;
}

struct buf *faktory_tls_wire(struct faktory_tls *tls)
{
    return &tls->wire;
}

/* ---- Bytes ----------------------------------------------------------------------------------- */

/* Also while there are alerts that may be ignored. */
static bool is_waiting(long rc)
{
    return rc == GNUTLS_E_AGAIN || rc == GNUTLS_E_INTERRUPTED;
}

static int shake_hands(struct faktory_tls *tls)
{
    int rc;
    do
        rc = gnutls_handshake(tls->session);
    while (rc < 0 && !is_waiting(rc) && !gnutls_error_is_fatal(rc));
    tls->is_open = rc == 0;
    /* The client learns why, if it can read it. */
    if (rc < 0 && !is_waiting(rc))
        (void)gnutls_alert_send_appropriate(tls->session, rc);
    return rc;
}

enum faktory_tls_end faktory_tls_feed(struct faktory_tls *tls, const char *bytes, size_t n,
                                      void (*take)(void *ctx, const char *bytes, size_t n),
                                      void *ctx)
{
    char plain[PLAIN_MAX_BYTES];
    tls->bytes = bytes;
    tls->n = n;
    if (!tls->is_open) {
        const int rc = shake_hands(tls);
        if (rc < 0)
            return is_waiting(rc) ? FAKTORY_TLS_GOES_ON : FAKTORY_TLS_BROKEN;
    }
    for (;;) {
        const ssize_t got = gnutls_record_recv(tls->session, plain, sizeof plain);
        if (got > 0)
            take(ctx, plain, (size_t)got);
        else if (got == 0)
            return FAKTORY_TLS_HAS_LEFT;
        else if (is_waiting(got))
            return FAKTORY_TLS_GOES_ON;
        else if (gnutls_error_is_fatal((int)got) || got == GNUTLS_E_REHANDSHAKE)
            return FAKTORY_TLS_BROKEN;
    }
}

bool faktory_tls_put(struct faktory_tls *tls, struct str text)
{
    while (text.len > 0) {
        const ssize_t n = gnutls_record_send(tls->session, text.ptr, text.len);
        if (n < 0)
            return false;
        text.ptr += n;
        text.len -= (size_t)n;
    }
    return true;
}

bool faktory_tls_bye(struct faktory_tls *tls)
{
    if (!tls->is_open || tls->has_said_bye)
        return false;
    tls->has_said_bye = true;
    return gnutls_bye(tls->session, GNUTLS_SHUT_WR) == 0;
}

/* tls.c - loads a certificate and its key. */
#include "server/listen/tls.h"

#include <gnutls/abstract.h>
#include <gnutls/gnutls.h>
#include <gnutls/x509.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "base/err.h"
#include "base/os/file.h"
#include "base/time/clock.h"

#define FILE_MAX_BYTES (1024u * 1024)

/* A certificate and those between it and the root. */
#define CHAIN_MAX 16

#define DAY_MS (INT64_C(24) * 60 * 60 * 1000)

struct tls_identity {
    atomic_uint holders;
    gnutls_certificate_credentials_t credentials;
    gnutls_pcert_st chain[CHAIN_MAX];
    unsigned n_chain;
    gnutls_privkey_t key;
    int64_t begin_ms; /* when the last one of the chain begins to be valid */
    int64_t end_ms;   /* when the first one ends */
};

struct tls_identity *tls_identity_hold(struct tls_identity *identity)
{
    atomic_fetch_add(&identity->holders, 1);
    return identity;
}

void tls_identity_free(struct tls_identity *identity)
{
    if (!identity || atomic_fetch_sub(&identity->holders, 1) > 1)
        return;
    for (unsigned i = 0; i < identity->n_chain; i++)
        gnutls_pcert_deinit(&identity->chain[i]);
    if (identity->key)
        gnutls_privkey_deinit(identity->key);
    if (identity->credentials)
        gnutls_certificate_free_credentials(identity->credentials);
    free(identity);
}

/* ---- Making ---------------------------------------------------------------------------------- */

static int refuse_file(const char *place, const char *message, int gnutls_code,
                       struct redrive_err *err)
{
    err_set(err, REDRIVE_E_CONFIG, "%s%s", place ? place : "", message);
    err_detail(err, "%s", gnutls_strerror(gnutls_code));
    return REDRIVE_E_CONFIG;
}

static int read_times(struct tls_identity *identity, const struct config_tls *names,
                      struct redrive_err *err)
{
    gnutls_x509_crt_t cert = NULL;
    identity->end_ms = INT64_MAX;
    for (unsigned i = 0; i < identity->n_chain; i++) {
        int rc = gnutls_x509_crt_init(&cert);
        if (rc == 0)
            rc = gnutls_x509_crt_import(cert, &identity->chain[i].cert, GNUTLS_X509_FMT_DER);
        const time_t begin = rc == 0 ? gnutls_x509_crt_get_activation_time(cert) : -1;
        const time_t end = rc == 0 ? gnutls_x509_crt_get_expiration_time(cert) : -1;
        gnutls_x509_crt_deinit(cert);
        cert = NULL;
        if (rc < 0 || begin == (time_t)-1 || end == (time_t)-1)
            return refuse_file(names->cert_at, "has no period in which it is valid", rc, err);
        if ((int64_t)begin * 1000 > identity->begin_ms)
            identity->begin_ms = (int64_t)begin * 1000;
        if ((int64_t)end * 1000 < identity->end_ms)
            identity->end_ms = (int64_t)end * 1000;
    }
    return 0;
}

static int read_chain(struct tls_identity *identity, const gnutls_datum_t *pem,
                      const struct config_tls *names, struct redrive_err *err)
{
    unsigned n = CHAIN_MAX;
    const int rc = gnutls_pcert_list_import_x509_raw(identity->chain, &n, pem, GNUTLS_X509_FMT_PEM,
                                                     GNUTLS_X509_CRT_LIST_FAIL_IF_UNSORTED);
    if (rc < 0) {
        refuse_file(names->cert_at, "is not a certificate in PEM form", rc, err);
        err_hint(err, "the server's certificate comes first, then the one that signed it, and so "
                      "on");
        return REDRIVE_E_CONFIG;
    }
    identity->n_chain = n;
    return read_times(identity, names, err);
}

static int read_key(struct tls_identity *identity, const gnutls_datum_t *pem,
                    const struct config_tls *names, struct redrive_err *err)
{
    int rc = gnutls_privkey_init(&identity->key);
    if (rc == 0)
        rc = gnutls_privkey_import_x509_raw(identity->key, pem, GNUTLS_X509_FMT_PEM, NULL, 0);
    if (rc == 0)
        return 0;
    refuse_file(names->key_at, "is not a private key in PEM form", rc, err);
    if (rc == GNUTLS_E_DECRYPTION_FAILED)
        err_hint(err, "a key with a password cannot be used: openssl pkey -in KEY -out PLAIN");
    return REDRIVE_E_CONFIG;
}

/* Looks at both together. */
static int match_key(struct tls_identity *identity, const gnutls_datum_t *cert,
                     const gnutls_datum_t *key, const struct config_tls *names,
                     struct redrive_err *err)
{
    int rc = gnutls_certificate_allocate_credentials(&identity->credentials);
    if (rc == 0)
        rc = gnutls_certificate_set_x509_key_mem(identity->credentials, cert, key,
                                                 GNUTLS_X509_FMT_PEM);
    if (rc == 0)
        return 0;
    refuse_file(names->key_at, "is not the key of the certificate", rc, err);
    err_hint(err, "openssl pkey -in KEY -pubout, and openssl x509 -in CERT -noout -pubkey, must "
                  "show the same");
    return REDRIVE_E_CONFIG;
}

int tls_identity_new(struct str cert_pem, struct str key_pem, const struct config_tls *names,
                     struct tls_identity **ret, struct redrive_err *err)
{
    const gnutls_datum_t cert = {(unsigned char *)cert_pem.ptr, (unsigned)cert_pem.len};
    const gnutls_datum_t key = {(unsigned char *)key_pem.ptr, (unsigned)key_pem.len};
    struct tls_identity *identity = calloc(1, sizeof *identity);
    if (!identity)
        return err_nomem(err);
    atomic_init(&identity->holders, 1);
    int rc = read_chain(identity, &cert, names, err);
    if (rc == 0)
        rc = read_key(identity, &key, names, err);
    if (rc == 0)
        rc = match_key(identity, &cert, &key, names, err);
    if (rc < 0) {
        tls_identity_free(identity);
        return rc;
    }
    *ret = identity;
    return 0;
}

static int read_file(const char *path, const char *place, struct buf *ret, struct redrive_err *err)
{
    struct redrive_err why = {0};
    buf_init(ret, FILE_MAX_BYTES);
    const int rc = file_read(path, FILE_MAX_BYTES, ret, &why);
    if (rc < 0) {
        err_set(err, rc, "%s%s", place ? place : "", why.message);
        err_detail(err, "%s", why.detail);
        err_hint(err, "%s", why.hint);
    }
    return rc;
}

int tls_identity_load(const struct config_tls *files, struct tls_identity **ret,
                      struct redrive_err *err)
{
    struct buf cert;
    RELEASED_BY(buf_release) struct buf key = BUF_MAX(FILE_MAX_BYTES);
    int rc = read_file(files->cert, files->cert_at, &cert, err);
    if (rc == 0)
        rc = read_file(files->key, files->key_at, &key, err);
    if (rc == 0)
        rc = tls_identity_new(buf_str(&cert), buf_str(&key), files, ret, err);
    if (key.data)
        explicit_bzero(key.data, key.len);
    buf_release(&cert);
    return rc;
}

/* ---- Asking ---------------------------------------------------------------------------------- */

bool tls_identity_same(const struct tls_identity *a, const struct tls_identity *b)
{
    bool same = a->n_chain == b->n_chain;
    for (unsigned i = 0; i < a->n_chain && same; i++)
        same = a->chain[i].cert.size == b->chain[i].cert.size &&
               memcmp(a->chain[i].cert.data, b->chain[i].cert.data, a->chain[i].cert.size) == 0;
    return same;
}

int64_t tls_identity_end_ms(const struct tls_identity *identity)
{
    return identity->end_ms;
}

bool tls_identity_is_ending(const struct tls_identity *identity, int64_t now_ms,
                            struct redrive_err *err)
{
    char at[CLOCK_TEXT_MAX];
    const int64_t left_ms = identity->end_ms - now_ms;
    const bool is_early = now_ms < identity->begin_ms;
    if (!is_early && left_ms > TLS_WARN_BEFORE_MS)
        return false;
    if (is_early)
        (void)err_set(err, REDRIVE_E_CONFIG, "the certificate is not valid yet");
    else if (left_ms <= 0)
        (void)err_set(err, REDRIVE_E_CONFIG, "the certificate has expired");
    else
        (void)err_set(err, REDRIVE_E_CONFIG, "the certificate ends in %lld days",
                      (long long)(left_ms / DAY_MS));
    (void)clock_format(is_early ? identity->begin_ms : identity->end_ms, at);
    err_detail(err, "it is valid %s %s", is_early ? "from" : "until", at);
    err_hint(err, is_early ? "is the clock of this machine right? Clients refuse the certificate"
                           : "put a new one into its file and send SIGHUP");
    return true;
}

gnutls_certificate_credentials_t tls_identity_credentials(const struct tls_identity *identity)
{
    return identity->credentials;
}

void tls_identity_parts(const struct tls_identity *identity, gnutls_pcert_st **ret_chain,
                        unsigned *ret_n, gnutls_privkey_t *ret_key)
{
    *ret_chain = (gnutls_pcert_st *)identity->chain;
    *ret_n = identity->n_chain;
    *ret_key = identity->key;
}

/* ---- Server names ---------------------------------------------------------------------------- */

/* The number of the server name extension is 0, and gnutls_session_ext_register refuses 0: GnuTLS
 * does not let this extension be overridden, and has no setting for the names. It takes an int,
 * keeps the lower 16 bits, and looks at extensions of the session before its own; so this number
 * is 0 as well (3.7.9, 3.8.9 and 3.8.13). In a version that refuses the number, or keeps all of
 * it, registering has no effect: names are checked as they would be without it. */
#define SERVER_NAME_EXTENSION (1 << 16)

/* A gnutls_ext_recv_func that leaves the name unread. */
static int ignore_name(gnutls_session_t session, const unsigned char *data, size_t len)
{
    (void)session, (void)data, (void)len;
    return 0;
}

void tls_accept_any_name(gnutls_session_t session)
{
    (void)gnutls_session_ext_register(session, "any server name", SERVER_NAME_EXTENSION,
                                      GNUTLS_EXT_MANDATORY, ignore_name, NULL, NULL, NULL, NULL,
                                      GNUTLS_EXT_FLAG_CLIENT_HELLO);
}

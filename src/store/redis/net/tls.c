/* tls.c - a GnuTLS session as a client, and what its failures mean. */
#include "store/redis/net/tls.h"

#include <arpa/inet.h>
#include <errno.h>
#include <gnutls/gnutls.h>
#include <gnutls/x509.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/os/file.h"
#include "base/text/buf.h"
#include "base/time/clock.h"
#include "store/redis/net/socket.h"

#define PRIORITIES     "NORMAL:-VERS-ALL:+VERS-TLS1.3:+VERS-TLS1.2"
#define FILE_MAX_BYTES ((size_t)4 << 20)
#define NAMES_MAX      ((size_t)512)

/* The first bytes of what a server with TLS may answer: an alert or a handshake. */
#define RECORD_ALERT     0x15
#define RECORD_HANDSHAKE 0x16

struct rd_tls {
    int fd;
    struct node at;
    gnutls_session_t session;
    gnutls_certificate_credentials_t credentials;
    char *name;          /* that the certificate must have */
    char *ca;            /* the file of the authorities; NULL: the system's */
    char *cert;          /* the file of this client's certificate; NULL: none */
    bool waits;          /* for the socket, up to its time limit */
    bool has_run_dry;    /* the socket had nothing, or took nothing */
    bool has_answered;   /* something has come, */
    unsigned char first; /* beginning with this byte */
    int64_t until_ms;    /* when the handshake must be over; 0: it is */
    int code;            /* of the last failure, as GnuTLS names it; 0: none */
};

/* ---- The socket ------------------------------------------------------------------------------ */

static ssize_t came_to(struct rd_tls *tls, ssize_t n)
{
    const int error = errno;
    if (n < 0) {
        tls->has_run_dry = error == EAGAIN || error == EWOULDBLOCK;
        gnutls_transport_set_errno(tls->session, error);
    }
    errno = error;
    return n;
}

static ssize_t pull(gnutls_transport_ptr_t ctx, void *to, size_t size)
{
    struct rd_tls *tls = ctx;
    if (tls->until_ms != 0 && clock_monotonic_ms() >= tls->until_ms) {
        errno = EAGAIN;
        return came_to(tls, -1);
    }
    const ssize_t n = rd_socket_receive(tls->fd, to, size, tls->waits);
    if (n > 0 && !tls->has_answered) {
        tls->has_answered = true;
        memcpy(&tls->first, to, 1);
    }
    return came_to(tls, n);
}

/* All messages of a step of the handshake go together: after the first of several a server that
 * refuses it may be gone, and with it its reason. */
static ssize_t push(gnutls_transport_ptr_t ctx, const giovec_t *parts, int n_parts)
{
    struct rd_tls *tls = ctx;
    const struct msghdr message = {.msg_iov = (struct iovec *)parts, .msg_iovlen = (size_t)n_parts};
    return came_to(tls, rd_socket_send(tls->fd, &message, tls->waits));
}

/* Whether to go on after a code that is no failure: a message was handled that has no data. */
static bool goes_on(const struct rd_tls *tls, long code)
{
    if (code == GNUTLS_E_AGAIN || code == GNUTLS_E_INTERRUPTED)
        return !tls->has_run_dry;
    return !gnutls_error_is_fatal((int)code) && code != GNUTLS_E_REHANDSHAKE;
}

/* ---- The files ------------------------------------------------------------------------------- */

static int refuse_file(const char *setting, const char *path, const char *why, const char *hint,
                       struct redrive_err *err)
{
    int rc = err_set(err, REDRIVE_E_INVALID,
                     "the file of %s in the Redis store's URL cannot be used", setting);
    err_detail(err, "%s: %s", path, why);
    err_hint(err, "%s", hint);
    return rc;
}

static int read_file(const char *setting, const char *path, struct buf *ret,
                     struct redrive_err *err)
{
    struct redrive_err why = {0};
    buf_init(ret, FILE_MAX_BYTES);
    if (file_read(path, FILE_MAX_BYTES, ret, &why) == 0)
        return 0;
    return refuse_file(setting, path, why.message, "is this its path, and may this user read it?",
                       err);
}

static gnutls_datum_t datum(const struct buf *b)
{
    return (gnutls_datum_t){(unsigned char *)b->data, (unsigned)b->len};
}

static int load_authorities(struct rd_tls *tls, const struct tls_settings *settings,
                            struct redrive_err *err)
{
    struct buf pem;
    if (!settings->ca) {
        /* If there are none, no certificate is accepted, and the error says where they are from. */
        (void)gnutls_certificate_set_x509_system_trust(tls->credentials);
        return 0;
    }
    int rc = read_file("sslrootcert", settings->ca, &pem, err);
    if (rc == 0) {
        const gnutls_datum_t bytes = datum(&pem);
        const int n =
            gnutls_certificate_set_x509_trust_mem(tls->credentials, &bytes, GNUTLS_X509_FMT_PEM);
        if (n <= 0)
            rc = refuse_file("sslrootcert", settings->ca, "it has no certificate in PEM form",
                             "name the certificate of the authority that has signed the server's",
                             err);
    }
    buf_release(&pem);
    return rc;
}

static int load_own(struct rd_tls *tls, const struct tls_settings *settings,
                    struct redrive_err *err)
{
    struct buf cert, key;
    if (!settings->cert)
        return 0;
    buf_init(&key, FILE_MAX_BYTES);
    int rc = read_file("sslcert", settings->cert, &cert, err);
    if (rc == 0)
        rc = read_file("sslkey", settings->key, &key, err);
    if (rc == 0) {
        const gnutls_datum_t cert_pem = datum(&cert), key_pem = datum(&key);
        const int code = gnutls_certificate_set_x509_key_mem(tls->credentials, &cert_pem, &key_pem,
                                                             GNUTLS_X509_FMT_PEM);
        if (code < 0)
            rc = refuse_file("sslcert and sslkey", settings->key, gnutls_strerror(code),
                             code == GNUTLS_E_DECRYPTION_FAILED
                                 ? "a key with a password cannot be used: openssl pkey -in KEY "
                                   "-out PLAIN"
                                 : "both are in PEM form, and the key is that of the certificate",
                             err);
    }
    if (key.data)
        explicit_bzero(key.data, key.len);
    buf_release(&key);
    buf_release(&cert);
    return rc;
}

/* ---- Making ---------------------------------------------------------------------------------- */

static bool is_address(const char *name)
{
    unsigned char bytes[sizeof(struct in6_addr)];
    return inet_pton(AF_INET, name, bytes) == 1 || inet_pton(AF_INET6, name, bytes) == 1;
}

static bool make_session(struct rd_tls *tls)
{
    if (gnutls_init(&tls->session, GNUTLS_CLIENT | GNUTLS_NO_SIGNAL | GNUTLS_NO_TICKETS) < 0) {
        tls->session = NULL;
        return false;
    }
    if (gnutls_priority_set_direct(tls->session, PRIORITIES, NULL) < 0 ||
        gnutls_credentials_set(tls->session, GNUTLS_CRD_CERTIFICATE, tls->credentials) < 0)
        return false;
    /* The name of the server that is meant, for one that has several certificates. */
    if (!is_address(tls->name) &&
        gnutls_server_name_set(tls->session, GNUTLS_NAME_DNS, tls->name, strlen(tls->name)) < 0)
        return false;
    gnutls_session_set_verify_cert(tls->session, tls->name, 0);
    gnutls_transport_set_ptr(tls->session, tls);
    gnutls_transport_set_pull_function(tls->session, pull);
    gnutls_transport_set_vec_push_function(tls->session, push);
    return true;
}

static bool copy_text(char **ret, const char *text)
{
    return !text || (*ret = strdup(text));
}

int rd_tls_new(int fd, const struct node *at, const struct tls_settings *settings,
               struct rd_tls **ret, struct redrive_err *err)
{
    struct rd_tls *tls = calloc(1, sizeof *tls);
    if (!tls)
        return err_nomem(err);
    tls->fd = fd;
    tls->at = *at;
    tls->waits = true;
    int rc = 0;
    if (!copy_text(&tls->name, settings->server_name ? settings->server_name : at->host) ||
        !copy_text(&tls->ca, settings->ca) || !copy_text(&tls->cert, settings->cert) ||
        gnutls_certificate_allocate_credentials(&tls->credentials) < 0)
        rc = err_nomem(err);
    if (rc == 0)
        rc = load_authorities(tls, settings, err);
    if (rc == 0)
        rc = load_own(tls, settings, err);
    if (rc == 0 && !make_session(tls))
        rc = err_nomem(err);
    if (rc != 0) {
        rd_tls_free(tls);
        return rc;
    }
    *ret = tls;
    return 0;
}

void rd_tls_free(struct rd_tls *tls)
{
    if (!tls)
        return;
    if (tls->session) {
        tls->waits = false;
        if (tls->code == 0 && tls->until_ms == 0)
            (void)gnutls_bye(tls->session, GNUTLS_SHUT_WR);
        gnutls_deinit(tls->session);
    }
    if (tls->credentials)
        gnutls_certificate_free_credentials(tls->credentials);
    free(tls->name);
    free(tls->ca);
    free(tls->cert);
    free(tls);
}

/* ---- Why a certificate is refused ------------------------------------------------------------ */

/* The certificate that the server has shown; the caller frees it. NULL: it cannot be read. */
static gnutls_x509_crt_t shown_certificate(const struct rd_tls *tls)
{
    unsigned n = 0;
    const gnutls_datum_t *chain = gnutls_certificate_get_peers(tls->session, &n);
    gnutls_x509_crt_t crt = NULL;
    if (!chain || n == 0 || gnutls_x509_crt_init(&crt) < 0)
        return NULL;
    if (gnutls_x509_crt_import(crt, &chain[0], GNUTLS_X509_FMT_DER) < 0) {
        gnutls_x509_crt_deinit(crt);
        return NULL;
    }
    return crt;
}

/* One of its alternative names; false: there are no more. */
static bool add_name(gnutls_x509_crt_t crt, unsigned i, struct buf *ret)
{
    char name[HOST_MAX], address[INET6_ADDRSTRLEN];
    size_t len = sizeof name;
    const int type = gnutls_x509_crt_get_subject_alt_name(crt, i, name, &len, NULL);
    struct str text = {name, len};
    if (type == GNUTLS_E_REQUESTED_DATA_NOT_AVAILABLE)
        return false;
    if (type == GNUTLS_SAN_IPADDRESS) {
        const bool is_v4 = len == sizeof(struct in_addr), is_v6 = len == sizeof(struct in6_addr);
        text = (struct str){0};
        if (is_v4 || is_v6)
            text = str_of(inet_ntop(is_v4 ? AF_INET : AF_INET6, name, address, sizeof address));
    }
    if ((type == GNUTLS_SAN_DNSNAME || type == GNUTLS_SAN_IPADDRESS) && text.len > 0)
        buf_printf(ret, "%s%.*s", ret->len > 0 ? ", " : "", (int)text.len, text.ptr);
    return true;
}

/* The names that it is good for; without any, the common name, which counts for nothing then. */
static void add_names(gnutls_x509_crt_t crt, struct buf *ret)
{
    char name[HOST_MAX];
    size_t len = sizeof name;
    for (unsigned i = 0; i < 100 && add_name(crt, i, ret); i++)
        continue;
    if (ret->len == 0 &&
        gnutls_x509_crt_get_dn_by_oid(crt, GNUTLS_OID_X520_COMMON_NAME, 0, 0, name, &len) == 0)
        buf_add(ret, name, len);
}

static int wrong_name(const struct rd_tls *tls, gnutls_x509_crt_t crt, struct redrive_err *err)
{
    char room[NAMES_MAX];
    struct buf names;
    buf_init_fixed(&names, room, sizeof room);
    add_names(crt, &names);
    int rc = err_set(err, REDRIVE_E_DENIED, "the certificate of the Redis server has another name");
    err_detail(err, "found %s, expected %s", names.len > 0 ? buf_cstr(&names) : "no name",
               tls->name);
    err_hint(err, "write the host as the certificate has it, or add server_name=NAME to the URL");
    return rc;
}

static int unknown_authority(const struct rd_tls *tls, gnutls_x509_crt_t crt,
                             struct redrive_err *err)
{
    char issuer[HOST_MAX];
    size_t len = sizeof issuer;
    const bool has_issuer = gnutls_x509_crt_get_issuer_dn(crt, issuer, &len) == 0;
    int rc = err_set(err, REDRIVE_E_DENIED,
                     "the certificate of the Redis server is signed by an unknown authority");
    err_detail(err, "signed by %s; the authorities are those of %s",
               has_issuer ? issuer : "an authority without a name",
               tls->ca ? tls->ca : "this system");
    err_hint(err, "name the file with the authority's certificate: sslrootcert=FILE in the URL");
    return rc;
}

static int wrong_time(gnutls_x509_crt_t crt, bool is_over, struct redrive_err *err)
{
    char text[CLOCK_TEXT_MAX];
    const time_t at = is_over ? gnutls_x509_crt_get_expiration_time(crt)
                              : gnutls_x509_crt_get_activation_time(crt);
    int rc = err_set(err, REDRIVE_E_DENIED, "the certificate of the Redis server %s",
                     is_over ? "has expired" : "is not valid yet");
    err_detail(err, "it is valid %s %s", is_over ? "until" : "from",
               clock_format((int64_t)at * 1000, text));
    err_hint(err, "%s",
             is_over ? "renew it, or the authority's if that has expired"
                     : "is the clock of this machine right?");
    return rc;
}

static int refuse_certificate(const struct rd_tls *tls, struct redrive_err *err)
{
    const unsigned status = gnutls_session_get_verify_cert_status(tls->session);
    gnutls_x509_crt_t crt = shown_certificate(tls);
    gnutls_datum_t text = {0};
    int rc;
    if (crt && status & (GNUTLS_CERT_SIGNER_NOT_FOUND | GNUTLS_CERT_SIGNER_NOT_CA))
        rc = unknown_authority(tls, crt, err);
    else if (crt && status & (GNUTLS_CERT_EXPIRED | GNUTLS_CERT_NOT_ACTIVATED))
        rc = wrong_time(crt, status & GNUTLS_CERT_EXPIRED, err);
    else if (crt && status & GNUTLS_CERT_UNEXPECTED_OWNER)
        rc = wrong_name(tls, crt, err);
    else {
        rc = err_set(err, REDRIVE_E_DENIED, "the certificate of the Redis server is not trusted");
        if (gnutls_certificate_verification_status_print(status, GNUTLS_CRT_X509, &text, 0) == 0)
            err_detail(err, "%s", (const char *)text.data);
        err_hint(err, "look at it: openssl s_client -connect HOST:PORT");
    }
    gnutls_free(text.data);
    if (crt)
        gnutls_x509_crt_deinit(crt);
    return rc;
}

/* ---- What else may go wrong ------------------------------------------------------------------ */

int rd_tls_refuse_plain(const struct node *at, struct redrive_err *err)
{
    char where[NODE_TEXT_MAX];
    int rc = err_set(err, REDRIVE_E_INVALID, "the Redis server at %s does not speak TLS there",
                     rd_node_text(at, where));
    err_detail(err, "the port answers requests without TLS");
    err_hint(err, "name its tls-port, or write redis:// if the network is a trusted one");
    return rc;
}

const char *rd_tls_error(const struct rd_tls *tls)
{
    if (tls->code == GNUTLS_E_FATAL_ALERT_RECEIVED) {
        const char *name = gnutls_alert_get_name(gnutls_alert_get(tls->session));
        return name ? name : "the server has sent an alert";
    }
    return tls->code != 0 ? gnutls_strerror(tls->code) : "";
}

/* With TLS 1.3 the server looks at this client's certificate after the client's handshake is over,
 * and may close the connection before its reason has arrived. */
int rd_tls_refusal(const struct rd_tls *tls, struct redrive_err *err)
{
    const bool is_alert = tls->code == GNUTLS_E_FATAL_ALERT_RECEIVED;
    /* A server that says nothing in time has refused nothing. */
    if (tls->code == GNUTLS_E_AGAIN ||
        gnutls_certificate_client_get_request_status(tls->session) == 0)
        return 0;
    if (!tls->cert) {
        int rc = err_set(err, is_alert ? REDRIVE_E_DENIED : REDRIVE_E_IO,
                         "the Redis server asks for a certificate of this client");
        err_detail(err, "%s", is_alert ? rd_tls_error(tls) : "it has closed the connection");
        err_hint(err, "add sslcert=FILE&sslkey=FILE to the URL");
        return rc;
    }
    if (!is_alert)
        return 0;
    int rc = err_set(err, REDRIVE_E_DENIED,
                     "the Redis server does not accept the certificate of this client");
    err_detail(err, "%s: %s", tls->cert, rd_tls_error(tls));
    err_hint(err,
             "it must be signed by an authority in the server's tls-ca-cert-file, and be valid");
    return rc;
}

static int failed_handshake(const struct rd_tls *tls, struct redrive_err *err)
{
    char where[NODE_TEXT_MAX];
    if (tls->has_answered && tls->first != RECORD_HANDSHAKE && tls->first != RECORD_ALERT)
        return rd_tls_refuse_plain(&tls->at, err);
    if (tls->code == GNUTLS_E_CERTIFICATE_VERIFICATION_ERROR)
        return refuse_certificate(tls, err);
    int rc = tls->code == GNUTLS_E_FATAL_ALERT_RECEIVED ? rd_tls_refusal(tls, err) : 0;
    if (rc != 0)
        return rc;
    rc = err_set(err, REDRIVE_E_IO, "cannot reach the Redis server with TLS");
    err_detail(err, "%s: %s", rd_node_text(&tls->at, where),
               tls->has_run_dry ? "it has not answered within the time limit" : rd_tls_error(tls));
    err_hint(err, "is it running, and is this its tls-port?");
    return rc;
}

/* ---- Talking --------------------------------------------------------------------------------- */

int rd_tls_greet(struct rd_tls *tls, int64_t until_ms, bool *ret_silent, struct redrive_err *err)
{
    int code;
    tls->until_ms = until_ms;
    do {
        tls->has_run_dry = false;
        code = gnutls_handshake(tls->session);
    } while (code < 0 && goes_on(tls, code));
    *ret_silent = code < 0 && tls->has_run_dry && !tls->has_answered;
    if (code < 0) {
        tls->code = code;
        /* The server's log says why, then. */
        (void)gnutls_alert_send_appropriate(tls->session, code);
        return failed_handshake(tls, err);
    }
    tls->until_ms = 0;
    return 0;
}

const char *rd_tls_version(const struct rd_tls *tls)
{
    const char *name = gnutls_protocol_get_name(gnutls_protocol_get_version(tls->session));
    return name ? name : "TLS";
}

/* What send or recv would return for a code of GnuTLS. */
static ssize_t failed(struct rd_tls *tls, ssize_t code)
{
    if (code == GNUTLS_E_PREMATURE_TERMINATION)
        return 0;
    if (tls->has_run_dry && (code == GNUTLS_E_AGAIN || code == GNUTLS_E_INTERRUPTED)) {
        errno = EAGAIN;
        return -1;
    }
    tls->code = (int)code;
    errno = EPROTO;
    return -1;
}

ssize_t rd_tls_write(struct rd_tls *tls, const char *bytes, size_t n)
{
    ssize_t sent;
    do {
        tls->has_run_dry = false;
        sent = gnutls_record_send(tls->session, bytes, n);
    } while (sent < 0 && goes_on(tls, sent));
    if (sent == GNUTLS_E_PREMATURE_TERMINATION)
        sent = GNUTLS_E_PUSH_ERROR;
    return sent >= 0 ? sent : failed(tls, sent);
}

ssize_t rd_tls_read(struct rd_tls *tls, char *ret, size_t size, bool waits)
{
    ssize_t n;
    tls->waits = waits;
    do {
        tls->has_run_dry = false;
        n = gnutls_record_recv(tls->session, ret, size);
    } while (n < 0 && goes_on(tls, n));
    tls->waits = true;
    return n >= 0 ? n : failed(tls, n);
}

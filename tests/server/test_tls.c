/* HTTP over TLS, with certificates made on the spot. */
#include "bench.h"

#include <stdio.h>
#include <time.h>

#include <gnutls/gnutls.h>
#include <gnutls/x509.h>

#include "server/listen/tls.h"

/* PEM texts, for gnutls_free. */
struct pair {
    gnutls_datum_t cert;
    gnutls_datum_t key;
};

static void make_pair(const char *name, struct pair *ret)
{
    gnutls_x509_privkey_t key;
    gnutls_x509_crt_t cert;
    assert_int_equal(gnutls_x509_privkey_init(&key), 0);
    assert_int_equal(gnutls_x509_privkey_generate(
                         key, GNUTLS_PK_ECDSA, GNUTLS_CURVE_TO_BITS(GNUTLS_ECC_CURVE_SECP256R1), 0),
                     0);
    assert_int_equal(gnutls_x509_crt_init(&cert), 0);
    gnutls_x509_crt_set_version(cert, 3);
    gnutls_x509_crt_set_serial(cert, "\x01", 1);
    gnutls_x509_crt_set_activation_time(cert, time(NULL) - 60);
    gnutls_x509_crt_set_expiration_time(cert, time(NULL) + 3600);
    gnutls_x509_crt_set_dn_by_oid(cert, GNUTLS_OID_X520_COMMON_NAME, 0, name,
                                  (unsigned)strlen(name));
    gnutls_x509_crt_set_key(cert, key);
    assert_int_equal(gnutls_x509_crt_sign2(cert, cert, key, GNUTLS_DIG_SHA256, 0), 0);
    assert_int_equal(gnutls_x509_crt_export2(cert, GNUTLS_X509_FMT_PEM, &ret->cert), 0);
    assert_int_equal(gnutls_x509_privkey_export2(key, GNUTLS_X509_FMT_PEM, &ret->key), 0);
    gnutls_x509_crt_deinit(cert);
    gnutls_x509_privkey_deinit(key);
}

static void free_pair(struct pair *pair)
{
    gnutls_free(pair->cert.data);
    gnutls_free(pair->key.data);
}

static struct str text_of(const gnutls_datum_t *datum)
{
    return (struct str){(const char *)datum->data, datum->size};
}

static const struct config_tls NAMES = {.cert_at = "cert: ", .key_at = "key: "};

static struct tls_identity *make_identity(const char *name)
{
    struct tls_identity *identity = NULL;
    struct pair pair;
    struct redrive_err err = {0};
    make_pair(name, &pair);
    if (tls_identity_new(text_of(&pair.cert), text_of(&pair.key), &NAMES, &identity, &err) < 0)
        fail_msg("%s: %s", err.message, err.detail);
    free_pair(&pair);
    return identity;
}

/* A connection on which the handshake has been tried. */
struct tls_client {
    struct client client;
    gnutls_session_t session;
    gnutls_certificate_credentials_t trust;
    int handshake; /* 0, or why not */
};

static void tls_connect(struct tls_client *c, uint16_t port, const char *priorities)
{
    client_connect(&c->client, port);
    assert_int_equal(gnutls_certificate_allocate_credentials(&c->trust), 0);
    assert_int_equal(gnutls_init(&c->session, GNUTLS_CLIENT), 0);
    assert_int_equal(gnutls_priority_set_direct(c->session, priorities, NULL), 0);
    gnutls_credentials_set(c->session, GNUTLS_CRD_CERTIFICATE, c->trust);
    gnutls_transport_set_int(c->session, c->client.fd);
    gnutls_handshake_set_timeout(c->session, WAIT_LIMIT_MS);
    gnutls_record_set_timeout(c->session, WAIT_LIMIT_MS);
    c->handshake = gnutls_handshake(c->session);
}

static void tls_close(struct tls_client *c)
{
    gnutls_deinit(c->session);
    gnutls_certificate_free_credentials(c->trust);
    client_close(&c->client);
}

/* The common name of the certificate that it was shown. */
static const char *shown_to(struct tls_client *c, char out[64])
{
    unsigned n;
    size_t size = 64;
    const gnutls_datum_t *list = gnutls_certificate_get_peers(c->session, &n);
    gnutls_x509_crt_t cert;
    assert_non_null(list);
    assert_int_equal(gnutls_x509_crt_init(&cert), 0);
    assert_int_equal(gnutls_x509_crt_import(cert, &list[0], GNUTLS_X509_FMT_DER), 0);
    assert_int_equal(
        gnutls_x509_crt_get_dn_by_oid(cert, GNUTLS_OID_X520_COMMON_NAME, 0, 0, out, &size), 0);
    gnutls_x509_crt_deinit(cert);
    return out;
}

/* One request; what was answered goes into `out`, terminated. */
static void ask_on(struct tls_client *c, const char *text, char *out, size_t size)
{
    size_t n = 0;
    ssize_t got;
    assert_int_equal(gnutls_record_send(c->session, text, strlen(text)), strlen(text));
    while (n < size - 1 && (got = gnutls_record_recv(c->session, out + n, size - 1 - n)) > 0)
        n += (size_t)got;
    out[n] = '\0';
}

TEST(period_of_a_certificate_is_known)
{
    const int64_t now_ms = (int64_t)time(NULL) * 1000, hour_ms = 3600 * 1000;
    const int64_t month_ms = TLS_WARN_BEFORE_MS;
    struct redrive_err err = {0};
    struct tls_identity *identity = make_identity("localhost"); /* for an hour */
    assert_in_range(tls_identity_end_ms(identity), now_ms + hour_ms - 60000,
                    now_ms + hour_ms + 60000);
    assert_true(tls_identity_is_ending(identity, now_ms, &err));
    assert_string_equal(err.message, "the certificate ends in 0 days");
    assert_true(tls_identity_is_ending(identity, now_ms + 2 * hour_ms, &err));
    assert_string_equal(err.message, "the certificate has expired");
    assert_true(tls_identity_is_ending(identity, now_ms - month_ms / 2, &err));
    assert_string_equal(err.message, "the certificate is not valid yet");
    tls_identity_free(identity);
}

#define ASK "GET /echo HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"

TEST(requests_come_over_tls)
{
    struct bench bench;
    struct tls_client client;
    struct tls_identity *identity = make_identity("localhost");
    char answer[2000];
    bench_start(&bench, (struct http_server_options){.tls = identity});
    tls_identity_free(identity);
    for (int i = 0; i < 2; i++) {
        tls_connect(&client, bench.port, "NORMAL");
        assert_int_equal(client.handshake, 0);
        ask_on(&client, ASK, answer, sizeof answer);
        tls_close(&client);
        assert_non_null(strstr(answer, "HTTP/1.1 200 OK"));
        assert_non_null(strstr(answer, "GET /echo\n"));
    }
    bench_stop(&bench);
}

TEST(old_versions_are_refused)
{
    static const struct {
        const char *priorities;
        bool is_taken;
    } CASES[] = {
        {"NORMAL:-VERS-ALL:+VERS-TLS1.3", true},
        {"NORMAL:-VERS-ALL:+VERS-TLS1.2", true},
        {"NORMAL:-VERS-ALL:+VERS-TLS1.1", false},
        {"NORMAL:-VERS-ALL:+VERS-TLS1.0", false},
    };
    struct bench bench;
    struct tls_client client;
    struct tls_identity *identity = make_identity("localhost");
    bench_start(&bench, (struct http_server_options){.tls = identity});
    tls_identity_free(identity);
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        tls_connect(&client, bench.port, CASES[i].priorities);
        assert_int_equal(client.handshake == 0, CASES[i].is_taken);
        tls_close(&client);
    }
    bench_stop(&bench);
}

TEST(another_certificate_is_shown_to_who_comes_later)
{
    struct bench bench;
    struct tls_client before, after;
    struct tls_identity *first = make_identity("first"), *second = make_identity("second");
    char name[64], answer[2000];
    assert_true(tls_identity_same(first, first));
    assert_false(tls_identity_same(first, second));
    bench_start(&bench, (struct http_server_options){.tls = first});
    tls_connect(&before, bench.port, "NORMAL");
    assert_string_equal(shown_to(&before, name), "first");
    http_server_set_tls(bench.server, second);
    tls_identity_free(first);
    tls_identity_free(second);
    tls_connect(&after, bench.port, "NORMAL");
    assert_string_equal(shown_to(&after, name), "second");
    ask_on(&before, ASK, answer, sizeof answer);
    assert_non_null(strstr(answer, "HTTP/1.1 200 OK"));
    ask_on(&after, ASK, answer, sizeof answer);
    assert_non_null(strstr(answer, "HTTP/1.1 200 OK"));
    tls_close(&before);
    tls_close(&after);
    bench_stop(&bench);
}

TEST(what_cannot_be_used_is_told)
{
    struct pair a, b;
    struct tls_identity *identity = NULL;
    struct redrive_err err = {0};
    make_pair("a", &a);
    make_pair("b", &b);
    assert_int_equal(tls_identity_new(STR("no PEM"), text_of(&a.key), &NAMES, &identity, &err),
                     REDRIVE_E_CONFIG);
    assert_string_equal(err.message, "cert: is not a certificate in PEM form");
    assert_int_equal(tls_identity_new(text_of(&a.cert), STR("no PEM"), &NAMES, &identity, &err),
                     REDRIVE_E_CONFIG);
    assert_string_equal(err.message, "key: is not a private key in PEM form");
    assert_int_equal(tls_identity_new(text_of(&a.cert), text_of(&b.key), &NAMES, &identity, &err),
                     REDRIVE_E_CONFIG);
    assert_string_equal(err.message, "key: is not the key of the certificate");
    assert_null(identity);
    free_pair(&a);
    free_pair(&b);
}

TEST(what_is_not_tls_is_closed)
{
    struct bench bench;
    struct tls_identity *identity = make_identity("localhost");
    struct client client;
    bench_start(&bench, (struct http_server_options){.tls = identity, .idle_timeout_ms = 300});
    tls_identity_free(identity);
    client_connect(&client, bench.port);
    client_say(&client, "GET /echo HTTP/1.1\r\nHost: x\r\n\r\n");
    client_wait_close(&client);
    client_close(&client);
    client_connect(&client, bench.port);
    client_send(&client, "\x16\x03\x01", 3);
    client_wait_close(&client);
    client_close(&client);
    assert_int_equal(bench.n_requests, 0);
    bench_stop(&bench);
}

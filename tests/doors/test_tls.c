/* HTTP over TLS, with a certificate made on the spot. */
#include "bench.h"

#include <stdio.h>
#include <time.h>

#include <gnutls/gnutls.h>
#include <gnutls/x509.h>

struct identity {
    gnutls_datum_t cert;
    gnutls_datum_t key;
};

static void make_identity(struct identity *ret)
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
    gnutls_x509_crt_set_dn_by_oid(cert, GNUTLS_OID_X520_COMMON_NAME, 0, "localhost", 9);
    gnutls_x509_crt_set_key(cert, key);
    assert_int_equal(gnutls_x509_crt_sign2(cert, cert, key, GNUTLS_DIG_SHA256, 0), 0);
    assert_int_equal(gnutls_x509_crt_export2(cert, GNUTLS_X509_FMT_PEM, &ret->cert), 0);
    assert_int_equal(gnutls_x509_privkey_export2(key, GNUTLS_X509_FMT_PEM, &ret->key), 0);
    gnutls_x509_crt_deinit(cert);
    gnutls_x509_privkey_deinit(key);
}

/* One request over TLS; what was answered goes into `out`, terminated. */
static void ask(uint16_t port, const char *text, char *out, size_t size)
{
    struct client client;
    gnutls_session_t session;
    gnutls_certificate_credentials_t trust;
    client_connect(&client, port);
    assert_int_equal(gnutls_certificate_allocate_credentials(&trust), 0);
    assert_int_equal(gnutls_init(&session, GNUTLS_CLIENT), 0);
    gnutls_set_default_priority(session);
    gnutls_credentials_set(session, GNUTLS_CRD_CERTIFICATE, trust);
    gnutls_transport_set_int(session, client.fd);
    gnutls_handshake_set_timeout(session, CLIENT_WAIT_MS);
    gnutls_record_set_timeout(session, CLIENT_WAIT_MS);
    assert_int_equal(gnutls_handshake(session), 0);
    assert_int_equal(gnutls_record_send(session, text, strlen(text)), strlen(text));
    size_t n = 0;
    ssize_t got;
    while (n < size - 1 && (got = gnutls_record_recv(session, out + n, size - 1 - n)) > 0)
        n += (size_t)got;
    out[n] = '\0';
    gnutls_deinit(session);
    gnutls_certificate_free_credentials(trust);
    client_close(&client);
}

static void requests_come_over_tls(void **state)
{
    struct bench bench;
    struct identity identity;
    char answer[2000];
    (void)state;
    make_identity(&identity);
    bench_start(&bench, (struct http_server_options){.tls_cert = (const char *)identity.cert.data,
                                                     .tls_key = (const char *)identity.key.data});
    gnutls_free(identity.cert.data);
    gnutls_free(identity.key.data);
    for (int i = 0; i < 2; i++) {
        ask(bench.port, "GET /echo HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", answer,
            sizeof answer);
        assert_non_null(strstr(answer, "HTTP/1.1 200 OK"));
        assert_non_null(strstr(answer, "GET /echo\n"));
    }
    bench_stop(&bench);
}

static void what_is_not_tls_is_closed(void **state)
{
    struct bench bench;
    struct identity identity;
    struct client client;
    (void)state;
    make_identity(&identity);
    bench_start(&bench, (struct http_server_options){.tls_cert = (const char *)identity.cert.data,
                                                     .tls_key = (const char *)identity.key.data,
                                                     .idle_timeout_ms = 300});
    gnutls_free(identity.cert.data);
    gnutls_free(identity.key.data);
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(requests_come_over_tls),
        T(what_is_not_tls_is_closed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

#include "bench.h"

#include <arpa/inet.h>
#include <curl/curl.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "run/http/http.h"

static char server_path[4096];
static int port;
static pid_t server;
static int server_in = -1; /* the server ends when this closes, also with us */

static int start_server(void **state)
{
    (void)state;
    int in[2], out[2];
    assert_int_equal(pipe(in), 0);
    assert_int_equal(pipe(out), 0);
    server = fork();
    if (server == 0) {
        dup2(in[0], 0);
        dup2(out[1], 1);
        close(in[1]);
        execlp("python3", "python3", server_path, (char *)NULL);
        _exit(127);
    }
    close(in[0]);
    close(out[1]);
    server_in = in[1];
    char text[16] = "";
    assert_true(read(out[0], text, sizeof text - 1) > 0);
    close(out[0]);
    port = atoi(text);
    return port > 0 ? 0 : -1;
}

static int stop_server(void **state)
{
    (void)state;
    close(server_in);
    return waitpid(server, NULL, 0) == server ? 0 : -1;
}

static void open_url(struct bench *b, struct http_options options)
{
    bench_init(b);
    struct redrive_err err;
    if (http_runner_new(&b->loop, NULL, &options, &b->runner, &err) < 0)
        fail_msg("%s", err.message);
}

static struct record *post_and_wait(struct bench *b, const char *payload, int64_t timeout_ms)
{
    struct record *r = bench_start(b, payload, timeout_ms);
    bench_until(b, &r->is_done);
    return r;
}

/* One job to a path of the server. */
static struct record *post(struct bench *b, const char *path, const char *payload,
                           int64_t timeout_ms)
{
    static char url[256];
    snprintf(url, sizeof url, "http://127.0.0.1:%d/%s", port, path);
    open_url(b, (struct http_options){.url = url});
    return post_and_wait(b, payload, timeout_ms);
}

TEST(payload_is_posted_and_body_is_the_result)
{
    struct bench b;
    struct record *r = post(&b, "echo", "{\"n\":1}", 0);
    assert_int_equal(r->class_, REDRIVE_CLASS_SUCCESS);
    assert_int_equal(r->failure.http_status, 200);
    assert_string_equal(r->result, "{\"n\":1}");
    bench_release(&b);
}

TEST(large_payload_passes_whole)
{
    size_t len = 1000 * 1000;
    char *payload = malloc(len + 1);
    memset(payload, 'x', len);
    payload[len] = '\0';
    struct bench b;
    struct record *r = post(&b, "echo", payload, 0);
    assert_int_equal(r->result_len, len);
    bench_release(&b);
    free(payload);
}

TEST(headers_carry_the_facts_of_the_job)
{
    struct bench b;
    struct record *r = post(&b, "facts", NULL, 0);
    assert_int_equal(r->failure.http_status, 201);
    assert_string_equal(r->result, "[\"POST\", {\"Content-Type\": \"application/json\", "
                                   "\"Redrive-Job-Id\": \"job-0\", \"Redrive-Task\": \"resize\", "
                                   "\"Redrive-Queue\": \"default\", \"Redrive-Tenant\": \"acme\", "
                                   "\"Redrive-Attempt\": \"2\", \"Redrive-Max-Attempts\": \"5\"}]");
    bench_release(&b);
}

TEST(request_is_signed_with_each_secret_and_has_the_configured_headers)
{
    struct config_secret secrets[] = {
        {.bytes = "the-new-secret-of-32-bytes-here!", .len = 32},
        {.bytes = "the-old-secret-16", .len = 17},
    };
    struct config_header headers[] = {{"X-Api-Key", "k1", "***"}, {"X-Other", "2", "***"}};
    const struct config_http sends = {
        .secrets = secrets, .n_secrets = 2, .headers = headers, .n_headers = 2};
    static const struct {
        const char *key;
        int status;
    } rows[] = {
        {"7468652d6e65772d7365637265742d6f662d33322d62797465732d6865726521", 200},
        {"7468652d6f6c642d7365637265742d3136", 200},
        {"00112233445566778899aabbccddeeff", 401},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct bench b;
        char url[256];
        snprintf(url, sizeof url, "http://127.0.0.1:%d/signed/%s/X-Api-Key", port, rows[i].key);
        open_url(&b, (struct http_options){.url = url, .sends = &sends});
        struct record *r = bench_start(&b, "{\"a\":1}", 0);
        bench_until(&b, &r->is_done);
        if (rows[i].status == 200)
            assert_string_equal(r->result, "k1");
        else
            assert_int_equal(r->failure.http_status, rows[i].status);
        bench_release(&b);
    }
}

TEST(header_value_cannot_make_another_header)
{
    char url[64];
    snprintf(url, sizeof url, "http://127.0.0.1:%d/facts", port);
    struct bench b;
    open_url(&b, (struct http_options){.url = url});
    struct run_request request = {.job_id = "a\r\nRedrive-Evil: 1", .task = "t"};
    struct record *r = bench_start_as(&b, &request);
    bench_until(&b, &r->is_done);
    assert_non_null(strstr(r->result, "\"Redrive-Job-Id\": \"a??Redrive-Evil: 1\""));
    bench_release(&b);
}

TEST(statuses_are_classified_and_the_body_is_the_message)
{
    static const struct {
        const char *path;
        int status;
        enum redrive_class class_;
        const char *message;
    } rows[] = {
        {"status/400", 400, REDRIVE_CLASS_VALIDATION, "status 400"},
        {"status/401", 401, REDRIVE_CLASS_AUTHENTICATION, "status 401"},
        {"status/404", 404, REDRIVE_CLASS_PERMANENT, "status 404"},
        {"status/408", 408, REDRIVE_CLASS_TRANSIENT, "status 408"},
        {"status/429", 429, REDRIVE_CLASS_RATE_LIMITED, "status 429"},
        {"status/500", 500, REDRIVE_CLASS_TRANSIENT, "status 500"},
        {"status/503", 503, REDRIVE_CLASS_TRANSIENT, "status 503"},
        {"after/503/", 503, REDRIVE_CLASS_TRANSIENT, "HTTP 503"},
        {"nul", 500, REDRIVE_CLASS_TRANSIENT, "a b"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct bench b;
        struct record *r = post(&b, rows[i].path, "{}", 0);
        assert_int_equal(r->failure.http_status, rows[i].status);
        assert_int_equal(r->class_, rows[i].class_);
        assert_string_equal(r->message, rows[i].message);
        assert_int_equal(r->failure.retry_after_ms, 0);
        assert_int_equal(r->result_len, 0);
        bench_release(&b);
    }
}

TEST(retry_after_is_read_in_both_forms)
{
    struct bench b;
    struct record *r = post(&b, "after/429/7", NULL, 0);
    assert_int_equal(r->failure.retry_after_ms, 7000);
    bench_release(&b);
    r = post(&b, "after/503/120", NULL, 0);
    assert_int_equal(r->failure.retry_after_ms, 120000);
    assert_int_equal(r->class_, REDRIVE_CLASS_RATE_LIMITED);
    bench_release(&b);
    r = post(&b, "after-date", NULL, 0);
    assert_in_range(r->failure.retry_after_ms, 80000, 90000);
    bench_release(&b);
    r = post(&b, "after/429/soon", NULL, 0);
    assert_int_equal(r->failure.retry_after_ms, 0);
    bench_release(&b);
}

TEST(bodies_have_a_maximum)
{
    struct bench b;
    struct record *r = post(&b, "long", NULL, 0);
    assert_int_equal(strlen(r->message), HTTP_EXCERPT_MAX_BYTES);
    bench_release(&b);
    r = post(&b, "big/3000000", NULL, 0);
    assert_int_equal(r->class_, REDRIVE_CLASS_SUCCESS);
    assert_int_equal(r->result_len, RUN_RESULT_MAX_BYTES);
    assert_int_equal(r->dropped_bytes, 3000000 - RUN_RESULT_MAX_BYTES);
    bench_release(&b);
    r = post(&b, "endless", NULL, 0);
    assert_int_equal(r->class_, REDRIVE_CLASS_SUCCESS);
    assert_int_equal(r->result_len, RUN_RESULT_MAX_BYTES);
    bench_release(&b);
}

TEST(redirect_is_not_followed)
{
    struct bench b;
    struct record *r = post(&b, "redirect", NULL, 0);
    assert_int_equal(r->failure.http_status, 302);
    assert_true(r->failure.failed);
    assert_string_equal(r->message, "HTTP 302: a redirect, which is not followed");
    bench_release(&b);
    r = post(&b, "seen", NULL, 0);
    assert_null(strstr(r->result, "/followed"));
    bench_release(&b);
}

TEST(slow_headers_time_out)
{
    struct bench b;
    struct record *r = post(&b, "slow/60", NULL, 150);
    assert_string_equal(r->message, "timed out after 150ms");
    assert_int_equal(r->class_, REDRIVE_CLASS_TRANSIENT);
    bench_release(&b);
    r = post(&b, "slow/0.2", NULL, 20000);
    assert_string_equal(r->result, "at last");
    bench_release(&b);
}

TEST(reset_and_garbage_have_a_curl_code)
{
    struct bench b;
    struct record *r = post(&b, "reset", NULL, 0);
    assert_int_not_equal(r->failure.curl_code, 0);
    assert_int_equal(r->class_, REDRIVE_CLASS_NETWORK);
    bench_release(&b);
    r = post(&b, "garbage", NULL, 0);
    assert_int_not_equal(r->failure.curl_code, 0);
    bench_release(&b);
}

/* A port on which nobody listens: bound, and thereby nobody else's. */
static int closed_port(int *ret_fd)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof address;
    *ret_fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(bind(*ret_fd, (struct sockaddr *)&address, len), 0);
    assert_int_equal(getsockname(*ret_fd, (struct sockaddr *)&address, &len), 0);
    return ntohs(address.sin_port);
}

TEST(refused_port_is_a_network_failure)
{
    int fd;
    char url[64];
    snprintf(url, sizeof url, "http://127.0.0.1:%d/", closed_port(&fd));
    struct bench b;
    open_url(&b, (struct http_options){.url = url});
    struct record *r = post_and_wait(&b, NULL, 0);
    assert_int_equal(r->failure.curl_code, 7);
    assert_int_equal(r->class_, REDRIVE_CLASS_NETWORK);
    assert_non_null(strstr(r->message, "127.0.0.1"));
    bench_release(&b);
    close(fd);
}

/* A full backlog: the kernel drops what would connect. */
TEST(connecting_has_a_time_out_of_its_own)
{
    int fd, fillers[8];
    char url[64];
    int full_port = closed_port(&fd);
    assert_int_equal(listen(fd, 0), 0);
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
                                  .sin_port = htons((uint16_t)full_port)};
    for (int i = 0; i < 8; i++) {
        fillers[i] = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
        (void)!connect(fillers[i], (struct sockaddr *)&address, sizeof address);
    }
    snprintf(url, sizeof url, "http://127.0.0.1:%d/", full_port);
    struct bench b;
    open_url(&b, (struct http_options){.url = url, .connect_timeout_ms = 200});
    struct record *r = post_and_wait(&b, NULL, 60000);
    assert_int_equal(r->failure.curl_code, 28);
    bench_release(&b);
    for (int i = 0; i < 8; i++)
        close(fillers[i]);
    close(fd);
}

TEST(only_http_is_spoken)
{
    struct bench b;
    open_url(&b, (struct http_options){.url = "file:///etc/hostname"});
    struct record *r = post_and_wait(&b, NULL, 0);
    assert_int_equal(r->failure.curl_code, 1);
    assert_int_equal(r->result_len, 0);
    bench_release(&b);
}

TEST(template_may_not_lead_to_a_private_address)
{
    static const char *const hosts[] = {"127.0.0.1", "localhost", "2130706433", "0x7f.1",
                                        "0.0.0.0",   "127.1",     "10.0.0.1",   "169.254.169.254"};
    char url[64], payload[64];
    snprintf(url, sizeof url, "http://{payload.host}:%d/echo", port);
    for (size_t i = 0; i < sizeof hosts / sizeof hosts[0]; i++) {
        struct bench b;
        open_url(&b, (struct http_options){.url = url});
        snprintf(payload, sizeof payload, "{\"host\":\"%s\"}", hosts[i]);
        struct record *r = post_and_wait(&b, payload, 60000);
        assert_string_equal(r->error_type, "PrivateAddress");
        assert_non_null(strstr(r->message, "run.allow_private"));
        assert_int_equal(r->class_, REDRIVE_CLASS_PERMANENT);
        bench_release(&b);
    }
}

/* With `refuses_v6` addresses of IPv4 are public, and those of IPv6 are not. */
static bool refuses_v6;
static unsigned n_refused;

bool __real_address_is_public(const struct sockaddr *address);
bool __wrap_address_is_public(const struct sockaddr *address);

bool __wrap_address_is_public(const struct sockaddr *address)
{
    if (!refuses_v6)
        return __real_address_is_public(address);
    n_refused += address->sa_family != AF_INET;
    return address->sa_family == AF_INET;
}

TEST(a_public_address_beside_a_private_one_may_fail_for_a_while)
{
    struct bench b;
    open_url(&b, (struct http_options){.url = "http://{payload.host}:1/echo"});
    refuses_v6 = true;
    struct record *r = post_and_wait(&b, "{\"host\":\"localhost\"}", 60000);
    refuses_v6 = false;
    const bool has_both = n_refused > 0;
    if (has_both) {
        assert_int_equal(r->failure.curl_code, CURLE_COULDNT_CONNECT);
        assert_int_equal(r->class_, REDRIVE_CLASS_NETWORK);
    }
    bench_release(&b);
    if (!has_both)
        skip();
}

TEST(host_of_the_configuration_may_be_private_whatever_the_path)
{
    char url[64];
    snprintf(url, sizeof url, "http://127.0.0.1:%d/{payload.path}", port);
    struct bench b;
    open_url(&b, (struct http_options){.url = url});
    struct record *r = post_and_wait(&b, "{\"path\":\"echo\"}", 60000);
    assert_int_equal(r->class_, REDRIVE_CLASS_SUCCESS);
    bench_release(&b);
}

TEST(proxy_of_the_environment_is_no_way_around)
{
    char url[64], proxy[64];
    snprintf(url, sizeof url, "http://{payload.host}:%d/echo", port);
    snprintf(proxy, sizeof proxy, "http://127.0.0.1:%d", port);
    setenv("http_proxy", proxy, 1);
    struct bench b;
    open_url(&b, (struct http_options){.url = url});
    struct record *r = post_and_wait(&b, "{\"host\":\"10.0.0.1\"}", 60000);
    unsetenv("http_proxy");
    assert_string_equal(r->error_type, "PrivateAddress");
    bench_release(&b);
}

TEST(private_address_can_be_allowed)
{
    char url[64];
    snprintf(url, sizeof url, "http://{payload.host}:%d/echo", port);
    struct bench b;
    open_url(&b, (struct http_options){.url = url, .allow_private = true});
    struct record *r = post_and_wait(&b, "{\"host\":\"127.0.0.1\"}", 60000);
    assert_int_equal(r->class_, REDRIVE_CLASS_SUCCESS);
    r = post_and_wait(&b, "{\"other\":1}", 60000);
    assert_int_equal(r->class_, REDRIVE_CLASS_VALIDATION);
    assert_string_equal(r->message, "the job has nothing for {payload.host} of the URL");
    bench_release(&b);
}

TEST(path_is_sent_as_it_is_written)
{
    struct bench b;
    struct record *r = post(&b, "echo/../status/500", "1", 0);
    assert_int_equal(r->class_, REDRIVE_CLASS_SUCCESS);
    bench_release(&b);
}

TEST(payload_cannot_lead_to_another_path)
{
    char url[64];
    snprintf(url, sizeof url, "http://127.0.0.1:%d/echo/{payload.id}/x", port);
    struct bench b;
    open_url(&b, (struct http_options){.url = url, .allow_private = true});
    struct record *r = post_and_wait(&b, "{\"id\":\"..\"}", 60000);
    assert_int_equal(r->class_, REDRIVE_CLASS_VALIDATION);
    assert_string_equal(r->message, "'..' cannot stand for {payload.id} of the URL");
    bench_release(&b);
}

TEST(connection_is_used_again)
{
    char url[64];
    snprintf(url, sizeof url, "http://127.0.0.1:%d/connections", port);
    struct bench b;
    open_url(&b, (struct http_options){.url = url});
    int first = atoi(post_and_wait(&b, NULL, 0)->result);
    for (int i = 0; i < 10; i++)
        assert_int_equal(atoi(post_and_wait(&b, NULL, 0)->result), first);
    bench_release(&b);
}

TEST(many_requests_run_at_one_time)
{
    char url[64];
    snprintf(url, sizeof url, "http://127.0.0.1:%d/slow/2", port);
    struct bench b;
    open_url(&b, (struct http_options){.url = url});
    int64_t start = clock_monotonic_ms();
    struct record *records[20];
    for (int i = 0; i < 20; i++)
        records[i] = bench_start(&b, NULL, 0);
    for (int i = 0; i < 20; i++) {
        bench_until(&b, &records[i]->is_done);
        assert_int_equal(records[i]->class_, REDRIVE_CLASS_SUCCESS);
    }
    assert_true(clock_monotonic_ms() - start < 20000); /* one after the other: 40 s */
    bench_release(&b);
}

TEST(request_can_be_cancelled_and_released)
{
    char url[64];
    snprintf(url, sizeof url, "http://127.0.0.1:%d/slow/60", port);
    struct bench b;
    open_url(&b, (struct http_options){.url = url});
    struct record *cancelled = bench_start(&b, NULL, 0);
    struct record *released = bench_start(&b, NULL, 0);
    bench_until_rest(&b);
    runner_cancel(cancelled->run);
    bench_until(&b, &cancelled->is_done);
    assert_int_equal(cancelled->ending, ENDING_CANCELLED);
    runner_stop(b.runner, 50, bench_stopped, &b);
    bench_until(&b, &b.stopped);
    assert_int_equal(released->ending, ENDING_RELEASED);
    bench_release(&b);
}

/* ---- Memory ---------------------------------------------------------------------------------- */

/* curl's n-th allocation from now fails; 0: none does. */
static long curl_fails_at;

static bool curl_is_out(void)
{
    return curl_fails_at > 0 && --curl_fails_at == 0;
}

static void *curl_malloc(size_t size)
{
    return curl_is_out() ? NULL : malloc(size);
}

static void *curl_realloc(void *old, size_t size)
{
    return curl_is_out() ? NULL : realloc(old, size);
}

static char *curl_strdup(const char *text)
{
    return curl_is_out() ? NULL : strdup(text);
}

static void *curl_calloc(size_t n, size_t size)
{
    return curl_is_out() ? NULL : calloc(n, size);
}

/* Whether curl has asked for memory that often. */
static bool post_without_memory(long n, struct http_options options)
{
    struct bench b;
    struct redrive_err err;
    const struct run_request request = {.job_id = "job",
                                        .task = "resize",
                                        .queue = "default",
                                        .tenant = "acme",
                                        .payload = STR("{\"path\":\"echo\"}")};
    open_url(&b, options);
    struct record *r = &b.records[0];
    r->bench = &b;
    curl_fails_at = n;
    int rc = runner_start(b.runner, &request, bench_done, r, &r->run, &err);
    b.n_records = rc == 0;
    if (rc == 0)
        bench_until(&b, &r->is_done);
    else
        assert_int_equal(rc, REDRIVE_E_NOMEM);
    const bool is_over = curl_fails_at > 0;
    curl_fails_at = 0;
    if (rc == 0 && r->class_ == REDRIVE_CLASS_PERMANENT)
        fail_msg("allocation %ld: %s", n, r->message);
    bench_release(&b);
    return !is_over;
}

TEST(job_does_not_fail_for_good_when_curl_has_no_memory)
{
    char url[256];
    snprintf(url, sizeof url, "http://127.0.0.1:%d/{payload.path}", port);
    long n = 1;
    while (post_without_memory(n, (struct http_options){.url = url, .allow_private = true}))
        n++;
    assert_true(n > 20);
}

TEST_MAIN(argc, argv)
{
    if (argc != 2)
        return 2;
    snprintf(server_path, sizeof server_path, "%s/server.py", argv[1]);
    (void)curl_global_init_mem(CURL_GLOBAL_DEFAULT, curl_malloc, free, curl_realloc, curl_strdup,
                               curl_calloc);
    return check_run(start_server, stop_server);
}

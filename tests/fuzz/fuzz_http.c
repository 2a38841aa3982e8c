/* A request, as it would arrive: a line with method and target, headers, an empty line. What is let
 * through is UTF-8 without NUL and ends at one place only; whoever is let in has sent the token;
 * which jobs a query means is within bounds, and errors have a text. */
#include "fuzz.h"

#include "base/sha256.h"
#include "base/text/encode.h"
#include "server/auth/auth.h"
#include "server/events.h"
#include "server/http/private.h"
#include "api/job_query.h"

#define TOKEN       "s3cret"
#define MAX_HEADERS 64

/* Cuts off what stands before the next end of a line, or all. */
static struct str next_line(struct str *rest)
{
    const char *end = rest->len ? memchr(rest->ptr, '\n', rest->len) : NULL;
    struct str line = {rest->ptr, end ? (size_t)(end - rest->ptr) : rest->len};
    size_t used = line.len + (end ? 1 : 0);
    *rest = (struct str){rest->ptr + used, rest->len - used};
    return line;
}

static bool is_clean(struct str text)
{
    return utf8_valid(text) && (text.len == 0 || !memchr(text.ptr, '\0', text.len));
}

static void check_target(struct http_request *r, struct str line)
{
    char *uri = arena_dup(&r->arena, line);
    FUZZ_CHECK(uri);
    http_read_target(r, uri);
    if (r->refusal)
        return;
    FUZZ_CHECK(r->path.len > 0 && r->path.ptr[0] == '/' && is_clean(r->path));
    FUZZ_CHECK(str_eq(http_decode(r, r->raw_path), r->path));
    for (size_t i = 0; i < r->n_query; i++)
        FUZZ_CHECK(is_clean(r->query[i].name) && is_clean(r->query[i].value));
}

static void check_headers(struct http_request *r, struct str text)
{
    struct http_head head = {0};
    const char *why;
    uint64_t length;
    head.headers = arena_array(&r->arena, MAX_HEADERS, sizeof *head.headers);
    while (text.len > 0 && head.n < MAX_HEADERS) {
        struct str line = next_line(&text);
        const char *colon = line.len ? memchr(line.ptr, ':', line.len) : NULL;
        struct str name = {line.ptr, colon ? (size_t)(colon - line.ptr) : line.len};
        struct str value = {line.ptr + name.len + (colon ? 1 : 0),
                            line.len - name.len - (colon ? 1 : 0)};
        FUZZ_CHECK(http_head_add(&head, &r->arena, name, value));
    }
    r->headers = head.headers;
    r->n_headers = head.n;
    int status = http_head_finish(&head, &length, &why);
    FUZZ_CHECK(status == 0 ? !why && length <= UINT32_MAX : status == 400 && why);
    FUZZ_CHECK(status != 0 || head.n_lengths + head.n_encodings <= 1);
}

static void check_who(const struct http_request *r)
{
    struct config_token token = {.name = "t", .tenant = "x", .scopes = CONFIG_SCOPE_READ};
    struct config config = {0};
    struct principal who = {0};
    uint64_t id;
    if (auth_check(&config, r, &who) == AUTH_OK)
        FUZZ_CHECK(!http_header(r, "Origin").ptr || http_header(r, "Host").ptr);
    sha256(TOKEN, strlen(TOKEN), token.hash);
    config.tokens = &token;
    config.n_tokens = 1;
    if (auth_check(&config, r, &who) == AUTH_OK)
        FUZZ_CHECK(str_contains(http_header(r, "Authorization"), STR(TOKEN)));
    if (event_id_parse(http_header(r, "Last-Event-ID"), &id))
        FUZZ_CHECK(http_header(r, "Last-Event-ID").len > 0);
}

static void check_query(struct http_request *r, unsigned uses)
{
    struct redrive_err err = {0};
    struct job_query query;
    uint32_t kinds;
    bool goes_on = true;
    job_query_init(&query, STR("x"), uses, ORDER_NEWEST, INT64_C(1800000000000), &r->arena, &err);
    for (size_t i = 0; goes_on && i < r->n_query; i++)
        goes_on = job_query_add(r->query[i].name, r->query[i].value, &query);
    const int rc = job_query_finish(&query);
    FUZZ_CHECK(rc == 0 || err.message[0] != '\0');
    FUZZ_CHECK(rc < 0 || query.filter.limit <= STORE_PAGE_MAX);
    FUZZ_CHECK(str_is(query.filter.tenant, "x"));
    if (event_kinds_parse(http_query(r, "type"), &kinds, &err) < 0)
        FUZZ_CHECK(err.message[0] != '\0');
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct str rest = {(const char *)data, size};
    static struct http_server server; /* on TCP */
    struct http_request request = {.server = &server};
    arena_init(&request.arena);
    check_target(&request, next_line(&rest));
    check_headers(&request, rest);
    check_who(&request);
    if (!request.refusal) {
        check_query(&request, JOB_QUERY_JOBS | JOB_QUERY_STATE | JOB_QUERY_PAGE);
        check_query(&request, JOB_QUERY_JOBS | JOB_QUERY_LIMITS | JOB_QUERY_PURGE);
        check_query(&request, JOB_QUERY_COUNTS);
    }
    arena_release(&request.arena);
    return 0;
}

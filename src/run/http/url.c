/* url.c - fills in the placeholders of a URL, and knows the networks that are not public. */
#include "run/http/url.h"

#include <netinet/in.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/err.h"
#include "base/json/json.h"
#include "base/text/encode.h"

#define VALUE_MAX_BYTES 2048

/* Values are percent-encoded, so that one behind the authority cannot become part of it. An empty
 * authority is no end: curl takes http:///x for http://x. */
bool url_host_is_made_by_jobs(const char *url)
{
    const char *placeholder = strchr(url, '{');
    if (!placeholder)
        return false;
    const char *authority = strstr(url, "://");
    if (!authority || authority > placeholder)
        return true;
    authority += 3;
    const size_t len = strcspn(authority, "/?#");
    return len == 0 || placeholder < authority + len;
}

/* Leaves the reader at the value of the member; false when there is none. */
static bool find_member(struct json_reader *r, struct str name)
{
    struct json_string key;
    char text[256];
    if (!str_copy(text, sizeof text, name) || json_enter_object(r) < 0)
        return false;
    while (json_next_key(r, &key) > 0) {
        if (json_string_is(key, text))
            return true;
        json_skip(r, NULL);
    }
    return false;
}

static int read_scalar(struct json_reader *r, struct buf *value)
{
    struct json_string text;
    struct str raw;
    switch (json_peek(r)) {
    case JSON_TYPE_STRING: return json_read_string(r, &text) < 0 ? -1 : json_unescape(text, value);
    case JSON_TYPE_NUMBER:
    case JSON_TYPE_TRUE:
    case JSON_TYPE_FALSE: return json_skip(r, &raw) < 0 ? -1 : buf_add_str(value, raw);
    default: return -1;
    }
}

/* `path` is a.b.c. False when the payload has no such scalar. */
static bool payload_value(struct str payload, struct str path, struct buf *value)
{
    RELEASED_BY(json_reader_release) struct json_reader r;
    json_reader_init(&r, payload, NULL);
    bool found = true;
    while (found && path.len > 0) {
        const char *dot = memchr(path.ptr, '.', path.len);
        struct str name = {path.ptr, dot ? (size_t)(dot - path.ptr) : path.len};
        size_t used = name.len + (dot ? 1 : 0);
        path = (struct str){path.ptr + used, path.len - used};
        found = find_member(&r, name);
    }
    found = found && read_scalar(&r, value) == 0;
    return found;
}

static bool placeholder_value(struct str name, const struct run_request *request, struct buf *value)
{
    static const char payload[] = "payload.";
    const char *text = str_is(name, "id")       ? request->job_id
                       : str_is(name, "task")   ? request->task
                       : str_is(name, "queue")  ? request->queue
                       : str_is(name, "tenant") ? request->tenant
                                                : NULL;
    if (text)
        return buf_puts(value, text) == 0;
    if (!str_starts_with(name, STR(payload)))
        return false;
    size_t skip = sizeof payload - 1;
    return payload_value(request->payload, (struct str){name.ptr + skip, name.len - skip}, value);
}

/* What a URL's path takes for a step rather than for a name. */
static bool is_dot_segment(struct str value)
{
    return str_is(value, ".") || str_is(value, "..");
}

int url_expand(const char *url, const struct run_request *request, struct buf *out,
               struct redrive_err *err)
{
    RELEASED_BY(buf_release) struct buf value = BUF_MAX(VALUE_MAX_BYTES);
    int rc = 0;
    while (*url && rc == 0) {
        size_t plain = strcspn(url, "{");
        buf_add(out, url, plain);
        url += plain;
        if (!*url)
            break;
        size_t len = strcspn(url + 1, "}");
        struct str name = {url + 1, len};
        buf_reset(&value);
        if (url[1 + len] != '}' || !placeholder_value(name, request, &value) || value.len == 0)
            rc = err_set(err, REDRIVE_E_INVALID, "the job has nothing for {%.*s} of the URL",
                         (int)(len < 64 ? len : 64), name.ptr);
        else if (is_dot_segment(buf_str(&value)))
            rc = err_set(err, REDRIVE_E_INVALID, "'%s' cannot stand for {%.*s} of the URL",
                         buf_cstr(&value), (int)(len < 64 ? len : 64), name.ptr);
        percent_encode(buf_str(&value), out);
        url += len + 1 + (rc == 0);
    }
    if (rc == 0 && buf_failed(out))
        rc = err_full(err, buf_failed(out), "the URL is too long");
    return rc;
}

/* ---- Addresses ------------------------------------------------------------------------------- */

struct network4 {
    uint8_t a, b, c, d;
    int bits;
};

/* IANA's special-purpose registry, and one that a cloud took from its public range. */
static const struct network4 NOT_PUBLIC_4[] = {
    {0, 0, 0, 0, 8},        /* this network */
    {10, 0, 0, 0, 8},       /* private */
    {100, 64, 0, 0, 10},    /* carrier-grade NAT */
    {127, 0, 0, 0, 8},      /* loopback */
    {168, 63, 129, 16, 32}, /* Azure's host services */
    {169, 254, 0, 0, 16},   /* link-local, metadata */
    {172, 16, 0, 0, 12},    /* private */
    {192, 0, 0, 0, 24},     /* protocol assignments */
    {192, 0, 2, 0, 24},     /* documentation */
    {192, 88, 99, 0, 24},   /* 6to4 relays */
    {192, 168, 0, 0, 16},   /* private */
    {198, 18, 0, 0, 15},    /* benchmarks */
    {198, 51, 100, 0, 24},  /* documentation */
    {203, 0, 113, 0, 24},   /* documentation */
    {224, 0, 0, 0, 4},      /* multicast */
    {240, 0, 0, 0, 4},      /* reserved, broadcast */
};

static bool is_public_4(uint32_t address)
{
    for (size_t i = 0; i < sizeof NOT_PUBLIC_4 / sizeof NOT_PUBLIC_4[0]; i++) {
        const struct network4 *n = &NOT_PUBLIC_4[i];
        uint32_t base = (uint32_t)n->a << 24 | (uint32_t)n->b << 16 | (uint32_t)n->c << 8 | n->d;
        if ((address ^ base) >> (32 - n->bits) == 0)
            return false;
    }
    return true;
}

static bool has_prefix(const uint8_t *address, const uint8_t *prefix, int bits)
{
    int bytes = bits / 8, rest = bits % 8;
    return memcmp(address, prefix, (size_t)bytes) == 0 &&
           (rest == 0 || (address[bytes] ^ prefix[bytes]) >> (8 - rest) == 0);
}

struct network6 {
    uint8_t prefix[12];
    int bits;
};

static bool is_public_6(const uint8_t *address)
{
    static const struct network6 mapped = {{[10] = 0xff, 0xff}, 96};
    static const struct network6 global = {{0x20}, 3};
    static const struct network6 not_public[] = {
        {{0x20, 0x01}, 23},             /* protocol assignments, Teredo */
        {{0x20, 0x01, 0x0d, 0xb8}, 32}, /* documentation */
        {{0x20, 0x02}, 16},             /* 6to4 */
        {{0x3f, 0xff}, 20},             /* documentation */
    };
    if (has_prefix(address, mapped.prefix, mapped.bits))
        return is_public_4((uint32_t)address[12] << 24 | (uint32_t)address[13] << 16 |
                           (uint32_t)address[14] << 8 | address[15]);
    if (!has_prefix(address, global.prefix, global.bits))
        return false;
    for (size_t i = 0; i < sizeof not_public / sizeof not_public[0]; i++)
        if (has_prefix(address, not_public[i].prefix, not_public[i].bits))
            return false;
    return true;
}

bool address_is_public(const struct sockaddr *address)
{
    switch (address->sa_family) {
    case AF_INET:
        return is_public_4(
            ntohl(((const struct sockaddr_in *)(const void *)address)->sin_addr.s_addr));
    case AF_INET6:
        return is_public_6(((const struct sockaddr_in6 *)(const void *)address)->sin6_addr.s6_addr);
    default: return false;
    }
}

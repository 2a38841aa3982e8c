/* http.c - the keys of `run.http`: URL, signing secrets, fixed headers. */
#include "config/schema/schema.h"

#include "base/err.h"
#include "base/text/encode.h"
#include "config/config.h"
#include "config/schema/bind.h"
#include "config/schema/types.h"

#define SECRET_PREFIX "whsec_"
#define SECRET_MIN    16
#define SECRETS_MAX   8
#define HEADERS_MAX   64
#define HIDDEN        "***"

/* What is shown of a value: a reference as it is written, any other one not at all. */
static const char *shown(struct binder *b, const struct node *node)
{
    return arena_dup(b->arena, reference_in(node->text) ? node->text : STR(HIDDEN));
}

static bool is_text(const struct node *node)
{
    return node->type == NODE_SCALAR && !node_is_null(node) && node->text.len > 0;
}

/* ---- Secrets --------------------------------------------------------------------------------- */

static bool bind_one_secret(struct binder *b, const struct field *field, const struct node *node,
                            struct config_http *http, struct config_secret *ret)
{
    if (!is_text(node)) {
        bind_expected(b, field, node);
        return false;
    }
    const char *text = reference_expand(b, node, &http->missing);
    if (!text)
        return false;
    uint8_t key[CONFIG_SECRET_MAX];
    const struct str secret = str_of(text);
    const size_t prefix = strlen(SECRET_PREFIX);
    ptrdiff_t len = -1;
    if (str_starts_with(secret, STR(SECRET_PREFIX)))
        len =
            base64_decode((struct str){secret.ptr + prefix, secret.len - prefix}, key, sizeof key);
    if (len < SECRET_MIN) {
        struct redrive_err *err = bind_error(b, node, "is not a signing secret");
        err_detail(err, "expected " SECRET_PREFIX " and the base64 of %d to %d bytes", SECRET_MIN,
                   CONFIG_SECRET_MAX);
        err_hint(err, "make one: echo \"" SECRET_PREFIX "$(openssl rand -base64 32)\"");
        return false;
    }
    *ret = (struct config_secret){.len = (size_t)len, .shown = shown(b, node)};
    memcpy(ret->bytes, key, (size_t)len);
    return true;
}

static void bind_secrets(struct binder *b, const struct field *field, const struct node *node,
                         void *member)
{
    struct config_http *http = member;
    const size_t n = node->type == NODE_LIST ? node->n_children : 1;
    if (n == 0 || n > SECRETS_MAX) {
        bind_expected(b, field, node);
        return;
    }
    struct config_secret *secrets = arena_array(b->arena, n, sizeof *secrets);
    if (!secrets)
        return;
    size_t at = 0;
    if (node->type != NODE_LIST) {
        at += bind_one_secret(b, field, node, http, &secrets[at]);
    } else {
        NODE_FOREACH (node, child)
            at += bind_one_secret(b, field, child, http, &secrets[at]);
    }
    http->secrets = secrets;
    http->n_secrets = at;
}

static void write_secrets(const struct field *field, const void *member, struct json_writer *w)
{
    const struct config_http *http = member;
    if (http->n_secrets == 0)
        return;
    json_open_array(w, field->name);
    for (size_t i = 0; i < http->n_secrets; i++)
        json_put_cstr(w, http->secrets[i].shown);
    json_end_array(w);
}

static const struct field_kind TYPE_SECRETS = {
    .form = FORM_PART,
    .bind = bind_secrets,
    .write = write_secrets,
    .expects = "a secret such as whsec_MfKQ9r8G…, or a list of up to 8"};

/* ---- Headers --------------------------------------------------------------------------------- */

/* What the request itself says, or the connection is about. */
static const char *const RESERVED[] = {
    "content-type",    "content-length",       "transfer-encoding", "connection",
    "expect",          "webhook-id",           "webhook-timestamp", "webhook-signature",
    "redrive-job-id",  "redrive-task",         "redrive-queue",     "redrive-tenant",
    "redrive-attempt", "redrive-max-attempts",
};

static bool is_reserved(const char *name)
{
    for (size_t i = 0; i < sizeof RESERVED / sizeof RESERVED[0]; i++)
        if (strcasecmp(name, RESERVED[i]) == 0)
            return true;
    return false;
}

static bool bind_header(struct binder *b, const struct node *node, struct config_http *http,
                        struct config_header *ret)
{
    const char *name = arena_dup(b->arena, node->key);
    if (!name)
        return false;
    if (!str_is_token(node->key) || node->key.len > TYPE_NAME_MAX) {
        bind_key_error(b, node, "is not the name of a header");
    } else if (is_reserved(name)) {
        err_hint(bind_error(b, node, "is set by the request itself"), "leave it out");
    } else if (!is_text(node)) {
        err_detail(bind_error(b, node, "found %s", node_kind(node)), "expected some text");
    } else {
        const char *value = reference_expand(b, node, &http->missing);
        if (value && !str_has_control(str_of(value))) {
            *ret = (struct config_header){name, value, shown(b, node)};
            return true;
        }
        if (value)
            bind_error(b, node, "holds a control character");
    }
    return false;
}

static void bind_headers(struct binder *b, const struct field *field, const struct node *node,
                         void *member)
{
    struct config_http *http = member;
    if (node->type != NODE_MAP || node->n_children > HEADERS_MAX) {
        bind_expected(b, field, node);
        return;
    }
    struct config_header *headers = arena_array(b->arena, node->n_children + 1, sizeof *headers);
    if (!headers)
        return;
    size_t n = 0;
    NODE_FOREACH (node, child)
        n += bind_header(b, child, http, &headers[n]);
    http->headers = headers;
    http->n_headers = n;
}

static void write_headers(const struct field *field, const void *member, struct json_writer *w)
{
    const struct config_http *http = member;
    if (http->n_headers == 0)
        return;
    json_open_object(w, field->name);
    for (size_t i = 0; i < http->n_headers; i++)
        json_field_cstr(w, http->headers[i].name, http->headers[i].shown);
    json_end_object(w);
}

static const struct field_kind TYPE_HEADERS = {.form = FORM_PART,
                                               .bind = bind_headers,
                                               .write = write_headers,
                                               .expects = "a map of up to 64 headers"};

/* ---- The whole ------------------------------------------------------------------------------- */

static const struct field HTTP_FIELDS[] = {
    ROW("url", TYPE_URL, offsetof(struct config_http, url), "where the payload is POSTed to",
        .required = true, .secret = true),
    ROW("secret", TYPE_SECRETS, 0,
        "requests are signed with it; of several, with each, while one replaces the other",
        .secret = true),
    ROW("headers", TYPE_HEADERS, 0, "sent with every request", .secret = true),
};

const struct table TABLE_HTTP = {
    .name = "http", FIELDS(HTTP_FIELDS), .size = sizeof(struct config_http)};

static void bind_http(struct binder *b, const struct field *field, const struct node *node,
                      void *member)
{
    struct config_http *http = member;
    if (node->type == NODE_MAP)
        bind_table(b, &TABLE_HTTP, node, http);
    else if (node->type == NODE_SCALAR)
        TYPE_URL.bind(b, field, node, &http->url);
    else
        bind_expected(b, field, node);
}

static void write_http(const struct field *field, const void *member, struct json_writer *w)
{
    const struct config_http *http = member;
    if (http->n_secrets == 0 && http->n_headers == 0) {
        TYPE_URL.write(field, &http->url, w);
        return;
    }
    json_open_object(w, field->name);
    table_write(&TABLE_HTTP, http, w);
    json_end_object(w);
}

const struct field_kind TYPE_HTTP = {.form = FORM_PART,
                                     .bind = bind_http,
                                     .write = write_http,
                                     .expects =
                                         "a URL that begins with http:// or https://, or a map"};

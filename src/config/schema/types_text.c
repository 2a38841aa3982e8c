/* types_text.c - text with a form of its own: templates, stores, addresses, URLs. */
#include "config/schema/types.h"

#include <ctype.h>

#include "base/err.h"
#include "base/text/buf.h"
#include "base/text/url_mask.h"
#include "config/schema/bind.h"

/* ---- Templates ------------------------------------------------------------------------------- */

static const char *const PLACEHOLDERS[] = {"task", "service", "queue", "tenant", "user"};
#define N_PLACEHOLDERS (sizeof PLACEHOLDERS / sizeof PLACEHOLDERS[0])

/* `payload.a.b`: at least one name after the word, none of them empty. */
static bool is_payload_path(struct str name)
{
    static const struct str WORD = {"payload", 7};
    if (!str_starts_with(name, WORD) || name.len < WORD.len + 2 || name.ptr[name.len - 1] == '.')
        return false;
    for (size_t i = WORD.len; i < name.len; i++)
        if (name.ptr[i] == '.' && name.ptr[i + 1] == '.')
            return false;
    return name.ptr[WORD.len] == '.';
}

static bool placeholder_known(struct str name)
{
    for (size_t i = 0; i < N_PLACEHOLDERS; i++)
        if (str_is(name, PLACEHOLDERS[i]))
            return true;
    return is_payload_path(name);
}

static bool template_ok(struct binder *b, const struct field *field, const struct node *node)
{
    char shown[NODE_SHOW_MAX];
    const char *end = node->text.ptr + node->text.len;

    for (const char *p = node->text.ptr; p < end; p++) {
        if (*p == '}') {
            bind_detail(bind_error(b, node, "'}' without '{'"), field);
            return false;
        }
        if (*p != '{')
            continue;
        const char *close = memchr(p, '}', (size_t)(end - p));
        if (!close) {
            bind_detail(bind_error(b, node, "'{' without '}'"), field);
            return false;
        }
        struct str name = {p + 1, (size_t)(close - p - 1)};
        if (!placeholder_known(name)) {
            struct redrive_err *err =
                bind_error(b, node, "unknown placeholder %s", node_show(name, shown));
            err_detail(err, "expected {task}, {service}, {queue}, {tenant}, {user} or "
                            "{payload.NAME}");
            err_suggest(err, suggest(name, PLACEHOLDERS, N_PLACEHOLDERS));
            return false;
        }
        p = close;
    }
    return true;
}

static void bind_template(struct binder *b, const struct field *field, const struct node *node,
                          void *member)
{
    if (template_ok(b, field, node))
        bind_as(b, field, &FIELD_TEXT, node, member);
}

const struct field_kind TYPE_TEMPLATE = {
    .form = FORM_SCALAR,
    .bind = bind_template,
    .write = field_write_text,
    .expects = "text with placeholders such as {task} or {payload.host}"};

/* ---- URLs and their secrets ------------------------------------------------------------------ */

static struct str until(struct str text, const char *set)
{
    size_t len = 0;
    while (len < text.len && !strchr(set, text.ptr[len]))
        len++;
    return (struct str){text.ptr, len};
}

static struct str after(struct str text, size_t len)
{
    return (struct str){text.ptr + len, text.len - len};
}

static void write_masked(struct json_writer *w, const char *name, struct str url,
                         void (*mask)(struct buf *out, struct str url))
{
    RELEASED_BY(buf_release) struct buf out = BUF_MAX(4 * NODE_TEXT_MAX); /* stars may be longer */
    mask(&out, url);
    if (buf_failed(&out))
        w->out->failed = buf_failed(&out);
    json_field_string(w, name, buf_str(&out));
}

static bool is_http_url(struct str text)
{
    size_t scheme = str_starts_with(text, STR("http://"))    ? 7
                    : str_starts_with(text, STR("https://")) ? 8
                                                             : 0;
    if (!scheme || until(after(text, scheme), "/?#").len == 0)
        return false;
    for (size_t i = 0; i < text.len; i++)
        if ((unsigned char)text.ptr[i] <= ' ' || text.ptr[i] == 0x7f)
            return false;
    return true;
}

static void bind_url(struct binder *b, const struct field *field, const struct node *node,
                     void *member)
{
    if (!is_http_url(node->text))
        bind_expected(b, field, node);
    else
        bind_as(b, field, &FIELD_TEXT, node, member);
}

static void write_url(const struct field *field, const void *member, struct json_writer *w)
{
    struct str url = str_of(*(const char *const *)member);
    if (url.ptr)
        write_masked(w, field->name, url,
                     field->kind == &TYPE_SECRET_URL ? url_mask_path : url_mask);
}

const struct field_kind TYPE_URL = {.form = FORM_SCALAR,
                                    .bind = bind_url,
                                    .write = write_url,
                                    .expects = "a URL that begins with http:// or https://"};
const struct field_kind TYPE_SECRET_URL = {.form = FORM_SCALAR,
                                           .bind = bind_url,
                                           .write = write_url,
                                           .expects = "a URL that begins with http:// or https://"};

/* ---- Stores ---------------------------------------------------------------------------------- */

static const char *const SCHEMES[] = {"sqlite", "postgres", "postgresql",
                                      "redis",  "rediss",   "memory"};
#define N_SCHEMES (sizeof SCHEMES / sizeof SCHEMES[0])
/* Those that can be opened, each once. */
static const char *const SUGGESTED[] = {"sqlite", "postgres", "redis", "rediss", "memory"};

static bool is_scheme(struct str text)
{
    for (size_t i = 0; i < N_SCHEMES; i++)
        if (str_is(text, SCHEMES[i]))
            return true;
    return false;
}

bool type_store_valid(struct str text, struct str *ret_scheme)
{
    struct str scheme = until(text, ":");
    if (ret_scheme)
        *ret_scheme = scheme.len < text.len ? scheme : (struct str){0};
    if (scheme.len == text.len)
        return false;
    struct str rest = after(text, scheme.len + 1);
    if (str_is(scheme, "memory"))
        return rest.len == 0;
    if (str_is(scheme, "sqlite"))
        return rest.len > 0;
    if (str_is(scheme, "redis") && str_starts_with(rest, STR("/")))
        return rest.len > 1; /* a socket's path, or a host */
    for (size_t i = 1; i < N_SCHEMES - 1; i++)
        if (str_is(scheme, SCHEMES[i]))
            return str_starts_with(rest, STR("//"));
    return false;
}

/* ---- Shards ---------------------------------------------------------------------------------- */

#define SHARDS_SCHEME "shards:"
#define SHARDS_MOST   16

/* A store that other processes, or this one later, can open again; no space stands in it. */
static bool is_shard(struct str text)
{
    return type_store_valid(text, NULL) && !str_starts_with(text, STR("memory:")) &&
           until(text, " ").len == text.len;
}

/* shards:URL URL …: the form in which a flag or a variable has it. */
static bool is_shard_list(struct str text)
{
    size_t n = 0;
    struct str rest = after(text, strlen(SHARDS_SCHEME));
    while (rest.len > 0) {
        struct str url = until(rest, " ");
        if (!is_shard(url))
            return false;
        n++;
        rest = after(rest, url.len < rest.len ? url.len + 1 : url.len);
    }
    return n >= 2 && n <= SHARDS_MOST;
}

static bool has_shard(const struct node *list, const struct node *before)
{
    NODE_FOREACH (list, item) {
        if (item == before)
            return false;
        if (str_eq(item->text, before->text))
            return true;
    }
    return false;
}

/* False: it has been reported. */
static bool check_shards(struct binder *b, const struct node *list)
{
    if (list->type != NODE_LIST || list->n_children < 2 || list->n_children > SHARDS_MOST) {
        struct redrive_err *err = bind_error(b, list, "is no list of 2 to %d stores", SHARDS_MOST);
        err_detail(err, "expected [postgres://..., postgres://...], one database for each shard");
        return false;
    }
    NODE_FOREACH (list, item) {
        if (item->type != NODE_SCALAR || !is_shard(item->text)) {
            struct redrive_err *err = bind_error(b, item, "is not a store that can be a shard");
            err_detail(err, "expected postgres://..., redis://... or sqlite:PATH, without spaces");
            return false;
        }
        if (has_shard(list, item)) {
            bind_error(b, item, "names the same store as another shard");
            return false;
        }
    }
    return true;
}

/* {shards: [URL, URL, …]}: kept as one text. */
static void bind_shards(struct binder *b, const struct field *field, const struct node *map,
                        void *member)
{
    const struct node *list = node_find(map, STR("shards"));
    if (!list || map->n_children != 1) {
        bind_expected(b, field, map);
        return;
    }
    if (!check_shards(b, list))
        return;
    RELEASED_BY(buf_release) struct buf text = BUF_MAX(NODE_TEXT_MAX);
    buf_puts(&text, SHARDS_SCHEME);
    NODE_FOREACH (list, item) {
        if (item != list->first)
            buf_putc(&text, ' ');
        buf_add_str(&text, item->text);
    }
    if (buf_failed(&text))
        bind_error(b, list, "is too long");
    else
        *(const char **)member = arena_dup(b->arena, buf_str(&text));
}

/* What is wrong is said without repeating the value: it may hold a password. */
static void bind_store(struct binder *b, const struct field *field, const struct node *node,
                       void *member)
{
    struct str scheme;

    if (node->type == NODE_MAP) {
        bind_shards(b, field, node, member);
        return;
    }
    if (node->type != NODE_SCALAR) {
        bind_expected(b, field, node);
        return;
    }
    /* YAML wants quotes around `memory:`, which people forget. */
    if (str_is(node->text, "memory")) {
        *(const char **)member = "memory:";
        return;
    }
    if (type_store_valid(node->text, &scheme) ||
        (str_is(scheme, "shards") && is_shard_list(node->text))) {
        bind_as(b, field, &FIELD_TEXT, node, member);
        return;
    }
    struct redrive_err *err = bind_error(b, node, "the value is not a store");
    bind_detail(err, field);
    if (!scheme.ptr)
        err_hint(err, "put 'sqlite:' in front of a file's path");
    else if (!is_scheme(scheme))
        err_suggest(err, suggest(scheme, SUGGESTED, sizeof SUGGESTED / sizeof SUGGESTED[0]));
}

static void write_store(const struct field *field, const void *member, struct json_writer *w)
{
    write_masked(w, field->name, str_of(*(const char *const *)member), url_mask);
}

const struct field_kind TYPE_STORE = {
    .form = FORM_SCALAR,
    .bind = bind_store,
    .write = write_store,
    .expects = "sqlite:PATH, postgres://..., redis://..., rediss://..., memory: or {shards: [...]}",
    .takes_all = true};

/* ---- Addresses ------------------------------------------------------------------------------- */

/* Splits `host:port` or `[v6]:port`; false when it is neither. */
static bool split_address(struct str text, struct str *ret_host)
{
    const char *colon = text.len ? memrchr(text.ptr, ':', text.len) : NULL;
    if (!colon)
        return false;
    struct str host = {text.ptr, (size_t)(colon - text.ptr)};
    struct str port = after(text, host.len + 1);
    unsigned number = 0;
    if (port.len == 0 || port.len > 5)
        return false;
    for (size_t i = 0; i < port.len; i++) {
        if (!isdigit((unsigned char)port.ptr[i]))
            return false;
        number = number * 10 + (unsigned)(port.ptr[i] - '0');
    }
    if (number > 65535)
        return false;
    if (host.len >= 2 && host.ptr[0] == '[' && host.ptr[host.len - 1] == ']')
        host = (struct str){host.ptr + 1, host.len - 2};
    else if (memchr(host.ptr, ':', host.len))
        return false;
    for (size_t i = 0; i < host.len; i++)
        if (!isalnum((unsigned char)host.ptr[i]) && !strchr(".:-_%", host.ptr[i]))
            return false;
    *ret_host = host;
    return host.len > 0;
}

/* 127.0.0.0/8, written in full. */
static bool is_loopback_v4(struct str host)
{
    unsigned dots = 0;
    if (!str_starts_with(host, STR("127.")))
        return false;
    for (size_t i = 0; i < host.len; i++) {
        if (host.ptr[i] == '.')
            dots++;
        else if (!isdigit((unsigned char)host.ptr[i]))
            return false;
    }
    return dots == 3;
}

/* A path that a socket can have. */
#define UNIX_PATH_MAX 107

static bool is_unix_address(struct str text)
{
    static const struct str PREFIX = {"unix:", 5};
    return str_starts_with(text, PREFIX) && text.len > PREFIX.len &&
           text.len - PREFIX.len <= UNIX_PATH_MAX;
}

bool type_address_is_loopback(struct str address)
{
    struct str host;
    if (is_unix_address(address))
        return true;
    if (!split_address(address, &host))
        return false;
    return str_is(host, "localhost") || str_is(host, "::1") || is_loopback_v4(host);
}

static void bind_address(struct binder *b, const struct field *field, const struct node *node,
                         void *member)
{
    struct str host;
    if (str_is(node->text, "off"))
        *(const char **)member = NULL;
    else if (!split_address(node->text, &host))
        bind_expected(b, field, node);
    else
        bind_as(b, field, &FIELD_TEXT, node, member);
}

static void write_address(const struct field *field, const void *member, struct json_writer *w)
{
    const char *address = *(const char *const *)member;
    json_field_cstr(w, field->name, address ? address : "off");
}

const struct field_kind TYPE_ADDRESS = {
    .form = FORM_SCALAR,
    .bind = bind_address,
    .write = write_address,
    .expects = "an address such as 127.0.0.1:7070 or [::1]:7070, or off"};

static void bind_http_address(struct binder *b, const struct field *field, const struct node *node,
                              void *member)
{
    if (is_unix_address(node->text))
        bind_as(b, field, &FIELD_TEXT, node, member);
    else
        bind_address(b, field, node, member);
}

const struct field_kind TYPE_HTTP_ADDRESS = {
    .form = FORM_SCALAR,
    .bind = bind_http_address,
    .write = write_address,
    .expects =
        "an address such as 127.0.0.1:7070 or [::1]:7070, unix: and the path of a socket, or off"};

/* ui.c - answers the paths under /ui/. */
#include "server/dashboard/ui.h"

#include "base/err.h"
#include "server/http/server.h"

#define PREFIX "/ui/"

/* The pages, by the first segment of their path; web/routes.js has the same. */
static const char *const PAGES[] = {
    "queues", "jobs",    "dead",   "breakers", "limits", "tasks",
    "cron",   "workers", "submit", "simulate", "login",  "experiments",
};

/* No code but the program's own, none in the document itself, and none made of text at run time. */
static const struct http_header PROTECTION[] = {
    {"Content-Security-Policy",
     "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
     "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
     "require-trusted-types-for 'script'; trusted-types 'none'"},
    {"X-Frame-Options", "DENY"},
    {"Cross-Origin-Opener-Policy", "same-origin"},
    {"Cross-Origin-Resource-Policy", "same-origin"},
    {"Cache-Control", "no-cache"},
    {"Vary", "Accept-Encoding"},
};
#define N_PROTECTION (sizeof PROTECTION / sizeof PROTECTION[0])

/* ---- Which file ------------------------------------------------------------------------------ */

static const struct ui_asset *find_asset(struct str path)
{
    for (size_t i = 0; i < UI_ASSET_COUNT; i++)
        if (str_is(path, UI_ASSETS[i].path))
            return &UI_ASSETS[i];
    return NULL;
}

static bool is_page(struct str path)
{
    const char *slash = memchr(path.ptr, '/', path.len);
    const struct str first = {path.ptr, slash ? (size_t)(slash - path.ptr) : path.len};
    for (size_t i = 0; i < sizeof PAGES / sizeof PAGES[0]; i++)
        if (str_is(first, PAGES[i]))
            return true;
    return path.len == 0;
}

static const struct ui_asset *asset_of(struct str path)
{
    const struct ui_asset *asset = find_asset(path);
    return !asset && is_page(path) ? find_asset(STR("index.html")) : asset;
}

/* ---- What the client has and takes ----------------------------------------------------------- */

/* A list of tags, of which it may hold weak ones; the tags have no commas and are no part of each
 * other. */
static bool has_it(const struct http_request *request, const struct ui_asset *asset)
{
    const struct str known = http_header(request, "If-None-Match");
    return str_is(known, "*") || (known.ptr && str_contains(known, str_of(asset->etag)));
}

/* Without the header every encoding is welcome (RFC 9110, 12.5.3). */
static bool takes_gzip(const struct http_request *request)
{
    const struct str accepted = http_header(request, "Accept-Encoding");
    if (!accepted.ptr)
        return true;
    if (str_contains(accepted, STR("gzip;q=0,")) || str_is(accepted, "gzip;q=0"))
        return false;
    return str_contains(accepted, STR("gzip")) || str_contains(accepted, STR("*"));
}

/* ---- Answers --------------------------------------------------------------------------------- */

static void send_asset(struct http_request *request, const struct ui_asset *asset)
{
    struct http_header headers[N_PROTECTION + 2];
    memcpy(headers, PROTECTION, sizeof PROTECTION);
    headers[N_PROTECTION] = (struct http_header){"ETag", asset->etag};
    if (has_it(request, asset)) {
        http_reply(request, 304, NULL, STR(""), headers, N_PROTECTION + 1);
        return;
    }
    headers[N_PROTECTION + 1] = (struct http_header){"Content-Encoding", "gzip"};
    const struct str body = {(const char *)asset->gzip, asset->len};
    http_reply(request, 200, asset->type, body, headers, N_PROTECTION + 2);
}

static void refuse_asset(struct http_request *request, int status, int code, const char *why)
{
    static const struct http_header ALLOW[] = {{"Allow", "GET, HEAD"}};
    struct redrive_err err;
    err_set(&err, code, "%s", why);
    http_reply_problem(request, status, &err, ALLOW, status == 405);
}

static void redirect(struct http_request *request)
{
    static const struct http_header LOCATION[] = {{"Location", PREFIX}};
    http_reply(request, 302, NULL, STR(""), LOCATION, 1);
}

static bool wants_page(const struct http_request *request)
{
    return http_method(request) == HTTP_GET &&
           str_contains(http_header(request, "Accept"), STR("text/html"));
}

bool ui_answer(struct http_request *request)
{
    const struct str path = http_raw_path(request), prefix = STR(PREFIX);
    const bool reads = http_method(request) == HTTP_GET || http_method(request) == HTTP_HEAD;
    if (str_is(path, "/ui") || (str_is(path, "/") && wants_page(request))) {
        redirect(request);
        return true;
    }
    if (!str_starts_with(path, prefix))
        return false;
    const struct ui_asset *asset =
        asset_of((struct str){path.ptr + prefix.len, path.len - prefix.len});
    if (!asset)
        refuse_asset(request, 404, REDRIVE_E_NOT_FOUND, "the dashboard has no such page");
    else if (!reads)
        refuse_asset(request, 405, REDRIVE_E_USAGE, "this path is only for GET");
    else if (!takes_gzip(request))
        refuse_asset(request, 406, REDRIVE_E_USAGE, "there is no other encoding than gzip");
    else
        send_asset(request, asset);
    return true;
}

/* remote.c - opens the way to a server: address, token, certificates; sends requests. */
#include "cli/shared/remote.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/err.h"
#include "base/os/file.h"
#include "base/text/encode.h"
#include "base/time/clock.h"
#include "cli/shared/object.h"
#include "config/config.h"

#define TOKEN_MAX_BYTES 4096
#define URL_MAX_BYTES   2048

/* What takes longer, such as a change of many jobs, goes on after its answer. */
#define ANSWER_MS 60000

struct remote {
    struct http_client *client;
    char *url;
    struct arena arena;
    struct str name; /* of the token; absent: the server does not know the client */
    struct str tenant;
    struct str version;
    int64_t at_ms;
    int64_t ahead_ms; /* of the clock of this machine */
};

/* ---- The address ----------------------------------------------------------------------------- */

static int bad_url(const char *url, const char *why, struct redrive_err *err)
{
    (void)err_set(err, REDRIVE_E_USAGE, "--server: %s", why);
    err_detail(err, "%.200s", url);
    err_hint(err, "expected an address such as https://host:7070");
    return REDRIVE_E_USAGE;
}

/* The part between the scheme and the path. */
static struct str authority_of(const char *url)
{
    const char *from = strstr(url, "://") + 3;
    return (struct str){from, strcspn(from, "/")};
}

static int check_url(const char *url, struct redrive_err *err)
{
    const struct str text = str_of(url);
    if (!str_starts_with(text, STR("http://")) && !str_starts_with(text, STR("https://")))
        return bad_url(url, "it does not begin with https:// or http://", err);
    if (text.len > URL_MAX_BYTES || strpbrk(url, " ?#\\") || str_has_control(text))
        return bad_url(url, "it is no address of a server", err);
    const struct str host = authority_of(url);
    if (host.len == 0 || host.ptr[0] == ':')
        return bad_url(url, "it has no host", err);
    if (memchr(host.ptr, '@', host.len))
        return bad_url("", "a server is asked with a token, not with a user and a password", err);
    return 0;
}

/* An address of this machine itself. A name is one only if it is `localhost`. */
static bool is_loopback(const char *url)
{
    struct str host = authority_of(url);
    const char *colon = memrchr(host.ptr, ':', host.len);
    char text[INET_ADDRSTRLEN];
    struct in_addr address;
    if (host.ptr[0] == '[')
        return str_starts_with(host, STR("[::1]"));
    if (colon)
        host.len = (size_t)(colon - host.ptr);
    if (str_eq_nocase(host, STR("localhost")))
        return true;
    return str_copy(text, sizeof text, host) && inet_pton(AF_INET, text, &address) == 1 &&
           ntohl(address.s_addr) >> 24 == 127;
}

/* ---- The token ------------------------------------------------------------------------------- */

static void warn_if_exposed(struct cli *cli, const char *path)
{
    struct redrive_err warning;
    struct stat st;
    if (stat(path, &st) < 0 || !S_ISREG(st.st_mode) || (st.st_mode & S_IRWXO) == 0)
        return;
    const struct exposed file = {path, "a token", st.st_mode & 07777};
    exposed_warning(&file, &warning);
    cli_warn(cli, &warning);
}

static int read_token(struct cli *cli, const char *path, struct buf *ret, struct redrive_err *err)
{
    int rc = file_read(path, TOKEN_MAX_BYTES, ret, err);
    if (rc < 0) {
        err_hint(err,
                 "--token-file, or " CLI_TOKEN_FILE_VARIABLE ", names a file with a token in it");
        return rc;
    }
    warn_if_exposed(cli, path);
    const struct str token = str_trim(buf_str(ret));
    if (token.len > 0 && !str_has_control(token) && !memchr(token.ptr, ' ', token.len))
        return 0;
    (void)err_set(err, REDRIVE_E_CONFIG, "the file %s",
                  token.len == 0 ? "with the token is empty" : "holds no token");
    err_detail(err, "path %s", path);
    err_hint(err, "it has one line, the token as the client sends it, not its hash");
    return REDRIVE_E_CONFIG;
}

static int refuse_plain(const char *url, struct redrive_err *err)
{
    (void)err_set(err, REDRIVE_E_USAGE, "a token is not sent to another machine without TLS");
    err_detail(err, "%.200s", url);
    err_hint(err, "use https:// (`listen.tls` of the server), or a tunnel to a local port");
    return REDRIVE_E_USAGE;
}

/* ---- Opening --------------------------------------------------------------------------------- */

static const char *from_environment(const char *given, const char *variable)
{
    const char *value = given ? NULL : getenv(variable);
    return given ? given : value && *value ? value : NULL;
}

static int make_client(struct cli *cli, struct remote *remote, struct redrive_err *err)
{
    const char *token_file = from_environment(cli->globals->token_file, CLI_TOKEN_FILE_VARIABLE);
    struct http_client_options options = {
        .base = remote->url,
        .ca_file = from_environment(cli->globals->ca_file, CLI_CA_FILE_VARIABLE),
        .no_proxy = is_loopback(remote->url),
    };
    char *token = NULL;
    int rc = 0;
    RELEASED_BY(buf_release) struct buf text = BUF_MAX(TOKEN_MAX_BYTES + 1);
    if (token_file && !is_loopback(remote->url) &&
        str_starts_with(str_of(remote->url), STR("http://")))
        rc = refuse_plain(remote->url, err);
    else if (token_file)
        rc = read_token(cli, token_file, &text, err);
    if (rc == 0 && token_file && !(token = str_dup(str_trim(buf_str(&text)))))
        rc = err_nomem(err);
    options.token = token;
    if (rc == 0)
        rc = http_client_new(&options, &remote->client, err);
    if (token)
        explicit_bzero(token, strlen(token));
    free(token);
    return rc;
}

static int refuse_stranger(const struct cli *cli, struct redrive_err *err)
{
    const bool has_token = from_environment(cli->globals->token_file, CLI_TOKEN_FILE_VARIABLE);
    (void)err_set(err, REDRIVE_E_DENIED,
                  has_token ? "the server does not know the token" : "the server wants a token");
    err_hint(err,
             has_token
                 ? "is it the token of this server, and still in its configuration?"
                 : "name the file that has it with --token-file, or in " CLI_TOKEN_FILE_VARIABLE);
    return REDRIVE_E_DENIED;
}

/* Who is asking, of which tenant, by which clock and which version. */
static int introduce(struct cli *cli, struct remote *remote, struct redrive_err *err)
{
    RELEASED_BY(http_answer_release) struct http_answer answer;
    RELEASED_BY(buf_release) struct buf path = BUF_MAX(REMOTE_PATH_MAX);
    http_answer_init(&answer);
    buf_puts(&path, "/session");
    int rc = remote_call(remote, "GET", &path, (struct str){0}, &answer, err);
    const struct object session = object_of(buf_str(&answer.body), &remote->arena);
    remote->name = arena_str(&remote->arena, object_text(&session, "name"));
    remote->tenant = arena_str(&remote->arena, object_text(&session, "tenant"));
    remote->version = arena_str(&remote->arena, object_text(&session, "version"));
    remote->at_ms = object_time(&session, "at");
    if (rc == 0 && remote->arena.failed)
        return err_nomem(err);
    if (rc == REDRIVE_E_PARSE || rc == REDRIVE_E_NOT_FOUND ||
        (rc >= 0 && (remote->version.len == 0 || remote->at_ms == 0))) {
        (void)err_set(err, REDRIVE_E_PARSE, "this is not a server of Redrive, or an older one");
        err_detail(err, "%s/v1/session has another answer than expected", remote->url);
        return REDRIVE_E_PARSE;
    }
    if (rc < 0)
        return rc;
    remote->ahead_ms = remote->at_ms - clock_wall_ms();
    return remote->name.len > 0 ? 0 : refuse_stranger(cli, err);
}

/* The server answers for one tenant, so that a command cannot mean another. */
static int check_tenant(const struct cli *cli, const struct remote *remote, struct redrive_err *err)
{
    const char *tenant = invocation_text(&cli->invocation, "tenant");
    if (!tenant || str_is(remote->tenant, tenant))
        return 0;
    (void)err_set(err, REDRIVE_E_DENIED, "the server shows nothing of the tenant '%.100s' here",
                  tenant);
    err_detail(err, "the token belongs to the tenant %.*s", (int)remote->tenant.len,
               remote->tenant.ptr);
    err_hint(err, "use a token of that tenant");
    return REDRIVE_E_DENIED;
}

int remote_open(struct cli *cli, struct remote **ret, struct redrive_err *err)
{
    const char *url = cli_server(cli);
    *ret = NULL;
    int rc = check_url(url, err);
    if (rc < 0)
        return rc;
    struct remote *remote = calloc(1, sizeof *remote);
    if (!remote || !(remote->url = str_dup(str_of(url)))) {
        remote_close(remote);
        return err_nomem(err);
    }
    for (size_t n = strlen(remote->url); n > 0 && remote->url[n - 1] == '/'; n--)
        remote->url[n - 1] = '\0';
    arena_init(&remote->arena);
    rc = make_client(cli, remote, err);
    if (rc == 0)
        rc = introduce(cli, remote, err);
    if (rc == 0)
        rc = check_tenant(cli, remote, err);
    if (rc < 0)
        remote_close(remote);
    else
        *ret = remote;
    return rc;
}

void remote_close(struct remote *remote)
{
    if (!remote)
        return;
    http_client_free(remote->client);
    arena_release(&remote->arena);
    free(remote->url);
    free(remote);
}

const char *remote_url(const struct remote *remote)
{
    return remote->url;
}

int64_t remote_now_ms(const struct remote *remote)
{
    return clock_wall_ms() + remote->ahead_ms;
}

struct str remote_tenant(const struct remote *remote)
{
    return remote->tenant;
}

/* ---- Errors ---------------------------------------------------------------------------------- */

/* urn:redrive:not-found is NOT_FOUND of REDRIVE_ERROR_MAP. */
static bool is_name_of(struct str type, int code)
{
    const struct str prefix = STR("urn:redrive:"), name = str_of(redrive_err_name(code));
    if (!str_starts_with(type, prefix) || type.len != prefix.len + name.len)
        return false;
    for (size_t i = 0; i < name.len; i++) {
        const char c = type.ptr[prefix.len + i];
        if ((c == '-' ? '_' : toupper((unsigned char)c)) != name.ptr[i])
            return false;
    }
    return true;
}

static int code_of(struct str type)
{
#define CODE(word, number, text, retryable, http, exit_code) \
    if (is_name_of(type, number))                            \
        return number;
    REDRIVE_ERROR_MAP(CODE)
#undef CODE
    return REDRIVE_E_IO;
}

static int unknown_answer(const struct remote *remote, int status, struct redrive_err *err)
{
    (void)err_set(err, REDRIVE_E_IO, "the server answers with HTTP %d", status);
    err_detail(err, "%s", remote->url);
    if (status >= 300 && status < 400)
        err_hint(err, "name the address that it leads to: redirects are not followed");
    else
        err_hint(err, "is it a server of Redrive, or a proxy in front of one?");
    return REDRIVE_E_IO;
}

/* The server does not have the route: it is older, or newer. */
static int other_version(const struct remote *remote, struct redrive_err *err)
{
    (void)err_set(err, REDRIVE_E_IO, "the server does not have what this command needs");
    err_detail(err, "it is version %.*s, this program is " REDRIVE_VERSION,
               (int)remote->version.len, remote->version.ptr);
    err_hint(err, "use the program of the server's version");
    return REDRIVE_E_IO;
}

static int take_problem(const struct remote *remote, const struct http_answer *answer,
                        struct redrive_err *err)
{
    RELEASED_BY(arena_release) struct arena arena = {0};
    const struct object problem = object_of(buf_str(&answer->body), &arena);
    const struct str detail = object_text(&problem, "detail"),
                     expected = object_text(&problem, "expected"),
                     hint = object_text(&problem, "hint");
    if (detail.len == 0)
        return unknown_answer(remote, answer->status, err);
    if (answer->status == 404 && remote->version.len > 0 &&
        str_starts_with(detail, STR("no such path")))
        return other_version(remote, err);
    int rc =
        err_set(err, code_of(object_text(&problem, "type")), "%.*s", (int)detail.len, detail.ptr);
    if (expected.len > 0)
        err_detail(err, "expected %.*s", (int)expected.len, expected.ptr);
    if (hint.len > 0)
        err_hint(err, "%.*s", (int)hint.len, hint.ptr);
    else if (answer->status == 403)
        err_hint(err, "use a token that has the scope; `scopes` of the server's configuration");
    return rc;
}

static void add_hint(const struct remote *remote, int rc, struct redrive_err *err)
{
    const bool is_tls = str_starts_with(str_of(remote->url), STR("https://"));
    if (!err)
        return;
    if (rc == REDRIVE_E_DENIED)
        err_hint(err, "name the certificate that it was signed with: --ca-file FILE");
    else if (rc == REDRIVE_E_CONFIG)
        err_hint(err,
                 "--ca-file, or " CLI_CA_FILE_VARIABLE ", names a file with certificates (PEM)");
    else if (rc == REDRIVE_E_IO)
        err_hint(err, is_tls ? "does `redrive serve` run there, with TLS, and is the port right?"
                             : "does `redrive serve` run there, and is the port right? With TLS it "
                               "is https://");
}

/* ---- Requests -------------------------------------------------------------------------------- */

void remote_query(struct buf *path, const char *name, struct str value)
{
    const bool is_first = !memchr(path->data, '?', path->len);
    buf_printf(path, "%c%s=", is_first ? '?' : '&', name);
    percent_encode(value, path);
}

int remote_call(struct remote *remote, const char *method, const struct buf *path, struct str body,
                struct http_answer *ret, struct redrive_err *err)
{
    RELEASED_BY(buf_release) struct buf whole = BUF_MAX(2 * REMOTE_PATH_MAX);
    buf_puts(&whole, "/v1");
    buf_add_str(&whole, buf_str(path));
    int rc = buf_failed(path) ? buf_failed(path) : buf_failed(&whole);
    if (rc < 0)
        (void)err_full(err, rc, "what is asked for is too long");
    else
        rc = http_client_call(remote->client, method, buf_cstr(&whole), body, ANSWER_MS, ret, err);
    if (rc < 0)
        add_hint(remote, rc, err);
    else if (ret->status < 200 || ret->status >= 300)
        rc = take_problem(remote, ret, err);
    return rc;
}

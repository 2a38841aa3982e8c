/* passwords.c - reads passwords from files and variables, and compares them. */
#include "server/faktory/passwords.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/err.h"
#include "base/os/file.h"
#include "base/sha256.h"
#include "config/document/dotenv.h"
#include "engine/engine.h"
#include "server/faktory/format/request.h"

#define PASSWORDS_MAX      100
#define FILE_MAX_BYTES     (64u * 1024)
#define PASSWORD_MAX_BYTES 4096

struct faktory_passwords {
    atomic_uint holders;
    struct faktory_password items[PASSWORDS_MAX];
    size_t n;
};

/* ---- Start and end --------------------------------------------------------------------------- */

struct faktory_passwords *faktory_passwords_new(void)
{
    struct faktory_passwords *set = calloc(1, sizeof *set);
    if (set)
        atomic_init(&set->holders, 1);
    return set;
}

struct faktory_passwords *faktory_passwords_hold(struct faktory_passwords *set)
{
    if (set)
        atomic_fetch_add(&set->holders, 1);
    return set;
}

static void wipe(const char *text)
{
    if (text)
        explicit_bzero((char *)text, strlen(text));
    free((char *)text);
}

static void password_release(struct faktory_password *p)
{
    wipe(p->password);
    free((char *)p->name);
    free((char *)p->tenant);
}

void faktory_passwords_free(struct faktory_passwords *set)
{
    if (!set || atomic_fetch_sub(&set->holders, 1) > 1)
        return;
    for (size_t i = 0; i < set->n; i++)
        password_release(&set->items[i]);
    free(set);
}

int faktory_passwords_add(struct faktory_passwords *set, const struct faktory_password *password,
                          struct redrive_err *err)
{
    if (set->n == PASSWORDS_MAX)
        return err_set(err, REDRIVE_E_TOO_BIG, "more than %d Faktory passwords", PASSWORDS_MAX);
    const char *tenant = password->tenant;
    struct faktory_password copy = {
        .name = strdup(password->name),
        .password = strdup(password->password),
        .tenant = strdup(tenant && *tenant ? tenant : ENGINE_TENANT_DEFAULT),
        .scopes = password->scopes,
    };
    if (!copy.name || !copy.password || !copy.tenant) {
        password_release(&copy);
        return err_nomem(err);
    }
    set->items[set->n++] = copy;
    return 0;
}

/* ---- Files and variables --------------------------------------------------------------------- */

/* A line is `PASSWORD`, or `TENANT PASSWORD`. Takes it apart in place. */
static int add_line(struct faktory_passwords *set, char *line, size_t number,
                    struct redrive_err *err)
{
    char name[32];
    line += strspn(line, " \t\r");
    char *end = line + strlen(line);
    while (end > line && strchr(" \t\r", end[-1]))
        *--end = '\0';
    if (*line == '\0' || *line == '#')
        return 0;
    (void)snprintf(name, sizeof name, "line %zu", number);
    struct faktory_password p = {.name = name, .password = line, .scopes = FAKTORY_SCOPES_ALL};
    char *space = line + strcspn(line, " \t");
    if (*space != '\0') {
        *space++ = '\0';
        p.tenant = line;
        p.password = space + strspn(space, " \t");
    }
    return faktory_passwords_add(set, &p, err);
}

static int add_file(struct faktory_passwords *set, const char *path, struct redrive_err *err)
{
    RELEASED_BY(buf_release) struct buf text = BUF_MAX(FILE_MAX_BYTES + 1);
    size_t number = 0;
    const size_t before = set->n;
    int rc = file_read(path, FILE_MAX_BYTES, &text, err);
    char *line = rc == 0 && text.len > 0 ? text.data : NULL;
    for (char *next; line && rc == 0; line = next) {
        next = strchr(line, '\n');
        if (next)
            *next++ = '\0';
        rc = add_line(set, line, ++number, err);
        if (rc < 0)
            err_detail(err, "path %s", path);
    }
    /* None at all would mean that none is needed. */
    if (rc == 0 && set->n == before) {
        rc = err_set(err, REDRIVE_E_CONFIG, "the file of Faktory passwords has none");
        err_detail(err, "path %s", path);
    }
    if (text.data)
        explicit_bzero(text.data, text.len);
    return rc;
}

static int refuse_source(const struct config_faktory_password *given, const char *why,
                         struct redrive_err *err)
{
    err_set(err, REDRIVE_E_CONFIG, "the Faktory password '%.60s' %s", given->name, why);
    if (given->password_file)
        err_detail(err, "path %s", given->password_file);
    else
        err_detail(err, "variable %s", given->password_env);
    return REDRIVE_E_CONFIG;
}

/* The whole file without the end of its last line. */
static int read_password_file(const struct config_faktory_password *given, struct buf *text,
                              struct redrive_err *err)
{
    struct redrive_err why = {0};
    int rc = file_read(given->password_file, PASSWORD_MAX_BYTES, text, &why);
    if (rc < 0) {
        err_set(err, rc, "the Faktory password '%.60s': %s", given->name, why.message);
        err_detail(err, "%s", why.detail);
        err_hint(err, "%s", why.hint);
        return rc;
    }
    while (text->len > 0 && strchr("\r\n", text->data[text->len - 1]))
        buf_truncate(text, text->len - 1);
    if (text->len == 0)
        return refuse_source(given, "is empty", err);
    return strlen(text->data) < text->len ? refuse_source(given, "has a NUL", err) : 0;
}

static int add_given(struct faktory_passwords *set, const struct config_faktory_password *given,
                     char *const *environ, struct redrive_err *err)
{
    struct faktory_password p = {
        .name = given->name, .tenant = given->tenant, .scopes = given->scopes};
    RELEASED_BY(buf_release) struct buf text = BUF_MAX(PASSWORD_MAX_BYTES + 1);
    int rc = 0;
    if (given->password_file) {
        rc = read_password_file(given, &text, err);
        p.password = text.data;
    } else {
        p.password = env_get(environ, given->password_env);
        if (!p.password)
            rc = refuse_source(given, "is not in the environment", err);
    }
    if (rc == 0)
        rc = faktory_passwords_add(set, &p, err);
    if (text.data)
        explicit_bzero(text.data, text.len);
    return rc;
}

int faktory_passwords_load(const struct config *config, const char *path, char *const *environ,
                           struct faktory_passwords **ret, struct redrive_err *err)
{
    struct faktory_passwords *set = faktory_passwords_new();
    int rc = set ? 0 : err_nomem(err);
    for (size_t i = 0; i < config->n_faktory_passwords && rc == 0; i++)
        rc = add_given(set, &config->faktory_passwords[i], environ, err);
    if (rc == 0 && path)
        rc = add_file(set, path, err);
    if (rc < 0) {
        faktory_passwords_free(set);
        return rc;
    }
    *ret = set;
    return 0;
}

/* ---- Asking ---------------------------------------------------------------------------------- */

size_t faktory_passwords_count(const struct faktory_passwords *set)
{
    return set ? set->n : 0;
}

const struct faktory_password *faktory_passwords_find(const struct faktory_passwords *set,
                                                      struct str pwdhash, struct str salt,
                                                      int iterations)
{
    const struct faktory_password *found = NULL;
    for (size_t i = 0; i < faktory_passwords_count(set); i++) {
        char expected[FAKTORY_HASH_TEXT];
        faktory_password_hash(str_of(set->items[i].password), salt, iterations, expected);
        if (pwdhash.len == strlen(expected) && mem_equal_ct(pwdhash.ptr, expected, pwdhash.len) &&
            !found)
            found = &set->items[i];
    }
    return found;
}

const struct faktory_password *faktory_passwords_same(const struct faktory_passwords *set,
                                                      const struct faktory_password *password)
{
    for (size_t i = 0; i < faktory_passwords_count(set); i++)
        if (strcmp(set->items[i].password, password->password) == 0 &&
            strcmp(set->items[i].tenant, password->tenant) == 0)
            return &set->items[i];
    return NULL;
}

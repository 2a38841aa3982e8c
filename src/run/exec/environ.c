/* environ.c - builds the environment of a child process. */
#include "run/exec/environ.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const KEPT[] = {
    "PATH",     "HOME", "USER",   "LOGNAME",       "SHELL",        "LANG",
    "LANGUAGE", "TZ",   "TMPDIR", "SSL_CERT_FILE", "SSL_CERT_DIR", NULL,
};

static bool is_named(struct str name, const char *const *names)
{
    for (; names && *names; names++)
        if (str_is(name, *names))
            return true;
    return false;
}

static bool is_kept(const char *entry, const char *const *pass)
{
    const char *equals = strchr(entry, '=');
    if (!equals)
        return false;
    struct str name = {entry, (size_t)(equals - entry)};
    return is_named(name, KEPT) || str_starts_with(name, STR("LC_")) || is_named(name, pass);
}

#define N_FACTS 6

/* Writes the facts one after the other, each with its 0; returns the bytes needed. An absent text
 * is an empty one. */
static size_t write_facts(const struct run_request *r, char *out, size_t size)
{
    char numbers[2][16];
    snprintf(numbers[0], sizeof numbers[0], "%" PRIu32, r->attempt);
    snprintf(numbers[1], sizeof numbers[1], "%" PRIu32, r->max_attempts);
    const char *const facts[N_FACTS][2] = {
        {"JOB_ID", r->job_id}, {"TASK", r->task},       {"QUEUE", r->queue},
        {"TENANT", r->tenant}, {"ATTEMPT", numbers[0]}, {"MAX_ATTEMPTS", numbers[1]},
    };
    size_t used = 0;
    for (int i = 0; i < N_FACTS; i++)
        used += 1 + (size_t)snprintf(used < size ? out + used : NULL, used < size ? size - used : 0,
                                     "REDRIVE_%s=%s", facts[i][0], facts[i][1] ? facts[i][1] : "");
    return used;
}

char **environ_new(char *const *inherited, const char *const *pass,
                   const struct run_request *request)
{
    size_t n = 0, bytes = request ? write_facts(request, NULL, 0) : 0;
    for (char *const *entry = inherited; entry && *entry; entry++) {
        if (is_kept(*entry, pass)) {
            n++;
            bytes += strlen(*entry) + 1;
        }
    }
    size_t table_bytes = (n + N_FACTS + 1) * sizeof(char *);
    char **table = malloc(table_bytes + bytes);
    if (!table)
        return NULL;
    char *text = (char *)table + table_bytes;
    char **slot = table;
    if (request) {
        size_t left = write_facts(request, text, bytes);
        for (char *fact = text; fact < text + left; fact += strlen(fact) + 1)
            *slot++ = fact;
        text += left;
    }
    for (char *const *entry = inherited; entry && *entry; entry++) {
        if (is_kept(*entry, pass)) {
            size_t len = strlen(*entry) + 1;
            *slot++ = memcpy(text, *entry, len);
            text += len;
        }
    }
    *slot = NULL;
    return table;
}

#include <string.h>

#include "base/err.h"
#include "base/text/utf8.h"
#include "store/postgres/private.h"

/* What PostgreSQL's codes mean to whoever runs the program; the first that fits. */
static const struct meaning {
    const char *prefix; /* of the code */
    int code;
    const char *message;
    const char *hint;
} MEANINGS[] = {
    {"RD002", REDRIVE_E_CANCELLED, "the marker of this handle's commits is not as it was left", ""},
    {"RD003", REDRIVE_E_CANCELLED, "another transaction was in the way", "it can be tried again"},
    {"RD004", REDRIVE_E_CANCELLED, "the server's clock is not where it was thought to be", ""},
    {"RD005", REDRIVE_E_CANCELLED, "a limit has no room left, or is not as it was", ""},
    {"40", REDRIVE_E_CANCELLED, "another transaction was in the way", "it can be tried again"},
    {"55P03", REDRIVE_E_CANCELLED, "another transaction was in the way for too long",
     "it can be tried again"},
    {"28", REDRIVE_E_DENIED, "the server does not let this user in",
     "look at user and password in the store's URL, and at pg_hba.conf"},
    {"3D000", REDRIVE_E_STATE, "there is no such database on the server",
     "make one with createdb; the store then sets itself up in it"},
    {"42501", REDRIVE_E_DENIED, "this user may not do that",
     "docs/postgres.md lists the grants that a store needs"},
    {"42P05", REDRIVE_E_STATE, POOL_MESSAGE, POOL_HINT},
    {"26000", REDRIVE_E_STATE, POOL_MESSAGE, POOL_HINT},
    {"25006", REDRIVE_E_IO, "the server only reads: it is a standby", ""},
    {"25P03", REDRIVE_E_CANCELLED, "the transaction was open for too long", ""},
    {"53100", REDRIVE_E_IO, "the disk of the server is full",
     "free some space; nothing was changed"},
    {"53200", REDRIVE_E_IO, "the server is out of memory", ""},
    {"53300", REDRIVE_E_IO, "the server has too many connections",
     "raise max_connections, or start fewer processes"},
    {"57014", REDRIVE_E_IO, "the server took too long", ""},
    {"57P", REDRIVE_E_IO, "the server is stopping or starting", ""},
    {"08", REDRIVE_E_IO, "the connection to the server is gone", ""},
    {"54", REDRIVE_E_TOO_BIG, "a value is too large for the store", ""},
    {"XX001", REDRIVE_E_CORRUPT, "the store is damaged",
     "stop all processes and restore a backup; see the log of the server"},
    {"XX002", REDRIVE_E_CORRUPT, "an index of the store is damaged",
     "REINDEX SCHEMA redrive; see the log of the server"},
    {"3F000", REDRIVE_E_NOT_FOUND, "the store is gone from the database",
     "the schema redrive was dropped: restore it, or start again with an empty one"},
    {"42P01", REDRIVE_E_NOT_FOUND, "a table of the store is gone",
     "the schema redrive was dropped or changed: restore it"},
};

static const struct meaning *meaning_of(const char *state)
{
    for (size_t i = 0; i < sizeof MEANINGS / sizeof MEANINGS[0]; i++)
        if (strncmp(state, MEANINGS[i].prefix, strlen(MEANINGS[i].prefix)) == 0)
            return &MEANINGS[i];
    return NULL;
}

/* A standby, or a server that stops: the next connection may be to a better one. */
static bool ends_connection(const char *state)
{
    return strcmp(state, "25006") == 0 || strncmp(state, "57P", 3) == 0 ||
           strncmp(state, "08", 2) == 0 || strcmp(state, "25P03") == 0;
}

/* Somebody swaps sessions beneath the connection, or empties them. */
static bool is_of_another_session(const char *state)
{
    return strcmp(state, "26000") == 0 || strcmp(state, "42P05") == 0;
}

/* A transaction whose session is lost has not happened. */
static int code_of(const struct store *store, const struct meaning *meaning)
{
    if (!meaning)
        return REDRIVE_E_INTERNAL;
    return store->in_transaction && is_of_another_session(meaning->prefix) ? REDRIVE_E_CANCELLED
                                                                           : meaning->code;
}

int pg_error(struct store *store, const PGresult *result, struct redrive_err *err)
{
    const char *state = PQresultErrorField(result, PG_DIAG_SQLSTATE);
    const char *primary = PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY);
    const struct meaning *meaning = state ? meaning_of(state) : NULL;
    char text[256];
    if (!state)
        return pg_connection_error(store, err);
    (void)str_copy(text, sizeof text, str_of(primary ? primary : ""));
    utf8_make_printable(text);
    store->is_swapped |= is_of_another_session(state);
    if (strcmp(state, "RD002") == 0)
        store->marker.commits = 0; /* the next commit makes another one */
    store->is_stale |= strcmp(state, "RD003") == 0;
    const int code = code_of(store, meaning);
    err_set(err, code, "%s", meaning ? meaning->message : "the store refused a statement");
    err_detail(err, "%s: %s (%s)", store->shown, text, state);
    err_hint(err, "%s", meaning ? meaning->hint : "");
    if (!ends_connection(state))
        return code;
    /* Nothing of the transaction has happened. Only of a commit this cannot be said, and it says
     * so. */
    return store->in_transaction && code == REDRIVE_E_IO
               ? err_set(err, REDRIVE_E_CANCELLED, "the connection to the server is gone")
               : code;
}

int pg_connection_error(struct store *store, struct redrive_err *err)
{
    char text[256];
    (void)str_copy(text, sizeof text,
                   str_trim(str_of(store->conn ? PQerrorMessage(store->conn) : "")));
    utf8_make_printable(text);
    const int code = store->in_transaction ? REDRIVE_E_CANCELLED : REDRIVE_E_IO;
    err_set(err, code, "the connection to the server is gone");
    err_detail(err, "%s%s%s", store->shown, *text ? ": " : "", text);
    err_hint(err, "it is made again as soon as the server answers");
    return code;
}

int pg_damaged(struct store *store, int64_t seq, const char *what, struct redrive_err *err)
{
    err_set(err, REDRIVE_E_CORRUPT, "the store is damaged");
    err_detail(err, "%s: job %lld: %s", store->shown, (long long)seq, what);
    err_hint(err, "stop all processes and restore a backup");
    return REDRIVE_E_CORRUPT;
}

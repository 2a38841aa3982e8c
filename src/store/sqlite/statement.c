/* statement.c - prepared statements, binding, columns, and what SQLite's errors mean. */
#include "base/err.h"
#include "store/sqlite/private.h"

_Static_assert(REDRIVE_STATE_SCHEDULED == 0 && REDRIVE_STATE_RETRYING == 1 &&
                   REDRIVE_STATE_QUEUED == 2 && REDRIVE_STATE_RUNNING == 3 &&
                   REDRIVE_STATE_PARKED == 4 && REDRIVE_STATE_COMPLETED == 5 &&
                   REDRIVE_STATE_CANCELLED == 8 && REDRIVE_STATE_WAITING == 9,
               "statements.h and the schema write states as numbers");
_Static_assert(SHARED_PAUSE == 2, "statements.h writes the kind of pauses as a number");

static const char *const TEXTS[STATEMENT_COUNT] = {
#define XX(name, text) text,
    STATEMENT_MAP(XX)
#undef XX
};

sqlite3_stmt *sql_use(struct store *store, enum statement which, struct redrive_err *err)
{
    sqlite3_stmt **slot = &store->statements[which];
    if (!*slot) {
        int rc =
            sqlite3_prepare_v3(store->db, TEXTS[which], -1, SQLITE_PREPARE_PERSISTENT, slot, NULL);
        if (rc != SQLITE_OK)
            store->last_error = sql_error(store, rc, err);
    }
    return *slot;
}

int sql_step(struct store *store, sqlite3_stmt *st, struct redrive_err *err)
{
    int rc = sqlite3_step(st);
    if (rc == SQLITE_ROW)
        return 1;
    if (rc == SQLITE_DONE) {
        sqlite3_reset(st);
        return 0;
    }
    int code = sql_error(store, rc, err);
    sqlite3_reset(st);
    return code;
}

int sql_run(struct store *store, sqlite3_stmt *st, struct redrive_err *err)
{
    int rc = sql_step(store, st, err);
    if (rc > 0) {
        sqlite3_reset(st);
        rc = 0;
    }
    return rc;
}

int sql_run_for(struct store *store, enum statement which, int64_t seq, struct redrive_err *err)
{
    sqlite3_stmt *st = sql_use(store, which, err);
    if (!st)
        return store->last_error;
    bind_int(st, 1, seq);
    return sql_run(store, st, err);
}

int sql_exec(struct store *store, enum statement which, struct redrive_err *err)
{
    sqlite3_stmt *st = sql_use(store, which, err);
    return st ? sql_run(store, st, err) : store->last_error;
}

/* What SQLite's codes mean to the operator. */
static const struct {
    int rc;
    int code;
    const char *message;
    const char *hint;
} MEANINGS[] = {
    {SQLITE_FULL, REDRIVE_E_IO, "the disk is full", STORE_FULL_HINT},
    {SQLITE_BUSY, REDRIVE_E_IO, "the store is locked by another process",
     "another process holds it for longer than the busy time; is a backup or a shell open on it?"},
    {SQLITE_LOCKED, REDRIVE_E_IO, "the store is locked by another process", ""},
    {SQLITE_IOERR, REDRIVE_E_IO, "the store cannot be read or written",
     "look at the disk and its file system; nothing is known about the last transaction"},
    {SQLITE_CORRUPT, REDRIVE_E_CORRUPT, "the store is damaged",
     "stop all processes and restore a backup, or save what can be read with sqlite3 .recover"},
    {SQLITE_NOTADB, REDRIVE_E_CORRUPT, "this is not a SQLite database",
     "is it the right file? A store is set up where there is no file yet"},
    {SQLITE_READONLY, REDRIVE_E_DENIED, "the store is read-only",
     "make the file and its folder writable for this user"},
    {SQLITE_PERM, REDRIVE_E_DENIED, "the store may not be opened",
     "make the file and its folder writable for this user"},
    {SQLITE_CANTOPEN, REDRIVE_E_IO, "the store cannot be opened",
     "is its folder there, and may this user write to it?"},
    {SQLITE_NOMEM, REDRIVE_E_NOMEM, "out of memory", ""},
    {SQLITE_TOOBIG, REDRIVE_E_TOO_BIG, "a value is too large for the store", ""},
};

int sql_error(struct store *store, int rc, struct redrive_err *err)
{
    for (size_t i = 0; i < sizeof MEANINGS / sizeof MEANINGS[0]; i++) {
        if (MEANINGS[i].rc != (rc & 0xff))
            continue;
        err_set(err, MEANINGS[i].code, "%s", MEANINGS[i].message);
        err_detail(err, "%s: %s (%d)", store->path, sqlite3_errmsg(store->db),
                   sqlite3_extended_errcode(store->db));
        err_hint(err, "%s", MEANINGS[i].hint);
        return MEANINGS[i].code;
    }
    err_set(err, REDRIVE_E_INTERNAL, "the store refused a statement");
    err_detail(err, "%s: %s (%d)", store->path, sqlite3_errmsg(store->db), rc);
    return REDRIVE_E_INTERNAL;
}

int sql_number(struct store *store, const char *sql, int64_t *ret, struct redrive_err *err)
{
    sqlite3_stmt *st;
    int rc = sqlite3_prepare_v2(store->db, sql, -1, &st, NULL);
    if (rc != SQLITE_OK)
        return sql_error(store, rc, err);
    rc = sql_step(store, st, err);
    if (rc > 0)
        *ret = sqlite3_column_int64(st, 0);
    sqlite3_finalize(st);
    return rc < 0 ? rc : 0;
}

int sql_damaged(struct store *store, int64_t seq, const char *what, struct redrive_err *err)
{
    /* A value that SQLite had no memory for looks as if it were missing. */
    if ((sqlite3_errcode(store->db) & 0xff) == SQLITE_NOMEM)
        return err_nomem(err);
    err_set(err, REDRIVE_E_CORRUPT, "the store is damaged");
    err_detail(err, "%s: job %lld: %s", store->path, (long long)seq, what);
    err_hint(err, "%s", STORE_REPAIR_HINT);
    return REDRIVE_E_CORRUPT;
}

int sql_leave_out(struct store *store, struct job_page *page, int rc, struct redrive_err *err)
{
    const int code = sqlite3_errcode(store->db) & 0xff;
    if (code == SQLITE_CORRUPT || code == SQLITE_NOTADB)
        return rc;
    return job_page_leave_out(page, rc, err);
}

void bind_int(sqlite3_stmt *st, int i, int64_t value)
{
    sqlite3_bind_int64(st, i, value);
}

void bind_str(sqlite3_stmt *st, int i, struct str s)
{
    if (s.ptr)
        sqlite3_bind_text64(st, i, s.ptr, s.len, SQLITE_STATIC, SQLITE_UTF8);
    else
        sqlite3_bind_null(st, i);
}

void bind_key(sqlite3_stmt *st, int i, struct str s)
{
    bind_str(st, i, s.len ? s : STR(""));
}

void bind_option(sqlite3_stmt *st, int i, struct str s)
{
    bind_str(st, i, s.len ? s : (struct str){NULL, 0});
}

bool column_is_below(sqlite3_stmt *st, int i, int n)
{
    const int64_t number = sqlite3_column_int64(st, i);
    return number >= 0 && number < n;
}

struct str column_str(sqlite3_stmt *st, int i)
{
    /* The text first: asking for its length afterwards does not move it. */
    const char *ptr = (const char *)sqlite3_column_text(st, i);
    return (struct str){ptr, ptr ? (size_t)sqlite3_column_bytes(st, i) : 0};
}

struct str column_dup(sqlite3_stmt *st, int i, struct arena *arena)
{
    struct str s = column_str(st, i);
    if (!s.ptr)
        return s;
    return arena_str(arena, s);
}

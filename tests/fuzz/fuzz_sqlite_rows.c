/* Rows of a SQLite file as damage, or a program that knows no STRICT tables, could leave them. The
 * input begins with the letters of verbs (verbs.h); what follows changes a store with jobs in every
 * state: table, column and row, each a byte, and a value as bind_value says. The store's verbs work
 * or say what is wrong, and a job whose spec was changed is given as damaged, or not at all. */
#include "fuzz.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "store/sqlite/private.h"
#include "store_verbs.h"

#define COLUMNS_MAX 256
#define CHANGES_MAX 8
#define JOBS_MAX    16

/* What a column is changed, or a row removed, with. */
struct column {
    char *update;
    char *remove;
    bool is_sum;
};

/* The store before it is changed. */
static struct {
    char folder[64];
    char path[96];
    char url[128];
    char *bytes; /* of the file */
    size_t size;
    struct column columns[COLUMNS_MAX];
    size_t n_columns;
    struct job_page jobs; /* as they were submitted */
} whole;

static bool sums_are_whole;

/* ---- The store before it is changed ---------------------------------------------------------- */

static void must(int rc, const struct redrive_err *err)
{
    if (rc != 0)
        fprintf(stderr, "%s: %s\n", err->message, err->detail);
    FUZZ_CHECK(rc == 0);
}

static void submit_jobs(struct store *store)
{
    static const char *const IDS[] = {"a", "b", "c", "d", "e", "f", "g", "h", "i", "j"};
    struct redrive_err err;
    struct arena arena = {0};
    for (size_t i = 0; i < sizeof IDS / sizeof IDS[0]; i++) {
        struct submit_result ret = {0};
        const struct job_spec spec = {
            .tenant = i < 8 ? STR(VERBS_TENANT) : STR("s"),
            .id = str_of(IDS[i]),
            .task = i % 4 == 3 ? STR("l") : STR(VERBS_TASK),
            .queue = STR(VERBS_QUEUE),
            .payload = STR("{\"n\":1}"),
            .user = STR("me"),
            .unique_key = i % 3 == 0 ? str_of(IDS[i]) : (struct str){0},
            .unique_forever = i == 6,
            .policy = i == 1 ? STR("{\"max_attempts\":3}") : (struct str){0},
            .breaker_key = STR("g"),
            .limit_key = i % 2 ? STR("g") : (struct str){0},
            .priority = (int32_t)i - 3,
            .max_attempts = 5,
            .process_after_ms = i == 7 ? VERBS_NOW_MS + 1000 : 0,
            .deadline_ms = i % 5 == 4 ? VERBS_NOW_MS - 1 : 0,
            .parents = i == 9,
            .open_parents = i == 9,
        };
        must(store_ops(store)->submit(store, &spec, 1, &ret, &arena, &err), &err);
    }
    arena_release(&arena);
}

static void move(struct store *store, const struct move_list *list)
{
    struct move_result ret[4];
    struct redrive_err err;
    must(store_ops(store)->move(store, list, ret, &err), &err);
    for (size_t i = 0; i < list->n; i++)
        FUZZ_CHECK(ret[i].code == 0);
}

/* One completed, one dead, one retrying, one running, one parked; another is removed. */
static void move_jobs(struct store *store)
{
    const struct decision done = {.state = REDRIVE_STATE_COMPLETED, .uses_attempt = true};
    const struct decision dead = {.state = REDRIVE_STATE_DEAD_LETTER,
                                  .reason = REDRIVE_REASON_EXHAUSTED,
                                  .uses_attempt = true};
    const struct decision again = {
        .state = REDRIVE_STATE_RETRYING, .delay_ms = 5, .uses_attempt = true};
    const struct job_error error = {REDRIVE_CLASS_TRANSIENT, STR("T"), STR("x"), STR("s"), 75};
    struct start_move starts[4];
    const struct settle_move settles[] = {
        {1, 1, &done, .result = STR("{}")},
        {2, 2, &dead, error, .fingerprint = 5},
        {3, 3, &again, error, .fingerprint = 5},
    };
    const int64_t parked[] = {5};
    const struct change_move changes[] = {{.seq = 7, .kind = MOVE_CANCEL},
                                          {.seq = 7, .kind = MOVE_REMOVE}};
    for (int64_t i = 0; i < 4; i++)
        starts[i] = (struct start_move){i + 1, (uint64_t)i + 1, VERBS_NOW_MS - 1, STR("w"),
                                        .permit = {.generation = 1}};
    move(store, STARTS(starts, 4));
    move(store, SETTLES(settles, 3));
    move(store, PARKS(parked, 1, true));
    move(store, CHANGES(changes, 2));
}

static void put_rest(struct store *store)
{
    const struct store_ops *ops = store_ops(store);
    const struct job_edge edge = {.parent = 2, .child = 10};
    const struct counter counter = {STR(VERBS_TENANT), STR("n"), STR("l"), 3};
    struct move_result ret;
    struct redrive_err err;
    must(ops->edges_put(store, &edge, 1, &err), &err);
    must(ops->counters_add(store, &counter, 1, &err), &err);
    for (int kind = 0; kind < SHARED_KIND_COUNT; kind++) {
        const struct shared_row row = {.kind = (enum shared_kind)kind,
                                       .tenant = STR(VERBS_TENANT),
                                       .key = STR("g"),
                                       .value = STR("{}")};
        must(ops->shared_put(store, &row, 1, &ret, &err), &err);
    }
}

static void make_store(void)
{
    const struct store_options options = {.create = true};
    const struct job_filter all = {.limit = JOBS_MAX};
    struct store *store = NULL;
    struct redrive_err err;
    int64_t now_ms, version;
    must(store_open(whole.url, &options, &store, &err), &err);
    const struct store_ops *ops = store_ops(store);
    must(ops->begin(store, VERBS_NOW_MS, &now_ms, &version, &err), &err);
    submit_jobs(store);
    move_jobs(store);
    put_rest(store);
    must(ops->commit(store, &err), &err);
    must(ops->list(store, &all, &whole.jobs, &err), &err);
    store_close(store);
}

/* ---- Its columns ----------------------------------------------------------------------------- */

static void run(sqlite3 *db, const char *sql)
{
    char *why = NULL;
    if (sqlite3_exec(db, sql, NULL, NULL, &why) != SQLITE_OK)
        fprintf(stderr, "%s: %s\n", sql, why);
    FUZZ_CHECK(!why);
}

/* The columns of all tables, with the key by which one row is found. */
static void learn_columns(sqlite3 *db)
{
    static const char SQL[] =
        "SELECT t.name, c.name, (SELECT group_concat('\"' || k.name || '\"') FROM "
        "pragma_table_info(t.name) k WHERE k.pk > 0) FROM sqlite_schema t, "
        "pragma_table_info(t.name) c WHERE t.type = 'table' AND t.name NOT IN ('states', "
        "'classes', 'reasons') AND t.name NOT LIKE 'sqlite%' ORDER BY t.name, c.cid";
    sqlite3_stmt *st;
    FUZZ_CHECK(sqlite3_prepare_v2(db, SQL, -1, &st, NULL) == SQLITE_OK);
    while (sqlite3_step(st) == SQLITE_ROW) {
        const char *table = (const char *)sqlite3_column_text(st, 0);
        const char *name = (const char *)sqlite3_column_text(st, 1);
        const char *key = (const char *)sqlite3_column_text(st, 2);
        FUZZ_CHECK(whole.n_columns < COLUMNS_MAX && key);
        struct column *column = &whole.columns[whole.n_columns++];
        column->update = sqlite3_mprintf("UPDATE OR IGNORE \"%w\" SET \"%w\" = ?2 WHERE (%s) IN "
                                         "(SELECT %s FROM \"%w\" ORDER BY %s LIMIT 1 OFFSET ?1)",
                                         table, name, key, key, table, key);
        column->remove = sqlite3_mprintf("DELETE FROM \"%w\" WHERE (%s) IN (SELECT %s FROM \"%w\" "
                                         "ORDER BY %s LIMIT 1 OFFSET ?1)",
                                         table, key, key, table, key);
        column->is_sum = strcmp(name, "sum") == 0;
        FUZZ_CHECK(column->update && column->remove);
    }
    sqlite3_finalize(st);
}

/* As a program would have written it that does not know the rules of its columns. */
static void drop_rules(sqlite3 *db)
{
    run(db, "PRAGMA journal_mode = DELETE; PRAGMA writable_schema = ON;"
            "UPDATE sqlite_schema SET sql = replace(replace(replace(replace(sql, 'STRICT, ', ''), "
            "') STRICT', ')'), ' NOT NULL', ''), 'CHECK (one = 1)', '') WHERE type = 'table';"
            "PRAGMA writable_schema = RESET; VACUUM");
}

static void keep_bytes(void)
{
    struct stat st;
    const int fd = open(whole.path, O_RDONLY | O_CLOEXEC);
    FUZZ_CHECK(fd >= 0 && fstat(fd, &st) == 0);
    whole.size = (size_t)st.st_size;
    whole.bytes = malloc(whole.size);
    FUZZ_CHECK(whole.bytes && read(fd, whole.bytes, whole.size) == (ssize_t)whole.size);
    (void)close(fd);
}

static void remove_files(void)
{
    char name[128];
    static const char *const ENDS[] = {"", "-wal", "-shm", "-journal"};
    for (size_t i = 0; i < sizeof ENDS / sizeof ENDS[0]; i++) {
        (void)snprintf(name, sizeof name, "%s%s", whole.path, ENDS[i]);
        (void)unlink(name);
    }
}

static void clean_up(void)
{
    remove_files();
    (void)rmdir(whole.folder);
    for (size_t i = 0; i < whole.n_columns; i++) {
        sqlite3_free(whole.columns[i].update);
        sqlite3_free(whole.columns[i].remove);
    }
    free(whole.bytes);
    job_page_release(&whole.jobs);
}

/* In memory, if the system has such a folder. */
static void prepare(void)
{
    sqlite3 *db;
    const char *parent = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
    (void)snprintf(whole.folder, sizeof whole.folder, "%s/redrive-fuzz-XXXXXX", parent);
    FUZZ_CHECK(mkdtemp(whole.folder));
    (void)snprintf(whole.path, sizeof whole.path, "%s/store.db", whole.folder);
    (void)snprintf(whole.url, sizeof whole.url, "sqlite:%s", whole.path);
    (void)atexit(clean_up);
    make_store();
    FUZZ_CHECK(sqlite3_open(whole.path, &db) == SQLITE_OK);
    learn_columns(db);
    drop_rules(db);
    FUZZ_CHECK(sqlite3_close(db) == SQLITE_OK);
    keep_bytes();
}

/* ---- Changes --------------------------------------------------------------------------------- */

struct input {
    const uint8_t *at;
    const uint8_t *end;
};

static unsigned next_byte(struct input *in)
{
    return in->at < in->end ? *in->at++ : 0;
}

static const void *next_bytes(struct input *in, size_t *n)
{
    const uint8_t *at = in->at;
    *n = *n < (size_t)(in->end - at) ? *n : (size_t)(in->end - at);
    in->at += *n;
    return at;
}

/* n: NULL; i: eight bytes, a number; d: eight bytes, a floating-point number; s, x: a length and so
 * many bytes, a text or a blob; anything else: the byte as a number, digits as what they mean. */
static void bind_value(sqlite3_stmt *st, struct input *in)
{
    const unsigned kind = next_byte(in);
    char bytes[8] = {0};
    size_t n = kind == 's' || kind == 'x' ? next_byte(in) : sizeof bytes;
    const void *at = strchr("idsx", (int)kind) && kind ? next_bytes(in, &n) : NULL;
    int64_t number;
    double real;
    if (at && n > 0 && n <= sizeof bytes)
        memcpy(bytes, at, n);
    memcpy(&number, bytes, sizeof number);
    memcpy(&real, bytes, sizeof real);
    switch (kind) {
    case 'n': sqlite3_bind_null(st, 2); break;
    case 'i': sqlite3_bind_int64(st, 2, number); break;
    case 'd': sqlite3_bind_double(st, 2, real); break;
    case 's': sqlite3_bind_text(st, 2, at, (int)n, SQLITE_TRANSIENT); break;
    case 'x': sqlite3_bind_blob(st, 2, at, (int)n, SQLITE_TRANSIENT); break;
    default: sqlite3_bind_int64(st, 2, kind >= '0' && kind <= '9' ? (int)kind - '0' : (int)kind);
    }
}

/* A row from 128 on is removed. What SQLite itself refuses is left as it was. */
static void change(sqlite3 *db, struct input *in)
{
    const unsigned number = next_byte(in), row = next_byte(in);
    const struct column *column = &whole.columns[number % whole.n_columns];
    const bool removes = row >= 128;
    sqlite3_stmt *st;
    FUZZ_CHECK(sqlite3_prepare_v2(db, removes ? column->remove : column->update, -1, &st, NULL) ==
               SQLITE_OK);
    sqlite3_bind_int(st, 1, (int)(row % 16));
    if (!removes)
        bind_value(st, in);
    (void)sqlite3_step(st);
    sqlite3_finalize(st);
    sums_are_whole &= !column->is_sum || removes;
}

static void write_file(void)
{
    remove_files();
    const int fd = open(whole.path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    FUZZ_CHECK(fd >= 0 && write(fd, whole.bytes, whole.size) == (ssize_t)whole.size);
    (void)close(fd);
}

/* Over the connection of the store, which has read no row yet: another one would have to read the
 * schema, which takes as long as the verbs. */
static void change_rows(sqlite3 *db, struct input *in)
{
    sums_are_whole = true;
    run(db, "BEGIN");
    for (int i = 0; i < CHANGES_MAX && in->at < in->end; i++)
        change(db, in);
    run(db, "COMMIT");
}

/* ---- The target ------------------------------------------------------------------------------ */

/* Jobs that the verbs themselves have submitted, or given another payload. */
static bool is_own(const struct job_spec *spec)
{
    return str_eq(spec->id, STR("new")) || str_eq(spec->id, STR("new2")) ||
           str_eq(spec->id, STR("old")) || str_eq(spec->payload, STR("[1]"));
}

/* A job that is not called damaged has the spec that was submitted under its number, unless the sum
 * itself was changed. */
static void check_spec(const struct job *job)
{
    if (!sums_are_whole || job->is_damaged || is_own(&job->spec))
        return;
    for (size_t i = 0; i < whole.jobs.n; i++) {
        const struct job *was = &whole.jobs.jobs[i];
        if (was->status.seq != job->status.seq)
            continue;
        FUZZ_CHECK(spec_sum(was->status.seq, &was->spec) == spec_sum(job->status.seq, &job->spec));
        FUZZ_CHECK(str_eq(was->spec.id, job->spec.id));
        FUZZ_CHECK(str_eq(was->spec.payload, job->spec.payload));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const size_t n = verbs_length(data, size);
    const struct store_options options = {.busy_wait_ms = 1};
    struct input in = {data + n, data + size};
    struct store *store = NULL;
    struct redrive_err err = {0};
    if (!whole.bytes)
        prepare();
    write_file();
    must(store_open(whole.url, &options, &store, &err), &err);
    change_rows(store->db, &in);
    verbs_obey(store, data, n, check_spec);
    store_close(store);
    return 0;
}

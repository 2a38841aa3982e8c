#include "power_cuts.h"

#include <inttypes.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/rng.h"
#include "crash_vfs.h"
#include "store/dump.h"
#include "store/sqlite/private.h"
#include "store/wrap.h"

#define DUMP_MAX    ((size_t)1 << 22)
#define COMMITS_MAX 1024
/* Pages in the log after which it is moved into the file: some twenty times in a workload. */
#define LOG_FRAMES 40
#define AUTOMATIC  "PRAGMA wal_autocheckpoint = 40" /* for versions that do so by themselves */

/* A commit of the recording: how many calls there were when it began and when it returned, and
 * which of the texts it leaves. */
struct commit_mark {
    size_t begun;
    size_t done;
    size_t held;
};

struct power_cuts {
    const struct workload *workload;
    enum plant plant;
    struct power_cuts_options options;
    struct findings *findings;
    char folder[64];
    char url[STORES_URL_MAX];
    char *texts[COMMITS_MAX]; /* what there was at first, and after each commit that made it
                               * different: other commits need not be the same in both runs */
    size_t n_texts;
    struct commit_mark marks[COMMITS_MAX];
    size_t n_marks;
    struct tape tape;
    size_t first_point;
    struct buf dump;
};

/* ---- Watching commits ------------------------------------------------------------------------ */

/* A store around that of the engine. */
struct watch {
    struct wrap wrap;
    struct power_cuts *pc;
    int64_t now_ms;              /* of the transaction */
    struct store_ops handing_on; /* to the inner store */
};

static struct watch *watch_of(struct store *store)
{
    return (struct watch *)(void *)store;
}

static void take_text(struct power_cuts *pc, struct store *store)
{
    dump_store(store, &pc->dump);
    if (pc->n_texts > 0 && strcmp(pc->texts[pc->n_texts - 1], buf_cstr(&pc->dump)) == 0)
        return;
    assert_true(pc->n_texts < COMMITS_MAX);
    pc->texts[pc->n_texts] = str_dup(buf_str(&pc->dump));
    assert_non_null(pc->texts[pc->n_texts++]);
}

/* A little before the first difference of two texts, in the same line. */
static size_t first_difference(const char *a, const char *b)
{
    size_t line = 0, i = 0;
    for (; a[i] && a[i] == b[i]; i++)
        if (a[i] == '\n')
            line = i + 1;
    return i > line + 30 ? i - 30 : line;
}

/* Which of the texts the store now holds: that of the commit before, or the next one. */
static size_t held_now(struct power_cuts *pc, struct store *store)
{
    size_t held = pc->n_marks > 0 ? pc->marks[pc->n_marks - 1].held : 0;
    dump_store(store, &pc->dump);
    if (strcmp(pc->texts[held], buf_cstr(&pc->dump)) != 0)
        held++;
    const char *expected = pc->texts[held < pc->n_texts ? held : held - 1];
    if (strcmp(expected, buf_cstr(&pc->dump)) != 0) {
        const size_t at = first_difference(expected, buf_cstr(&pc->dump));
        fail_msg("the stores differ after commit %zu: in memory %.200s; in SQLite %.200s",
                 pc->n_marks + 1, expected + at, buf_cstr(&pc->dump) + at);
    }
    return held;
}

static int commit_on_memory(struct store *store, struct redrive_err *err)
{
    struct watch *watch = watch_of(store);
    const int rc = watch->handing_on.commit(store, err);
    assert_int_equal(rc, 0);
    take_text(watch->pc, watch->wrap.inner);
    return rc;
}

static int commit_on_sqlite(struct store *store, struct redrive_err *err)
{
    struct watch *watch = watch_of(store);
    struct power_cuts *pc = watch->pc;
    assert_true(pc->n_marks < COMMITS_MAX);
    pc->marks[pc->n_marks].begun = pc->tape.n;
    const int rc = watch->handing_on.commit(store, err);
    assert_int_equal(rc, 0);
    pc->marks[pc->n_marks].done = pc->tape.n;
    pc->marks[pc->n_marks].held = held_now(pc, watch->wrap.inner);
    pc->n_marks++;
    return rc;
}

static int begin_at(struct store *store, int64_t now_ms, int64_t *ret_now_ms,
                    int64_t *ret_shared_version, struct redrive_err *err)
{
    struct watch *watch = watch_of(store);
    watch->now_ms = now_ms;
    return watch->handing_on.begin(store, now_ms, ret_now_ms, ret_shared_version, err);
}

/* The bug of PLANT_HALVES: what follows the move is in another transaction. */
static int move_in_halves(struct store *store, const struct move_list *list,
                          struct move_result *ret, struct redrive_err *err)
{
    struct watch *watch = watch_of(store);
    struct store *inner = watch->wrap.inner;
    int rc = store_ops(inner)->move(inner, list, ret, err);
    if (rc == 0)
        rc = store_ops(inner)->commit(inner, err);
    if (rc == 0)
        rc = store_ops(inner)->begin(inner, watch->now_ms, NULL, NULL, err);
    return rc;
}

static void watch_init(struct watch *watch, struct power_cuts *pc, struct store *inner,
                       bool is_model)
{
    *watch = (struct watch){.pc = pc};
    wrap_init(&watch->wrap, inner);
    watch->handing_on = watch->wrap.ops;
    watch->wrap.ops.commit = is_model ? commit_on_memory : commit_on_sqlite;
    watch->wrap.ops.begin = begin_at;
    /* What differs between the two must make no difference to the engine. */
    watch->wrap.ops.capabilities = STORE_SQLITE.capabilities;
    if (!is_model && pc->plant == PLANT_HALVES)
        watch->wrap.ops.move = move_in_halves;
}

/* ---- The two runs ---------------------------------------------------------------------------- */

static void live_once(struct power_cuts *pc, const struct life *life, struct store *store,
                      bool is_model, int64_t *now_ms)
{
    struct watch watch;
    struct test_engine te;
    watch_init(&watch, pc, store, is_model);
    te_init_on(&te, pc->workload->yaml, wrap_store(&watch.wrap), *now_ms);
    life->live(&te);
    *now_ms = te.now_ms;
    te_release(&te);
}

static void run_on_memory(struct power_cuts *pc)
{
    struct store *store;
    int64_t now_ms = TE_START_MS;
    assert_int_equal(store_open("memory:", &(struct store_options){.create = true}, &store, NULL),
                     0);
    take_text(pc, store);
    for (size_t i = 0; i < pc->workload->n_lives; i++)
        live_once(pc, &pc->workload->lives[i], store, true, &now_ms);
    store_close(store);
}

static int open_store(const struct power_cuts *pc, struct store **ret, struct redrive_err *err)
{
    const struct store_options options = {.create = true, .log_frames = LOG_FRAMES};
    const int rc = store_open(pc->url, &options, ret, err);
    if (rc == 0 && !checkpoint_has_bug(sqlite3_libversion_number()))
        assert_int_equal(sqlite3_exec((*ret)->db, AUTOMATIC, NULL, NULL, NULL), SQLITE_OK);
    return rc;
}

static void plant_in(const struct power_cuts *pc, struct store *store)
{
    const char *sql = pc->plant == PLANT_NORMAL ? "PRAGMA synchronous = NORMAL"
                      : pc->plant == PLANT_OFF  ? "PRAGMA synchronous = OFF"
                                                : NULL;
    if (sql)
        assert_int_equal(sqlite3_exec(store->db, sql, NULL, NULL, NULL), SQLITE_OK);
}

static void run_sql(const struct power_cuts *pc, const char *sql)
{
    sqlite3 *db;
    assert_int_equal(sqlite3_open(strchr(pc->url, ':') + 1, &db), SQLITE_OK);
    if (sqlite3_exec(db, sql, NULL, NULL, NULL) != SQLITE_OK)
        fail_msg("%s: %s", sql, sqlite3_errmsg(db));
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
}

static void run_on_sqlite(struct power_cuts *pc)
{
    struct disk *disk = disk_new(&pc->tape);
    const struct disk_faults faults = {
        .skips_sync = pc->plant == PLANT_NO_SYNC,
        .skips_sync_folder = pc->plant == PLANT_NO_FOLDER_SYNC,
    };
    int64_t now_ms = TE_START_MS;
    crash_vfs_mount(disk, faults, pc->options.seed);
    for (size_t i = 0; i < pc->workload->n_lives; i++) {
        const struct life *life = &pc->workload->lives[i];
        struct redrive_err err = {0};
        struct store *store;
        if (life->sql_before)
            run_sql(pc, life->sql_before);
        if (i == pc->workload->first)
            pc->first_point = pc->tape.n;
        if (open_store(pc, &store, &err) < 0)
            fail_msg("%s: %s", err.message, err.detail);
        plant_in(pc, store);
        live_once(pc, life, store, false, &now_ms);
        store_close(store);
    }
    crash_vfs_mount(NULL, (struct disk_faults){0}, 0);
    disk_free(disk);
}

/* ---- Looking at what is left ----------------------------------------------------------------- */

/* A cut, for messages: where, how, and what may be there after it. */
struct look {
    size_t point;
    struct cut cut;
    bool is_second;
    size_t acknowledged;    /* commits */
    const char *allowed[2]; /* texts; the second one may be NULL */
};

__attribute__((format(printf, 4, 5))) static void complain(struct power_cuts *pc,
                                                           const struct look *look,
                                                           enum complaint kind, const char *format,
                                                           ...)
{
    static const char *const WORDS[] = {"closed", "damaged", "lost", "torn"};
    struct findings *f = pc->findings;
    if (findings_total(f) == 0) {
        char what[256];
        va_list args;
        va_start(args, format);
        (void)vsnprintf(what, sizeof what, format, args);
        va_end(args);
        (void)snprintf(f->first, sizeof f->first,
                       "%s: %s (workload %s, seed %" PRIu64 ", point %zu, %scut of kind %d by "
                       "sectors of %zu with seed %" PRIu64 ", %zu commits acknowledged)",
                       WORDS[kind], what, pc->workload->name, pc->options.seed, look->point,
                       look->is_second ? "second " : "", (int)look->cut.kind, look->cut.sector,
                       look->cut.seed, look->acknowledged);
    }
    f->complaints[kind]++;
}

static int keep_first(void *ret, int n, char **values, char **names)
{
    (void)n, (void)names;
    (void)snprintf(ret, 128, "%s", values[0] ? values[0] : "");
    return 1;
}

static bool is_whole(struct power_cuts *pc, const struct look *look, struct store *store)
{
    struct redrive_err err = {0};
    char verdict[128] = "no answer";
    const int rc = store_ops(store)->verify(store, NULL, NULL, &err);
    (void)sqlite3_exec(store->db, "PRAGMA integrity_check(1)", keep_first, verdict, NULL);
    if (rc == 0 && strcmp(verdict, "ok") == 0)
        return true;
    complain(pc, look, COMPLAINT_DAMAGED, "verify: %s %s; integrity_check: %s",
             rc == 0 ? "ok" : err.message, err.detail, verdict);
    return false;
}

/* All of it, into pc->dump. */
static bool is_readable(struct power_cuts *pc, const struct look *look, struct store *store)
{
    const int rc = dump_damaged_store(store, &pc->dump);
    if (rc < 0)
        complain(pc, look, COMPLAINT_DAMAGED, "a read fails: %s", redrive_err_name(rc));
    return rc == 0;
}

/* Whether the dump is one of those that are allowed. */
static bool is_allowed(struct power_cuts *pc, const struct look *look)
{
    const char *is = buf_cstr(&pc->dump);
    for (size_t i = 0; i < 2; i++)
        if (look->allowed[i] && strcmp(look->allowed[i], is) == 0)
            return true;
    for (size_t i = 0; i < pc->n_texts; i++)
        if (strcmp(pc->texts[i], is) == 0) {
            complain(pc, look, COMPLAINT_LOST, "it is as after change %zu", i);
            return false;
        }
    const char *expected = look->allowed[look->allowed[1] ? 1 : 0];
    const size_t at = first_difference(expected, is);
    complain(pc, look, COMPLAINT_TORN, "expected %.90s; is %.90s", expected + at, is + at);
    return false;
}

static bool takes_a_job(struct power_cuts *pc, const struct look *look, struct store *store)
{
    const struct job_spec spec = {.tenant = STR("default"),
                                  .id = STR("after-the-cut"),
                                  .task = STR("mail"),
                                  .queue = STR("default"),
                                  .payload = STR("{}"),
                                  .max_attempts = 1};
    const struct store_ops *ops = store_ops(store);
    struct submit_result result = {0};
    struct redrive_err err = {0};
    struct arena arena;
    arena_init(&arena);
    int rc = ops->begin(store, TE_START_MS, NULL, NULL, &err);
    if (rc == 0)
        rc = ops->submit(store, &spec, 1, &result, &arena, &err);
    if (rc == 0)
        rc = ops->commit(store, &err);
    arena_release(&arena);
    if (rc == 0 && result.code == 0)
        return true;
    complain(pc, look, COMPLAINT_CLOSED, "it takes no job: %s %s", err.message, err.detail);
    return false;
}

/* Opens the store on a disk and looks at it. True: all is well, and pc->dump is what it holds. */
static bool look_at(struct power_cuts *pc, const struct look *look, struct disk *disk)
{
    struct redrive_err err = {0};
    struct store *store = NULL;
    bool ok = false;
    crash_vfs_mount(disk, (struct disk_faults){0}, look->cut.seed);
    if (open_store(pc, &store, &err) < 0) {
        complain(pc, look, COMPLAINT_CLOSED, "it does not open: %s %s", err.message, err.detail);
    } else if (is_whole(pc, look, store)) {
        ok = is_readable(pc, look, store) && is_allowed(pc, look);
        if (ok && look->is_second)
            ok = takes_a_job(pc, look, store);
    }
    store_close(store);
    crash_vfs_mount(NULL, (struct disk_faults){0}, 0);
    return ok;
}

/* ---- Cutting --------------------------------------------------------------------------------- */

static void cut_again(struct power_cuts *pc, const struct disk *disk, const struct look *before,
                      struct tape *recovery)
{
    struct tape last = {0};
    char *held = str_dup(buf_str(&pc->dump));
    struct look look = *before;
    const size_t calls = rng_mix(before->cut.seed) % (recovery->n + 1);
    struct disk *between = disk_after_cut(disk, &before->cut, recovery);
    assert_non_null(held);
    for (size_t i = 0; i < calls; i++)
        disk_play(between, i);
    look.is_second = true;
    look.cut.seed = rng_mix(before->cut.seed + 1);
    look.allowed[0] = held;
    look.allowed[1] = NULL;
    struct disk *left = disk_after_cut(between, &look.cut, &last);
    pc->findings->second_cuts++;
    (void)look_at(pc, &look, left);
    disk_free(left);
    disk_free(between);
    tape_release(&last);
    free(held);
}

/* The first ones are those without chance. */
static struct cut cut_number(const struct power_cuts *pc, size_t point, size_t i)
{
    const uint64_t seed = rng_mix(pc->options.seed ^ rng_mix(point * 64 + i));
    return (struct cut){
        .kind = i < 2   ? (enum cut_kind)i
                : i % 2 ? CUT_AT_RANDOM
                        : CUT_IN_ORDER,
        .sector = seed & 1 ? 512 : 4096,
        .seed = seed,
    };
}

static void cut_at(struct power_cuts *pc, const struct disk *disk, size_t point)
{
    struct look look = {.point = point};
    while (look.acknowledged < pc->n_marks && pc->marks[look.acknowledged].done <= point)
        look.acknowledged++;
    const bool is_under_way =
        look.acknowledged < pc->n_marks && pc->marks[look.acknowledged].begun < point;
    look.allowed[0] = pc->texts[look.acknowledged ? pc->marks[look.acknowledged - 1].held : 0];
    look.allowed[1] = is_under_way ? pc->texts[pc->marks[look.acknowledged].held] : NULL;
    for (size_t i = 0; i < pc->options.cuts; i++) {
        struct tape recovery = {0};
        look.cut = cut_number(pc, point, i);
        struct disk *left = disk_after_cut(disk, &look.cut, &recovery);
        pc->findings->cuts++;
        if (look_at(pc, &look, left))
            cut_again(pc, disk, &look, &recovery);
        disk_free(left);
        tape_release(&recovery);
    }
    pc->findings->points++;
}

static void cut_everywhere(struct power_cuts *pc)
{
    struct disk *disk = disk_new(&pc->tape);
    const size_t all = pc->tape.n + 1 - pc->first_point;
    const size_t wanted = pc->options.points ? pc->options.points : all;
    for (size_t point = 0; point <= pc->tape.n; point++) {
        if (point > 0)
            disk_play(disk, point - 1);
        if (point >= pc->first_point && rng_mix(pc->options.seed + point) % all < wanted)
            cut_at(pc, disk, point);
    }
    disk_free(disk);
}

/* ---- Running it ------------------------------------------------------------------------------ */

/* The store looks at its file by itself before it calls SQLite, so that there must be one. */
static void make_place(struct power_cuts *pc)
{
    const char *tmp = getenv("TMPDIR");
    (void)snprintf(pc->folder, sizeof pc->folder, "%.40s/crash-XXXXXX", tmp ? tmp : "/tmp");
    assert_non_null(mkdtemp(pc->folder));
    (void)snprintf(pc->url, sizeof pc->url, "sqlite:%s/jobs.db", pc->folder);
}

static void remove_place(const struct power_cuts *pc)
{
    (void)unlink(strchr(pc->url, ':') + 1);
    (void)rmdir(pc->folder);
}

void power_cuts_run(const struct workload *workload, enum plant plant,
                    const struct power_cuts_options *options, struct findings *ret)
{
    struct power_cuts *pc = calloc(1, sizeof *pc);
    assert_non_null(pc);
    *ret = (struct findings){0};
    *pc = (struct power_cuts){
        .workload = workload, .plant = plant, .options = *options, .findings = ret};
    buf_init(&pc->dump, DUMP_MAX);
    make_place(pc);
    run_on_memory(pc);
    run_on_sqlite(pc);
    assert_int_equal(pc->marks[pc->n_marks - 1].held, pc->n_texts - 1);
    ret->calls = pc->tape.n;
    ret->commits = pc->n_marks;
    cut_everywhere(pc);
    remove_place(pc);
    for (size_t i = 0; i < pc->n_texts; i++)
        free(pc->texts[i]);
    tape_release(&pc->tape);
    buf_release(&pc->dump);
    free(pc);
}

size_t findings_total(const struct findings *findings)
{
    size_t total = 0;
    for (int i = 0; i < COMPLAINT_KINDS; i++)
        total += findings->complaints[i];
    return total;
}

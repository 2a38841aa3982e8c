#include "rig.h"

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
 * which text of the witness it leaves. */
struct commit_mark {
    size_t begun;
    size_t done;
    size_t held;
};

struct rig {
    const struct workload *workload;
    enum plant plant;
    struct rig_options options;
    struct findings *findings;
    char folder[64];
    char url[STORES_URL_MAX];
    char *witness[COMMITS_MAX]; /* what there was at first, and after each commit that made it
                                 * different: other commits need not be the same in both runs */
    size_t n_witness;
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
    struct rig *rig;
    int64_t now_ms;              /* of the transaction */
    struct store_ops handing_on; /* to the inner store */
};

static struct watch *watch_of(struct store *store)
{
    return (struct watch *)(void *)store;
}

static void take_witness(struct rig *rig, struct store *store)
{
    dump_store(store, &rig->dump);
    if (rig->n_witness > 0 && strcmp(rig->witness[rig->n_witness - 1], buf_cstr(&rig->dump)) == 0)
        return;
    assert_true(rig->n_witness < COMMITS_MAX);
    rig->witness[rig->n_witness] = str_dup(buf_str(&rig->dump));
    assert_non_null(rig->witness[rig->n_witness++]);
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

/* Which text of the witness the store now holds: that of the commit before, or the next one. */
static size_t held_now(struct rig *rig, struct store *store)
{
    size_t held = rig->n_marks > 0 ? rig->marks[rig->n_marks - 1].held : 0;
    dump_store(store, &rig->dump);
    if (strcmp(rig->witness[held], buf_cstr(&rig->dump)) != 0)
        held++;
    const char *expected = rig->witness[held < rig->n_witness ? held : held - 1];
    if (strcmp(expected, buf_cstr(&rig->dump)) != 0) {
        const size_t at = first_difference(expected, buf_cstr(&rig->dump));
        fail_msg("the stores differ after commit %zu: in memory %.200s; in SQLite %.200s",
                 rig->n_marks + 1, expected + at, buf_cstr(&rig->dump) + at);
    }
    return held;
}

static int commit_on_memory(struct store *store, struct redrive_err *err)
{
    struct watch *watch = watch_of(store);
    const int rc = watch->handing_on.commit(store, err);
    assert_int_equal(rc, 0);
    take_witness(watch->rig, watch->wrap.inner);
    return rc;
}

static int commit_on_sqlite(struct store *store, struct redrive_err *err)
{
    struct watch *watch = watch_of(store);
    struct rig *rig = watch->rig;
    assert_true(rig->n_marks < COMMITS_MAX);
    rig->marks[rig->n_marks].begun = rig->tape.n;
    const int rc = watch->handing_on.commit(store, err);
    assert_int_equal(rc, 0);
    rig->marks[rig->n_marks].done = rig->tape.n;
    rig->marks[rig->n_marks].held = held_now(rig, watch->wrap.inner);
    rig->n_marks++;
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

static void watch_init(struct watch *watch, struct rig *rig, struct store *inner, bool is_model)
{
    *watch = (struct watch){.rig = rig};
    wrap_init(&watch->wrap, inner);
    watch->handing_on = watch->wrap.ops;
    watch->wrap.ops.commit = is_model ? commit_on_memory : commit_on_sqlite;
    watch->wrap.ops.begin = begin_at;
    /* What differs between the two must make no difference to the engine. */
    watch->wrap.ops.capabilities = STORE_SQLITE.capabilities;
    if (!is_model && rig->plant == PLANT_HALVES)
        watch->wrap.ops.move = move_in_halves;
}

/* ---- The two runs ---------------------------------------------------------------------------- */

static void live_once(struct rig *rig, const struct life *life, struct store *store, bool is_model,
                      int64_t *now_ms)
{
    struct watch watch;
    struct bed bed;
    watch_init(&watch, rig, store, is_model);
    bed_init_on(&bed, rig->workload->yaml, wrap_store(&watch.wrap), *now_ms);
    life->live(&bed);
    *now_ms = bed.now_ms;
    bed_release(&bed);
}

static void run_on_memory(struct rig *rig)
{
    struct store *store;
    int64_t now_ms = BED_START_MS;
    assert_int_equal(store_open("memory:", &(struct store_options){.create = true}, &store, NULL),
                     0);
    take_witness(rig, store);
    for (size_t i = 0; i < rig->workload->n_lives; i++)
        live_once(rig, &rig->workload->lives[i], store, true, &now_ms);
    store_close(store);
}

static int open_store(const struct rig *rig, struct store **ret, struct redrive_err *err)
{
    const struct store_options options = {.create = true, .log_frames = LOG_FRAMES};
    const int rc = store_open(rig->url, &options, ret, err);
    if (rc == 0 && !checkpoint_has_bug(sqlite3_libversion_number()))
        assert_int_equal(sqlite3_exec((*ret)->db, AUTOMATIC, NULL, NULL, NULL), SQLITE_OK);
    return rc;
}

static void plant_in(const struct rig *rig, struct store *store)
{
    const char *sql = rig->plant == PLANT_NORMAL ? "PRAGMA synchronous = NORMAL"
                      : rig->plant == PLANT_OFF  ? "PRAGMA synchronous = OFF"
                                                 : NULL;
    if (sql)
        assert_int_equal(sqlite3_exec(store->db, sql, NULL, NULL, NULL), SQLITE_OK);
}

static void run_sql(const struct rig *rig, const char *sql)
{
    sqlite3 *db;
    assert_int_equal(sqlite3_open(strchr(rig->url, ':') + 1, &db), SQLITE_OK);
    if (sqlite3_exec(db, sql, NULL, NULL, NULL) != SQLITE_OK)
        fail_msg("%s: %s", sql, sqlite3_errmsg(db));
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
}

static void run_on_sqlite(struct rig *rig)
{
    struct disk *disk = disk_new(&rig->tape);
    const struct disk_faults faults = {
        .skips_sync = rig->plant == PLANT_NO_SYNC,
        .skips_sync_folder = rig->plant == PLANT_NO_FOLDER_SYNC,
    };
    int64_t now_ms = BED_START_MS;
    crash_vfs_mount(disk, faults, rig->options.seed);
    for (size_t i = 0; i < rig->workload->n_lives; i++) {
        const struct life *life = &rig->workload->lives[i];
        struct redrive_err err = {0};
        struct store *store;
        if (life->sql_before)
            run_sql(rig, life->sql_before);
        if (i == rig->workload->first)
            rig->first_point = rig->tape.n;
        if (open_store(rig, &store, &err) < 0)
            fail_msg("%s: %s", err.message, err.detail);
        plant_in(rig, store);
        live_once(rig, life, store, false, &now_ms);
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

__attribute__((format(printf, 4, 5))) static void complain(struct rig *rig, const struct look *look,
                                                           enum complaint kind, const char *format,
                                                           ...)
{
    static const char *const WORDS[] = {"closed", "damaged", "lost", "torn"};
    struct findings *f = rig->findings;
    if (findings_total(f) == 0) {
        char what[256];
        va_list args;
        va_start(args, format);
        (void)vsnprintf(what, sizeof what, format, args);
        va_end(args);
        (void)snprintf(f->first, sizeof f->first,
                       "%s: %s (workload %s, seed %" PRIu64 ", point %zu, %scut of kind %d by "
                       "sectors of %zu with seed %" PRIu64 ", %zu commits acknowledged)",
                       WORDS[kind], what, rig->workload->name, rig->options.seed, look->point,
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

static bool is_whole(struct rig *rig, const struct look *look, struct store *store)
{
    struct redrive_err err = {0};
    char verdict[128] = "no answer";
    const int rc = store_ops(store)->verify(store, NULL, NULL, &err);
    (void)sqlite3_exec(store->db, "PRAGMA integrity_check(1)", keep_first, verdict, NULL);
    if (rc == 0 && strcmp(verdict, "ok") == 0)
        return true;
    complain(rig, look, COMPLAINT_DAMAGED, "verify: %s %s; integrity_check: %s",
             rc == 0 ? "ok" : err.message, err.detail, verdict);
    return false;
}

/* All of it, into rig->dump. */
static bool is_readable(struct rig *rig, const struct look *look, struct store *store)
{
    const int rc = dump_damaged_store(store, &rig->dump);
    if (rc < 0)
        complain(rig, look, COMPLAINT_DAMAGED, "a read fails: %s", redrive_err_name(rc));
    return rc == 0;
}

/* Whether the dump is one of those that are allowed. */
static bool is_allowed(struct rig *rig, const struct look *look)
{
    const char *is = buf_cstr(&rig->dump);
    for (size_t i = 0; i < 2; i++)
        if (look->allowed[i] && strcmp(look->allowed[i], is) == 0)
            return true;
    for (size_t i = 0; i < rig->n_witness; i++)
        if (strcmp(rig->witness[i], is) == 0) {
            complain(rig, look, COMPLAINT_LOST, "it is as after change %zu", i);
            return false;
        }
    const char *expected = look->allowed[look->allowed[1] ? 1 : 0];
    const size_t at = first_difference(expected, is);
    complain(rig, look, COMPLAINT_TORN, "expected %.90s; is %.90s", expected + at, is + at);
    return false;
}

static bool takes_a_job(struct rig *rig, const struct look *look, struct store *store)
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
    int rc = ops->begin(store, BED_START_MS, NULL, NULL, &err);
    if (rc == 0)
        rc = ops->submit(store, &spec, 1, &result, &arena, &err);
    if (rc == 0)
        rc = ops->commit(store, &err);
    arena_release(&arena);
    if (rc == 0 && result.code == 0)
        return true;
    complain(rig, look, COMPLAINT_CLOSED, "it takes no job: %s %s", err.message, err.detail);
    return false;
}

/* Opens the store on a disk and looks at it. True: all is well, and rig->dump is what it holds. */
static bool look_at(struct rig *rig, const struct look *look, struct disk *disk)
{
    struct redrive_err err = {0};
    struct store *store = NULL;
    bool ok = false;
    crash_vfs_mount(disk, (struct disk_faults){0}, look->cut.seed);
    if (open_store(rig, &store, &err) < 0) {
        complain(rig, look, COMPLAINT_CLOSED, "it does not open: %s %s", err.message, err.detail);
    } else if (is_whole(rig, look, store)) {
        ok = is_readable(rig, look, store) && is_allowed(rig, look);
        if (ok && look->is_second)
            ok = takes_a_job(rig, look, store);
    }
    store_close(store);
    crash_vfs_mount(NULL, (struct disk_faults){0}, 0);
    return ok;
}

/* ---- Cutting --------------------------------------------------------------------------------- */

static void cut_again(struct rig *rig, const struct disk *disk, const struct look *before,
                      struct tape *recovery)
{
    struct tape last = {0};
    char *held = str_dup(buf_str(&rig->dump));
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
    rig->findings->second_cuts++;
    (void)look_at(rig, &look, left);
    disk_free(left);
    disk_free(between);
    tape_release(&last);
    free(held);
}

/* The first ones are those without chance. */
static struct cut cut_number(const struct rig *rig, size_t point, size_t i)
{
    const uint64_t seed = rng_mix(rig->options.seed ^ rng_mix(point * 64 + i));
    return (struct cut){
        .kind = i < 2   ? (enum cut_kind)i
                : i % 2 ? CUT_AT_RANDOM
                        : CUT_IN_ORDER,
        .sector = seed & 1 ? 512 : 4096,
        .seed = seed,
    };
}

static void cut_at(struct rig *rig, const struct disk *disk, size_t point)
{
    struct look look = {.point = point};
    while (look.acknowledged < rig->n_marks && rig->marks[look.acknowledged].done <= point)
        look.acknowledged++;
    const bool is_under_way =
        look.acknowledged < rig->n_marks && rig->marks[look.acknowledged].begun < point;
    look.allowed[0] = rig->witness[look.acknowledged ? rig->marks[look.acknowledged - 1].held : 0];
    look.allowed[1] = is_under_way ? rig->witness[rig->marks[look.acknowledged].held] : NULL;
    for (size_t i = 0; i < rig->options.cuts; i++) {
        struct tape recovery = {0};
        look.cut = cut_number(rig, point, i);
        struct disk *left = disk_after_cut(disk, &look.cut, &recovery);
        rig->findings->cuts++;
        if (look_at(rig, &look, left))
            cut_again(rig, disk, &look, &recovery);
        disk_free(left);
        tape_release(&recovery);
    }
    rig->findings->points++;
}

static void cut_everywhere(struct rig *rig)
{
    struct disk *disk = disk_new(&rig->tape);
    const size_t all = rig->tape.n + 1 - rig->first_point;
    const size_t wanted = rig->options.points ? rig->options.points : all;
    for (size_t point = 0; point <= rig->tape.n; point++) {
        if (point > 0)
            disk_play(disk, point - 1);
        if (point >= rig->first_point && rng_mix(rig->options.seed + point) % all < wanted)
            cut_at(rig, disk, point);
    }
    disk_free(disk);
}

/* ---- Running it ------------------------------------------------------------------------------ */

/* The store looks at its file by itself before it calls SQLite, so that there must be one. */
static void make_place(struct rig *rig)
{
    const char *tmp = getenv("TMPDIR");
    (void)snprintf(rig->folder, sizeof rig->folder, "%.40s/crash-XXXXXX", tmp ? tmp : "/tmp");
    assert_non_null(mkdtemp(rig->folder));
    (void)snprintf(rig->url, sizeof rig->url, "sqlite:%s/jobs.db", rig->folder);
}

static void remove_place(const struct rig *rig)
{
    (void)unlink(strchr(rig->url, ':') + 1);
    (void)rmdir(rig->folder);
}

void rig_run(const struct workload *workload, enum plant plant, const struct rig_options *options,
             struct findings *ret)
{
    struct rig *rig = calloc(1, sizeof *rig);
    assert_non_null(rig);
    *ret = (struct findings){0};
    *rig = (struct rig){.workload = workload, .plant = plant, .options = *options, .findings = ret};
    buf_init(&rig->dump, DUMP_MAX);
    make_place(rig);
    run_on_memory(rig);
    run_on_sqlite(rig);
    assert_int_equal(rig->marks[rig->n_marks - 1].held, rig->n_witness - 1);
    ret->calls = rig->tape.n;
    ret->commits = rig->n_marks;
    cut_everywhere(rig);
    remove_place(rig);
    for (size_t i = 0; i < rig->n_witness; i++)
        free(rig->witness[i]);
    tape_release(&rig->tape);
    buf_release(&rig->dump);
    free(rig);
}

size_t findings_total(const struct findings *findings)
{
    size_t total = 0;
    for (int i = 0; i < COMPLAINT_KINDS; i++)
        total += findings->complaints[i];
    return total;
}

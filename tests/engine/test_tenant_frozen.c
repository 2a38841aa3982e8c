/* A process that moves a tenant, or takes a move back, is frozen before any begin, commit or read
 * of where the tenant is, while other processes do all that they may do with the tenant; or its
 * shard is away from there on. When it goes on, or the move is ended, no job is lost, none is on
 * two shards, and the tenant is held nowhere. */
#include "tenant_field.h"

#include "engine/verbs/control.h"

#define N_JOBS_HERE 120 /* two batches */
#define BUSY_MS     5   /* for which others wait for what the frozen one has locked */

/* A way to go: from one shard to another, of which one is that of the tenant's name. */
struct way {
    size_t from, to;
};

/* What other processes do meanwhile, one after the other: the same move up to its middle (m) or its
 * end (M), the way back of it up to its middle (b) or its end (B), a move back to where the tenant
 * was (H). What is not possible when its turn comes is refused. Or the call does not reach the
 * shard (-), or the answer to a commit gets lost (?). */
static const char *const SCRIPTS[] = {"B", "mB", "Bm", "BM", "bBmb", "M", "MH", "MHm", "-", "?"};
/* Of which all cases are run on every store. */
#define N_ALL_CASES 2

static struct {
    struct store *own, *others; /* handles of the frozen process, and of others */
    struct store_ops ops;
    const struct store_ops *real;
    const struct way *way;
    const char *script;
    int left; /* begins, commits and reads before it */
    bool is_begun;
    bool others_are_done; /* the last call of the script has come to its end */
} frozen;

static int try_move(struct store *all, size_t to, const char *stop_at, struct redrive_err *err)
{
    struct stop stop = {.step = stop_at, .nth = 1};
    struct tenant_move move = tenant_move_of(all, to, stop_at ? &stop : NULL);
    return to == BACK ? tenant_move_back(&move, err) : tenant_move_run(&move, err);
}

static void play(const char *script)
{
    for (; *script; script++) {
        const bool is_back = *script == 'B' || *script == 'b';
        const bool is_half = *script == 'm' || *script == 'b';
        const size_t to = *script == 'H' ? frozen.way->from : frozen.way->to;
        struct redrive_err err = {0};
        if (*script == '-' || *script == '?')
            return;
        const int rc = try_move(frozen.others, is_back ? BACK : to, is_half ? "take" : NULL, &err);
        if (rc != 0 && rc != REDRIVE_E_STATE && rc != REDRIVE_E_CANCELLED && rc != REDRIVE_E_IO)
            fail_msg("%c: %s: %s", *script, err.message, err.detail);
        frozen.others_are_done = rc == 0;
    }
}

/* What goes wrong with this call: a letter of the script, or 0. */
static char freeze_here(void)
{
    if (frozen.left-- != 0)
        return 0;
    play(frozen.script);
    return frozen.script[0];
}

static int lose(struct redrive_err *err)
{
    return err_set(err, REDRIVE_E_IO, "the shard is away");
}

static int begin_frozen(struct store *store, int64_t now_ms, int64_t *ret_now_ms,
                        int64_t *ret_version, struct redrive_err *err)
{
    const bool is_lost = freeze_here() == '-';
    const int rc =
        is_lost ? lose(err) : frozen.real->begin(store, now_ms, ret_now_ms, ret_version, err);
    frozen.is_begun = rc == 0;
    return rc;
}

static int commit_frozen(struct store *store, struct redrive_err *err)
{
    const char what = freeze_here();
    const int rc = what == '-' ? lose(err) : frozen.real->commit(store, err);
    frozen.is_begun = false;
    return what == '?' && rc == 0 ? lose(err) : rc;
}

static void rollback_frozen(struct store *store)
{
    frozen.is_begun = false;
    frozen.real->rollback(store);
}

static int list_frozen(struct store *store, enum shared_kind kind, struct str tenant,
                       struct shared_page *ret, struct redrive_err *err)
{
    const bool is_place = kind == SHARED_TENANT && !frozen.is_begun;
    if (is_place && freeze_here() == '-')
        return lose(err);
    return frozen.real->shared_list(store, kind, tenant, ret, err);
}

/* No move is under way: a way back would be refused for it. */
static void check_is_free(const char *script, int number)
{
    struct redrive_err err = {0};
    struct stop first = {.step = "return"};
    struct tenant_move move = tenant_move_of(frozen.others, BACK, &first);
    const int rc = tenant_move_back(&move, &err);
    if (rc != REDRIVE_E_STATE || !strstr(err.message, "no move"))
        fail_msg("%s %d: the tenant is held: %s", script, number, err.message);
}

/* A call that is frozen before its begin, commit or read of this number. False: it has not so many.
 * If others have come to their end meanwhile, and it is refused for that, it holds the tenant no
 * more. */
static bool run_frozen(size_t to, int number, const char *script)
{
    struct store *const *stores = sharded_of(frozen.own)->stores;
    struct redrive_err err = {0};
    frozen.left = number;
    frozen.script = script;
    frozen.is_begun = frozen.others_are_done = false;
    frozen.real = store_ops(stores[0]);
    frozen.ops = *frozen.real;
    frozen.ops.begin = begin_frozen;
    frozen.ops.commit = commit_frozen;
    frozen.ops.rollback = rollback_frozen;
    frozen.ops.shared_list = list_frozen;
    for (size_t i = 0; i < N_SHARDS; i++)
        ((struct store_base *)(void *)stores[i])->ops = &frozen.ops;
    const int rc = try_move(frozen.own, to, NULL, &err);
    for (size_t i = 0; i < N_SHARDS; i++)
        ((struct store_base *)(void *)stores[i])->ops = frozen.real;
    if (rc != 0 && rc != REDRIVE_E_STATE && rc != REDRIVE_E_IO)
        fail_msg("%s %d: %s: %s", script, number, err.message, err.detail);
    if (rc == REDRIVE_E_STATE && frozen.others_are_done)
        check_is_free(script, number);
    return frozen.left < 0;
}

/* Ends what was begun, forward or back. Gives the tenant's shard. */
static size_t end_moves(struct store *all, bool goes_on)
{
    struct redrive_err err = {0};
    struct tenant_move move = tenant_move_of(all, SIZE_MAX, NULL);
    if (goes_on)
        (void)try_move(all, frozen.way->to, NULL, NULL);
    const int rc = try_move(all, BACK, NULL, &err);
    if (rc != 0 && !strstr(err.message, "no move") && !strstr(err.message, "has taken over"))
        fail_msg("%s: %s", err.message, err.detail);
    assert_int_equal(tenant_move_run(&move, &err), 0);
    return move.to;
}

/* Each job is on the tenant's shard alone, and the queue that a person has paused is the only one
 * that is. */
static void check_whole(struct field *f, size_t at, const char *script, int number)
{
    struct shared_page pauses = {0};
    struct store *store = sharded_of(f->reader)->stores[at];
    for (size_t i = 0; i < N_SHARDS; i++)
        if (count_on(f, i) != (i == at ? N_JOBS_HERE : 0))
            fail_msg("%s %d: shard %zu has %zu jobs, the tenant is on %zu", script, number, i,
                     count_on(f, i), at);
    assert_int_equal(store_ops(store)->shared_list(store, SHARED_PAUSE, STR(TENANT), &pauses, NULL),
                     0);
    if (pauses.n != 1 || !str_is(pauses.rows[0].key, "by-hand"))
        fail_msg("%s %d: %zu queues are paused", script, number, pauses.n);
    shared_page_release(&pauses);
}

static void freeze_once(struct field *f, bool is_back, int number, const char *script, bool *is_met)
{
    struct redrive_err err = {0};
    if (try_move(f->reader, frozen.way->from, NULL, &err) != 0)
        fail_msg("%s: %s", err.message, err.detail);
    if (is_back)
        assert_int_equal(try_move(f->reader, frozen.way->to, "take", NULL), REDRIVE_E_CANCELLED);
    *is_met = run_frozen(is_back ? BACK : frozen.way->to, number, script);
    check_whole(f, end_moves(f->reader, number % 2), script, number);
}

/* Freezes calls everywhere. There are some 1,500 cases: a run in memory has all of them, one on
 * another store all of the first scripts, and of the others every seventh or fewer. */
static void freeze_everywhere(bool is_back, bool goes_home)
{
    const struct way way = {goes_home ? other(1) : home(), goes_home ? home() : other(1)};
    const struct store_options impatient = {.busy_wait_ms = BUSY_MS};
    const unsigned long step = strcmp(stores_name(), "memory") == 0 ? 1 : 7 * fault_step();
    static unsigned long cases;
    struct field f;
    struct pause_op pause;
    field_init(&f);
    submit_some(&f, N_JOBS_HERE);
    pause_op_init(&pause, STR(TENANT), STR("by-hand"), true);
    assert_int_equal(committer_run(f.committer, &pause.op, NULL), 0);
    assert_int_equal(store_open(f.url, NULL, &frozen.own, NULL), 0);
    assert_int_equal(store_open(f.url, &impatient, &frozen.others, NULL), 0);
    frozen.way = &way;
    for (size_t i = 0; i < sizeof SCRIPTS / sizeof SCRIPTS[0]; i++) {
        bool is_met = true;
        for (int number = 0; is_met; number++)
            if (i < N_ALL_CASES || cases++ % step == 0)
                freeze_once(&f, is_back, number, SCRIPTS[i], &is_met);
    }
    store_close(frozen.others);
    store_close(frozen.own);
    field_release(&f);
}

TEST(a_move_that_was_frozen_changes_nothing_that_others_rely_on)
{
    freeze_everywhere(false, false);
}

TEST(a_move_to_the_shard_of_the_name_that_was_frozen_changes_nothing)
{
    freeze_everywhere(false, true);
}

TEST(a_way_back_that_was_frozen_changes_nothing_that_others_rely_on)
{
    freeze_everywhere(true, false);
}

TEST(a_way_back_from_the_shard_of_the_name_that_was_frozen_changes_nothing)
{
    freeze_everywhere(true, true);
}

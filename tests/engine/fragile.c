#include "engine/fragile.h"

#include <limits.h>

#include "base/err.h"

struct fragile fragile;

static const struct store_ops *real;

static int submit_unless_bad(struct store *store, const struct job_spec *specs, size_t n,
                             struct submit_result *ret, struct arena *arena,
                             struct redrive_err *err)
{
    for (size_t i = 0; i < n; i++) {
        if (str_is(specs[i].task, "bad"))
            return err_set(err, REDRIVE_E_CORRUPT, "the store chokes on it");
        if (str_is(specs[i].task, "locked") && fragile.is_locked) {
            struct store_base *base = (struct store_base *)(void *)store;
            base->is_blocked = true;
            fragile.waits++;
            fragile.lock_wait_ms = base->lock_wait_ms;
            return err_set(err, REDRIVE_E_CANCELLED, "a lock was not given");
        }
    }
    return real->submit(store, specs, n, ret, arena, err);
}

static int begin_or_fail(struct store *store, int64_t now_ms, int64_t *ret_now_ms,
                         int64_t *ret_version, struct redrive_err *err)
{
    if (fragile.begins++ >= fragile.begins_left)
        return err_set(err, REDRIVE_E_IO, "the store is gone");
    return real->begin(store, now_ms, ret_now_ms, ret_version, err);
}

static int commit_or_fail(struct store *store, struct redrive_err *err)
{
    int code = fragile.fail_commit;
    fragile.commits++;
    fragile.told = store_base(store)->notification;
    if (code != 0 && --fragile.fail_times == 0) {
        fragile.fail_commit = 0;
        fragile.fail_times = 1;
    }
    if (code == 0)
        return real->commit(store, err);
    if (fragile.commit_came_first)
        (void)real->commit(store, NULL);
    else
        real->rollback(store);
    ((struct store_base *)(void *)store)->is_rolled_back = fragile.commit_is_rolled_back;
    return err_set(err, code, "the commit failed");
}

static int list_counted(struct store *store, const struct job_filter *filter, struct job_page *ret,
                        struct redrive_err *err)
{
    fragile.lists++;
    return real->list(store, filter, ret, err);
}

static int find_counted(struct store *store, const int64_t *seqs, size_t n, struct job_page *ret,
                        struct redrive_err *err)
{
    fragile.finds++;
    return real->find(store, seqs, n, ret, err);
}

static int move_noted(struct store *store, const struct move_list *list, struct move_result *ret,
                      struct redrive_err *err)
{
    if (list->kind == MOVE_CANCEL) {
        assert_non_null(list->changes[0].seen);
        fragile.seen_token = list->changes[0].seen->token;
    }
    return real->move(store, list, ret, err);
}

static int put_or_fail(struct store *store, const struct shared_row *rows, size_t n,
                       struct move_result *ret, struct redrive_err *err)
{
    fragile.shared_puts++;
    if (fragile.put_code != 0)
        return err_set(err, fragile.put_code, "the session is another one");
    int rc = real->shared_put(store, rows, n, ret, err);
    for (size_t i = 0; i < n && fragile.put_refused; i++)
        ret[i] = (struct move_result){.code = REDRIVE_E_STATE};
    return rc;
}

static void keep_line(struct str line, void *ctx)
{
    (void)ctx;
    (void)buf_add(&fragile.lines, line.ptr, line.len);
}

unsigned fragile_count(const char *event)
{
    unsigned n = 0;
    for (const char *at = strstr(buf_cstr(&fragile.lines), event); at; at = strstr(at + 1, event))
        n++;
    return n;
}

void make_fragile(struct test_engine *te)
{
    static struct store_ops ops;
    const struct store_options options = {.create = true};
    static const struct log log = {.level = LOG_LEVEL_INFO, .sink = keep_line};
    struct engine_options engine_options = {.seed = 1, .log = &log};
    struct store *store;
    fragile_release();
    fragile = (struct fragile){.begins_left = UINT_MAX, .fail_times = 1};
    buf_init(&fragile.lines, 1 << 20);
    te_init(te, NULL);
    engine_close(te->engine);
    assert_int_equal(store_open("memory:fragile", &options, &store, NULL), 0);
    real = store_ops(store);
    ops = *real;
    ops.begin = begin_or_fail;
    ops.submit = submit_unless_bad;
    ops.commit = commit_or_fail;
    ops.list = list_counted;
    ops.find = find_counted;
    ops.move = move_noted;
    ops.shared_put = put_or_fail;
    ((struct store_base *)(void *)store)->ops = &ops;
    engine_options.store = store;
    assert_int_equal(engine_open(&engine_options, &te->engine, NULL), 0);
    fragile.commits = 0; /* those of the opening do not count */
}

void fragile_release(void)
{
    buf_release(&fragile.lines);
}

#include "handles.h"

#include <stdlib.h>

#include "check.h"

const char *const DURABLE[] = {"--appendonly", "yes", "--appendfsync", "always", NULL};

struct store *open_at(const struct server *s)
{
    struct store *store = NULL;
    struct redrive_err err = {0};
    const struct store_options options = {.create = true};
    if (store_open(s->url, &options, &store, &err) < 0)
        fail_msg("cannot open %s: %s; %s", s->url, err.message, err.detail);
    return store;
}

void rollback(struct store *store)
{
    store_ops(store)->rollback(store);
}

int begin(struct store *store, struct redrive_err *err)
{
    int64_t now, version;
    return store_ops(store)->begin(store, 0, &now, &version, err);
}

int put_in(struct store *store, const char *queue, const char *id, struct redrive_err *err)
{
    const struct job_spec spec = {.tenant = STR("acme"),
                                  .id = str_of(id),
                                  .task = STR("mail"),
                                  .queue = str_of(queue),
                                  .payload = STR("{\"to\":\"somebody\"}")};
    struct submit_result result;
    struct arena arena;
    arena_init(&arena);
    int rc = store_ops(store)->submit(store, &spec, 1, &result, &arena, err);
    arena_release(&arena);
    return rc < 0 ? rc : result.code;
}

int put(struct store *store, const char *id, struct redrive_err *err)
{
    return put_in(store, "main", id, err);
}

size_t count_ready(struct store *store)
{
    struct job_page page = {0};
    const struct claim_filter filter = {.limit = 100};
    const size_t n = store_ops(store)->ready(store, &filter, &page, NULL) == 0 ? page.n : 9999;
    job_page_release(&page);
    return n;
}

size_t count_in(struct store *store, const char *queue)
{
    struct job_page page = {0};
    const struct job_filter filter = {.queue = str_of(queue), .limit = 1000};
    assert_int_equal(store_ops(store)->list(store, &filter, &page, NULL), 0);
    const size_t n = page.n;
    job_page_release(&page);
    return n;
}

size_t count_jobs(struct store *store)
{
    return count_in(store, "");
}

/* As the engine does. */
#define TRIES 20

static int commit_or_rollback(struct store *store, int rc)
{
    if (rc == 0)
        rc = store_ops(store)->commit(store, NULL);
    if (rc != 0)
        rollback(store);
    return rc;
}

/* The first transaction after a replica has come may be refused: the server's history has a new
 * name. */
void begin_half(struct store *store, bool reserves)
{
    int rc = REDRIVE_E_CANCELLED;
    for (int i = 0; i < TRIES && rc == REDRIVE_E_CANCELLED; i++) {
        rollback(store);
        assert_int_equal(begin(store, NULL), 0);
        rc = put(store, "half", NULL);
    }
    assert_int_equal(rc, 0);
    if (reserves)
        assert_int_equal(count_ready(store), 1);
}

void put_in_committed(struct store *store, const char *queue, const char *id)
{
    int rc = REDRIVE_E_CANCELLED;
    for (int i = 0; i < TRIES && rc == REDRIVE_E_CANCELLED; i++) {
        assert_int_equal(begin(store, NULL), 0);
        rc = commit_or_rollback(store, put_in(store, queue, id, NULL));
    }
    assert_int_equal(rc, 0);
}

void put_committed(struct store *store, const char *id)
{
    put_in_committed(store, "main", id);
}

int settle(struct store *store, int64_t seq, uint64_t token)
{
    static const struct decision DONE = {.state = REDRIVE_STATE_COMPLETED, .uses_attempt = true};
    const struct settle_move move = {.seq = seq, .token = token, .decision = &DONE};
    struct move_result result;
    const int rc = store_ops(store)->move(store, SETTLES(&move, 1), &result, NULL);
    return rc < 0 ? rc : result.code;
}

int start(struct store *store, int64_t seq, uint64_t token)
{
    const struct start_move move = {.seq = seq, .token = token, .lease_until_ms = INT64_MAX / 4};
    struct move_result result;
    const int rc = store_ops(store)->move(store, STARTS(&move, 1), &result, NULL);
    return rc < 0 ? rc : result.code;
}

void start_committed(struct store *store, int64_t seq, uint64_t token)
{
    int rc = REDRIVE_E_CANCELLED;
    for (int i = 0; i < TRIES && rc == REDRIVE_E_CANCELLED; i++) {
        assert_int_equal(begin(store, NULL), 0);
        rc = commit_or_rollback(store, start(store, seq, token));
    }
    assert_int_equal(rc, 0);
}

int settle_committed(struct store *store, int64_t seq, uint64_t token)
{
    int rc = REDRIVE_E_CANCELLED;
    for (int i = 0; i < TRIES && rc == REDRIVE_E_CANCELLED; i++) {
        assert_int_equal(begin(store, NULL), 0);
        rc = commit_or_rollback(store, settle(store, seq, token));
    }
    return rc;
}

int cancel(struct store *store, int64_t seq)
{
    const struct change_move move = {.seq = seq, .kind = MOVE_CANCEL};
    struct move_result result;
    const int rc = store_ops(store)->move(store, CHANGES(&move, 1), &result, NULL);
    return rc < 0 ? rc : result.code;
}

long calls(const struct server *s)
{
    return server_number(s, "commandstats", "cmdstat_fcall:calls=");
}

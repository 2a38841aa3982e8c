/* read.c - whole jobs, pages of them, jobs by name, and histories. */
#include <stdlib.h>

#include "base/err.h"
#include "store/redis/private.h"

void rd_page_start(struct page_maker *maker, struct store *store, struct job_page *page)
{
    job_page_release(page);
    *maker = (struct page_maker){.store = store, .page = page};
}

struct str rd_page_dup(struct arena *arena, struct str s)
{
    return s.len > 0 ? arena_str(arena, s) : (struct str){0};
}

int rd_page_add(struct page_maker *maker, const struct row *row, const struct str big[BIG_COUNT],
                struct redrive_err *err)
{
    struct arena *arena = &maker->page->arena;
    struct job *grown = page_grow(arena, maker->page->jobs, maker->page->n, sizeof *grown);
    if (!grown)
        return err_nomem(err);
    maker->page->jobs = grown;
    struct row copy = *row;
    for (int i = 0; big && i < BIG_COUNT; i++)
        if (row->big >> i & 1)
            *rd_row_big_part(&copy, (enum big_part)i) = big[i];
    struct job_spec *spec = &copy.job.spec;
    struct job_status *s = &copy.job.status;
    struct str *const strings[] = {
        &spec->tenant,        &spec->id,     &spec->task,        &spec->queue,
        &spec->payload,       &spec->user,   &spec->project,     &spec->service,
        &spec->unique_key,    &spec->policy, &spec->breaker_key, &spec->limit_key,
        &s->worker,           &s->result,    &s->error.type,     &s->error.message,
        &s->error.stacktrace,
    };
    for (size_t i = 0; i < sizeof strings / sizeof strings[0]; i++)
        *strings[i] = rd_page_dup(arena, *strings[i]);
    copy.job.is_damaged |= big && row->big >> BIG_PAYLOAD & 1 && big[BIG_PAYLOAD].len == 0;
    if (arena->failed)
        return err_nomem(err);
    maker->page->jobs[maker->page->n++] = copy.job;
    return 0;
}

size_t rd_reply_row_len(const redisReply *reply, size_t at)
{
    return rd_row_has_big(rd_reply_str(reply, at + 1)) ? 2 + BIG_COUNT : 2;
}

int rd_reply_row(struct store *store, const redisReply *reply, size_t *at, struct row *ret,
                 struct str big[BIG_COUNT], bool *ret_moved, struct redrive_err *err)
{
    const int64_t seq = rd_reply_int(reply, *at);
    const struct str bytes = rd_reply_str(reply, *at + 1);
    *at += 2;
    *ret = (struct row){0};
    *ret_moved = store->in_transaction && rd_entry_moved(store, seq);
    if (bytes.len == 0)
        return err_set(err, REDRIVE_E_CORRUPT, "an index names job %lld, which there is not",
                       (long long)seq);
    for (int i = 0; i < BIG_COUNT && big; i++)
        big[i] = rd_row_has_big(bytes) ? rd_reply_str(reply, (*at)++) : (struct str){0};
    if (!store->in_transaction || *ret_moved)
        return rd_row_unpack(store, seq, bytes, ret, err);
    struct entry *entry;
    int rc = rd_entry_learn(store, seq, bytes, &entry, err);
    if (rc == 0)
        *ret = entry->now;
    return rc;
}

int rd_page_leave_out(struct page_maker *maker, int rc, struct redrive_err *err)
{
    rc = job_page_leave_out(maker->page, rc, err);
    maker->n_damaged += rc == 0;
    return rc;
}

int rd_page_add_reply(struct page_maker *maker, const redisReply *reply, size_t *at, bool has_big,
                      struct redrive_err *err)
{
    struct str parts[BIG_COUNT], *big = has_big ? parts : NULL;
    struct row row;
    bool is_moved;
    int rc = rd_reply_row(maker->store, reply, at, &row, big, &is_moved, err);
    if (rc != 0)
        return rd_page_leave_out(maker, rc, err);
    return is_moved ? 0 : rd_page_add(maker, &row, big, err);
}

/* What the transaction has put beside a row that it has made or changed. */
static void overlay_big(struct store *store, const struct entry *e, struct str big[BIG_COUNT])
{
    for (int i = 0; i < BIG_COUNT; i++) {
        const struct beside b = rd_beside_big(e->seq, (enum big_part)i);
        const struct cell *cell = rd_cell_known(store, str_of(b.key), rd_beside_field(&b));
        if (cell)
            big[i] = cell->now;
    }
}

int rd_page_add_seqs(struct page_maker *maker, const int64_t *seqs, size_t n,
                     int (*add)(struct page_maker *maker, const struct row *row,
                                const struct str big[BIG_COUNT], struct redrive_err *err),
                     struct redrive_err *err)
{
    struct store *store = maker->store;
    redisReply *reply = NULL;
    rd_ask_read(store, "rows");
    rd_ask_text(store, "1");
    for (size_t i = 0; i < n; i++)
        rd_ask_int(store, seqs[i]);
    int rc = n > 0 ? rd_link_read(store, &reply, err) : 0;
    for (size_t i = 0, at = 0; rc == 0 && i < n; i++) {
        const struct entry *moved = store->in_transaction ? rd_entry_moved(store, seqs[i]) : NULL;
        const struct str bytes = rd_reply_str(reply, at++);
        struct str big[BIG_COUNT] = {{0}};
        struct row row;
        for (int k = 0; k < BIG_COUNT && rd_row_has_big(bytes); k++)
            big[k] = rd_reply_str(reply, at++);
        if (moved ? !moved->is_there : bytes.len == 0)
            continue;
        if (moved) {
            row = moved->now;
            overlay_big(store, moved, big);
        } else {
            rc = rd_row_unpack(store, seqs[i], bytes, &row, err);
        }
        rc = rc == 0 ? add(maker, &row, big, err) : rd_page_leave_out(maker, rc, err);
    }
    freeReplyObject(reply);
    return rc;
}

/* ---- By name --------------------------------------------------------------------------------- */

int64_t rd_id_seq(struct store *store, const struct digest *digest, struct str member)
{
    const struct entry *own = map_get(&store->ids, digest_str(digest));
    return own ? own->seq : rd_member_seq(member);
}

static int seqs_of(struct store *store, const struct job_name *names, size_t n, int64_t *ret,
                   size_t *ret_n, struct redrive_err *err)
{
    redisReply *reply = NULL;
    rd_ask_read(store, "cells");
    for (size_t i = 0; i < n; i++) {
        const struct digest digest = rd_digest_of(names[i].tenant, names[i].id);
        rd_ask_id(store, &digest);
    }
    int rc = rd_link_read(store, &reply, err);
    for (size_t i = 0; rc == 0 && i < n; i++) {
        const struct digest digest = rd_digest_of(names[i].tenant, names[i].id);
        const int64_t seq = rd_id_seq(store, &digest, rd_reply_str(reply, i));
        if (seq > 0)
            ret[(*ret_n)++] = seq;
    }
    freeReplyObject(reply);
    return rc;
}

int redis_lookup(struct store *store, const struct job_name *names, size_t n, struct job_page *ret,
                 struct redrive_err *err)
{
    struct page_maker maker;
    int64_t seqs[STORE_PAGE_MAX];
    size_t found = 0;
    rd_page_start(&maker, store, ret);
    int rc = store_check_count(n, err);
    if (rc < 0 || n == 0)
        return rc;
    rc = seqs_of(store, names, n, seqs, &found, err);
    if (rc == 0)
        rc = rd_page_add_seqs(&maker, seqs, found, rd_page_add, err);
    if (rc == 0)
        rc = job_page_check_readable(ret, err);
    if (rc != 0)
        job_page_release(ret);
    return rc;
}

int redis_find(struct store *store, const int64_t *seqs, size_t n, struct job_page *ret,
               struct redrive_err *err)
{
    struct page_maker maker;
    rd_page_start(&maker, store, ret);
    int rc = store_check_count(n, err);
    if (rc == 0 && n > 0)
        rc = rd_page_add_seqs(&maker, seqs, n, rd_page_add, err);
    if (rc != 0)
        job_page_release(ret);
    return rc;
}

/* ---- Histories ------------------------------------------------------------------------------- */

/* Without memory the page's arena has failed. */
static void add_attempt(struct attempt_page *page, struct job_attempt attempt)
{
    struct arena *arena = &page->arena;
    struct job_attempt *grown = page_grow(arena, page->attempts, page->n, sizeof *grown);
    if (!grown)
        return;
    page->attempts = grown;
    attempt.worker = rd_page_dup(arena, attempt.worker);
    attempt.why = rd_page_dup(arena, attempt.why);
    attempt.error.type = rd_page_dup(arena, attempt.error.type);
    attempt.error.message = rd_page_dup(arena, attempt.error.message);
    attempt.error.stacktrace = rd_page_dup(arena, attempt.error.stacktrace);
    page->attempts[page->n++] = attempt;
}

/* A job whose history is asked for. */
struct question {
    struct row row; /* without a partition: there is no such job */
    struct attempt_page *page;
    uint32_t n_read;  /* of its history */
    uint32_t n_asked; /* of its history, in the request that is being made */
};

/* How many attempts one request asks for. A row may be damaged and count more than there are: the
 * first that is missing is the last that is asked for. */
#define ATTEMPTS_AT_ONCE 65536

/* Reads the rows of the jobs; the reply, which they point into, is the caller's. */
static int read_questions(struct store *store, const int64_t *seqs, size_t n, struct question *ret,
                          redisReply **ret_reply, struct redrive_err *err)
{
    rd_ask_read(store, "rows");
    rd_ask_text(store, "0");
    for (size_t i = 0; i < n; i++)
        rd_ask_int(store, seqs[i]);
    int rc = rd_link_read(store, ret_reply, err);
    for (size_t i = 0; rc == 0 && i < n; i++) {
        const struct str bytes = rd_reply_str(*ret_reply, i);
        const struct entry *moved = store->in_transaction ? rd_entry_moved(store, seqs[i]) : NULL;
        if (moved && moved->is_there)
            ret[i].row = moved->now;
        else if (!moved && bytes.len > 0)
            rc = rd_row_unpack(store, seqs[i], bytes, &ret[i].row, err);
        if (rc == REDRIVE_E_CORRUPT) { /* where its history begins and ends is not known */
            ret[i].row = (struct row){0};
            rc = 0;
            if (err)
                *err = (struct redrive_err){0};
        }
    }
    return rc;
}

/* Asks for the next attempts of a job, up to `most` of them. */
static uint32_t ask_attempts(struct store *store, struct question *q, uint32_t most)
{
    const uint32_t left = q->row.n_history - q->n_read;
    q->n_asked = left < most ? left : most;
    for (uint32_t i = 0; i < q->n_asked; i++) {
        const struct beside b = rd_beside_history(q->row.job.status.seq, q->n_read + i);
        rd_ask_text(store, b.key);
        rd_ask_str(store, rd_beside_field(&b));
    }
    return q->n_asked;
}

/* Takes the attempts of one job from the reply. */
static int take_attempts(struct store *store, struct question *q, const redisReply *reply,
                         size_t *at, struct redrive_err *err)
{
    const size_t end = *at + q->n_asked;
    int rc = 0;
    for (; rc == 0 && *at < end; ++*at) {
        struct job_attempt attempt;
        const struct beside b = rd_beside_history(q->row.job.status.seq, q->n_read++);
        const struct cell *own =
            store->in_transaction ? rd_cell_known(store, str_of(b.key), rd_beside_field(&b)) : NULL;
        const struct str bytes = own ? own->now : rd_reply_str(reply, *at);
        if (bytes.len == 0) { /* the job has gone meanwhile */
            q->n_read = q->row.n_history;
            break;
        }
        if (rd_attempt_unpack(bytes, &attempt))
            add_attempt(q->page, attempt);
        else
            rc = err_set(err, REDRIVE_E_CORRUPT, "the history of job %lld is damaged",
                         (long long)q->row.job.status.seq);
    }
    *at = end;
    return rc;
}

/* *ret_none: there are no further ones. */
static int read_some_attempts(struct store *store, struct question *questions, size_t n,
                              bool *ret_none, struct redrive_err *err)
{
    redisReply *reply = NULL;
    uint32_t asked = 0;
    size_t at = 0;
    rd_ask_read(store, "cells");
    for (size_t i = 0; i < n; i++)
        asked += ask_attempts(store, &questions[i], ATTEMPTS_AT_ONCE - asked);
    *ret_none = asked == 0;
    int rc = asked > 0 ? rd_link_read(store, &reply, err) : 0;
    for (size_t i = 0; rc == 0 && i < n; i++)
        rc = take_attempts(store, &questions[i], reply, &at, err);
    freeReplyObject(reply);
    return rc;
}

static int fill_histories(struct store *store, struct question *questions, size_t n,
                          struct redrive_err *err)
{
    bool is_over = false;
    int rc = 0;
    while (rc == 0 && !is_over)
        rc = read_some_attempts(store, questions, n, &is_over, err);
    for (size_t i = 0; rc == 0 && i < n; i++) {
        struct job_attempt latest;
        if (questions[i].row.partition &&
            transition_attempt_in_row(&questions[i].row.job.status, &latest))
            add_attempt(questions[i].page, latest);
        rc = questions[i].page->arena.failed ? err_nomem(err) : 0;
    }
    return rc;
}

int redis_history(struct store *store, const int64_t *seqs, size_t n, struct attempt_page *ret,
                  struct redrive_err *err)
{
    redisReply *reply = NULL;
    attempt_pages_release(ret, n);
    int rc = store_check_count(n, err);
    if (rc != 0 || n == 0)
        return rc;
    struct question *questions = calloc(n, sizeof *questions);
    if (!questions)
        return err_nomem(err);
    for (size_t i = 0; i < n; i++)
        questions[i].page = &ret[i];
    rc = read_questions(store, seqs, n, questions, &reply, err);
    if (rc == 0)
        rc = fill_histories(store, questions, n, err);
    freeReplyObject(reply);
    free(questions);
    if (rc != 0)
        attempt_pages_release(ret, n);
    return rc;
}

/* submit.c - jobs that come in: new ones, and jobs of another store. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/err.h"
#include "core/state.h"
#include "store/redis/private.h"

/* ---- Ids and keys that are taken ------------------------------------------------------------- */

/* What the server has for the id and the key of a new job. */
struct question {
    struct digest id;
    struct digest key;
    bool has_key;
    int64_t id_seq;        /* 0: none */
    struct str remembered; /* the key of a job that is gone; in the reply */
    int64_t counting_seq;  /* the first that lives or is unique for ever; 0: none */
    int64_t other_seq;     /* the first of the others */
};

/* Asks for all ids and keys, and for n seqs. The caller frees the reply, which the questions point
 * into. */
static int ask_all(struct store *store, struct question *questions, size_t n, redisReply **ret,
                   struct redrive_err *err)
{
    rd_ask_read(store, "holders");
    rd_ask_int(store, (int64_t)n);
    rd_ask_int(store, (int64_t)n);
    for (size_t i = 0; i < n; i++)
        rd_ask_id(store, &questions[i].id);
    for (size_t i = 0; i < n; i++)
        if (questions[i].has_key)
            rd_ask_str(store, digest_str(&questions[i].key));
    int rc = rd_link_read(store, ret, err);
    if (rc == 0) /* the jobs were made by what processes share: tasks, breakers */
        rc = rd_shared_check(store, err);
    if (rc == 0)
        store->next_seq = rd_reply_int(*ret, 0);
    for (size_t i = 0, at = n + 1; rc == 0 && i < n; i++) {
        struct question *q = &questions[i];
        q->id_seq = rd_member_seq(rd_reply_str(*ret, i + 1));
        if (!q->has_key)
            continue;
        q->remembered = rd_reply_str(*ret, at);
        q->counting_seq = rd_member_seq(rd_reply_str(*ret, at + 1));
        q->other_seq = rd_member_seq(rd_reply_str(*ret, at + 2));
        at += 3;
    }
    return rc;
}

/* Reads the rows of all jobs that the answers name. */
static int read_all(struct store *store, const struct question *questions, size_t n,
                    struct redrive_err *err)
{
    int64_t *seqs = calloc(3 * n + 1, sizeof *seqs);
    struct entry **entries = calloc(3 * n + 1, sizeof(struct entry *));
    size_t count = 0;
    for (size_t i = 0; seqs && i < n; i++) {
        const int64_t named[] = {questions[i].id_seq, questions[i].counting_seq,
                                 questions[i].other_seq};
        for (int k = 0; k < 3; k++)
            if (named[k] > 0)
                seqs[count++] = named[k];
    }
    const bool ok = seqs && entries;
    int rc = ok ? rd_entries_get(store, seqs, count, NULL, entries, err) : err_nomem(err);
    free(seqs);
    free(entries);
    return rc;
}

static const struct entry *there(const struct entry *entry)
{
    return entry && entry != &RD_ENTRY_GONE && entry->is_there ? entry : NULL;
}

static const struct entry *id_holder(struct store *store, const struct question *q)
{
    const struct entry *entry = map_get(&store->ids, digest_str(&q->id));
    return there(entry || q->id_seq == 0 ? entry : rd_entry_known(store, q->id_seq));
}

static const struct entry *older(const struct entry *a, const struct entry *b)
{
    if (!a || !b)
        return a ? a : b;
    return a->seq < b->seq ? a : b;
}

static bool counts(const struct entry *e)
{
    return e->now.job.spec.unique_forever || !state_has_ended(e->now.job.status.state);
}

/* The oldest job of the key that counts, or, if the new one is to be unique for ever, the oldest of
 * all. For a key of which the transaction has changed or made jobs: all of them are read. */
static int key_holder_among(struct store *store, const struct question *q, bool forever,
                            const struct entry **ret, struct redrive_err *err)
{
    struct key_jobs jobs;
    int rc = rd_key_jobs_read(store, &q->key, &jobs, err);
    for (size_t i = 0; rc == 0 && i < jobs.n; i++)
        if (forever || counts(jobs.entries[i]))
            *ret = older(*ret, jobs.entries[i]);
    if (rc == 0 && !*ret)
        rc = rd_key_jobs_rely(store, &q->key, &jobs, forever, err);
    rd_key_jobs_release(&jobs);
    return rc;
}

/* *ret NULL: no job holds the key, and the commit checks that. */
static int key_holder(struct store *store, const struct question *q, bool forever,
                      const struct entry **ret, struct redrive_err *err)
{
    *ret = NULL;
    if (!q->has_key)
        return 0;
    if (map_get(&store->dirty_keys, digest_str(&q->key)) ||
        map_get(&store->new_keys, digest_str(&q->key)))
        return key_holder_among(store, q, forever, ret, err);
    if (q->counting_seq > 0)
        *ret = older(*ret, there(rd_entry_known(store, q->counting_seq)));
    if (forever && q->other_seq > 0)
        *ret = older(*ret, there(rd_entry_known(store, q->other_seq)));
    if (*ret)
        return 0;
    RELEASED_BY(rd_key_jobs_release)
    struct key_jobs seen = {.has_other = q->other_seq > 0, .other = rd_member_of(q->other_seq)};
    const struct member counting = rd_member_of(q->counting_seq);
    buf_init(&seen.counting, MEMBER_BYTES + 1);
    if (q->counting_seq > 0)
        buf_add_str(&seen.counting, member_str(&counting));
    return rd_key_jobs_rely(store, &q->key, &seen, forever, err);
}

/* ---- Submit ---------------------------------------------------------------------------------- */

/* Copies what a job was given into the transaction's memory. */
static int own_job(struct store *store, struct entry *e, struct redrive_err *err)
{
    struct job_spec *spec = &e->now.job.spec;
    struct job_status *s = &e->now.job.status;
    struct str *const strings[] = {
        &spec->id,         &spec->user,    &spec->project,     &spec->service,
        &spec->unique_key, &spec->policy,  &spec->breaker_key, &spec->limit_key,
        &s->worker,        &s->error.type, &s->error.message,
    };
    for (size_t i = 0; i < sizeof strings / sizeof strings[0]; i++)
        *strings[i] = rd_transaction_dup(store, *strings[i]);
    spec->tenant = e->now.partition->tenant;
    spec->queue = e->now.partition->queue;
    spec->task = e->now.partition->task;
    spec->process_after_ms = 0;
    spec->after = NULL;
    spec->n_after = 0;
    spec->parents = spec->open_parents = spec->children = 0;
    if (spec->breaker_key.len > UINT16_MAX || spec->limit_key.len > UINT16_MAX)
        return err_set(err, REDRIVE_E_TOO_BIG, "the key of a breaker or a limit is too long");
    int rc = 0;
    for (int i = 0; rc == 0 && i < BIG_COUNT; i++)
        rc = rd_entry_set_big(store, e, (enum big_part)i,
                              *rd_row_big_part(&e->now, (enum big_part)i), err);
    return rc;
}

/* The commit checks that the id still has the same job, or none. */
static void rely_on_id(struct store *store, const struct question *q)
{
    char key[RD_ID_KEY_MAX];
    const struct member member = rd_member_of(q->id_seq);
    const struct str field = rd_id_place(&q->id, key);
    const struct str place[] = {str_of(key), field}, seen[] = {field, member_str(&member)};
    if (q->id_seq == 0)
        rd_ops_add(&store->checks, 'A', (struct str){0}, NULL, 0, place, 2);
    else
        rd_ops_add(&store->checks, 'H', str_of(key), NULL, 0, seen, 2);
}

static int add_entry(struct store *store, const struct row *row, const struct question *q,
                     struct entry **ret, struct redrive_err *err)
{
    struct entry *e = rd_entry_new(store, row);
    if (!e)
        return err_nomem(err);
    int rc = own_job(store, e, err);
    if (rc == 0)
        rc = rd_entry_changed(store, e, err);
    if (q->has_key)
        e->next_key = map_get(&store->new_keys, digest_str(&q->key));
    if (rc == 0 && (map_put(&store->ids, digest_str(&q->id), e) != 0 ||
                    (q->has_key && map_put(&store->new_keys, digest_str(&q->key), e) != 0)))
        rc = err_nomem(err);
    rely_on_id(store, q);
    store->last_seq = row->job.status.seq;
    store->has_new_jobs = true;
    *ret = e;
    return rc;
}

static int submit_new(struct store *store, const struct job_spec *spec,
                      const struct partition *partition, const struct question *q,
                      struct entry **ret, struct redrive_err *err)
{
    const struct row row = {
        .partition = partition,
        .job = {.spec = *spec, .status = transition_submit(spec, store->next_seq++, store->now_ms)},
    };
    return add_entry(store, &row, q, ret, err);
}

/* The job that is gone and holds the key for ever: removed by this transaction, or long ago. */
static struct str remembered(struct store *store, const struct question *q)
{
    const struct cell *cell =
        q->has_key ? rd_cell_known(store, STR("held"), digest_str(&q->key)) : NULL;
    return cell ? cell->now : q->remembered;
}

static int submit_one(struct store *store, const struct job_spec *spec,
                      const struct partition *partition, const struct question *q,
                      struct submit_result *ret, struct arena *arena, struct redrive_err *err)
{
    const struct entry *holder = id_holder(store, q);
    const struct str held = remembered(store, q);
    struct remembered_key gone;
    int rc = 0;
    *ret = (struct submit_result){.code = REDRIVE_E_EXISTS};
    if (!holder && held.len > 0) {
        if (!rd_remembered_unpack(held, arena, &gone, &ret->seq))
            return err_set(err, REDRIVE_E_CORRUPT, "a remembered key is damaged");
        ret->state = gone.state;
        ret->id = gone.id;
        return 0;
    }
    if (!holder)
        rc = key_holder(store, q, spec->unique_forever, &holder, err);
    if (rc == 0 && !holder) {
        struct entry *e = NULL;
        ret->code = 0;
        rc = submit_new(store, spec, partition, q, &e, err);
        holder = e;
    }
    if (rc != 0 || !holder)
        return rc;
    ret->seq = holder->seq;
    ret->state = holder->now.job.status.state;
    ret->id = rd_page_dup(arena, holder->now.job.spec.id);
    return arena->failed ? err_nomem(err) : 0;
}

/* Finds partitions and answers for all. */
static int prepare(struct store *store, const struct job_spec *specs, size_t n,
                   const struct partition **partitions, struct question *questions,
                   redisReply **reply, struct redrive_err *err)
{
    for (size_t i = 0; i < n; i++) {
        questions[i].id = rd_digest_of(specs[i].tenant, specs[i].id);
        questions[i].has_key = specs[i].unique_key.len > 0;
        if (questions[i].has_key)
            questions[i].key = rd_digest_of(specs[i].tenant, specs[i].unique_key);
    }
    int rc = rd_partition_find(store, specs, n, partitions, err);
    if (rc == 0)
        rc = ask_all(store, questions, n, reply, err);
    return rc < 0 ? rc : read_all(store, questions, n, err);
}

int redis_submit(struct store *store, const struct job_spec *specs, size_t n,
                 struct submit_result *ret, struct arena *arena, struct redrive_err *err)
{
    int rc = rd_transaction_needed(store, err);
    if (rc != 0 || n == 0)
        return rc;
    const struct partition **partitions = calloc(n, sizeof(const struct partition *));
    struct question *questions = calloc(n, sizeof *questions);
    redisReply *reply = NULL;
    if (!partitions || !questions) {
        free(partitions);
        free(questions);
        return err_nomem(err);
    }
    rc = prepare(store, specs, n, partitions, questions, &reply, err);
    for (size_t i = 0; rc == 0 && i < n; i++)
        rc = submit_one(store, &specs[i], partitions[i], &questions[i], &ret[i], arena, err);
    freeReplyObject(reply);
    free(partitions);
    free(questions);
    return rc;
}

/* ---- Import ---------------------------------------------------------------------------------- */

/* The job of the same id, or, when both live, of the same key; *ret NULL: there is none, and the
 * commit checks that. */
static int find_conflict(struct store *store, const struct job *job, const struct question *q,
                         const struct entry **ret, struct redrive_err *err)
{
    struct key_jobs jobs;
    *ret = id_holder(store, q);
    if (*ret || !q->has_key || state_has_ended(job->status.state))
        return 0;
    int rc = rd_key_jobs_read(store, &q->key, &jobs, err);
    for (size_t i = 0; rc == 0 && i < jobs.n; i++)
        if (!state_has_ended(jobs.entries[i]->now.job.status.state))
            *ret = older(*ret, jobs.entries[i]);
    if (rc == 0 && !*ret)
        rc = rd_key_jobs_rely(store, &q->key, &jobs, false, err);
    rd_key_jobs_release(&jobs);
    return rc;
}

static int import_one(struct store *store, const struct imported_job *imported,
                      const struct partition *partition, const struct question *q,
                      struct move_result *ret, struct redrive_err *err)
{
    const struct entry *other;
    struct entry *e = NULL;
    int rc = find_conflict(store, imported->job, q, &other, err);
    if (rc == 0 && other)
        *ret = (struct move_result){.code = REDRIVE_E_EXISTS, .state = other->now.job.status.state};
    if (rc != 0 || other)
        return rc;
    struct row row = {.partition = partition, .job = *imported->job};
    row.job.status.seq = store->next_seq++;
    rc = add_entry(store, &row, q, &e, err);
    if (rc == 0 && row.job.spec.unique_forever && remembered(store, q).len > 0)
        rc = rd_key_forget(store, &row.job.spec, err);
    const size_t n = imported_rows(imported);
    for (size_t i = 0; rc == 0 && i < n; i++)
        rc = rd_entry_remember(store, e, &imported->attempts[i], err);
    *ret = (struct move_result){.state = imported->job->status.state};
    return rc;
}

int redis_import(struct store *store, const struct imported_job *jobs, size_t n,
                 struct move_result *ret, struct redrive_err *err)
{
    int rc = rd_transaction_needed(store, err);
    if (rc != 0 || n == 0)
        return rc;
    struct job_spec *specs = calloc(n, sizeof *specs);
    const struct partition **partitions = calloc(n, sizeof(const struct partition *));
    struct question *questions = calloc(n, sizeof *questions);
    redisReply *reply = NULL;
    for (size_t i = 0; specs && i < n; i++)
        specs[i] = jobs[i].job->spec;
    rc = specs && partitions && questions
             ? prepare(store, specs, n, partitions, questions, &reply, err)
             : err_nomem(err);
    for (size_t i = 0; rc == 0 && partitions && questions && i < n; i++)
        rc = import_one(store, &jobs[i], partitions[i], &questions[i], &ret[i], err);
    freeReplyObject(reply);
    free(specs);
    free(partitions);
    free(questions);
    return rc;
}

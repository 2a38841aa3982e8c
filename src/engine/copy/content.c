/* content.c - what a store holds: read page by page, and in a form that can be compared. */
#include "engine/copy/content.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/err.h"
#include "base/sha256.h"

/* Pages grow and shrink so that about this much is in memory. */
#define PAGE_BYTES   ((size_t)8 << 20)
#define FIRST_PAGE   64
#define KEYS_AT_ONCE 500

/* name=length:bytes, a line each: readable, and no two rows of fields look the same. An empty
 * string is as good as an absent one. */
static void put_str(struct buf *out, const char *name, struct str s)
{
    buf_printf(out, "%s=%zu:", name, s.len);
    buf_add_str(out, s);
    buf_putc(out, '\n');
}

static void put_int(struct buf *out, const char *name, int64_t value)
{
    char text[24];
    (void)snprintf(text, sizeof text, "%" PRId64, value);
    put_str(out, name, str_of(text));
}

static void put_error(struct buf *out, const struct job_error *error)
{
    put_str(out, "error class", str_of(redrive_class_name(error->class_)));
    put_str(out, "error type", error->type);
    put_str(out, "error message", error->message);
    put_str(out, "error stacktrace", error->stacktrace);
    put_int(out, "error code", error->code);
}

static void put_spec(struct buf *out, const struct job_spec *spec)
{
    put_str(out, "tenant", spec->tenant);
    put_str(out, "id", spec->id);
    put_str(out, "task", spec->task);
    put_str(out, "queue", spec->queue);
    put_str(out, "payload", spec->payload);
    put_str(out, "user", spec->user);
    put_str(out, "project", spec->project);
    put_str(out, "service", spec->service);
    put_str(out, "unique key", spec->unique_key);
    put_int(out, "unique for ever", spec->unique_forever);
    put_str(out, "policy", spec->policy);
    put_str(out, "breaker", spec->breaker_key);
    put_str(out, "limit", spec->limit_key);
    put_int(out, "priority", spec->priority);
    put_int(out, "max attempts", spec->max_attempts);
    put_int(out, "deadline", spec->deadline_ms);
}

static void put_status(struct buf *out, const struct job_status *s)
{
    put_str(out, "state", str_of(redrive_state_name(s->state)));
    put_str(out, "reason", str_of(redrive_reason_name(s->reason)));
    put_int(out, "parked by limit", s->parked_by_limit);
    put_int(out, "epoch", s->epoch);
    put_int(out, "attempts", s->attempts);
    put_int(out, "deferrals", s->deferrals);
    put_int(out, "crashes", s->crashes);
    put_int(out, "process after", s->process_after_ms);
    put_int(out, "created", s->created_ms);
    put_int(out, "updated", s->updated_ms);
    put_int(out, "first started", s->first_started_ms);
    put_int(out, "started", s->started_ms);
    put_int(out, "finished", s->finished_ms);
    put_int(out, "paused", s->paused_ms);
    put_int(out, "paused since", s->paused_since_ms);
    put_int(out, "token", (int64_t)s->token);
    put_int(out, "lease", s->lease_until_ms);
    put_str(out, "worker", s->worker);
    put_int(out, "permit generation", (int64_t)s->permit.generation);
    put_int(out, "permit probe", (int64_t)s->permit.probe);
    put_error(out, &s->error);
    put_str(out, "result", s->result);
    put_int(out, "fingerprint", (int64_t)s->fingerprint);
}

static void put_attempt(struct buf *out, const struct job_attempt *a)
{
    put_int(out, "attempt epoch", a->epoch);
    put_int(out, "attempt number", a->number);
    put_int(out, "attempt started", a->started_ms);
    put_int(out, "attempt ended", a->ended_ms);
    put_str(out, "attempt worker", a->worker);
    put_str(out, "attempt outcome", str_of(redrive_state_name(a->outcome)));
    put_error(out, &a->error);
    put_int(out, "attempt delay", a->delay_ms);
    put_str(out, "attempt why", a->why);
    put_int(out, "attempt next", a->next_ms);
}

void content_of_job(const struct imported_job *job, struct buf *out)
{
    buf_reset(out);
    put_spec(out, &job->job->spec);
    put_status(out, &job->job->status);
    put_int(out, "length of history", (int64_t)job->n_attempts);
    for (size_t i = 0; i < job->n_attempts; i++)
        put_attempt(out, &job->attempts[i]);
}

void content_of_row(const struct shared_row *row, struct buf *out)
{
    buf_reset(out);
    put_int(out, "kind", row->kind);
    put_str(out, "tenant", row->tenant);
    put_str(out, "key", row->key);
    put_str(out, "value", row->value);
    if (row->kind == SHARED_BUCKET)
        put_int(out, "used", row->sums.used);
}

void content_of_counter(const struct counter *counter, struct buf *out)
{
    buf_reset(out);
    put_str(out, "tenant", counter->tenant);
    put_str(out, "name", counter->name);
    put_str(out, "label", counter->label);
    put_int(out, "value", counter->value);
}

void content_of_key(const struct remembered_key *key, struct buf *out)
{
    buf_reset(out);
    put_str(out, "tenant", key->tenant);
    put_str(out, "unique key", key->key);
    put_str(out, "id", key->id);
    put_str(out, "state", str_of(redrive_state_name(key->state)));
}

/* Takes the first field off the front of a content that put_str has written. */
static struct str next_field(struct str *rest, struct str *ret_name)
{
    const char *equals = memchr(rest->ptr, '=', rest->len);
    char *colon;
    *ret_name = (struct str){rest->ptr, (size_t)(equals - rest->ptr)};
    size_t len = strtoull(equals + 1, &colon, 10);
    struct str field = {rest->ptr, (size_t)(colon + 1 - rest->ptr) + len + 1};
    *rest = (struct str){rest->ptr + field.len, rest->len - field.len};
    return field;
}

struct str content_difference(struct str a, struct str b)
{
    struct str name;
    while (a.len > 0) {
        struct str field = next_field(&a, &name);
        if (b.len < field.len || memcmp(b.ptr, field.ptr, field.len) != 0)
            return name;
        b = (struct str){b.ptr + field.len, b.len - field.len};
    }
    return STR("");
}

static uint64_t read_u64(const uint8_t *bytes)
{
    uint64_t value = 0;
    for (int i = 0; i < 8; i++)
        value = value << 8 | bytes[i];
    return value;
}

void content_add(struct content_sum *sum, struct str content)
{
    uint8_t hash[SHA256_BYTES];
    sha256(content.ptr, content.len, hash);
    const struct content_sum one = {read_u64(hash), read_u64(hash + 8), 1};
    content_add_sum(sum, &one);
}

void content_add_sum(struct content_sum *sum, const struct content_sum *other)
{
    sum->high += other->high;
    sum->low += other->low;
    sum->rows += other->rows;
}

bool content_same(const struct content_sum *a, const struct content_sum *b)
{
    return a->high == b->high && a->low == b->low && a->rows == b->rows;
}

const char *content_text(const struct content_sum *sum, char out[CONTENT_TEXT_MAX])
{
    (void)snprintf(out, CONTENT_TEXT_MAX, "%016" PRIx64 "%016" PRIx64, sum->high, sum->low);
    return out;
}

/* ---- Reading --------------------------------------------------------------------------------- */

struct job_set *job_set_new(void)
{
    return calloc(1, sizeof(struct job_set));
}

void job_set_free(struct job_set *set)
{
    if (!set)
        return;
    attempt_pages_release(set->histories, set->n);
    job_page_release(&set->page);
    free(set);
}

/* Reads the histories of the page's jobs, which are then the set. */
static int complete(struct job_set *set, struct store *store, struct redrive_err *err)
{
    int64_t seqs[COPY_CHUNK_MAX];
    attempt_pages_release(set->histories, set->n);
    set->n = set->page.n;
    for (size_t i = 0; i < set->n; i++)
        seqs[i] = set->page.jobs[i].status.seq;
    int rc = store_ops(store)->history(store, seqs, set->n, set->histories, err);
    for (size_t i = 0; rc == 0 && i < set->n; i++)
        set->jobs[i] = (struct imported_job){&set->page.jobs[i], set->histories[i].attempts,
                                             set->histories[i].n};
    return rc;
}

int job_set_lookup(struct job_set *set, struct store *store, const struct job_set *jobs,
                   struct redrive_err *err)
{
    struct job_name names[COPY_CHUNK_MAX];
    for (size_t i = 0; i < jobs->n; i++)
        names[i] = job_name_of(jobs->jobs[i].job);
    int rc = store_ops(store)->lookup(store, names, jobs->n, &set->page, err);
    return rc < 0 ? rc : complete(set, store, err);
}

int job_walk_init(struct job_walk *walk, struct store *store, struct redrive_err *err)
{
    *walk = (struct job_walk){.store = store, .set = job_set_new(), .limit = FIRST_PAGE};
    return walk->set ? 0 : err_nomem(err);
}

void job_walk_release(struct job_walk *walk)
{
    job_set_free(walk->set);
}

static size_t bytes_of(const struct imported_job *imported)
{
    const struct job *job = imported->job;
    size_t bytes = sizeof *job + job->spec.payload.len + job->status.result.len;
    for (size_t i = 0; i < imported->n_attempts; i++) {
        const struct job_error *error = &imported->attempts[i].error;
        bytes += sizeof(struct job_attempt) + error->message.len + error->stacktrace.len;
    }
    return bytes;
}

/* In another store it would be taken for what was submitted. */
static int refuse_damaged(const struct job *job, struct redrive_err *err)
{
    err_set(err, REDRIVE_E_CORRUPT, "job '%.*s' is damaged", (int)job->spec.id.len,
            job->spec.id.ptr);
    err_hint(err, "`redrive doctor` lists damaged jobs; edit their payloads or remove them");
    return REDRIVE_E_CORRUPT;
}

int job_walk_next(struct job_walk *walk, struct redrive_err *err)
{
    const struct job_filter filter = {.after_seq = walk->after_seq, .limit = walk->limit};
    struct job_set *set = walk->set;
    size_t bytes = 0;
    int rc = store_ops(walk->store)->list(walk->store, &filter, &set->page, err);
    if (rc == 0)
        rc = complete(set, walk->store, err);
    for (size_t i = 0; i < set->page.n && rc == 0; i++)
        if (set->page.jobs[i].is_damaged)
            rc = refuse_damaged(&set->page.jobs[i], err);
    if (rc < 0)
        return rc;
    for (size_t i = 0; i < set->n; i++)
        bytes += bytes_of(&set->jobs[i]);
    if (set->n > 0)
        walk->after_seq = set->jobs[set->n - 1].job->status.seq;
    walk->done += set->n;
    walk->limit = bytes > PAGE_BYTES ? walk->limit / 2 : walk->limit * 2;
    walk->limit = walk->limit < 1 ? 1 : walk->limit;
    walk->limit = walk->limit < COPY_CHUNK_MAX ? walk->limit : COPY_CHUNK_MAX;
    return set->n > 0;
}

int key_walk_next(struct key_walk *walk, const struct remembered_key **ret, struct redrive_err *err)
{
    struct remembered_key_page *page = &walk->pages[walk->current];
    if (walk->i == page->n) {
        if (walk->started && !page->more)
            return 0;
        /* Where the next page starts lies in the one before, which must outlive the read. */
        struct remembered_key after = {0};
        if (page->n > 0)
            after = page->keys[page->n - 1];
        walk->current = !walk->current;
        walk->started = true;
        walk->i = 0;
        page = &walk->pages[walk->current];
        int rc =
            store_ops(walk->store)
                ->remembered_keys(walk->store, after.tenant, after.key, KEYS_AT_ONCE, page, err);
        if (rc < 0 || page->n == 0)
            return rc;
    }
    *ret = &page->keys[walk->i++];
    return 1;
}

void key_walk_release(struct key_walk *walk)
{
    remembered_key_page_release(&walk->pages[0]);
    remembered_key_page_release(&walk->pages[1]);
}

int remembered_key_compare(const struct remembered_key *a, const struct remembered_key *b)
{
    int order = str_compare(a->tenant, b->tenant);
    return order != 0 ? order : str_compare(a->key, b->key);
}

const struct shared_row *copy_find_row(const struct shared_page *page, const struct shared_row *row,
                                       size_t *at)
{
    for (size_t k = 0; k < page->n; k++) {
        const struct shared_row *other = &page->rows[(*at + k) % page->n];
        if (str_eq(other->key, row->key) && str_eq(other->tenant, row->tenant)) {
            *at = (*at + k + 1) % page->n;
            return other;
        }
    }
    return NULL;
}

const struct counter *copy_find_counter(const struct counter_page *page,
                                        const struct counter *counter, size_t *at)
{
    for (size_t k = 0; k < page->n; k++) {
        const struct counter *other = &page->counters[(*at + k) % page->n];
        if (str_eq(other->label, counter->label) && str_eq(other->name, counter->name) &&
            str_eq(other->tenant, counter->tenant)) {
            *at = (*at + k + 1) % page->n;
            return other;
        }
    }
    return NULL;
}

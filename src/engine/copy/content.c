#include "engine/copy/content.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/sha256.h"

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

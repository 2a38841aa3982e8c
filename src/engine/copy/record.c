/* record.c - writes, compares and adds up records. */
#include "engine/copy/record.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/err.h"
#include "base/json/writer.h"
#include "base/sha256.h"
#include "base/text/encode.h"
#include "engine/copy/members.h"

/* The strings and numbers of a record, beside its table. */
struct item {
    const void *base;
    const struct imported_job *job; /* of MEMBER_ATTEMPTS and MEMBER_EDGES */
};

static struct item item_of(const struct record *r)
{
    if (r->kind == RECORD_JOB)
        return (struct item){r->job.job, &r->job};
    return (struct item){&r->row, NULL}; /* the union begins with each of its members */
}

static bool is_left_out(const struct member *m, const struct item *item)
{
    const union value_at v = value_of(m, item->base);
    switch (m->type) {
    case MEMBER_STR: return v.str->len == 0;
    case MEMBER_BOOL: return !*v.truth;
    case MEMBER_I32: return *v.i32 == 0;
    case MEMBER_U32: return *v.u32 == 0;
    case MEMBER_I64: return *v.i64 == 0;
    case MEMBER_HEX: return *v.u64 == 0;
    case MEMBER_CLASS:
    case MEMBER_REASON: return *v.number == 0;
    case MEMBER_STATE: return false;
    case MEMBER_ATTEMPTS: return !item->job || item->job->n_attempts == 0;
    case MEMBER_EDGES: return !item->job || item->job->n_edges == 0;
    case MEMBER_OBJECT: break;
    }
    const struct item inner = {.base = v.any};
    for (const struct member *i = m->of; i->name; i++)
        if (!is_left_out(i, &inner))
            return false;
    return true;
}

/* ---- Writing --------------------------------------------------------------------------------- */

static void write_members(struct json_writer *w, const struct member *table,
                          const struct item *item);

static void write_bytes(struct json_writer *w, struct str s)
{
    if (utf8_valid(s)) {
        json_put_string(w, s);
        return;
    }
    json_begin_object(w);
    json_key(w, "base64");
    char *text = malloc(BASE64_TEXT_SIZE(s.len));
    json_put_cstr(w, text ? base64_encode(s.ptr, s.len, text) : NULL);
    if (!text)
        w->out->failed = REDRIVE_E_NOMEM;
    free(text);
    json_end_object(w);
}

static void write_attempts(struct json_writer *w, const struct imported_job *job)
{
    json_begin_array(w);
    for (size_t i = 0; job && i < job->n_attempts; i++) {
        const struct item attempt = {.base = &job->attempts[i]};
        json_begin_object(w);
        write_members(w, ATTEMPT_MEMBERS, &attempt);
        json_end_object(w);
    }
    json_end_array(w);
}

static void write_edges(struct json_writer *w, const struct imported_job *job)
{
    json_begin_array(w);
    for (size_t i = 0; job && i < job->n_edges; i++) {
        const struct item edge = {.base = &job->edges[i]};
        json_begin_object(w);
        write_members(w, EDGE_MEMBERS, &edge);
        json_end_object(w);
    }
    json_end_array(w);
}

static void write_value(struct json_writer *w, const struct member *m, const struct item *item)
{
    const union value_at v = value_of(m, item->base);
    const struct item inner = {.base = v.any};
    char hex[17];
    switch (m->type) {
    case MEMBER_STR: write_bytes(w, *v.str); break;
    case MEMBER_BOOL: json_put_bool(w, *v.truth); break;
    case MEMBER_I32: json_put_int(w, *v.i32); break;
    case MEMBER_U32: json_put_int(w, *v.u32); break;
    case MEMBER_I64: json_put_int(w, *v.i64); break;
    case MEMBER_HEX:
        (void)snprintf(hex, sizeof hex, "%016" PRIx64, *v.u64);
        json_put_cstr(w, hex);
        break;
    case MEMBER_CLASS:
    case MEMBER_REASON:
    case MEMBER_STATE: json_put_cstr(w, vocabulary_word(words_of(m), *v.number)); break;
    case MEMBER_OBJECT:
        json_begin_object(w);
        write_members(w, m->of, &inner);
        json_end_object(w);
        break;
    case MEMBER_ATTEMPTS: write_attempts(w, item->job); break;
    case MEMBER_EDGES: write_edges(w, item->job); break;
    }
}

static void write_members(struct json_writer *w, const struct member *table,
                          const struct item *item)
{
    for (const struct member *m = table; m->name; m++) {
        if (is_left_out(m, item))
            continue;
        json_key(w, m->name);
        write_value(w, m, item);
    }
}

void record_write(const struct record *record, struct buf *out)
{
    const struct item item = item_of(record);
    struct json_writer w;
    json_writer_init(&w, out);
    json_begin_object(&w);
    json_field_cstr(&w, "kind", RECORD_TABLES[record->kind].name);
    write_members(&w, RECORD_TABLES[record->kind].members, &item);
    json_end_object(&w);
}

/* ---- Comparing ------------------------------------------------------------------------------- */

static bool is_same_value(const struct member *m, const void *a, const void *b)
{
    const union value_at x = value_of(m, a), y = value_of(m, b);
    switch (m->type) {
    case MEMBER_STR: return str_eq(*x.str, *y.str);
    case MEMBER_BOOL: return *x.truth == *y.truth;
    case MEMBER_I32:
    case MEMBER_U32: return *x.u32 == *y.u32;
    case MEMBER_I64:
    case MEMBER_HEX: return *x.u64 == *y.u64;
    case MEMBER_CLASS:
    case MEMBER_REASON:
    case MEMBER_STATE: return *x.number == *y.number;
    case MEMBER_OBJECT:
    case MEMBER_EDGES:
    case MEMBER_ATTEMPTS: break;
    }
    return true;
}

static bool find_difference(const struct member *table, const struct item *a, const struct item *b,
                            struct buf *out);

static bool find_attempt_difference(const struct imported_job *a, const struct imported_job *b,
                                    struct buf *out)
{
    if (!a || !b)
        return false;
    if (a->n_attempts != b->n_attempts) {
        buf_puts(out, "length of history");
        return true;
    }
    buf_puts(out, "attempt ");
    for (size_t i = 0; i < a->n_attempts; i++) {
        const struct item x = {&a->attempts[i], NULL}, y = {&b->attempts[i], NULL};
        if (find_difference(ATTEMPT_MEMBERS, &x, &y, out))
            return true;
    }
    return false;
}

static bool find_edge_difference(const struct imported_job *a, const struct imported_job *b,
                                 struct buf *out)
{
    bool differs = a && b && a->n_edges != b->n_edges;
    for (size_t i = 0; a && b && !differs && i < a->n_edges; i++)
        differs = !str_eq(a->edges[i].parent, b->edges[i].parent) ||
                  a->edges[i].rule != b->edges[i].rule ||
                  a->edges[i].outcome != b->edges[i].outcome;
    buf_puts(out, differs ? "what it waits for" : "");
    return differs;
}

static bool find_object_difference(const struct member *m, const struct item *a,
                                   const struct item *b, struct buf *out)
{
    const struct item x = {value_of(m, a->base).any, NULL}, y = {value_of(m, b->base).any, NULL};
    buf_puts(out, m->of == ERROR_MEMBERS ? "error " : "");
    return find_difference(m->of, &x, &y, out);
}

/* Appends the name of the first member that differs; false: there is none. */
static bool find_difference(const struct member *table, const struct item *a, const struct item *b,
                            struct buf *out)
{
    for (const struct member *m = table; m->name; m++) {
        const size_t before = out->len;
        bool differs;
        if (m->type == MEMBER_OBJECT) {
            differs = find_object_difference(m, a, b, out);
        } else if (m->type == MEMBER_ATTEMPTS) {
            differs = find_attempt_difference(a->job, b->job, out);
        } else if (m->type == MEMBER_EDGES) {
            differs = find_edge_difference(a->job, b->job, out);
        } else {
            differs = !is_same_value(m, a->base, b->base);
            buf_puts(out, differs ? m->name : "");
        }
        if (differs)
            return true;
        buf_truncate(out, before);
    }
    return false;
}

const char *record_difference(const struct record *a, const struct record *b,
                              char out[RECORD_MEMBER_MAX])
{
    const struct item x = item_of(a), y = item_of(b);
    struct buf name;
    buf_init_fixed(&name, out, RECORD_MEMBER_MAX);
    out[0] = '\0';
    (void)find_difference(RECORD_TABLES[a->kind].members, &x, &y, &name);
    return out;
}

/* ---- Sums ------------------------------------------------------------------------------------ */

static uint64_t read_u64(const uint8_t *bytes)
{
    uint64_t value = 0;
    for (int i = 0; i < 8; i++)
        value = value << 8 | bytes[i];
    return value;
}

static void add_sum(struct content_sum *sum, const struct content_sum *other)
{
    sum->high += other->high;
    sum->low += other->low;
    sum->rows += other->rows;
}

void content_add(struct content_sum *sum, const uint8_t hash[SHA256_BYTES])
{
    const struct content_sum one = {read_u64(hash), read_u64(hash + 8), 1};
    add_sum(sum, &one);
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

void tally_add(struct tally *tally, const struct record *record, const uint8_t hash[SHA256_BYTES])
{
    content_add(&tally->sums[record->kind], hash);
    if (record->kind != RECORD_JOB)
        return;
    tally->attempts += record->job.n_attempts;
    tally->by_state[record->job.job->status.state]++;
}

int tally_batch(struct tally *tally, const struct record_batch *batch, struct buf *line,
                struct redrive_err *err)
{
    uint8_t hash[SHA256_BYTES];
    for (size_t i = 0; i < batch->n; i++) {
        const struct record record = record_of(batch, i);
        buf_reset(line);
        record_write(&record, line);
        if (buf_failed(line))
            return err_full(err, buf_failed(line), "a record is too long");
        sha256(line->data, line->len, hash);
        tally_add(tally, &record, hash);
    }
    return 0;
}

struct content_sum tally_total(const struct tally *tally)
{
    struct content_sum total = {0};
    for (int kind = 0; kind < RECORD_CONTENT_COUNT; kind++)
        if (kind != RECORD_MARK)
            add_sum(&total, &tally->sums[kind]);
    return total;
}

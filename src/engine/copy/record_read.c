/* record_read.c - reads a record. */
#include <inttypes.h>

#include "base/err.h"
#include "base/json/json.h"
#include "base/text/encode.h"
#include "engine/copy/members.h"

struct record_reader {
    struct json_reader json;
    struct arena *arena;
};

static int no_memory(struct record_reader *r)
{
    return json_fail(&r->json, REDRIVE_E_NOMEM, "out of memory");
}

/* {"base64":TEXT} */
static int read_base64(struct record_reader *r, struct str *ret)
{
    struct json_string key = {0};
    struct str text = {0};
    int rc = json_enter_object(&r->json);
    if (rc == 0)
        rc = json_next_key(&r->json, &key);
    if (rc < 0)
        return rc;
    if (rc == 0 || !json_string_is(key, "base64"))
        return json_fail(&r->json, REDRIVE_E_INVALID, "expected a string or {\"base64\":TEXT}");
    rc = json_read_text(&r->json, r->arena, &text);
    if (rc == 0)
        rc = json_next_key(&r->json, &key);
    if (rc != 0)
        return rc < 0 ? rc : json_fail(&r->json, REDRIVE_E_INVALID, "base64 stands alone");
    uint8_t *room = arena_alloc(r->arena, text.len + 1);
    if (!room)
        return no_memory(r);
    const ptrdiff_t n = base64_decode(text, room, text.len);
    if (n < 0)
        return json_fail(&r->json, REDRIVE_E_INVALID, "expected base64");
    *ret = (struct str){(const char *)room, (size_t)n};
    return 0;
}

static int read_str(struct record_reader *r, struct str *ret)
{
    return json_peek(&r->json) == JSON_TYPE_OBJECT ? read_base64(r, ret)
                                                   : json_read_text(&r->json, r->arena, ret);
}

static int read_int(struct record_reader *r, int64_t min, int64_t max, int64_t *ret)
{
    int rc = json_read_int(&r->json, ret);
    if (rc == 0 && (*ret < min || *ret > max))
        rc = json_fail(&r->json, REDRIVE_E_RANGE, "expected a number from %" PRId64 " to %" PRId64,
                       min, max);
    return rc;
}

static int read_hex(struct record_reader *r, uint64_t *ret)
{
    struct str text = {0};
    int rc = json_read_text(&r->json, r->arena, &text);
    if (rc == 0 && (text.len != 16 || !str_read_hex(text, ret)))
        rc = json_fail(&r->json, REDRIVE_E_INVALID, "expected 16 hexadecimal digits");
    return rc;
}

static int read_word(struct record_reader *r, const struct member *m, int *ret)
{
    struct str word = {0};
    int rc = json_read_text(&r->json, r->arena, &word);
    if (rc < 0)
        return rc;
    *ret = vocabulary_find(words_of(m), word);
    return *ret >= 0 ? 0
                     : json_fail(&r->json, REDRIVE_E_UNKNOWN, "unknown %s '%.*s'", m->name,
                                 (int)word.len, word.ptr);
}

static int read_members(struct record_reader *r, const struct member *table, void *base,
                        struct imported_job *job);

static int read_attempts(struct record_reader *r, struct imported_job *job)
{
    struct job_attempt *attempts = NULL;
    int rc = json_enter_array(&r->json);
    while (rc == 0 && (rc = json_next_item(&r->json)) > 0) {
        attempts = page_grow(r->arena, attempts, job->n_attempts, sizeof *attempts);
        if (!attempts)
            return no_memory(r);
        attempts[job->n_attempts] = (struct job_attempt){0};
        rc = json_enter_object(&r->json);
        if (rc == 0)
            rc = read_members(r, ATTEMPT_MEMBERS, &attempts[job->n_attempts++], NULL);
    }
    job->attempts = attempts;
    return rc;
}

static int read_edges(struct record_reader *r, struct imported_job *job)
{
    struct copied_edge *edges = NULL;
    int rc = json_enter_array(&r->json);
    while (rc == 0 && (rc = json_next_item(&r->json)) > 0) {
        edges = page_grow(r->arena, edges, job->n_edges, sizeof *edges);
        if (!edges)
            return no_memory(r);
        edges[job->n_edges] = (struct copied_edge){0};
        rc = json_enter_object(&r->json);
        if (rc == 0)
            rc = read_members(r, EDGE_MEMBERS, &edges[job->n_edges++], NULL);
    }
    job->edges = edges;
    return rc;
}

static int read_value(struct record_reader *r, const struct member *m, void *at,
                      struct imported_job *job)
{
    int64_t n = 0;
    int rc = 0;
    switch (m->type) {
    case MEMBER_STR: return read_str(r, at);
    case MEMBER_BOOL: return json_read_bool(&r->json, at);
    case MEMBER_I64: return read_int(r, 0, INT64_MAX, at);
    case MEMBER_HEX: return read_hex(r, at);
    case MEMBER_CLASS:
    case MEMBER_REASON:
    case MEMBER_STATE: return read_word(r, m, at);
    case MEMBER_ATTEMPTS: return read_attempts(r, job);
    case MEMBER_EDGES: return read_edges(r, job);
    case MEMBER_OBJECT:
        rc = json_enter_object(&r->json);
        return rc < 0 ? rc : read_members(r, m->of, at, NULL);
    case MEMBER_I32:
        rc = read_int(r, INT32_MIN, INT32_MAX, &n);
        *(int32_t *)at = (int32_t)n;
        return rc;
    case MEMBER_U32:
        rc = read_int(r, 0, UINT32_MAX, &n);
        *(uint32_t *)at = (uint32_t)n;
        return rc;
    }
    return rc;
}

/* The first member that must be there and is not, or NULL. */
static const char *find_missing(const struct member *table, const void *base, uint64_t seen)
{
    for (const struct member *m = table; m->name; m++) {
        const bool was_read = seen >> (m - table) & 1;
        if (m->type == MEMBER_STATE ? !was_read : m->is_required && value_of(m, base).str->len == 0)
            return m->name;
    }
    return NULL;
}

/* The rest of an object that has been entered. `job` is of a table with MEMBER_ATTEMPTS. */
static int read_members(struct record_reader *r, const struct member *table, void *base,
                        struct imported_job *job)
{
    struct json_string key = {0};
    uint64_t seen = 0; /* a bit a row: no table has more than 64 */
    int rc;
    while ((rc = json_next_key(&r->json, &key)) > 0) {
        const struct member *m = table;
        while (m->name && !json_string_is(key, m->name))
            m++;
        if (!m->name)
            return json_fail(&r->json, REDRIVE_E_UNKNOWN, "unknown member '%.*s'", (int)key.raw.len,
                             key.raw.ptr);
        seen |= (uint64_t)1 << (m - table);
        rc = read_value(r, m, (char *)base + m->offset, job);
        if (rc < 0)
            return rc;
    }
    const char *missing = rc == 0 ? find_missing(table, base, seen) : NULL;
    return missing ? json_fail(&r->json, REDRIVE_E_INVALID, "%s is missing", missing) : rc;
}

/* The first member of every record. */
static int read_kind(struct record_reader *r, struct str *ret)
{
    struct json_string key = {0};
    int rc = json_enter_object(&r->json);
    if (rc == 0)
        rc = json_next_key(&r->json, &key);
    if (rc > 0)
        rc = json_string_is(key, "kind") ? json_read_text(&r->json, r->arena, ret) : 0;
    if (rc == 0 && ret->len == 0)
        rc =
            json_fail(&r->json, REDRIVE_E_INVALID, "expected a record, which begins with its kind");
    return rc;
}

static int find_kind(struct record_reader *r, struct str name, enum record_kind *ret)
{
    for (int kind = 0; kind < RECORD_KIND_COUNT; kind++)
        if (RECORD_TABLES[kind].members && str_is(name, RECORD_TABLES[kind].name)) {
            *ret = (enum record_kind)kind;
            return 0;
        }
    return json_fail(&r->json, REDRIVE_E_UNKNOWN, "unknown kind '%.*s'", (int)name.len, name.ptr);
}

/* What a store relies on beyond types. */
static int check_job(struct record_reader *r, const struct job *job)
{
    const int32_t priority = job->spec.priority;
    return priority >= -100 && priority <= 100
               ? 0
               : json_fail(&r->json, REDRIVE_E_RANGE, "expected a priority from -100 to 100");
}

static int read_record(struct record_reader *r, struct record *ret)
{
    struct str name = {0};
    int rc = read_kind(r, &name);
    if (rc == 0)
        rc = find_kind(r, name, &ret->kind);
    if (rc < 0)
        return rc;
    void *base = &ret->row;
    struct job *job = NULL;
    if (ret->kind == RECORD_JOB) {
        base = job = arena_alloc(r->arena, sizeof *job);
        if (!job)
            return no_memory(r);
        ret->job.job = job;
    } else if (record_is_row(ret->kind)) {
        ret->row.kind = (enum shared_kind)ret->kind;
    }
    rc = read_members(r, RECORD_TABLES[ret->kind].members, base, &ret->job);
    if (rc == 0 && job)
        rc = check_job(r, job);
    return rc < 0 ? rc : json_end(&r->json);
}

int record_read(struct str line, struct arena *arena, struct record *ret, struct redrive_err *err)
{
    const struct json_limits limits = {.max_bytes = RECORD_MAX};
    struct record_reader r = {.arena = arena};
    memset(ret, 0, sizeof *ret);
    json_reader_init(&r.json, line, &limits);
    int rc = read_record(&r, ret);
    if (rc < 0)
        rc = json_error(&r.json, err);
    json_reader_release(&r.json);
    return rc;
}

bool record_is_header(struct str line, int64_t *ret_format, struct str *ret_program)
{
    struct record_reader r = {0};
    struct json_string key = {0}, value = {0};
    struct str kind = {0};
    int rc;
    *ret_format = 0;
    *ret_program = (struct str){0};
    json_reader_init(&r.json, line, NULL);
    rc = json_enter_object(&r.json);
    while (rc == 0 && (rc = json_next_key(&r.json, &key)) > 0) {
        if (json_string_is(key, "format"))
            rc = json_read_int(&r.json, ret_format);
        else if (json_peek(&r.json) == JSON_TYPE_STRING)
            rc = json_read_string(&r.json, &value);
        else
            rc = json_skip(&r.json, NULL);
        if (rc == 0 && json_string_is(key, "kind"))
            kind = value.raw;
        if (rc == 0 && json_string_is(key, "program"))
            *ret_program = value.raw;
    }
    json_reader_release(&r.json);
    return rc == 0 && str_is(kind, RECORD_TABLES[RECORD_HEADER].name) && *ret_format > 0;
}

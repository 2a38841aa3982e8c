/* records.c - reads JSON lines and CSV, and finds the id of a record. */
#include "cli/commands/batch/records.h"

#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/json/json.h"
#include "base/json/writer.h"

static const struct str MARK = {"\xef\xbb\xbf", 3};

enum records_format records_format_of(const char *name)
{
    static const struct {
        const char *suffix;
        enum records_format format;
    } SUFFIXES[] = {
        {".jsonl", RECORDS_JSONL},
        {".ndjson", RECORDS_JSONL},
        {".json", RECORDS_JSONL},
        {".csv", RECORDS_CSV},
    };
    struct str s = str_of(name);
    for (size_t i = 0; i < sizeof SUFFIXES / sizeof SUFFIXES[0]; i++) {
        struct str suffix = str_of(SUFFIXES[i].suffix);
        if (s.len > suffix.len &&
            str_eq_nocase((struct str){s.ptr + s.len - suffix.len, suffix.len}, suffix))
            return SUFFIXES[i].format;
    }
    return RECORDS_GUESS;
}

void records_init(struct records *r, const struct records_options *options)
{
    const struct csv_limits limits = {.max_bytes = RECORDS_MAX_BYTES};
    r->options = *options;
    r->format = options->format;
    r->line = 0;
    r->is_guessed = r->at_end = r->finished = r->broken = false;
    r->chunk = (struct str){0};
    buf_init(&r->text, RECORDS_MAX_BYTES);
    buf_init(&r->id, RECORDS_MAX_BYTES);
    /* Escapes make a cell up to six times as long. */
    buf_init(&r->payload, 7u * RECORDS_MAX_BYTES);
    csv_init(&r->csv, &limits);
}

void records_release(struct records *r)
{
    csv_release(&r->csv);
    buf_release(&r->text);
    buf_release(&r->id);
    buf_release(&r->payload);
}

bool records_is_broken(const struct records *r)
{
    return r->broken;
}

/* Puts the line before what is wrong with it. The reader of JSON has seen only this one, and calls
 * it the first. */
static int at_line(uint64_t line, int code, struct redrive_err *err)
{
    static const char FIRST[] = "line 1, ";
    char message[sizeof err->message];
    if (!err)
        return code;
    bool has_column = strncmp(err->message, FIRST, sizeof FIRST - 1) == 0;
    (void)snprintf(message, sizeof message, "%s",
                   has_column ? err->message + sizeof FIRST - 1 : err->message);
    (void)snprintf(err->message, sizeof err->message, "line %llu%s %.*s", (unsigned long long)line,
                   has_column ? "," : ":", (int)sizeof message - 32, message);
    return code;
}

/* ---- Input ----------------------------------------------------------------------------------- */

/* Makes sure that there are bytes, unless it is the end. */
static int fill(struct records *r, struct redrive_err *err)
{
    size_t len = 0;
    if (r->chunk.len > 0 || r->at_end)
        return 0;
    int rc = r->options.read(r->options.ctx, r->bytes, sizeof r->bytes, &len, err);
    if (rc < 0) {
        r->broken = true;
        return rc;
    }
    r->at_end = len == 0;
    r->chunk = (struct str){r->bytes, len};
    return 0;
}

static void drop(struct str *s, size_t n)
{
    *s = (struct str){s->ptr + n, s->len - n};
}

/* A mark that is cut in two by the first read is left to the readers, which know it as well. */
static enum records_format guess(struct str start)
{
    if (str_starts_with(start, MARK))
        drop(&start, MARK.len);
    struct str text = str_trim(start);
    return text.len == 0 || text.ptr[0] == '{' || text.ptr[0] == '[' ? RECORDS_JSONL : RECORDS_CSV;
}

/* ---- JSON ------------------------------------------------------------------------------------ */

/* The fields that matter, as the object has them. */
struct found {
    struct str id;
    struct str other_id;
    struct str payload;
};

static int find_fields(const struct records *r, struct str text, struct found *ret,
                       struct redrive_err *err)
{
    const struct records_options *o = &r->options;
    const struct json_limits limits = {.max_bytes = RECORDS_MAX_BYTES};
    struct json_string key;
    RELEASED_BY(json_reader_release) struct json_reader reader;
    json_reader_init(&reader, text, &limits);
    int rc = json_enter_object(&reader);
    while (rc >= 0 && (rc = json_next_key(&reader, &key)) > 0) {
        struct str value;
        rc = json_skip(&reader, &value);
        if (rc < 0)
            break;
        if (json_string_is(key, o->id_field ? o->id_field : "sample_id"))
            ret->id = value;
        else if (!o->id_field && json_string_is(key, "id"))
            ret->other_id = value;
        /* One field may be both. */
        if (o->payload_field && json_string_is(key, o->payload_field))
            ret->payload = value;
    }
    if (rc >= 0)
        rc = json_end(&reader);
    if (rc < 0)
        rc = json_error(&reader, err);
    return rc;
}

static int no_id(const struct records *r, struct redrive_err *err)
{
    int rc = err_set(err, REDRIVE_E_INVALID, "the record has no id");
    if (r->options.id_field)
        err_detail(err, "its field '%s' is missing, null or empty", r->options.id_field);
    else
        err_detail(err, "its fields 'sample_id' and 'id' are missing, null or empty");
    err_hint(err, "name the field of the id with --id-field");
    return rc;
}

static int read_id(struct records *r, struct str value, struct redrive_err *err)
{
    struct json_string text;
    int64_t number;
    int rc;
    buf_reset(&r->id);
    RELEASED_BY(json_reader_release) struct json_reader reader;
    json_reader_init(&reader, value, NULL);
    switch (json_peek(&reader)) {
    case JSON_TYPE_STRING:
        rc = json_read_string(&reader, &text);
        if (rc == 0)
            rc = json_unescape(text, &r->id);
        break;
    case JSON_TYPE_NUMBER:
        rc = json_read_int(&reader, &number);
        if (rc == 0)
            rc = buf_printf(&r->id, "%lld", (long long)number);
        break;
    default: rc = REDRIVE_E_INVALID; break;
    }
    if (rc == REDRIVE_E_NOMEM)
        return err_nomem(err);
    if (rc < 0)
        return err_set(err, REDRIVE_E_INVALID, "an id is a string or a whole number, not %.*s",
                       value.len > 64 ? 64 : (int)value.len, value.ptr);
    return r->id.len == 0 ? no_id(r, err) : 0;
}

static bool is_there(struct str value)
{
    return value.len > 0 && !str_is(value, "null");
}

/* What was expected there, and the line's beginning. */
static void name_bad_json(struct str text, struct redrive_err *err)
{
    struct redrive_err why = {0};
    (void)json_check(text, NULL, &why);
    (void)err_set(err, REDRIVE_E_PARSE, "not JSON");
    err_detail(err, "%s: %.*s%s", why.message, text.len > 60 ? 60 : (int)text.len, text.ptr,
               text.len > 60 ? "..." : "");
}

static int take_object(struct records *r, struct str text, struct record *ret,
                       struct redrive_err *err)
{
    struct found found = {0};
    int rc = find_fields(r, text, &found, err);
    if (rc < 0) {
        if (json_check(text, NULL, NULL) == REDRIVE_E_PARSE)
            name_bad_json(text, err);
        else if (text.ptr[0] == '[')
            err_hint(err, "records are JSON lines: one object on each line, without an array");
        return at_line(r->line, rc, err);
    }
    struct str id = is_there(found.id) ? found.id : found.other_id;
    rc = is_there(id) ? read_id(r, id, err) : no_id(r, err);
    if (rc < 0)
        return at_line(r->line, rc, err);
    *ret = (struct record){
        .line = r->line,
        .id = buf_str(&r->id),
        .payload = r->options.payload_field ? found.payload : text,
    };
    return 1;
}

/* Gathers a line without its end. 1: there is one; 0: there are no more. */
static int next_line(struct records *r, struct redrive_err *err)
{
    bool any = false;
    buf_reset(&r->text);
    for (;;) {
        int rc = fill(r, err);
        if (rc < 0)
            return rc;
        if (r->chunk.len == 0)
            break;
        const char *end = memchr(r->chunk.ptr, '\n', r->chunk.len);
        size_t len = end ? (size_t)(end - r->chunk.ptr) : r->chunk.len;
        (void)buf_add(&r->text, r->chunk.ptr, len);
        drop(&r->chunk, len + (end != NULL));
        any = true;
        if (end)
            break;
    }
    if (!any)
        return 0;
    r->line++;
    if (buf_failed(&r->text) == REDRIVE_E_NOMEM)
        return err_nomem(err);
    if (buf_failed(&r->text) == 0)
        return 1;
    int rc = err_set(err, REDRIVE_E_TOO_BIG, "line %llu: a record that is too long",
                     (unsigned long long)r->line);
    err_detail(err, "a record may have %u bytes", RECORDS_MAX_BYTES);
    return rc;
}

static int next_json(struct records *r, struct record *ret, struct redrive_err *err)
{
    int rc;
    while ((rc = next_line(r, err)) > 0) {
        struct str text = buf_str(&r->text);
        if (r->line == 1 && str_starts_with(text, MARK))
            drop(&text, MARK.len);
        text = str_trim(text);
        if (text.len > 0)
            return take_object(r, text, ret, err);
    }
    return rc;
}

/* ---- CSV ------------------------------------------------------------------------------------- */

/* The number of a column; -1: there is none of that name. */
static ptrdiff_t find_column(const struct csv *csv, const char *name)
{
    for (size_t i = 0; i < csv->n_names; i++)
        if (str_is(csv->names[i], name))
            return (ptrdiff_t)i;
    return -1;
}

static int no_column(struct records *r, const char *name, struct redrive_err *err)
{
    r->broken = true;
    int rc = name ? err_set(err, REDRIVE_E_INVALID, "there is no column '%s'", name)
                  : err_set(err, REDRIVE_E_INVALID, "there is no column 'sample_id' or 'id'");
    err_detail(err, "the first line of a CSV file names its columns");
    if (!name)
        err_hint(err, "name the column of the id with --id-field");
    return rc;
}

static void write_row(struct records *r, ptrdiff_t payload_column)
{
    struct json_writer w;
    buf_reset(&r->payload);
    json_writer_init(&w, &r->payload);
    if (payload_column >= 0) {
        json_put_string(&w, r->csv.cells[payload_column]);
        return;
    }
    json_begin_object(&w);
    for (size_t i = 0; i < r->csv.n_cells; i++) {
        json_key_str(&w, r->csv.names[i]);
        json_put_string(&w, r->csv.cells[i]);
    }
    json_end_object(&w);
}

static int take_row(struct records *r, struct record *ret, struct redrive_err *err)
{
    const struct records_options *o = &r->options;
    ptrdiff_t id = find_column(&r->csv, o->id_field ? o->id_field : "sample_id");
    ptrdiff_t payload = o->payload_field ? find_column(&r->csv, o->payload_field) : -1;
    if (id < 0 && !o->id_field)
        id = find_column(&r->csv, "id");
    if (id < 0)
        return no_column(r, o->id_field, err);
    if (o->payload_field && payload < 0)
        return no_column(r, o->payload_field, err);
    if (r->csv.cells[id].len == 0)
        return at_line(r->csv.line, no_id(r, err), err);
    write_row(r, payload);
    if (buf_failed(&r->payload))
        return err_nomem(err);
    *ret = (struct record){
        .line = r->csv.line,
        .id = r->csv.cells[id],
        .payload = buf_str(&r->payload),
    };
    return 1;
}

static int next_csv(struct records *r, struct record *ret, struct redrive_err *err)
{
    int rc = 0;
    while (rc == 0 && !r->finished) {
        rc = fill(r, err);
        if (rc < 0)
            return rc;
        if (r->chunk.len > 0) {
            rc = csv_next(&r->csv, &r->chunk, err);
        } else {
            rc = csv_end(&r->csv, err);
            r->finished = true;
        }
    }
    r->broken = csv_is_broken(&r->csv);
    if (rc > 0)
        rc = take_row(r, ret, err);
    if (rc < 0 && r->is_guessed && err && !*err->detail)
        err_detail(err, "taken for CSV by its first byte; JSON lines need --format jsonl then");
    return rc;
}

int records_next(struct records *r, struct record *ret, struct redrive_err *err)
{
    if (r->broken)
        return 0;
    int rc = fill(r, err);
    if (rc < 0)
        return rc;
    if (r->format == RECORDS_GUESS) {
        r->format = guess(r->chunk);
        r->is_guessed = true;
    }
    return r->format == RECORDS_CSV ? next_csv(r, ret, err) : next_json(r, ret, err);
}

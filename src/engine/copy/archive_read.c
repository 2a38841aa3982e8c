/* archive_read.c - reads an export. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "engine/copy/archive_line.h"

#define BLOCK_BYTES ((size_t)1 << 18)

/* ---- Lines ----------------------------------------------------------------------------------- */

/* Reads more of the file behind what is there: 1, 0 at its end, or a negative code. */
static int read_block(struct archive_reader *r, struct redrive_err *err)
{
    struct buf *b = &r->block;
    const size_t left = b->len - r->at;
    if (left > 0 && r->at > 0)
        memmove(b->data, b->data + r->at, left);
    buf_truncate(b, left);
    r->at = 0;
    char *room = buf_reserve(b, BLOCK_BYTES);
    if (!room)
        return err_full(err, buf_failed(b), "line %" PRId64 " is too long", r->line + 1);
    const size_t n = fread(room, 1, BLOCK_BYTES, r->file);
    if (n == 0 && ferror(r->file))
        return err_set(err, REDRIVE_E_IO, "cannot read the export: %s", strerror(errno));
    buf_commit(b, n);
    return n > 0;
}

static int cut_off(const struct archive_reader *r, struct redrive_err *err)
{
    if (r->at == r->block.len)
        err_set(err, REDRIVE_E_CORRUPT, "the export is cut off after line %" PRId64, r->line);
    else
        err_set(err, REDRIVE_E_CORRUPT, "the export is cut off in line %" PRId64, r->line + 1);
    err_detail(err, "%" PRIu64 " bytes; its last line, which counts the others, is missing",
               r->bytes + (r->block.len - r->at));
    return REDRIVE_E_CORRUPT;
}

/* The next line without its end, valid until the next call: 1, 0 after the last, or a negative
 * code. */
static int next_line(struct archive_reader *r, struct str *ret, struct redrive_err *err)
{
    size_t looked = 0;
    for (;;) {
        const size_t left = r->block.len - r->at;
        const char *start = left > 0 ? r->block.data + r->at : "";
        const char *end = left > looked ? memchr(start + looked, '\n', left - looked) : NULL;
        if (end) {
            *ret = (struct str){start, (size_t)(end - start)};
            r->at += ret->len + 1;
            r->bytes += ret->len + 1;
            r->line++;
            return 1;
        }
        looked = left;
        int rc = read_block(r, err);
        if (rc <= 0)
            return rc < 0 ? rc : left > 0 ? cut_off(r, err) : 0;
    }
}

/* ---- One record ------------------------------------------------------------------------------ */

static int not_as_written(const struct archive_reader *r, struct redrive_err *err)
{
    err_set(err, REDRIVE_E_CORRUPT, "line %" PRId64 " is not as it was written", r->line);
    err_detail(err, "its hash does not fit it and the lines before it: something was changed, "
                    "doubled, left out or moved");
    err_hint(err, "take another copy of the export, or export again");
    return REDRIVE_E_CORRUPT;
}

/* Takes the hash off a line and compares it. *ret is the record, in the arena, and `ret_hash` its
 * own hash. */
static int check_hash(struct archive_reader *r, struct str line, struct arena *arena,
                      struct str *ret, uint8_t ret_hash[SHA256_BYTES], struct redrive_err *err)
{
    const struct str before = STR(ARCHIVE_HASH_BEFORE), after = STR(ARCHIVE_HASH_AFTER);
    char expected[ARCHIVE_HASH_BYTES + 1], text[ARCHIVE_HASH_MAX];
    if (line.len < ARCHIVE_HASH_BYTES)
        return not_as_written(r, err);
    const size_t len = line.len - ARCHIVE_HASH_BYTES;
    char *record = arena_alloc(arena, len + 2);
    if (!record)
        return err_nomem(err);
    memcpy(record, line.ptr, len);
    record[len] = '}';
    *ret = (struct str){record, len + 1};
    sha256(ret->ptr, ret->len, ret_hash);
    archive_chain(r->chain, ret_hash, text);
    (void)snprintf(expected, sizeof expected, "%s%s%s", before.ptr, text, after.ptr);
    return memcmp(line.ptr + len, expected, ARCHIVE_HASH_BYTES) == 0 ? 0 : not_as_written(r, err);
}

/* What is wrong with a line whose hash is right: another version has written it. */
static int not_understood(const struct archive_reader *r, const struct redrive_err *why,
                          struct redrive_err *err)
{
    const struct str program = r->header.program;
    const int code = why->code == REDRIVE_E_NOMEM ? REDRIVE_E_NOMEM : REDRIVE_E_STATE;
    err_set(err, code, "line %" PRId64 " is not understood: %s", r->line, why->message);
    err_detail(err,
               "written by redrive %.*s in format %" PRId64
               "; this is redrive %s, which reads format %d",
               (int)program.len, program.ptr, r->header.format, REDRIVE_VERSION, RECORD_FORMAT);
    err_hint(err, "import it with the version that has written it, or a newer one");
    return code;
}

static int read_record(struct archive_reader *r, struct str line, struct arena *arena,
                       struct record *ret, uint8_t ret_hash[SHA256_BYTES], struct redrive_err *err)
{
    struct redrive_err why = {0};
    struct str text = {0};
    int rc = check_hash(r, line, arena, &text, ret_hash, err);
    if (rc < 0)
        return rc;
    return record_read(text, arena, ret, &why) < 0 ? not_understood(r, &why, err) : 0;
}

/* ---- The first line -------------------------------------------------------------------------- */

static int no_export(struct redrive_err *err)
{
    err_set(err, REDRIVE_E_PARSE, "this is no export of a store");
    err_hint(err, "`redrive export FILE` writes one; lists of `redrive jobs export` and of "
                  "`redrive dlq export` are for other programs");
    return REDRIVE_E_PARSE;
}

static int refuse_format(int64_t format, struct str program, struct redrive_err *err)
{
    err_set(err, REDRIVE_E_STATE, "the export has format %" PRId64 ", this program reads format %d",
            format, RECORD_FORMAT);
    err_detail(err, "written by redrive %.*s; this is redrive %s", (int)program.len, program.ptr,
               REDRIVE_VERSION);
    err_hint(err, "use a newer redrive");
    return REDRIVE_E_STATE;
}

int archive_reader_init(struct archive_reader *r, FILE *file, struct redrive_err *err)
{
    uint8_t hash[SHA256_BYTES];
    struct record record;
    struct str line = {0}, program = {0};
    int64_t format;
    *r = (struct archive_reader){.file = file};
    arena_init(&r->arena);
    buf_init(&r->block, RECORD_MAX);
    int rc = next_line(r, &line, err);
    if (rc <= 0 && r->bytes == 0 && rc != REDRIVE_E_IO && rc != REDRIVE_E_NOMEM)
        return no_export(err);
    if (rc < 0)
        return rc;
    if (!record_is_header(line, &format, &program))
        return no_export(err);
    if (format > RECORD_FORMAT)
        return refuse_format(format, program, err);
    r->header = (struct record_header){.format = format, .program = arena_str(&r->arena, program)};
    rc = read_record(r, line, &r->arena, &record, hash, err);
    if (rc == 0)
        r->header = record.header;
    return rc;
}

/* ---- Batches --------------------------------------------------------------------------------- */

/* Records of one kind that have been read and not been given. */
struct archive_batch {
    struct arena arena;
    size_t bytes;
    enum record_kind kind;
    size_t n;
    union {
        struct shared_row rows[BATCH_MAX];
        struct imported_job jobs[BATCH_MAX];
        struct remembered_key keys[BATCH_MAX];
        struct counter counters[BATCH_MAX];
    };
};

void archive_reader_release(struct archive_reader *r)
{
    if (r->batch)
        arena_release(&r->batch->arena);
    free(r->batch);
    buf_release(&r->block);
    arena_release(&r->arena);
}

static void batch_add(struct archive_batch *b, const struct record *record, size_t bytes)
{
    b->kind = record->kind;
    b->bytes += bytes;
    if (record_is_row(b->kind))
        b->rows[b->n++] = record->row;
    else if (b->kind == RECORD_JOB)
        b->jobs[b->n++] = record->job;
    else if (b->kind == RECORD_KEY)
        b->keys[b->n++] = record->key;
    else
        b->counters[b->n++] = record->counter;
}

/* Gives what has gathered. */
static int batch_give(struct archive_reader *r, record_take_fn take, void *ctx,
                      struct redrive_err *err)
{
    struct archive_batch *b = r->batch;
    const struct record_batch batch = {b->kind, b->n, {.rows = b->rows}};
    int rc = b->n == 0 ? 0 : take(ctx, &batch, err);
    b->n = b->bytes = 0;
    if (rc == 0 && r->progress)
        rc = r->progress(r->progress_ctx, r->bytes, err);
    return rc;
}

/* The same, and forgets all that has been read. */
static int batch_end(struct archive_reader *r, record_take_fn take, void *ctx,
                     struct redrive_err *err)
{
    int rc = batch_give(r, take, ctx, err);
    arena_release(&r->batch->arena);
    arena_init(&r->batch->arena);
    return rc;
}

static bool is_full(const struct archive_batch *b)
{
    return b->n == BATCH_MAX || b->bytes >= BATCH_BYTES;
}

/* The last line must count what was read, and be the last. */
static int check_end(struct archive_reader *r, const struct record_end *end,
                     struct redrive_err *err)
{
    struct str more = {0};
    bool is_same = end->records == r->records;
    for (int kind = 0; kind < RECORD_CONTENT_COUNT; kind++)
        is_same = is_same && content_same(&end->sums[kind], &r->tally.sums[kind]);
    if (!is_same)
        return err_set(err, REDRIVE_E_CORRUPT,
                       "line %" PRId64 ", the last one, does not count what is before it", r->line);
    const int64_t line = r->line;
    int rc = next_line(r, &more, err);
    if (rc == 0)
        return 0;
    return err_set(err, REDRIVE_E_CORRUPT,
                   "there is something after line %" PRId64 ", which is the last one of the export",
                   line);
}

/* Reads a line: 1, 0 after the last one of the export, or a negative code. `skip` records are not
 * given. */
static int take_line(struct archive_reader *r, struct str line, int64_t skip, record_take_fn take,
                     void *ctx, struct redrive_err *err)
{
    struct archive_batch *b = r->batch;
    uint8_t hash[SHA256_BYTES];
    struct record record;
    int rc = read_record(r, line, &b->arena, &record, hash, err);
    if (rc < 0)
        return rc;
    if (record.kind == RECORD_END)
        return check_end(r, &record.end, err);
    if (record.kind == RECORD_HEADER)
        return not_as_written(r, err);
    tally_add(&r->tally, &record, hash);
    const bool is_skipped = r->records++ < skip;
    if (b->n > 0 && b->kind != record.kind)
        rc = batch_give(r, take, ctx, err);
    if (rc == 0 && !is_skipped)
        batch_add(b, &record, line.len);
    else if (rc == 0)
        b->bytes += line.len; /* it is in the arena as well */
    if (rc == 0 && (is_full(b) || (is_skipped && r->records % BATCH_MAX == 0)))
        rc = batch_end(r, take, ctx, err);
    return rc < 0 ? rc : 1;
}

int archive_reader_give(struct archive_reader *r, int64_t skip, record_take_fn take, void *ctx,
                        struct redrive_err *err)
{
    struct redrive_err late = {0};
    struct str line = {0};
    int rc;
    r->batch = calloc(1, sizeof *r->batch);
    if (!r->batch)
        return err_nomem(err);
    arena_init(&r->batch->arena);
    do {
        rc = next_line(r, &line, err);
        if (rc == 0)
            rc = cut_off(r, err);
        if (rc > 0)
            rc = take_line(r, line, skip, take, ctx, err);
    } while (rc > 0);
    /* What was read before an error is good. After one of `take` nothing is left. */
    int last = batch_end(r, take, ctx, rc < 0 ? &late : err);
    return rc < 0 ? rc : last;
}

/* archive_write.c - writes an export. */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/err.h"
#include "base/rng.h"
#include "engine/copy/archive_line.h"

const char *archive_new_id(char out[ARCHIVE_ID_MAX])
{
    const uint64_t high = rng_system_seed(), low = rng_system_seed();
    (void)snprintf(out, ARCHIVE_ID_MAX, "%016" PRIx64 "%016" PRIx64, high, low);
    return out;
}

static int write_failed(struct redrive_err *err)
{
    err_set(err, REDRIVE_E_IO, "cannot write the export: %s", strerror(errno));
    return REDRIVE_E_IO;
}

/* Writes a record with its hash; *ret is the hash of the record alone. */
static int write_record(struct archive_writer *w, const struct record *record,
                        uint8_t ret[SHA256_BYTES], struct redrive_err *err)
{
    char text[ARCHIVE_HASH_MAX];
    buf_reset(&w->line);
    record_write(record, &w->line);
    if (buf_failed(&w->line))
        return err_full(err, buf_failed(&w->line), "a record is too long for an export");
    sha256(w->line.data, w->line.len, ret);
    archive_chain(w->chain, ret, text);
    buf_truncate(&w->line, w->line.len - 1);
    buf_printf(&w->line, "%s%s%s\n", ARCHIVE_HASH_BEFORE, text, ARCHIVE_HASH_AFTER);
    if (buf_failed(&w->line))
        return err_full(err, buf_failed(&w->line), "a record is too long for an export");
    w->bytes += w->line.len;
    return fwrite(w->line.data, 1, w->line.len, w->file) == w->line.len ? 0 : write_failed(err);
}

int archive_writer_init(struct archive_writer *w, FILE *file, const struct record_header *header,
                        struct redrive_err *err)
{
    struct record record = {.kind = RECORD_HEADER, .header = *header};
    uint8_t hash[SHA256_BYTES];
    *w = (struct archive_writer){.file = file};
    buf_init(&w->line, RECORD_MAX);
    record.header.format = RECORD_FORMAT;
    record.header.program = STR(REDRIVE_VERSION);
    return write_record(w, &record, hash, err);
}

void archive_writer_release(struct archive_writer *w)
{
    buf_release(&w->line);
}

int archive_writer_take(void *ctx, const struct record_batch *batch, struct redrive_err *err)
{
    struct archive_writer *w = ctx;
    uint8_t hash[SHA256_BYTES];
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < batch->n; i++) {
        const struct record record = record_of(batch, i);
        rc = write_record(w, &record, hash, err);
        tally_add(&w->tally, &record, hash);
        w->records++;
    }
    return rc;
}

int archive_writer_end(struct archive_writer *w, struct redrive_err *err)
{
    struct record record = {.kind = RECORD_END, .end = {.records = w->records}};
    uint8_t hash[SHA256_BYTES];
    memcpy(record.end.sums, w->tally.sums, sizeof record.end.sums);
    int rc = write_record(w, &record, hash, err);
    return rc == 0 && fflush(w->file) != 0 ? write_failed(err) : rc;
}

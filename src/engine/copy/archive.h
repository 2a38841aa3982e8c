/* archive.h - an export: everything that a store holds as lines of JSON, in a file.
 *
 *     {"kind":"header","format":1,"program":"0.4.0","id":"…","store":"sqlite",…,"hash":"…"}
 *     {"kind":"breaker",…,"hash":"…"}          a line a record, in the order of record_take_fn
 *     {"kind":"job",…,"hash":"…"}
 *     {"kind":"end","records":2,"job":{"count":1,"hash_high":"…","hash_low":"…"},…,"hash":"…"}
 *
 * Each line ends with a hash over itself and all lines before it, so that a line which was changed,
 * doubled, left out or moved is found when it is read, before anything is made of it. h(n) is the
 * SHA-256 of line n without its member `hash`, c(0) is 32 zero bytes, c(n) the SHA-256 of c(n-1)
 * followed by h(n); the member is the first 8 bytes of c(n), in hexadecimal digits. A file that was
 * cut off has no last line. The last line counts and adds up the records of each kind.
 *
 * A line that this version does not understand is refused, with the version that has written it.
 */
#ifndef ENGINE_COPY_ARCHIVE_H
#define ENGINE_COPY_ARCHIVE_H

#include <stdio.h>

#include "base/mem/arena.h"
#include "base/sha256.h"
#include "engine/copy/compare.h"
#include "engine/copy/record.h"

/* ---- Writing --------------------------------------------------------------------------------- */

struct archive_writer {
    FILE *file; /* borrowed */
    struct tally tally;
    int64_t records;
    uint64_t bytes;
    struct buf line;
    uint8_t chain[SHA256_BYTES];
};

/* Writes the first line. Its format and program are filled in here. */
int archive_writer_init(struct archive_writer *w, FILE *file, const struct record_header *header,
                        struct redrive_err *err);
void archive_writer_release(struct archive_writer *w);
/* A record_take_fn, with a struct archive_writer. */
int archive_writer_take(void *ctx, const struct record_batch *batch, struct redrive_err *err);
/* Writes the last line, and flushes. */
int archive_writer_end(struct archive_writer *w, struct redrive_err *err);

/* A name that no other export has. */
#define ARCHIVE_ID_MAX 33
const char *archive_new_id(char out[ARCHIVE_ID_MAX]);

/* ---- Reading --------------------------------------------------------------------------------- */

struct archive_batch;

struct archive_reader {
    FILE *file; /* borrowed */
    struct record_header header;
    struct tally tally;
    int64_t line;    /* the number of the last line that was read */
    int64_t records; /* that were read, the ones that are passed over included */
    uint64_t bytes;
    uint8_t chain[SHA256_BYTES];
    struct arena arena; /* of the header */
    struct buf block;   /* of the file; what is before `at` has been read */
    size_t at;
    struct archive_batch *batch;

    /* Called after each batch, if not NULL, with how many bytes were read. A negative code ends
     * it. */
    int (*progress)(void *ctx, uint64_t bytes, struct redrive_err *err);
    void *progress_ctx;
};

/* Reads the first line. REDRIVE_E_PARSE: this is no export; REDRIVE_E_STATE: it is of a newer
 * format. */
int archive_reader_init(struct archive_reader *r, FILE *file, struct redrive_err *err);
void archive_reader_release(struct archive_reader *r);

/* Reads the rest and gives its records, without the first `skip`. Errors name the line;
 * what is before it has been given. REDRIVE_E_CORRUPT: lines are not as they were written, or the
 * last ones are missing; REDRIVE_E_STATE: a line has what this version does not know. */
int archive_reader_give(struct archive_reader *r, int64_t skip, record_take_fn take, void *ctx,
                        struct redrive_err *err);

/* ---- Between a store and a file -------------------------------------------------------------- */

struct archive_options {
    struct store *store;
    int64_t now_ms;       /* for a store that has no clock */
    struct str tenant;    /* export: of this one only; absent: of all */
    bool despite_workers; /* even if some are alive */
    bool into_existing;   /* import: even if the store has jobs of its own */
    uint64_t file_bytes;  /* import: the size of the file, if it can be read again to compare the
                           * store with it; 0: it is a pipe, and is not */

    /* Called now and then, if not NULL: what it is about ("export", "import", "check"), and how
     * many jobs, or bytes of a file, of how many are done. False: stop with REDRIVE_E_CANCELLED. */
    bool (*progress)(void *ctx, const char *phase, uint64_t done, uint64_t total);
    void *ctx;
};

/* What there was, and how it went. Its strings are cut where they are too long. */
struct archive_report {
    struct tally tally;
    int64_t format;
    char program[32];
    char id[64];
    char store[32];
    char tenant[256]; /* "": all */
    int64_t at_ms;
    bool is_snapshot;
    uint64_t bytes;

    /* Import. */
    uint64_t copied;          /* jobs that were added by this run */
    int64_t records;          /* that were read */
    int64_t skipped;          /* of these, records that an earlier run has taken */
    bool is_compared;         /* the store was read again and compared with the file */
    struct findings findings; /* if so */
};

/* Writes everything that a store holds. A store that can be read as of one moment is; on others
 * workers that are alive are a reason to refuse: REDRIVE_E_STATE. After a failure the file ends
 * anywhere. */
int archive_export(const struct archive_options *options, FILE *file, struct archive_report *ret,
                   struct redrive_err *err);

/* Takes a file into a store, and compares both. It may be repeated: records that an earlier run has
 * taken are passed over. REDRIVE_E_STATE: workers are alive on the store, or it has jobs of its
 * own. After an error the report has what was taken until then. */
int archive_import(const struct archive_options *options, FILE *file, struct archive_report *ret,
                   struct redrive_err *err);

/* Reads a file to its end without a store; options->store is not used. */
int archive_check(const struct archive_options *options, FILE *file, struct archive_report *ret,
                  struct redrive_err *err);

#endif

/* record.h - what a store holds, a record at a time, as lines of JSON.
 *
 * A job with its history, a shared row, a counter and a remembered key are each a record: all that
 * a store keeps of them, but for what is the store's own (seqs, versions of rows). A record is
 * written as one object on one line. Its members come from a table a kind (record.c), which also
 * reads them and names the first that differs: a new field is one row of a table.
 *
 *     {"kind":"job","tenant":"default","id":"a","task":"mail","queue":"mail","payload":"{}",
 *      "status":{"state":"queued","created_ms":1767225600000,…},"attempts":[…]}
 *
 * What is absent, empty, zero or false is left out. A string is text; one that is not UTF-8 is an
 * object, {"base64":…}, so that every byte arrives. Numbers of 64 bits without a sign are strings
 * of 16 hexadecimal digits. The same record gives the same bytes, whichever store holds it.
 */
#ifndef ENGINE_COPY_RECORD_H
#define ENGINE_COPY_RECORD_H

#include "base/mem/arena.h"
#include "base/text/buf.h"
#include "store/store.h"

/* The longest line. */
#define RECORD_MAX ((size_t)1 << 30)

/* A shared row is of the kind of its enum shared_kind. Those of workers are never copied. */
enum record_kind {
    RECORD_JOB = SHARED_KIND_COUNT,
    RECORD_KEY, /* a unique key whose job is gone */
    RECORD_COUNTER,
    RECORD_MARK, /* a counter that says what was copied into the store: no part of its content */
    RECORD_HEADER,
    RECORD_END,
};
#define RECORD_KIND_COUNT (RECORD_END + 1)
/* The kinds that a store holds. */
#define RECORD_CONTENT_COUNT RECORD_HEADER

static inline bool record_is_row(enum record_kind kind)
{
    return (int)kind < SHARED_KIND_COUNT;
}

/* A slice as the arguments of %.*s. */
#define SHOWN(s) (int)(s).len, (s).ptr

/* ---- Sums ------------------------------------------------------------------------------------ */

/* The sum of the first half of the SHA-256 of each line. It does not depend on the order, so that
 * two stores can be compared without holding either in memory. Zeroed: of none. */
struct content_sum {
    uint64_t high;
    uint64_t low;
    int64_t rows;
};

void content_add(struct content_sum *sum, const uint8_t hash[32]);
bool content_same(const struct content_sum *a, const struct content_sum *b);

#define CONTENT_TEXT_MAX 33
const char *content_text(const struct content_sum *sum, char out[CONTENT_TEXT_MAX]);

/* ---- Records --------------------------------------------------------------------------------- */

/* The first line of an export. */
#define RECORD_FORMAT 1
struct record_header {
    int64_t format;
    struct str program; /* the version that wrote it */
    struct str id;      /* of this export, unlike any other's */
    struct str store;   /* the scheme of the store */
    int64_t schema;     /* the version of the store's tables */
    int64_t at_ms;
    struct str tenant; /* absent: all of them */
    bool is_snapshot;  /* everything is as of one moment */
};

/* The last line. */
struct record_end {
    int64_t records; /* lines between the first and this one */
    struct content_sum sums[RECORD_CONTENT_COUNT];
};

struct record {
    enum record_kind kind;
    union {
        struct shared_row row;
        struct imported_job job;
        struct remembered_key key;
        struct counter counter; /* also of a mark */
        struct record_header header;
        struct record_end end;
    };
};

/* Appends the object, without an end of line. */
void record_write(const struct record *record, struct buf *out);

/* Reads one object and nothing else. The strings are slices of `line`, or in the arena.
 * REDRIVE_E_PARSE, REDRIVE_E_INVALID or REDRIVE_E_RANGE: this is no record; REDRIVE_E_UNKNOWN: it
 * has a kind or a member that this version does not know. */
int record_read(struct str line, struct arena *arena, struct record *ret, struct redrive_err *err);

/* Reads of a header what any format has: whether it is one, and its format and program, which is a
 * slice of `line`. False: it is none. */
bool record_is_header(struct str line, int64_t *ret_format, struct str *ret_program);

/* The name of the first member in which two records of a kind differ, such as "error message"; ""
 * when they are the same. */
#define RECORD_MEMBER_MAX 64
const char *record_difference(const struct record *a, const struct record *b,
                              char out[RECORD_MEMBER_MAX]);

/* ---- Batches --------------------------------------------------------------------------------- */

/* Some records of one kind, which may be none. They are valid during the call that gives them. */
struct record_batch {
    enum record_kind kind;
    size_t n;
    union {
        const struct shared_row *rows;
        const struct imported_job *jobs;
        const struct remembered_key *keys;
        const struct counter *counters;
    };
};

static inline struct record record_of(const struct record_batch *batch, size_t i)
{
    struct record r = {.kind = batch->kind};
    if (record_is_row(batch->kind))
        r.row = batch->rows[i];
    else if (batch->kind == RECORD_JOB)
        r.job = batch->jobs[i];
    else if (batch->kind == RECORD_KEY)
        r.key = batch->keys[i];
    else
        r.counter = batch->counters[i];
    return r;
}

/* The most records in a batch, and in a transaction of a copy. */
#define BATCH_MAX 500
/* About the most bytes in a batch. */
#define BATCH_BYTES ((size_t)8 << 20)

/* Where batches go: rows by kind, then jobs in the order of their seq, keys by tenant and key,
 * counters, marks. A negative code ends it. */
typedef int (*record_take_fn)(void *ctx, const struct record_batch *batch, struct redrive_err *err);

/* A counter with this name and the source as its label says what was copied from it. */
#define COPY_COUNTER "moved_from"

static inline bool is_mark(const struct counter *counter)
{
    return str_eq(counter->name, STR(COPY_COUNTER));
}

/* What was in all batches. */
struct tally {
    struct content_sum sums[RECORD_CONTENT_COUNT];
    uint64_t attempts;
    uint64_t by_state[REDRIVE_STATE_COUNT];
};

/* Counts a record whose line has this hash. */
void tally_add(struct tally *tally, const struct record *record, const uint8_t hash[32]);

/* Counts a batch; `line` is scratch. */
int tally_batch(struct tally *tally, const struct record_batch *batch, struct buf *line,
                struct redrive_err *err);

/* Over all but the marks. */
struct content_sum tally_total(const struct tally *tally);

#endif

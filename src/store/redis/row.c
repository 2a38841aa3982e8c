/* row.c - jobs and attempts as bytes. */
#include "base/err.h"
#include "store/redis/row.h"
#include "store/store.h"

/* A row is
 *
 *     state, flags                         a byte each
 *     partition                            four bytes, the highest first
 *     version                              three bytes, the highest first
 *     breaker key, limit key               if FLAG_GATES: two bytes of length, and the bytes
 *     which of the others are present      a number, its bits in the order of the tables below
 *     these                                numbers, then strings with their lengths
 *
 * The server's scripts read the part up to the gates. Numbers are in base 128, the lowest digits
 * first; times are differences to the time of creation, folded so that small negative numbers are
 * short.
 */
#define FLAG_BIG         1
#define FLAG_FINGERPRINT 2
#define FLAG_GATES       4
#define FLAG_FOREVER     8
#define FLAG_BY_LIMIT    16
#define VERSION_AT       6
#define HEAD_BYTES       (VERSION_AT + RD_VERSION_BYTES)

enum { /* Numbers, as they are. */
    N_PRIORITY,
    N_MAX_ATTEMPTS,
    N_REASON,
    N_EPOCH,
    N_ATTEMPTS,
    N_DEFERRALS,
    N_CRASHES,
    N_PAUSED,
    N_TOKEN,
    N_GENERATION,
    N_PROBE,
    N_CLASS,
    N_CODE,
    N_FINGERPRINT,
    N_HISTORY,
    N_BIG,
    N_PARENTS,
    N_OPEN_PARENTS,
    N_CHILDREN,
    /* Times, as differences. */
    N_DEADLINE,
    N_PROCESS_AFTER,
    N_UPDATED,
    N_FIRST_STARTED,
    N_STARTED,
    N_FINISHED,
    N_PAUSED_SINCE,
    N_LEASE,
    N_COUNT,
};

#define STRINGS_COUNT 12

static void list_strings(struct row *row, struct str *ret[STRINGS_COUNT])
{
    struct job_spec *spec = &row->job.spec;
    struct job_status *s = &row->job.status;
    struct str *const strings[STRINGS_COUNT] = {
        &spec->id,      &spec->payload,    &spec->user,          &spec->project,
        &spec->service, &spec->unique_key, &spec->policy,        &s->worker,
        &s->error.type, &s->error.message, &s->error.stacktrace, &s->result,
    };
    memcpy(ret, strings, sizeof strings);
}

struct str *rd_row_big_part(struct row *row, enum big_part part)
{
    switch (part) {
    case BIG_PAYLOAD: return &row->job.spec.payload;
    case BIG_RESULT: return &row->job.status.result;
    case BIG_STACKTRACE:
    default: return &row->job.status.error.stacktrace;
    }
}

static uint64_t fold(int64_t n)
{
    return (uint64_t)n << 1 ^ (n < 0 ? UINT64_MAX : 0);
}

static int64_t unfold(uint64_t n)
{
    return (int64_t)(n >> 1) ^ -(int64_t)(n & 1);
}

static void put_number(struct buf *b, uint64_t n)
{
    char bytes[10];
    size_t len = 0;
    for (; n > 0x7f; n >>= 7)
        bytes[len++] = (char)(n | 0x80);
    bytes[len++] = (char)n;
    buf_add(b, bytes, len);
}

static void put_string(struct buf *b, struct str s)
{
    put_number(b, s.len);
    buf_add_str(b, s);
}

/* The bytes that are left; `failed`: they were too few. */
struct reader {
    const unsigned char *at;
    const unsigned char *end;
    bool failed;
};

static uint64_t get_number(struct reader *r)
{
    uint64_t n = 0;
    for (unsigned shift = 0; r->at < r->end && shift < 64; shift += 7) {
        n |= (uint64_t)(*r->at & 0x7f) << shift;
        if (!(*r->at++ & 0x80))
            return n;
    }
    r->failed = true;
    return 0;
}

static struct str get_bytes(struct reader *r, size_t len)
{
    if ((size_t)(r->end - r->at) < len) {
        r->failed = true;
        return (struct str){0};
    }
    struct str s = {len > 0 ? (const char *)r->at : NULL, len};
    r->at += len;
    return s;
}

static struct str get_string(struct reader *r)
{
    return get_bytes(r, get_number(r));
}

/* The time of a row as a difference, in which 0 is no time. */
static uint64_t from_created(const struct row *row, int64_t ms)
{
    return ms == 0 ? 0 : fold((int64_t)((uint64_t)ms - (uint64_t)row->job.status.created_ms)) + 1;
}

static void list_numbers(const struct row *row, uint64_t ret[N_COUNT])
{
    const struct job_spec *spec = &row->job.spec;
    const struct job_status *s = &row->job.status;
    const uint64_t numbers[N_COUNT] = {
        [N_PRIORITY] = fold(spec->priority),
        [N_MAX_ATTEMPTS] = fold(spec->max_attempts),
        [N_REASON] = s->reason,
        [N_EPOCH] = s->epoch,
        [N_ATTEMPTS] = s->attempts,
        [N_DEFERRALS] = s->deferrals,
        [N_CRASHES] = s->crashes,
        [N_PAUSED] = fold(s->paused_ms),
        [N_TOKEN] = s->token,
        [N_GENERATION] = s->permit.generation,
        [N_PROBE] = s->permit.probe,
        [N_CLASS] = s->error.class_,
        [N_CODE] = fold(s->error.code),
        [N_FINGERPRINT] = s->fingerprint,
        [N_HISTORY] = row->n_history,
        [N_BIG] = row->big,
        [N_PARENTS] = s->parents,
        [N_OPEN_PARENTS] = s->open_parents,
        [N_CHILDREN] = s->children,
        [N_DEADLINE] = from_created(row, spec->deadline_ms),
        [N_PROCESS_AFTER] = from_created(row, s->process_after_ms),
        [N_UPDATED] = from_created(row, s->updated_ms),
        [N_FIRST_STARTED] = from_created(row, s->first_started_ms),
        [N_STARTED] = from_created(row, s->started_ms),
        [N_FINISHED] = from_created(row, s->finished_ms),
        [N_PAUSED_SINCE] = from_created(row, s->paused_since_ms),
        [N_LEASE] = from_created(row, s->lease_until_ms),
    };
    memcpy(ret, numbers, sizeof numbers);
}

static void put_gate(struct buf *b, struct str gate)
{
    buf_putc(b, (char)(gate.len >> 8));
    buf_putc(b, (char)gate.len);
    buf_add_str(b, gate);
}

int rd_row_pack(const struct row *row, struct buf *ret)
{
    struct row copy = *row;
    struct str *strings[STRINGS_COUNT];
    uint64_t numbers[N_COUNT], present = 0;
    const struct job_spec *spec = &row->job.spec;
    const bool has_gates = spec->breaker_key.len > 0 || spec->limit_key.len > 0;
    if (spec->breaker_key.len > UINT16_MAX || spec->limit_key.len > UINT16_MAX)
        return REDRIVE_E_TOO_BIG;
    list_numbers(row, numbers);
    list_strings(&copy, strings);
    for (unsigned i = 0; i < N_COUNT; i++)
        present |= (uint64_t)(numbers[i] != 0) << i;
    for (unsigned i = 0; i < STRINGS_COUNT; i++)
        present |= (uint64_t)(strings[i]->len > 0) << (N_COUNT + i);

    buf_reset(ret);
    buf_putc(ret, (char)row->job.status.state);
    buf_putc(ret, (char)((row->big ? FLAG_BIG : 0) |
                         (row->job.status.fingerprint ? FLAG_FINGERPRINT : 0) |
                         (has_gates ? FLAG_GATES : 0) | (spec->unique_forever ? FLAG_FOREVER : 0) |
                         (row->job.status.parked_by_limit ? FLAG_BY_LIMIT : 0)));
    for (int shift = 24; shift >= 0; shift -= 8)
        buf_putc(ret, (char)(row->partition->id >> shift));
    for (int shift = 16; shift >= 0; shift -= 8)
        buf_putc(ret, (char)(row->version >> shift));
    if (has_gates) {
        put_gate(ret, spec->breaker_key);
        put_gate(ret, spec->limit_key);
    }
    put_number(ret, present);
    put_number(ret, fold(row->job.status.created_ms));
    for (unsigned i = 0; i < N_COUNT; i++)
        if (numbers[i] != 0)
            put_number(ret, numbers[i]);
    for (unsigned i = 0; i < STRINGS_COUNT; i++)
        if (strings[i]->len > 0)
            put_string(ret, *strings[i]);
    return buf_failed(ret);
}

bool rd_row_has_big(struct str bytes)
{
    return bytes.len >= HEAD_BYTES && bytes.ptr[1] & FLAG_BIG;
}

struct str rd_row_version(struct str bytes)
{
    return (struct str){bytes.ptr + VERSION_AT, RD_VERSION_BYTES};
}

static int64_t to_time(const struct row *row, uint64_t n)
{
    return n == 0 ? 0 : (int64_t)((uint64_t)unfold(n - 1) + (uint64_t)row->job.status.created_ms);
}

static void set_numbers(struct row *row, const uint64_t n[N_COUNT])
{
    struct job_spec *spec = &row->job.spec;
    struct job_status *s = &row->job.status;
    spec->priority = (int32_t)unfold(n[N_PRIORITY]);
    spec->max_attempts = (int32_t)unfold(n[N_MAX_ATTEMPTS]);
    s->reason = (enum redrive_reason)n[N_REASON];
    s->epoch = (uint32_t)n[N_EPOCH];
    s->attempts = (uint32_t)n[N_ATTEMPTS];
    s->deferrals = (uint32_t)n[N_DEFERRALS];
    s->crashes = (uint32_t)n[N_CRASHES];
    s->paused_ms = unfold(n[N_PAUSED]);
    s->token = n[N_TOKEN];
    s->permit = (struct breaker_permit){.generation = n[N_GENERATION], .probe = n[N_PROBE]};
    s->error.class_ = (enum redrive_class)n[N_CLASS];
    s->error.code = (int32_t)unfold(n[N_CODE]);
    s->fingerprint = n[N_FINGERPRINT];
    row->n_history = (uint32_t)n[N_HISTORY];
    row->big = (unsigned)n[N_BIG];
    s->parents = (uint32_t)n[N_PARENTS];
    s->open_parents = (uint32_t)n[N_OPEN_PARENTS];
    s->children = (uint32_t)n[N_CHILDREN];
    spec->deadline_ms = to_time(row, n[N_DEADLINE]);
    s->process_after_ms = to_time(row, n[N_PROCESS_AFTER]);
    s->updated_ms = to_time(row, n[N_UPDATED]);
    s->first_started_ms = to_time(row, n[N_FIRST_STARTED]);
    s->started_ms = to_time(row, n[N_STARTED]);
    s->finished_ms = to_time(row, n[N_FINISHED]);
    s->paused_since_ms = to_time(row, n[N_PAUSED_SINCE]);
    s->lease_until_ms = to_time(row, n[N_LEASE]);
}

static struct str get_gate(struct reader *r)
{
    struct str head = get_bytes(r, 2);
    if (!head.ptr)
        return head;
    return get_bytes(r, (size_t)(unsigned char)head.ptr[0] << 8 | (unsigned char)head.ptr[1]);
}

static bool get_row(struct reader *r, struct row *row)
{
    struct str *strings[STRINGS_COUNT];
    uint64_t numbers[N_COUNT] = {0};
    if (r->at[1] & FLAG_GATES) {
        r->at += HEAD_BYTES;
        row->job.spec.breaker_key = get_gate(r);
        row->job.spec.limit_key = get_gate(r);
    } else {
        r->at += HEAD_BYTES;
    }
    const uint64_t present = get_number(r);
    row->job.status.created_ms = unfold(get_number(r));
    for (unsigned i = 0; i < N_COUNT; i++)
        if (present >> i & 1)
            numbers[i] = get_number(r);
    set_numbers(row, numbers);
    list_strings(row, strings);
    for (unsigned i = 0; i < STRINGS_COUNT; i++)
        if (present >> (N_COUNT + i) & 1)
            *strings[i] = get_string(r);
    return !r->failed && r->at == r->end && numbers[N_CLASS] < REDRIVE_CLASS_COUNT &&
           numbers[N_REASON] < REDRIVE_REASON_COUNT && row->big < 1u << BIG_COUNT;
}

int rd_row_damaged(int64_t seq, struct redrive_err *err)
{
    int rc = err_set(err, REDRIVE_E_CORRUPT, "job %lld is damaged", (long long)seq);
    err_hint(err, "%s", STORE_REPAIR_HINT);
    return rc;
}

int rd_row_unpack(struct store *store, int64_t seq, struct str bytes, struct row *ret,
                  struct redrive_err *err)
{
    const unsigned char *at = (const unsigned char *)bytes.ptr; /* NULL for an empty row */
    *ret = (struct row){0};
    if (bytes.len <= HEAD_BYTES || at[0] >= REDRIVE_STATE_COUNT)
        return rd_row_damaged(seq, err);
    struct reader r = {at, at + bytes.len, false};
    const uint32_t partition =
        (uint32_t)r.at[2] << 24 | (uint32_t)r.at[3] << 16 | (uint32_t)r.at[4] << 8 | r.at[5];
    ret->version = (uint32_t)r.at[VERSION_AT] << 16 | (uint32_t)r.at[VERSION_AT + 1] << 8 |
                   r.at[VERSION_AT + 2];
    ret->job.status.seq = seq;
    ret->job.status.state = (enum redrive_state)r.at[0];
    ret->job.spec.unique_forever = r.at[1] & FLAG_FOREVER;
    ret->job.status.parked_by_limit = r.at[1] & FLAG_BY_LIMIT;
    if (!get_row(&r, ret))
        return rd_row_damaged(seq, err);
    int rc = rd_partition_numbered(store, partition, &ret->partition, err);
    if (rc != 0)
        return rc;
    ret->job.spec.tenant = ret->partition->tenant;
    ret->job.spec.queue = ret->partition->queue;
    ret->job.spec.task = ret->partition->task;
    return 0;
}

int rd_attempt_pack(const struct job_attempt *a, struct buf *ret)
{
    const uint64_t numbers[] = {
        a->epoch,        a->number,           fold(a->started_ms), fold(a->ended_ms), a->outcome,
        a->error.class_, fold(a->error.code), fold(a->delay_ms),   fold(a->next_ms),
    };
    buf_reset(ret);
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
        put_number(ret, numbers[i]);
    put_string(ret, a->worker);
    put_string(ret, a->why);
    put_string(ret, a->error.type);
    put_string(ret, a->error.message);
    put_string(ret, a->error.stacktrace);
    return buf_failed(ret);
}

bool rd_attempt_unpack(struct str bytes, struct job_attempt *ret)
{
    struct reader r = {(const unsigned char *)bytes.ptr,
                       (const unsigned char *)bytes.ptr + bytes.len, bytes.len == 0};
    *ret = (struct job_attempt){0};
    ret->epoch = (uint32_t)get_number(&r);
    ret->number = (uint32_t)get_number(&r);
    ret->started_ms = unfold(get_number(&r));
    ret->ended_ms = unfold(get_number(&r));
    ret->outcome = (enum redrive_state)get_number(&r);
    ret->error.class_ = (enum redrive_class)get_number(&r);
    ret->error.code = (int32_t)unfold(get_number(&r));
    ret->delay_ms = unfold(get_number(&r));
    ret->next_ms = unfold(get_number(&r));
    ret->worker = get_string(&r);
    ret->why = get_string(&r);
    ret->error.type = get_string(&r);
    ret->error.message = get_string(&r);
    ret->error.stacktrace = get_string(&r);
    return !r.failed && ret->outcome < REDRIVE_STATE_COUNT &&
           ret->error.class_ < REDRIVE_CLASS_COUNT;
}

/* columns.h - the columns of a job in a result, and the joins that they need. */
#ifndef STORE_POSTGRES_COLUMNS_H
#define STORE_POSTGRES_COLUMNS_H

/* What rows.c reads of a job, in the order of enum row_column. */
#define ROW_COLUMNS                                                                                \
    "j.seq, j.partition_id, j.state, j.priority, j.has_key, j.reason, j.error_class, j.attempts, " \
    "j.epoch, j.deferrals, j.crashes, j.history_n, j.error_n, j.process_after_ms, "                \
    "j.updated_ms, j.started_ms, j.first_started_ms, j.finished_ms, j.paused_ms, "                 \
    "j.paused_since_ms, j.lease_until_ms, j.token, j.permit_generation, j.permit_probe, "          \
    "j.fingerprint, j.deadline_ms, j.by_limit, j.worker"

enum row_column {
    COLUMN_SEQ,
    COLUMN_PARTITION_ID,
    COLUMN_STATE,
    COLUMN_PRIORITY,
    COLUMN_HAS_KEY,
    COLUMN_REASON,
    COLUMN_ERROR_CLASS,
    COLUMN_ATTEMPTS,
    COLUMN_EPOCH,
    COLUMN_DEFERRALS,
    COLUMN_CRASHES,
    COLUMN_HISTORY_N,
    COLUMN_ERROR_N,
    COLUMN_PROCESS_AFTER,
    COLUMN_UPDATED,
    COLUMN_STARTED,
    COLUMN_FIRST_STARTED,
    COLUMN_FINISHED,
    COLUMN_PAUSED,
    COLUMN_PAUSED_SINCE,
    COLUMN_LEASE_UNTIL,
    COLUMN_TOKEN,
    COLUMN_GENERATION,
    COLUMN_PROBE,
    COLUMN_FINGERPRINT,
    COLUMN_DEADLINE,
    COLUMN_BY_LIMIT,
    COLUMN_WORKER,
    ROW_COLUMN_COUNT,

    /* What read.c adds to it. */
    COLUMN_CREATED = ROW_COLUMN_COUNT,
    COLUMN_MAX_ATTEMPTS,
    COLUMN_UNIQUE_FOREVER,
    COLUMN_ID,
    COLUMN_UNIQUE_KEY,
    COLUMN_BREAKER_KEY,
    COLUMN_LIMIT_KEY,
    COLUMN_USER,
    COLUMN_PROJECT,
    COLUMN_SERVICE,
    COLUMN_POLICY,
    COLUMN_PAYLOAD,
    COLUMN_ERROR_CODE,
    COLUMN_ERROR_TYPE,
    COLUMN_ERROR_MESSAGE,
    COLUMN_STACKTRACE,
    COLUMN_RESULT,
    JOB_COLUMN_COUNT,
};

#define SPEC_NAMES(s)                                                                         \
    s ".created_ms, " s ".max_attempts, " s ".unique_forever, " s ".id, " s ".unique_key, " s \
      ".breaker_key, " s ".limit_key, " s ".user_name, " s ".project, " s ".service, " s ".policy"
#define SPEC_COLUMNS(s) SPEC_NAMES(s) ", " s ".payload"

#define ERROR_COLUMNS "h.error_code, h.error_type, h.error_message, h.stacktrace, r.result"

#define JOB_COLUMNS ROW_COLUMNS ", " SPEC_COLUMNS("s") ", " ERROR_COLUMNS

/* To a job j: its spec s, its latest error h, its result r. */
#define ERROR_JOINS                                                     \
    " LEFT JOIN redrive.history h ON h.seq = j.seq AND h.n = j.error_n" \
    " LEFT JOIN redrive.results r ON r.seq = j.seq"
#define JOB_JOINS " JOIN redrive.specs s ON s.seq = j.seq" ERROR_JOINS

#endif

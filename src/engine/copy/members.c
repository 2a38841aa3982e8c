/* members.c - the members of every kind of record. */
#include "engine/copy/members.h"

#define MEMBER(S, type, name, at)                                \
    {                                                            \
        name, MEMBER_##type, offsetof(struct S, at), NULL, false \
    }
#define REQUIRED(S, name, at)                                \
    {                                                        \
        name, MEMBER_STR, offsetof(struct S, at), NULL, true \
    }
#define OBJECT(name, offset, table)               \
    {                                             \
        name, MEMBER_OBJECT, offset, table, false \
    }
#define END_OF_TABLE                     \
    {                                    \
        NULL, MEMBER_STR, 0, NULL, false \
    }

const struct member ERROR_MEMBERS[] = {
    MEMBER(job_error, CLASS, "class", class_),  MEMBER(job_error, STR, "type", type),
    MEMBER(job_error, STR, "message", message), MEMBER(job_error, STR, "stacktrace", stacktrace),
    MEMBER(job_error, I32, "code", code),       END_OF_TABLE,
};

static const struct member STATUS[] = {
    MEMBER(job_status, STATE, "state", state),
    MEMBER(job_status, REASON, "reason", reason),
    MEMBER(job_status, BOOL, "parked_by_limit", parked_by_limit),
    MEMBER(job_status, U32, "epoch", epoch),
    MEMBER(job_status, U32, "attempts", attempts),
    MEMBER(job_status, U32, "deferrals", deferrals),
    MEMBER(job_status, U32, "crashes", crashes),
    MEMBER(job_status, I64, "process_after_ms", process_after_ms),
    MEMBER(job_status, I64, "created_ms", created_ms),
    MEMBER(job_status, I64, "updated_ms", updated_ms),
    MEMBER(job_status, I64, "first_started_ms", first_started_ms),
    MEMBER(job_status, I64, "started_ms", started_ms),
    MEMBER(job_status, I64, "finished_ms", finished_ms),
    MEMBER(job_status, I64, "paused_ms", paused_ms),
    MEMBER(job_status, I64, "paused_since_ms", paused_since_ms),
    MEMBER(job_status, HEX, "token", token),
    MEMBER(job_status, I64, "lease_until_ms", lease_until_ms),
    MEMBER(job_status, STR, "worker", worker),
    MEMBER(job_status, HEX, "permit_generation", permit.generation),
    MEMBER(job_status, HEX, "permit_probe", permit.probe),
    OBJECT("error", offsetof(struct job_status, error), ERROR_MEMBERS),
    MEMBER(job_status, STR, "result", result),
    MEMBER(job_status, HEX, "fingerprint", fingerprint),
    MEMBER(job_status, U32, "parents", parents),
    MEMBER(job_status, U32, "open_parents", open_parents),
    MEMBER(job_status, U32, "children", children),
    END_OF_TABLE,
};

const struct member ATTEMPT_MEMBERS[] = {
    MEMBER(job_attempt, U32, "epoch", epoch),
    MEMBER(job_attempt, U32, "number", number),
    MEMBER(job_attempt, I64, "started_ms", started_ms),
    MEMBER(job_attempt, I64, "ended_ms", ended_ms),
    MEMBER(job_attempt, STR, "worker", worker),
    MEMBER(job_attempt, STATE, "outcome", outcome),
    OBJECT("error", offsetof(struct job_attempt, error), ERROR_MEMBERS),
    MEMBER(job_attempt, I64, "delay_ms", delay_ms),
    MEMBER(job_attempt, STR, "why", why),
    MEMBER(job_attempt, I64, "next_ms", next_ms),
    END_OF_TABLE,
};

const struct member EDGE_MEMBERS[] = {
    REQUIRED(copied_edge, "id", parent),
    MEMBER(copied_edge, U32, "rule", rule),
    MEMBER(copied_edge, U32, "outcome", outcome),
    END_OF_TABLE,
};

/* Of a struct job; attempts and edges are those of the struct imported_job that the record has. */
static const struct member JOB[] = {
    REQUIRED(job, "tenant", spec.tenant),
    REQUIRED(job, "id", spec.id),
    REQUIRED(job, "task", spec.task),
    REQUIRED(job, "queue", spec.queue),
    MEMBER(job, STR, "payload", spec.payload),
    MEMBER(job, STR, "user", spec.user),
    MEMBER(job, STR, "project", spec.project),
    MEMBER(job, STR, "service", spec.service),
    MEMBER(job, STR, "unique_key", spec.unique_key),
    MEMBER(job, BOOL, "unique_forever", spec.unique_forever),
    MEMBER(job, STR, "policy", spec.policy),
    MEMBER(job, STR, "breaker_key", spec.breaker_key),
    MEMBER(job, STR, "limit_key", spec.limit_key),
    MEMBER(job, I32, "priority", spec.priority),
    MEMBER(job, I32, "max_attempts", spec.max_attempts),
    MEMBER(job, I64, "deadline_ms", spec.deadline_ms),
    OBJECT("status", offsetof(struct job, status), STATUS),
    {"attempts", MEMBER_ATTEMPTS, 0, ATTEMPT_MEMBERS, false},
    {"after", MEMBER_EDGES, 0, EDGE_MEMBERS, false},
    END_OF_TABLE,
};

static const struct member ROW[] = {
    MEMBER(shared_row, STR, "tenant", tenant),  MEMBER(shared_row, STR, "key", key),
    MEMBER(shared_row, STR, "value", value),    MEMBER(shared_row, I64, "used", sums.used),
    MEMBER(shared_row, I64, "sent", sums.sent), END_OF_TABLE,
};

static const struct member KEY[] = {
    REQUIRED(remembered_key, "tenant", tenant),
    REQUIRED(remembered_key, "key", key),
    MEMBER(remembered_key, STR, "id", id),
    MEMBER(remembered_key, STATE, "state", state),
    END_OF_TABLE,
};

static const struct member COUNTER[] = {
    MEMBER(counter, STR, "tenant", tenant),
    MEMBER(counter, STR, "name", name),
    MEMBER(counter, STR, "label", label),
    MEMBER(counter, I64, "value", value),
    END_OF_TABLE,
};

static const struct member HEADER[] = {
    MEMBER(record_header, I64, "format", format),
    MEMBER(record_header, STR, "program", program),
    REQUIRED(record_header, "id", id),
    MEMBER(record_header, STR, "store", store),
    MEMBER(record_header, I64, "schema", schema),
    MEMBER(record_header, I64, "at_ms", at_ms),
    MEMBER(record_header, STR, "tenant", tenant),
    MEMBER(record_header, BOOL, "snapshot", is_snapshot),
    END_OF_TABLE,
};

static const struct member SUM[] = {
    MEMBER(content_sum, I64, "count", rows),
    MEMBER(content_sum, HEX, "hash_high", high),
    MEMBER(content_sum, HEX, "hash_low", low),
    END_OF_TABLE,
};

#define SUM_OF(name, kind) OBJECT(name, offsetof(struct record_end, sums[kind]), SUM)

static const struct member END[] = {
    MEMBER(record_end, I64, "records", records),
    SUM_OF("breaker", SHARED_BREAKER),
    SUM_OF("limit", SHARED_LIMIT),
    SUM_OF("pause", SHARED_PAUSE),
    SUM_OF("task", SHARED_TASK),
    SUM_OF("cron", SHARED_CRON),
    SUM_OF("alert", SHARED_ALERT),
    SUM_OF("cancel", SHARED_CANCEL),
    SUM_OF("job", RECORD_JOB),
    SUM_OF("remembered_key", RECORD_KEY),
    SUM_OF("counter", RECORD_COUNTER),
    SUM_OF("mark", RECORD_MARK),
    END_OF_TABLE,
};

const struct record_table RECORD_TABLES[RECORD_KIND_COUNT] = {
    [SHARED_BREAKER] = {"breaker", ROW},
    [SHARED_LIMIT] = {"limit", ROW},
    [SHARED_PAUSE] = {"pause", ROW},
    [SHARED_TASK] = {"task", ROW},
    [SHARED_CRON] = {"cron", ROW},
    [SHARED_WORKER] = {"worker", NULL},
    [SHARED_ALERT] = {"alert", ROW},
    [SHARED_CANCEL] = {"cancel", ROW},
    [RECORD_JOB] = {"job", JOB},
    [RECORD_KEY] = {"remembered_key", KEY},
    [RECORD_COUNTER] = {"counter", COUNTER},
    [RECORD_MARK] = {"mark", COUNTER},
    [RECORD_HEADER] = {"header", HEADER},
    [RECORD_END] = {"end", END},
};

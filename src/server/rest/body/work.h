/* work.h - what remote workers send: claims, settlements, heartbeats.
 *
 *     claim   {"queues": […], "tasks": […], "n": 1, "worker": "…", "lease": "30s", "wait": 20}
 *     settle  {"items": [{"id": "…", "token": "…", "status": "SUCCESS", "result": …}, …]}
 *     extend  {"items": [{"id": "…", "token": "…", "lease": "30s"}, …]}
 *
 * A token is opaque text: 16 digits that only the holder of the lease knows.
 */
#ifndef SERVER_REST_BODY_WORK_H
#define SERVER_REST_BODY_WORK_H

#include "engine/verbs/settle.h"
#include "fields/json.h"
#include "store/store.h"

#define CLAIM_BODY_MAX      500   /* jobs of one claim */
#define CLAIM_BODY_QUEUES   64    /* of one claim */
#define CLAIM_BODY_TASKS    1000  /* of one claim: all that an application has */
#define CLAIM_WAIT_MAX_MS   60000 /* of a long poll */
#define LEASE_MIN_MS        1000
#define LEASE_MAX_MS        86400000
#define SETTLE_BODY_MAX     1000 /* items of one request */
#define LEASE_TOKEN_MAX     17
#define SETTLE_TEXT_BYTES   (64u * 1024)
#define SETTLE_RESULT_BYTES (1024u * 1024)

struct claim_body {
    struct field_names queues;
    struct field_names tasks;
    int64_t n;
    struct str worker; /* absent: it did not say */
    int64_t lease_ms;  /* 0: as each task says */
    int64_t wait_ms;
    char field[FIELD_PLACE_MAX]; /* at fault, after a failure */
};
/* An empty text is a claim with nothing said. */
int claim_body_read(struct str text, struct arena *arena, struct claim_body *ret,
                    struct redrive_err *err);

/* Why an item cannot be read; its neighbours can. */
struct item_fault {
    struct str id; /* absent: it has none that can be read */
    struct redrive_err err;
    char field[FIELD_PLACE_MAX];
};

/* The items of a request: those that can be read, one after the other, and for each that was sent
 * NULL or its fault. When there are some and none can be read, the request as a whole fails as the
 * first of them. */
struct items_body {
    union {
        void *items;
        struct settlement *settlements;
        struct extension *extensions;
    };
    size_t n;
    struct item_fault **faults;
    size_t n_sent;
    char field[FIELD_PLACE_MAX];
};
int settle_body_read(struct str text, struct str tenant, struct arena *arena,
                     struct items_body *ret, struct redrive_err *err);
int extend_body_read(struct str text, struct str tenant, struct arena *arena,
                     struct items_body *ret, struct redrive_err *err);

const char *lease_token_write(uint64_t token, char out[LEASE_TOKEN_MAX]);
/* 0 for what is no token: no lease has that one. */
uint64_t lease_token_read(struct str text);

#endif

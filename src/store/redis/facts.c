/* facts.c - what the server is, and whether the store in it is whole. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/err.h"
#include "store/redis/private.h"

/* How many jobs are looked at in one call. */
#define AT_ONCE ((size_t)500)

/* ---- The server ---------------------------------------------------------------------------------
 */

static struct str info_line(const redisReply *info, const char *name)
{
    const char *at = info->type == REDIS_REPLY_STRING ? strstr(info->str, name) : NULL;
    if (!at)
        return (struct str){0};
    at += strlen(name);
    return (struct str){at, strcspn(at, "\r\n")};
}

static int refuse(struct redrive_err *err, const char *what, const char *detail, const char *hint)
{
    int rc = err_set(err, REDRIVE_E_STATE, "%s", what);
    err_detail(err, "%s", detail);
    err_hint(err, "%s", hint);
    return rc;
}

/* A setting by CONFIG, or absent when it may not be asked. It lives in the buffer. */
static struct str setting(struct store *store, const char *name, char ret[64])
{
    redisReply *reply = NULL;
    ret[0] = '\0';
    rd_ask_command(store, "CONFIG");
    rd_ask_text(store, "GET");
    rd_ask_text(store, name);
    if (rd_link_call(store, &reply, NULL) != 0)
        return (struct str){0};
    str_copy(ret, 64, rd_reply_str(reply, 1));
    const bool is_known = reply->elements == 2;
    freeReplyObject(reply);
    return is_known ? str_of(ret) : (struct str){0};
}

static void learn_durability(struct store *store, const redisReply *info)
{
    char fsync[64], save[64];
    const char *loss = NULL;
    setting(store, "appendfsync", fsync);
    const struct str snapshots = setting(store, "save", save);
    if (str_is(info_line(info, "aof_enabled:"), "1")) {
        store->base.durability = STORE_SURVIVES_PROCESS;
        if (strcmp(fsync, "always") == 0)
            store->base.durability = STORE_SURVIVES_POWER;
        else if (strcmp(fsync, "everysec") == 0)
            loss = "up to two seconds before power is lost (appendfsync everysec)";
        else if (strcmp(fsync, "no") == 0)
            loss = "up to half a minute before power is lost (appendfsync no)";
        else
            loss = "unknown: the server does not tell its appendfsync";
    } else if (snapshots.ptr && snapshots.len == 0) {
        store->base.durability = STORE_FORGETS;
        loss = "everything, when the server ends (appendonly no, no snapshots)";
    } else {
        store->base.durability = STORE_SURVIVES_PROCESS;
        loss = "everything since the last snapshot, when the server ends (appendonly no)";
    }
    str_copy(store->loss, sizeof store->loss, str_of(loss));
}

int rd_facts_learn(struct store *store, struct redrive_err *err)
{
    char policy[64], max[64];
    redisReply *info = NULL;
    rd_ask_command(store, "INFO");
    int rc = rd_link_call(store, &info, err);
    if (rc != 0)
        return rc;
    const struct str valkey = info_line(info, "valkey_version:");
    const struct str version = info_line(info, "redis_version:");
    const struct str shown = valkey.len > 0 ? valkey : version;
    snprintf(store->server, sizeof store->server, "%s %.*s", valkey.len > 0 ? "Valkey" : "Redis",
             (int)shown.len, shown.ptr);
    setting(store, "maxmemory-policy", policy);
    setting(store, "maxmemory", max);
    if (policy[0] == '\0') {
        str_copy(policy, sizeof policy, info_line(info, "maxmemory_policy:"));
        str_copy(max, sizeof max, info_line(info, "maxmemory:"));
    }
    if (version.len > 0 && strtol(version.ptr, NULL, 10) < 7)
        rc = refuse(err, "the Redis server is too old", store->server, "Redrive needs Redis 7");
    else if (str_is(info_line(info, "redis_mode:"), "cluster"))
        rc = refuse(err, "a Redis cluster is not supported",
                    "a store is one place with one writer, which a cluster would not speed up",
                    "name a server of its own");
    else if (str_is(info_line(info, "role:"), "slave"))
        rc = refuse(err, "the Redis server is a replica, which cannot be written to", store->server,
                    "name its primary");
    else if (strtoll(max, NULL, 10) > 0 && strcmp(policy, "noeviction") != 0)
        rc = refuse(err, "the Redis server throws keys away when its memory is full", policy,
                    "set maxmemory-policy noeviction, or maxmemory 0");
    else
        learn_durability(store, info);
    freeReplyObject(info);
    return rc;
}

int redis_facts(struct store *store, struct store_facts *ret, struct redrive_err *err)
{
    (void)err;
    *ret = (struct store_facts){
        .version_found = store->version_found,
        .version_newest = SCHEMA_VERSION,
        .server = store->server,
        .loss = store->loss[0] ? store->loss : NULL,
    };
    return 0;
}

/* ---- The store ----------------------------------------------------------------------------------
 */

/* How many jobs were met, by line and state. */
struct tally {
    uint64_t (*by_line)[REDRIVE_STATE_COUNT];
    uint32_t n_lines;
};

static int tally_row(struct tally *t, const struct row *row, struct redrive_err *err)
{
    const uint32_t id = row->line->id;
    if (id >= t->n_lines) {
        const uint32_t n = id + 64;
        void *grown = realloc(t->by_line, n * sizeof t->by_line[0]);
        if (!grown)
            return err_nomem(err);
        t->by_line = grown;
        memset(t->by_line[t->n_lines], 0, (n - t->n_lines) * sizeof t->by_line[0]);
        t->n_lines = n;
    }
    t->by_line[id][row->job.status.state]++;
    return 0;
}

/* Each job must be found by its id. */
static int check_ids(struct store *store, const struct job_page *page, struct redrive_err *err)
{
    redisReply *reply = NULL;
    rd_ask_read(store, "cells");
    for (size_t i = 0; i < page->n; i++) {
        char key[16];
        const struct digest d = rd_digest_of(page->jobs[i].spec.tenant, page->jobs[i].spec.id);
        snprintf(key, sizeof key, "i:%u",
                 (unsigned)(unsigned char)d.bytes[0] << 6 | (unsigned char)d.bytes[1] >> 2);
        rd_ask_text(store, key);
        rd_ask_str(store, (struct str){d.bytes + 1, DIGEST_BYTES - 1});
    }
    int rc = page->n > 0 ? rd_link_read(store, &reply, err) : 0;
    for (size_t i = 0; rc == 0 && i < page->n; i++)
        if (rd_member_seq(rd_reply_str(reply, i)) != page->jobs[i].status.seq)
            rc = err_set(err, REDRIVE_E_CORRUPT, "job %lld is not found by its id",
                         (long long)page->jobs[i].status.seq);
    if (reply)
        freeReplyObject(reply);
    return rc;
}

static int check_jobs(struct store *store, struct tally *tally, void (*progress)(void *ctx),
                      void *ctx, struct redrive_err *err)
{
    struct walk walk = {.states = STATES_ALL};
    int rc = 0;
    while (rc == 0 && !walk.is_over) {
        struct job_page page = {0};
        struct page_maker maker;
        redisReply *reply = NULL;
        rd_page_start(&maker, store, &page);
        rc = rd_walk_read(store, &walk, AT_ONCE, true, &reply, err);
        for (size_t at = 1; rc == 0 && at < reply->elements;) {
            struct str big[BIG_COUNT];
            struct row row;
            rc = rd_reply_row(store, reply, &at, &row, big, err);
            if (rc == 0)
                rc = rd_page_add(&maker, &row, big, err);
            if (rc == 0)
                rc = tally_row(tally, &row, err);
        }
        if (rc == 0)
            rc = check_ids(store, &page, err);
        if (reply)
            freeReplyObject(reply);
        job_page_release(&page);
        if (progress)
            progress(ctx);
    }
    return rc;
}

/* What is counted must be what there is. */
static int check_counts(struct store *store, const struct tally *tally, struct redrive_err *err)
{
    struct line_page page = {0};
    int rc = redis_lines(store, (struct str){0}, &page, err);
    uint64_t counted = 0, met = 0;
    for (size_t i = 0; rc == 0 && i < page.n; i++)
        for (int s = 0; s < REDRIVE_STATE_COUNT; s++)
            counted += page.lines[i].by_state[s];
    for (uint32_t i = 0; i < tally->n_lines; i++)
        for (int s = 0; s < REDRIVE_STATE_COUNT; s++)
            met += tally->by_line[i][s];
    if (rc == 0 && counted != met)
        rc = err_set(err, REDRIVE_E_CORRUPT, "%" PRIu64 " jobs are counted, %" PRIu64 " are there",
                     counted, met);
    line_page_release(&page);
    return rc;
}

/* In a unit, so that nothing moves meanwhile. */
int redis_verify(struct store *store, void (*progress)(void *ctx), void *ctx,
                 struct redrive_err *err)
{
    struct tally tally = {0};
    int64_t now_ms, version;
    int rc = redis_begin(store, 0, &now_ms, &version, err);
    if (rc != 0)
        return rc;
    rc = check_jobs(store, &tally, progress, ctx, err);
    if (rc == 0)
        rc = check_counts(store, &tally, err);
    redis_rollback(store);
    free(tally.by_line);
    return rc;
}

/* lookup.c - jobs by their names. */
#include <stdlib.h>

#include "store/redis/private.h"

static int seqs_of(struct store *store, const struct job_name *names, size_t n, int64_t *ret,
                   size_t *ret_n, struct redrive_err *err)
{
    redisReply *reply = NULL;
    rd_ask_read(store, "cells");
    for (size_t i = 0; i < n; i++) {
        const struct digest digest = rd_digest_of(names[i].tenant, names[i].id);
        rd_ask_id(store, &digest);
    }
    int rc = rd_link_read(store, &reply, err);
    for (size_t i = 0; rc == 0 && i < n; i++)
        if (rd_reply_str(reply, i).len > 0)
            ret[(*ret_n)++] = rd_member_seq(rd_reply_str(reply, i));
    if (reply)
        freeReplyObject(reply);
    return rc;
}

static int add_jobs(struct page_maker *maker, const int64_t *seqs, size_t n,
                    struct redrive_err *err)
{
    struct store *store = maker->store;
    redisReply *reply = NULL;
    rd_ask_read(store, "rows");
    rd_ask_text(store, "1");
    for (size_t i = 0; i < n; i++)
        rd_ask_int(store, seqs[i]);
    int rc = rd_link_read(store, &reply, err);
    for (size_t i = 0, at = 0; rc == 0 && i < n; i++) {
        struct str big[BIG_COUNT] = {0};
        struct row row;
        const struct str bytes = rd_reply_str(reply, at++);
        if (bytes.len == 0)
            continue; /* gone in between */
        for (int k = 0; k < BIG_COUNT && rd_row_has_big(bytes); k++)
            big[k] = rd_reply_str(reply, at++);
        rc = rd_row_unpack(store, seqs[i], bytes, &row, err);
        if (rc == 0)
            rc = rd_page_add(maker, &row, big, err);
    }
    if (reply)
        freeReplyObject(reply);
    return rc;
}

int redis_lookup(struct store *store, const struct job_name *names, size_t n, struct job_page *ret,
                 struct redrive_err *err)
{
    struct page_maker maker;
    int64_t seqs[STORE_PAGE_MAX];
    size_t found = 0;
    rd_page_start(&maker, store, ret);
    int rc = store_check_count(n, err);
    if (rc < 0 || n == 0)
        return rc;
    rc = rd_unit_write(store, err);
    if (rc == 0)
        rc = seqs_of(store, names, n, seqs, &found, err);
    if (rc == 0 && found > 0)
        rc = add_jobs(&maker, seqs, found, err);
    if (rc != 0)
        job_page_release(ret);
    return rc;
}

/* lookup.c - jobs by their names. */
#include <stdlib.h>

#include "store/redis/private.h"
#include "store/redis/slots.h"

int64_t rd_id_seq(struct store *store, const struct digest *digest, struct str member)
{
    const struct entry *own = map_get(&store->ids, digest_str(digest));
    return own ? own->seq : rd_member_seq(member);
}

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
    for (size_t i = 0; rc == 0 && i < n; i++) {
        const struct digest digest = rd_digest_of(names[i].tenant, names[i].id);
        const int64_t seq = rd_id_seq(store, &digest, rd_reply_str(reply, i));
        if (seq > 0)
            ret[(*ret_n)++] = seq;
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
    rc = seqs_of(store, names, n, seqs, &found, err);
    if (rc == 0)
        rc = rd_rows_each(store, seqs, found, rd_page_take, &maker, err);
    if (rc != 0)
        job_page_release(ret);
    return rc;
}

/* names.c - what keys and members are made of: digests, members, parts of names; partitions. */
#include <stdio.h>
#include <stdlib.h>

#include "base/err.h"
#include "base/sha256.h"
#include "store/redis/private.h"

/* How many names are read in one request. */
#define PARTITIONS_AT_ONCE 200

/* Up to this number every integer is exact in a double. */
#define SCORE_MAX (INT64_C(1) << 53)

struct digest rd_digest_of(struct str tenant, struct str name)
{
    uint8_t sum[SHA256_BYTES];
    unsigned char small[512];
    struct digest digest;
    struct buf long_one;
    const size_t head = sizeof tenant.len, len = head + tenant.len + name.len;
    unsigned char *bytes = small;
    buf_init(&long_one, len + 1);
    if (len > sizeof small)
        bytes = (unsigned char *)buf_reserve(&long_one, len);
    if (bytes) {
        memcpy(bytes, &tenant.len, head);
        if (tenant.len > 0)
            memcpy(bytes + head, tenant.ptr, tenant.len);
        if (name.len > 0)
            memcpy(bytes + head + tenant.len, name.ptr, name.len);
        sha256(bytes, len, sum);
    } else {
        memset(sum, 0, sizeof sum);
    }
    buf_release(&long_one);
    memcpy(digest.bytes, sum, sizeof digest.bytes);
    return digest;
}

struct member rd_member_of(int64_t seq)
{
    struct member member;
    for (int i = 0; i < MEMBER_BYTES; i++)
        member.bytes[i] = (char)(seq >> 8 * (MEMBER_BYTES - 1 - i));
    return member;
}

int64_t rd_member_seq(struct str bytes)
{
    int64_t seq = 0;
    for (size_t i = 0; i < bytes.len; i++)
        seq = seq << 8 | (unsigned char)bytes.ptr[i];
    return seq;
}

int64_t rd_score_of(int64_t ms)
{
    if (ms > SCORE_MAX)
        return SCORE_MAX;
    return ms < -SCORE_MAX ? -SCORE_MAX : ms;
}

/* "\0\1" ends a part; a NUL within one is "\0\xff", which sorts after the end. */
void rd_add_part(struct buf *buf, struct str part)
{
    for (size_t i = 0; i < part.len; i++) {
        buf_putc(buf, part.ptr[i]);
        if (part.ptr[i] == '\0')
            buf_putc(buf, '\xff');
    }
    buf_add(buf, "\0\1", 2);
}

bool rd_take_part(struct str *name, struct arena *arena, struct str *ret)
{
    char *copy = arena_alloc(arena, name->len + 1);
    size_t n = 0;
    for (size_t i = 0; copy && i + 1 < name->len; i++) {
        if (name->ptr[i] == '\0') {
            i++;
            if (name->ptr[i] == '\1') {
                *ret = (struct str){copy, n};
                *name = (struct str){name->ptr + i + 1, name->len - i - 1};
                return true;
            }
            copy[n++] = '\0';
        } else {
            copy[n++] = name->ptr[i];
        }
    }
    return false;
}

/* ---- Partitions ------------------------------------------------------------------------------ */

static void partition_name(struct store *store, const struct job_spec *spec)
{
    buf_reset(&store->row);
    rd_add_part(&store->row, spec->tenant);
    rd_add_part(&store->row, spec->queue);
    rd_add_part(&store->row, spec->task);
}

static void partition_free(struct partition *partition)
{
    if (!partition)
        return;
    free(partition->name);
    free(partition);
}

/* Copies the parts of a name into memory of the partition. */
static bool split_name(struct partition *partition, struct str name)
{
    struct arena arena;
    struct str parts[3] = {{0}};
    arena_init(&arena);
    bool ok = true;
    for (int i = 0; ok && i < 3; i++)
        ok = rd_take_part(&name, &arena, &parts[i]);
    partition->name = ok ? malloc(parts[0].len + parts[1].len + parts[2].len + 1) : NULL;
    if (partition->name) {
        char *at = partition->name;
        for (int i = 0; i < 3; i++) {
            memcpy(at, parts[i].ptr, parts[i].len);
            parts[i].ptr = at;
            at += parts[i].len;
        }
        partition->tenant = parts[0];
        partition->queue = parts[1];
        partition->task = parts[2];
    }
    arena_release(&arena);
    return partition->name != NULL;
}

static int partition_keep(struct store *store, uint32_t id, struct str record,
                          struct redrive_err *err)
{
    char *end = NULL;
    const unsigned long tenant_id = record.len > 0 ? strtoul(record.ptr, &end, 10) : 0;
    if (!end || *end != ' ')
        return err_set(err, REDRIVE_E_CORRUPT, "partition %u of the store has no name", id);
    struct str name = {end + 1, record.len - (size_t)(end + 1 - record.ptr)};
    struct partition *partition = calloc(1, sizeof *partition);
    struct partition **grown =
        id > store->n_partitions ? realloc(store->partitions, (id + 1) * sizeof(struct partition *))
                                 : store->partitions;
    if (grown)
        store->partitions = grown;
    if (!partition || !grown || !split_name(partition, name)) {
        partition_free(partition);
        return err_nomem(err);
    }
    for (; store->n_partitions < id; store->n_partitions++)
        store->partitions[store->n_partitions + 1] = NULL;
    partition->id = id;
    partition->tenant_id = (uint32_t)tenant_id;
    partition_free(store->partitions[id]);
    store->partitions[id] = partition;
    return map_put(&store->partitions_by_name, name, partition) == 0 &&
                   map_put(&store->partitions_by_tenant, partition->tenant, partition) == 0
               ? 0
               : err_nomem(err);
}

/* Reads the names of some partitions. */
static int partitions_read(struct store *store, uint32_t first, uint32_t n, struct redrive_err *err)
{
    char key[PREFIX_MAX + 16];
    redisReply *reply = NULL;
    snprintf(key, sizeof key, "{%s}:partitions", store->place.prefix);
    rd_ask_command(store, "HMGET");
    rd_ask_text(store, key);
    for (uint32_t i = 0; i < n; i++)
        rd_ask_int(store, (int64_t)first + i);
    int rc = rd_link_call(store, &reply, err);
    for (uint32_t i = 0; rc == 0 && i < n && i < reply->elements; i++)
        if (rd_reply_str(reply, i).len > 0)
            rc = partition_keep(store, first + i, rd_reply_str(reply, i), err);
    freeReplyObject(reply);
    return rc;
}

int rd_partitions_refresh(struct store *store, struct redrive_err *err)
{
    redisReply *reply = NULL;
    rd_ask_command(store, "HMGET");
    rd_ask_text(store, store->root);
    rd_ask_text(store, "partitions");
    rd_ask_text(store, "id");
    rd_ask_text(store, "schema");
    int rc = rd_link_call(store, &reply, err);
    if (rc != 0)
        return rc;
    const uint32_t n = (uint32_t)rd_reply_int(reply, 0);
    if (!store->in_transaction && rd_reply_str(reply, 2).len == 0)
        rc = rd_link_error(STR("EMPTY there is no store here"), err);
    else if (!store->in_transaction && !str_is(rd_reply_str(reply, 1), store->known_id))
        rc = rd_store_replaced(store, rd_reply_str(reply, 1), err);
    freeReplyObject(reply);
    uint32_t first = 1;
    while (first <= store->n_partitions && store->partitions[first])
        first++;
    for (; rc == 0 && first <= n; first += PARTITIONS_AT_ONCE)
        rc = partitions_read(
            store, first, n - first < PARTITIONS_AT_ONCE ? n - first + 1 : PARTITIONS_AT_ONCE, err);
    return rc;
}

int rd_tenant_find(struct store *store, struct str tenant, const struct partition **ret,
                   struct redrive_err *err)
{
    int rc = 0;
    *ret = map_get(&store->partitions_by_tenant, tenant);
    if (!*ret) {
        rc = rd_partitions_refresh(store, err);
        *ret = map_get(&store->partitions_by_tenant, tenant);
    }
    return rc;
}

int rd_partition_numbered(struct store *store, uint32_t id, const struct partition **ret,
                          struct redrive_err *err)
{
    if (id > store->n_partitions || !store->partitions[id]) {
        int rc = rd_partitions_refresh(store, err);
        if (rc != 0)
            return rc;
    }
    if (id == 0 || id > store->n_partitions || !store->partitions[id])
        return err_set(err, REDRIVE_E_CORRUPT, "a job is in partition %u, which there is not", id);
    *ret = store->partitions[id];
    return 0;
}

static int partitions_intern(struct store *store, const struct job_spec *specs, size_t n,
                             struct redrive_err *err)
{
    redisReply *reply = NULL;
    rd_ask(store, "intern");
    rd_ask_text(store, store->known_id);
    for (size_t i = 0; i < n; i++) {
        partition_name(store, &specs[i]);
        if (map_get(&store->partitions_by_name, buf_str(&store->row)))
            continue;
        rd_ask_str(store, specs[i].tenant);
        rd_ask_str(store, buf_str(&store->row));
    }
    int rc = rd_link_read(store, &reply, err);
    freeReplyObject(reply);
    return rc == 0 ? rd_partitions_refresh(store, err) : rc;
}

int rd_partition_find(struct store *store, const struct job_spec *specs, size_t n,
                      const struct partition **ret, struct redrive_err *err)
{
    for (int tries = 0; tries < 2; tries++) {
        bool all = true;
        for (size_t i = 0; i < n; i++) {
            partition_name(store, &specs[i]);
            ret[i] = map_get(&store->partitions_by_name, buf_str(&store->row));
            all &= ret[i] != NULL;
        }
        if (all)
            return 0;
        int rc = tries == 0 ? partitions_intern(store, specs, n, err) : 0;
        if (rc != 0)
            return rc;
    }
    return err_set(err, REDRIVE_E_CORRUPT, "the store gives no number to a partition");
}

void rd_partitions_forget(struct store *store)
{
    rd_partitions_release(store);
    map_init(&store->partitions_by_name, rng_next(&store->rng));
    map_init(&store->partitions_by_tenant, rng_next(&store->rng));
}

void rd_partitions_release(struct store *store)
{
    for (uint32_t i = 1; i <= store->n_partitions; i++)
        partition_free(store->partitions[i]);
    free(store->partitions);
    store->partitions = NULL;
    store->n_partitions = 0;
    map_release(&store->partitions_by_name);
    map_release(&store->partitions_by_tenant);
}

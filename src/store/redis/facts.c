/* facts.c - what the server is, and what its settings mean. */
#include <stdio.h>
#include <stdlib.h>

#include "base/err.h"
#include "store/redis/private.h"
#include "store/redis/slots.h"

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
    if (str_is(rd_info_line(info, "aof_enabled:"), "1")) {
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
    /* Answers do not wait for replicas, one of which a cluster makes the primary by itself. */
    const struct str replicas = rd_info_line(info, "connected_slaves:");
    const bool fails_over = store->is_cluster && replicas.len > 0 && !str_is(replicas, "0");
    snprintf(store->loss, sizeof store->loss, "%s%s%s", loss ? loss : "",
             loss && fails_over ? ", and " : "",
             fails_over ? "what a replica has not got when it becomes the primary" : "");
}

int rd_facts_learn(struct store *store, struct redrive_err *err)
{
    char policy[64], max[64];
    redisReply *info = NULL;
    rd_ask_command(store, "INFO");
    int rc = rd_link_call(store, &info, err);
    if (rc != 0)
        return rc;
    const struct str valkey = rd_info_line(info, "valkey_version:");
    const struct str version = rd_info_line(info, "redis_version:");
    const struct str shown = valkey.len > 0 ? valkey : version;
    snprintf(store->server, sizeof store->server, "%s %.*s", valkey.len > 0 ? "Valkey" : "Redis",
             (int)shown.len, shown.ptr);
    setting(store, "maxmemory-policy", policy);
    setting(store, "maxmemory", max);
    if (policy[0] == '\0') {
        str_copy(policy, sizeof policy, rd_info_line(info, "maxmemory_policy:"));
        str_copy(max, sizeof max, rd_info_line(info, "maxmemory:"));
    }
    if (version.len > 0 && strtol(version.ptr, NULL, 10) < 7)
        rc = refuse(err, "the Redis server is too old", store->server, "Redrive needs Redis 7");
    else if (str_is(rd_info_line(info, "role:"), "slave"))
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

/* As of now: a slot moves, and a replica takes its primary's place. */
static const char *describe_seat(struct store *store)
{
    const struct node *at = &store->place.at;
    const char *open = strchr(at->host, ':') ? "[" : "", *close = *open ? "]" : "";
    if (!store->is_cluster)
        return store->server;
    if (at->port == 0)
        snprintf(store->seat, sizeof store->seat, "%s, a cluster; the store is on the node at %s",
                 store->server, at->host);
    else
        snprintf(store->seat, sizeof store->seat,
                 "%s, a cluster; the store is on the node %s%s%s:%d", store->server, open, at->host,
                 close, at->port);
    return store->seat;
}

int redis_facts(struct store *store, struct store_facts *ret, struct redrive_err *err)
{
    (void)err;
    *ret = (struct store_facts){
        .version_found = store->version_found,
        .version_newest = SCHEMA_VERSION,
        .server = describe_seat(store),
        .loss = store->loss[0] ? store->loss : NULL,
        .loss_hint = strstr(store->loss, "appendonly no")
                         ? "set appendonly yes on the server; docs/redis.md says what it costs"
                         : NULL,
    };
    return 0;
}

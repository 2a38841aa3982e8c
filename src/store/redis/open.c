/* open.c - opening a store: its library, schema and facts, and the table of slots. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/err.h"
#include "store/redis/private.h"

/* ---- Setting up -------------------------------------------------------------------------------
 */

static int found_newer(int64_t version, struct redrive_err *err)
{
    int rc = err_set(err, REDRIVE_E_STATE, "the store was set up by a newer version of Redrive");
    err_detail(err, "it is at version %" PRId64 ", this program knows up to %d", version,
               SCHEMA_VERSION);
    err_hint(err, "install a newer redrive");
    return rc;
}

static int found_older(int64_t version, struct redrive_err *err)
{
    int rc = err_set(err, REDRIVE_E_STATE, "the store was set up by an older version of Redrive");
    err_detail(err,
               "it is at version %" PRId64 ", this program works with %d, and cannot migrate it",
               version, SCHEMA_VERSION);
    err_hint(err,
             "finish its jobs with the redrive that has set it up, then start with an empty one: "
             "?prefix=NAME");
    return rc;
}

static int found_nothing(const struct store *store, struct redrive_err *err)
{
    int rc = err_set(err, REDRIVE_E_NOT_FOUND, "there is no store in the Redis server");
    err_detail(err, "nothing has the prefix '%s' in database %d", store->place.prefix,
               store->place.db);
    err_hint(err, "is the prefix right? " STORE_SET_UP_HINT);
    return rc;
}

static int read_version(struct store *store, struct redrive_err *err)
{
    redisReply *reply = NULL;
    rd_ask_command(store, "HGET");
    rd_ask_text(store, store->root);
    rd_ask_text(store, "schema");
    int rc = rd_link_call(store, &reply, err);
    if (rc != 0)
        return rc;
    store->version_found = reply->type == REDIS_REPLY_STRING ? rd_number(reply->str, NULL) : 0;
    freeReplyObject(reply);
    return 0;
}

int rd_learn_id(struct store *store, struct redrive_err *err)
{
    redisReply *reply = NULL;
    rd_ask(store, "hello");
    int rc = rd_link_told(store, &reply, err);
    if (rc != 0)
        return rc;
    freeReplyObject(reply);
    memcpy(store->known_id, store->told.id, sizeof store->known_id);
    memcpy(store->known_history, store->told.history, sizeof store->known_history);
    return 0;
}

static int set_up(struct store *store, const struct store_options *options, struct redrive_err *err)
{
    int rc = read_version(store, err);
    if (rc != 0)
        return rc;
    if (store->version_found == 0 && !options->create)
        return found_nothing(store, err);
    if (options->as_is)
        return 0;
    if (store->version_found > SCHEMA_VERSION)
        return found_newer(store->version_found, err);
    if (store->version_found > 0 && store->version_found < SCHEMA_VERSION)
        return found_older(store->version_found, err);
    /* A store that is there can be opened even if the server has no memory left to set one up. */
    rc = store->version_found == 0 ? rd_set_up(store, err) : 0;
    if (rc == 0)
        rc = rd_learn_id(store, err);
    return rc == 0 ? rd_partitions_refresh(store, err) : rc;
}

/* ---- What the server is ---------------------------------------------------------------------- */

static int refuse_server(struct redrive_err *err, const char *what, const char *detail,
                         const char *hint)
{
    int rc = err_set(err, REDRIVE_E_STATE, "%s", what);
    err_detail(err, "%s", detail);
    err_hint(err, "%s", hint);
    return rc;
}

/* A setting by CONFIG, in the buffer; absent if the user may not ask. */
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
    /* Answers do not wait for replicas, and a cluster may make one of them the primary. */
    const struct str replicas = rd_info_line(info, "connected_slaves:");
    const bool fails_over = store->is_cluster && replicas.len > 0 && !str_is(replicas, "0");
    snprintf(store->loss, sizeof store->loss, "%s%s%s", loss ? loss : "",
             loss && fails_over ? ", and " : "",
             fails_over ? "what a replica has not got when it becomes the primary" : "");
}

/* Valkey has another name for the line. */
static bool is_sentinel(const redisReply *info)
{
    return str_is(rd_info_line(info, "redis_mode:"), "sentinel") ||
           str_is(rd_info_line(info, "server_mode:"), "sentinel");
}

/* What the server's settings mean for durability; refuses one that throws keys away. */
static int learn_facts(struct store *store, struct redrive_err *err)
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
    if (is_sentinel(info))
        rc = refuse_server(err, "the server is a Sentinel, which keeps no jobs", store->server,
                           "add sentinel=NAME to the URL, with the name of the primary");
    else if (version.len > 0 && strtol(version.ptr, NULL, 10) < 7)
        rc = refuse_server(err, "the Redis server is too old", store->server,
                           "Redrive needs Redis 7");
    else if (str_is(rd_info_line(info, "role:"), "slave"))
        rc = refuse_server(err, "the Redis server is a replica, which cannot be written to",
                           store->server, "name its primary");
    else if (strtoll(max, NULL, 10) > 0 && strcmp(policy, "noeviction") != 0)
        rc = refuse_server(err, "the Redis server throws keys away when its memory is full", policy,
                           "set maxmemory-policy noeviction, or maxmemory 0");
    else
        learn_durability(store, info);
    freeReplyObject(info);
    return rc;
}

/* In a cluster with the node that has the store now. */
static const char *describe_server(struct store *store)
{
    char where[NODE_TEXT_MAX];
    const char *tls = store->link ? rd_wire_tls(store->link) : NULL;
    snprintf(store->seat, sizeof store->seat, "%s%s%s%s%s", store->server, tls ? ", " : "",
             tls ? tls : "", store->is_cluster ? ", a cluster; the store is on the node " : "",
             store->is_cluster ? rd_node_text(&store->place.at, where) : "");
    return store->seat;
}

int redis_facts(struct store *store, struct store_facts *ret, struct redrive_err *err)
{
    (void)err;
    *ret = (struct store_facts){
        .version_found = store->version_found,
        .version_newest = SCHEMA_VERSION,
        .server = describe_server(store),
        .loss = store->loss[0] ? store->loss : NULL,
        .loss_hint = strstr(store->loss, "appendonly no")
                         ? "set appendonly yes on the server; docs/redis.md says what it costs"
                         : NULL,
    };
    return 0;
}

/* ---- Opening --------------------------------------------------------------------------------- */

void redis_close(struct store *store)
{
    if (!store)
        return;
    redis_rollback(store);
    rd_ahead_drop(store);
    rd_resign(store);
    rd_handle_release(store);
    free(store);
}

static int open_place(struct str place, bool is_tls, const struct store_options *options,
                      struct store **ret, struct redrive_err *err)
{
    struct store *store = calloc(1, sizeof *store);
    if (!store)
        return err_nomem(err);
    store->base.ops = &STORE_REDIS;
    rd_handle_init(store, options);
    int rc = rd_library_name(store, err);
    if (rc == 0)
        rc = rd_place_parse(place, is_tls, &store->place, err);
    if (rc == 0) {
        snprintf(store->root, sizeof store->root, "{%s}:root", store->place.prefix);
        rc = rd_link_open(store, err);
    }
    if (rc == 0)
        rc = learn_facts(store, err);
    if (rc == 0)
        rc = set_up(store, options, err);
    if (rc != 0) {
        redis_close(store);
        return rc;
    }
    *ret = store;
    return 0;
}

int redis_open(struct str place, const struct store_options *options, struct store **ret,
               struct redrive_err *err)
{
    return open_place(place, false, options, ret, err);
}

static int redis_tls_open(struct str place, const struct store_options *options, struct store **ret,
                          struct redrive_err *err)
{
    return open_place(place, true, options, ret, err);
}

#define REDIS_CAPABILITIES                                                            \
    (STORE_SHARED | STORE_SERVER_TIME | STORE_NOTIFIES | STORE_TELLS | STORE_ELECTS | \
     STORE_WAKES_FEW)
#define REDIS_BACKUP_HINT \
    "use the server's own persistence: redis-cli --rdb FILE takes a snapshot beside workers"

const struct store_ops STORE_REDIS = {
    STORE_SLOTS(redis),

    .capabilities = REDIS_CAPABILITIES,
    .look_ahead = redis_look_ahead,
    .repair = redis_repair,
    .backup_hint = REDIS_BACKUP_HINT,
    .upkeep = redis_upkeep,
    .elect = redis_elect,
};

/* The handles that it opens are those of STORE_REDIS: only the way to the server differs. */
const struct store_ops STORE_REDIS_TLS = {
    .scheme = "rediss",
    .open = redis_tls_open,
    .capabilities = REDIS_CAPABILITIES,
    .backup_hint = REDIS_BACKUP_HINT,
};

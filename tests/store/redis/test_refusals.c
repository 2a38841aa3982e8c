/* What can be wrong with a server, or with its URL, is said when the store is opened. */
#include "store_for_test.h"
#include "server.h"

#include <stdio.h>
#include <unistd.h>

static int open_at(const char *url, const char *rest, struct redrive_err *err)
{
    char whole[256];
    struct store *store = NULL;
    *err = (struct redrive_err){0};
    snprintf(whole, sizeof whole, "%s%s", url, rest);
    int rc = store_open(whole, &(struct store_options){.create = true}, &store, err);
    store_close(store);
    return rc;
}

/* The URL of a server with a user and a password. */
static int open_as(const struct server *s, const char *who, struct redrive_err *err)
{
    char url[128];
    snprintf(url, sizeof url, "redis://%s@127.0.0.1:%d", who, s->port);
    return open_at(url, "", err);
}

TEST(urls_that_lead_nowhere_are_named)
{
    static const struct {
        const char *url;
        const char *says;
    } WRONG[] = {
        {"redis://127.0.0.1:99999", "port"},
        {"redis://127.0.0.1/jobs", "database"},
        {"redis://127.0.0.1?prefx=a", "setting"},
        {"redis://127.0.0.1?prefix=", "prefix"},
        {"redis://127.0.0.1?prefix=a{b", "prefix"},
        {"redis:127.0.0.1", "//"},
        {"redis://[::1", "]"},
        {"redis://a:1,b:x", "port"},
        {"redis://a,b,c,d,e,f,g,h,i", "eight"},
        {"redis://127.0.0.1?sslcert=a", "rediss://"},
        {"rediss://127.0.0.1?sslcert=a", "one of sslcert and sslkey"},
        {"rediss://127.0.0.1?sslkey=a&prefix=b", "one of sslcert and sslkey"},
        {"rediss://127.0.0.1?prefix=a&server_name=", "empty"},
        {"redis://127.0.0.1?sentinel=a&sentinel=b", "twice"},
        {"rediss:/run/redis.sock", "//"},
    };
    struct redrive_err err;
    for (size_t i = 0; i < sizeof WRONG / sizeof WRONG[0]; i++) {
        assert_int_equal(open_at(WRONG[i].url, "", &err), REDRIVE_E_INVALID);
        assert_non_null(strstr(err.message, WRONG[i].says));
        assert_non_null(strstr(err.hint, "redis://"));
    }
    assert_int_equal(open_at("rediss://127.0.0.1:1", "", &err), REDRIVE_E_IO);
    assert_non_null(strstr(err.detail, "127.0.0.1:1"));
    assert_int_equal(open_at("redis://127.0.0.1:1", "", &err), REDRIVE_E_IO);
    assert_non_null(strstr(err.detail, "127.0.0.1:1"));
}

TEST(passwords_users_and_databases_are_used)
{
    struct server s;
    struct redrive_err err;
    static const char *const SETTINGS[] = {"--requirepass", "secret", NULL};
    server_start(&s, SETTINGS);
    assert_int_equal(open_at(s.url, "", &err), REDRIVE_E_DENIED);
    assert_int_equal(open_as(&s, "wrong", &err), REDRIVE_E_DENIED);
    assert_non_null(strstr(err.message, "password"));
    assert_int_equal(open_as(&s, "secret", &err), 0);
    assert_int_equal(open_as(&s, ":secret", &err), 0);
    assert_int_equal(open_as(&s, "default:s%65cret", &err), 0);
    assert_int_equal(open_as(&s, "nobody:secret", &err), REDRIVE_E_DENIED);
    server_stop(&s);

    server_start(&s, NULL);
    assert_int_equal(open_at(s.url, "/3?prefix=a", &err), 0);
    assert_string_equal(server_call(&s, "EXISTS {a}:root"), "0");
    struct store *store = NULL;
    char url[128];
    snprintf(url, sizeof url, "%s/3?prefix=b", s.url);
    assert_int_equal(store_open(url, NULL, &store, &err), REDRIVE_E_NOT_FOUND);
    assert_non_null(strstr(err.detail, "'b'"));
    server_stop(&s);
}

/* The rights that docs/redis.md lists are enough; without one the refusal names it. */
TEST(sockets_are_used)
{
    struct server s;
    struct redrive_err err;
    char path[64], url[80];
    snprintf(path, sizeof path, "/tmp/redrive-test-%d.sock", (int)getpid());
    snprintf(url, sizeof url, "redis:%s", path);
    const char *const settings[] = {"--unixsocket", path, NULL};
    server_start(&s, settings);
    assert_int_equal(open_at(url, "?prefix=a", &err), 0);
    assert_string_equal(server_call(&s, "EXISTS {a}:root"), "1");
    server_stop(&s);
    unlink(path);
    assert_int_equal(open_at(url, "", &err), REDRIVE_E_IO);
    assert_non_null(strstr(err.detail, path));
}

SERVER_TEST(rights_that_are_missing_are_named, NULL)
{
    struct redrive_err err;
    server_call(s,
                "ACL SETUSER queue on >secret ~{jobs}:* &{jobs}:* -@all +@hash +@sortedset +@set "
                "+@string +@keyspace +@connection +@pubsub +fcall +function|load +info +time "
                "+config|get -keys -flushall -flushdb");
    server_call(s, "ACL SETUSER weak on >secret ~{jobs}:* &* +@all -fcall");
    char url[128];
    snprintf(url, sizeof url, "redis://queue:secret@127.0.0.1:%d?prefix=jobs", s->port);
    if (open_at(url, "", &err) != 0)
        fail_msg("%s; %s", err.message, err.detail);
    struct test_store place = {0}, ts;
    snprintf(place.url, sizeof place.url, "%s", url);
    ts_join(&ts, &place);
    const int64_t seq = PUT(&ts, .unique_key = STR("k"));
    ts_settle(&ts, seq, ts_start(&ts, seq), decision_completed());
    assert_int_equal(ts_state(&ts, seq), REDRIVE_STATE_COMPLETED);
    ts_close(&ts);
    snprintf(url, sizeof url, "redis://weak:secret@127.0.0.1:%d?prefix=jobs", s->port);
    assert_int_equal(open_at(url, "", &err), REDRIVE_E_DENIED);
    assert_non_null(strstr(err.detail, "fcall"));
}

TEST(servers_that_would_lose_jobs_or_cannot_be_written_to_are_refused)
{
    struct server s;
    struct redrive_err err;
    static const char *const EVICTS[] = {"--maxmemory", "50mb", "--maxmemory-policy", "allkeys-lru",
                                         NULL};
    server_start(&s, EVICTS);
    assert_int_equal(open_at(s.url, "", &err), REDRIVE_E_STATE);
    assert_non_null(strstr(err.hint, "noeviction"));
    server_stop(&s);

    static const char *const CLUSTER[] = {"--cluster-enabled", "yes", NULL};
    server_start(&s, CLUSTER);
    assert_int_equal(open_at(s.url, "", &err), REDRIVE_E_IO);
    assert_non_null(strstr(err.message, "no node of the Redis cluster"));
    assert_int_equal(open_at(s.url, "/3", &err), REDRIVE_E_INVALID);
    assert_non_null(strstr(err.message, "database"));
    assert_non_null(strstr(err.hint, "prefix"));
    server_stop(&s);

    static const char *const REPLICA[] = {"--replicaof", "127.0.0.1 1", NULL};
    server_start(&s, REPLICA);
    assert_true(open_at(s.url, "", &err) < 0);
    assert_non_null(strstr(err.message, "replica"));
    server_stop(&s);

    static const char *const ALONE[] = {"--min-replicas-to-write", "1", NULL};
    server_start(&s, ALONE);
    assert_int_equal(open_at(s.url, "", &err), REDRIVE_E_IO);
    assert_non_null(strstr(err.message, "too few replicas"));
    server_stop(&s);
}

TEST(of_several_servers_the_one_that_can_be_written_to_is_used)
{
    struct server primary, replica;
    struct redrive_err err;
    char url[128], port[16];
    server_start(&primary, NULL);
    snprintf(port, sizeof port, "%d", primary.port);
    const char *const follows[] = {"--replicaof", "127.0.0.1", port, NULL};
    server_start(&replica, follows);
    snprintf(url, sizeof url, "redis://127.0.0.1:1,127.0.0.1:%d,127.0.0.1:%d/2", replica.port,
             primary.port);
    if (open_at(url, "?prefix=jobs", &err) != 0)
        fail_msg("%s; %s", err.message, err.detail);
    server_kill(&primary);
    assert_int_equal(open_at(url, "?prefix=jobs", &err), REDRIVE_E_IO);
    server_call(&replica, "REPLICAOF NO ONE");
    assert_int_equal(open_at(url, "?prefix=jobs", &err), 0);
    server_stop(&primary);
    server_stop(&replica);
}

/* Nothing leads from one to the other: nothing of that kind was ever released. */
SERVER_TEST(data_of_an_older_version_is_refused_with_what_to_do, NULL)
{
    struct redrive_err err;
    assert_int_equal(open_at(s->url, "", &err), 0);
    server_call(s, "HSET {redrive}:root schema 1");
    assert_int_equal(open_at(s->url, "", &err), REDRIVE_E_STATE);
    assert_non_null(strstr(err.message, "older"));
    assert_non_null(strstr(err.detail, "version 1"));
    assert_non_null(strstr(err.detail, "with 5"));
    assert_non_null(strstr(err.hint, "prefix"));
}

TEST(data_of_a_newer_version_is_refused_but_may_be_looked_at)
{
    struct server s;
    struct redrive_err err;
    struct store *look = NULL;
    struct store_facts facts;
    server_start(&s, NULL);
    assert_int_equal(open_at(s.url, "", &err), 0);
    server_call(&s, "HSET {redrive}:root schema 99");
    assert_int_equal(open_at(s.url, "", &err), REDRIVE_E_STATE);
    assert_non_null(strstr(err.message, "newer"));
    assert_int_equal(store_open(s.url, &(struct store_options){.as_is = true}, &look, NULL), 0);
    assert_int_equal(store_ops(look)->facts(look, &facts, NULL), 0);
    assert_int_equal(facts.version_found, 99);
    store_close(look);
    server_stop(&s);
}

static void check_durability(const char *const *settings, enum store_durability durability,
                             const char *loss)
{
    struct server s;
    struct store *store = NULL;
    struct store_facts facts;
    server_start(&s, settings);
    assert_int_equal(store_open(s.url, &(struct store_options){.create = true}, &store, NULL), 0);
    assert_int_equal(store_ops(store)->facts(store, &facts, NULL), 0);
    assert_int_equal(store_base(store)->durability, durability);
    if (loss)
        assert_non_null(strstr(facts.loss, loss));
    else
        assert_null(facts.loss);
    assert_non_null(strchr(facts.server, '.'));
    store_close(store);
    server_stop(&s);
}

TEST(durability_is_what_the_server_is_set_to)
{
    static const char *const ALWAYS[] = {"--appendonly", "yes", "--appendfsync", "always", NULL};
    static const char *const SOMETIMES[] = {"--appendonly", "yes", "--appendfsync", "everysec",
                                            NULL};
    static const char *const SNAPSHOTS[] = {"--save", "900 1", NULL};
    check_durability(ALWAYS, STORE_SURVIVES_POWER, NULL);
    check_durability(SOMETIMES, STORE_SURVIVES_PROCESS, "two seconds");
    check_durability(SNAPSHOTS, STORE_SURVIVES_PROCESS, "last snapshot");
    check_durability(NULL, STORE_FORGETS, "when the server ends");
}

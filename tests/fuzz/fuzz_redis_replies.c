/* Replies as a Redis server, or a proxy before it, could send them: RESP that hiredis reads, given
 * to the verbs of a store. The input begins with the letters of verbs (verbs.h); what follows is
 * the replies, in their order. What every answer of the library carries is put before a reply to
 * it, unless that is an error or begins with '!'. When the input is over, the connection breaks and
 * no other can be made. With 'O' as the first letter the replies to the opening of the store come
 * from the input as well. */
#include "fuzz.h"

#include <string.h>
#include <time.h>

#include "base/err.h"
#include "store/redis/private.h"
#include "store_verbs.h"

#define ID   "0123456789abcdef"
#define TOLD "*2\r\n$36\r\n1767225600000 7 3 " ID " h\r\n"

/* hiredis takes memory for the elements of an array before it has read them: an array of more
 * digits than this is not fed to it. */
#define DIGITS_MAX 4

#define REQUESTS_MAX 8

/* The other end of all connections. */
static struct {
    struct str left; /* of the input */
    bool is_helpful; /* the store is opened: replies are those of a server that works */
    char requests[REQUESTS_MAX][256]; /* the beginnings of those that have no reply yet */
    size_t n_requests;
} server;

/* In place of the socket and TLS of net/wire.c. */
struct rd_wire {
    bool is_broken;
};

/* ---- Replies --------------------------------------------------------------------------------- */

static bool asks_for(const char *request, const char *what)
{
    return strstr(request, what) != NULL;
}

/* What a server says while a store with three partitions is opened. */
static struct str helpful_reply(const char *request)
{
    if (asks_for(request, "INFO"))
        return STR("$20\r\nredis_version:7.2.0\n\r\n");
    if (asks_for(request, "schema") && asks_for(request, "HGET"))
        return STR("$1\r\n5\r\n");
    if (asks_for(request, "HMGET") && asks_for(request, ":root"))
        return STR("*3\r\n$1\r\n3\r\n$16\r\n" ID "\r\n$1\r\n5\r\n");
    if (asks_for(request, "HMGET"))
        return STR("*3\r\n$11\r\n1 t\0\1q\0\1k\0\1\r\n$11\r\n1 t\0\1q\0\1l\0\1\r\n"
                   "$11\r\n2 s\0\1q\0\1k\0\1\r\n");
    if (asks_for(request, "_hello"))
        return STR(TOLD ":0\r\n");
    return STR("+OK\r\n"); /* PING, and settings that the user may not read */
}

/* Functions of the library whose answers carry struct told. */
static bool is_told(const char *request)
{
    return asks_for(request, "_read\r\n") || asks_for(request, "_commit") ||
           asks_for(request, "_hello\r\n") || asks_for(request, "_intern\r\n");
}

/* Reads one reply; NULL: the bytes are none. *ret_used: how many bytes it has. */
static redisReply *parse_reply(struct str head, struct str bytes, size_t *ret_used)
{
    redisReader *reader = redisReaderCreate();
    redisReply *reply = NULL;
    FUZZ_CHECK(reader);
    FUZZ_CHECK(head.len == 0 || redisReaderFeed(reader, head.ptr, head.len) == REDIS_OK);
    FUZZ_CHECK(bytes.len == 0 || redisReaderFeed(reader, bytes.ptr, bytes.len) == REDIS_OK);
    if (redisReaderGetReply(reader, (void **)&reply) != REDIS_OK)
        reply = NULL;
    const size_t unread = reply ? reader->len - reader->pos : 0;
    *ret_used = bytes.len - (unread < bytes.len ? unread : bytes.len);
    redisReaderFree(reader);
    return reply;
}

static redisReply *next_reply(const char *request)
{
    static const struct str NONE;
    size_t used;
    if (server.is_helpful)
        return parse_reply(NONE, helpful_reply(request), &used);
    const char first = server.left.len > 0 ? server.left.ptr[0] : '!';
    const bool is_bare = first == '!' || first == '-' || !is_told(request);
    if (first == '!' && server.left.len > 0)
        server.left = (struct str){server.left.ptr + 1, server.left.len - 1};
    redisReply *reply = parse_reply(is_bare ? NONE : STR(TOLD), server.left, &used);
    server.left = (struct str){server.left.ptr + used, server.left.len - used};
    return reply;
}

/* ---- The connection: what net/wire.h promises ------------------------------------------------ */

int rd_wire_open(const struct node *at, const struct tls_settings *tls, int64_t wait_ms,
                 struct rd_wire **ret, struct redrive_err *err)
{
    (void)at;
    (void)tls;
    (void)wait_ms;
    if (!server.is_helpful && server.left.len == 0)
        return err_set(err, REDRIVE_E_IO, "cannot reach the server");
    *ret = calloc(1, sizeof **ret);
    FUZZ_CHECK(*ret);
    server.n_requests = 0;
    return 0;
}

void rd_wire_close(struct rd_wire *wire)
{
    free(wire);
}

void rd_wire_set_limit(struct rd_wire *wire, int64_t limit_ms)
{
    (void)wire;
    (void)limit_ms;
}

/* A request comes in one piece or in two, of which the first is how many words it has. */
bool rd_wire_add(struct rd_wire *wire, struct str bytes)
{
    const bool is_head = bytes.len > 0 && bytes.ptr[0] == '*';
    if (is_head && server.n_requests < REQUESTS_MAX)
        server.requests[server.n_requests++][0] = '\0';
    FUZZ_CHECK(server.n_requests > 0);
    char *request = server.requests[server.n_requests - 1];
    const size_t has = strlen(request), room = sizeof server.requests[0] - 1 - has;
    const size_t n = bytes.len < room ? bytes.len : room;
    for (size_t i = 0; i < n; i++)
        request[has + i] = bytes.ptr[i] ? bytes.ptr[i] : '0';
    request[has + n] = '\0';
    return !wire->is_broken;
}

bool rd_wire_send(struct rd_wire *wire)
{
    return !wire->is_broken;
}

bool rd_wire_reply(struct rd_wire *wire, redisReply **ret)
{
    *ret = wire->is_broken ? NULL : next_reply(server.n_requests > 0 ? server.requests[0] : "");
    if (server.n_requests > 0) {
        server.n_requests--;
        memmove(server.requests[0], server.requests[1],
                server.n_requests * sizeof server.requests[0]);
    }
    wire->is_broken = !*ret;
    return *ret;
}

redisReply *rd_wire_command(struct rd_wire *wire, const char *format, ...)
{
    redisReply *reply = NULL;
    char *text = NULL;
    va_list args;
    va_start(args, format);
    const int len = redisvFormatCommand(&text, format, args);
    va_end(args);
    FUZZ_CHECK(len >= 0);
    if (rd_wire_add(wire, (struct str){text, (size_t)len}))
        (void)rd_wire_reply(wire, &reply);
    redisFreeCommand(text);
    return reply;
}

int rd_wire_wait(struct rd_wire *wire, int timeout_ms)
{
    (void)timeout_ms;
    return !wire->is_broken && server.left.len > 0;
}

bool rd_wire_take(struct rd_wire *wire)
{
    return !wire->is_broken;
}

bool rd_wire_next(struct rd_wire *wire, redisReply **ret)
{
    *ret = server.left.len > 0 ? next_reply("") : NULL;
    wire->is_broken |= server.left.len > 0 && !*ret;
    return !wire->is_broken;
}

const char *rd_wire_tls(const struct rd_wire *wire)
{
    (void)wire;
    return NULL;
}

const char *rd_wire_error(const struct rd_wire *wire)
{
    return wire->is_broken ? "broken" : "";
}

int rd_wire_explain(const struct rd_wire *wire, struct redrive_err *err)
{
    (void)wire;
    return err_set(err, REDRIVE_E_IO, "the server does not answer");
}

/* Pauses between tries take no time. */
int nanosleep(const struct timespec *time, struct timespec *left)
{
    (void)time;
    (void)left;
    return 0;
}

/* ---- The target ------------------------------------------------------------------------------ */

static bool has_huge_array(const uint8_t *data, size_t size)
{
    size_t digits = DIGITS_MAX + 1;
    for (size_t i = 0; i < size; i++) {
        if (data[i] == '*')
            digits = 0;
        else if (digits <= DIGITS_MAX && data[i] >= '0' && data[i] <= '9' && ++digits > DIGITS_MAX)
            return true;
        else if (data[i] < '0' || data[i] > '9')
            digits = DIGITS_MAX + 1;
    }
    return false;
}

static const struct store_options OPTIONS = {.create = true, .caller_time = true};

/* A handle as redis_open makes it, at a server that works; but for the digest of the library, which
 * takes longer than all the rest. */
static struct store *open_store(void)
{
    struct store *store = calloc(1, sizeof *store);
    redisReply *reply = NULL;
    FUZZ_CHECK(store);
    store->base.ops = &STORE_REDIS;
    rd_handle_init(store, &OPTIONS);
    (void)str_copy(store->library, sizeof store->library, STR("redrive"));
    (void)str_copy(store->root, sizeof store->root, STR("{redrive}:root"));
    (void)str_copy(store->known_id, sizeof store->known_id, STR(ID));
    (void)str_copy(store->known_history, sizeof store->known_history, STR("h"));
    server.is_helpful = true;
    FUZZ_CHECK(rd_place_parse(STR("//127.0.0.1"), false, &store->place, NULL) == 0);
    FUZZ_CHECK(rd_link_open(store, NULL) == 0);
    rd_ask(store, "hello");
    FUZZ_CHECK(rd_link_told(store, &reply, NULL) == 0);
    freeReplyObject(reply);
    FUZZ_CHECK(rd_partitions_refresh(store, NULL) == 0);
    server.is_helpful = false;
    return store;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const size_t n = verbs_length(data, size);
    struct store *store = NULL;
    struct redrive_err err = {0};
    if (has_huge_array(data, size))
        return 0;
    server.left = (struct str){(const char *)data + n, size - n};
    server.n_requests = 0;
    int rc = 0;
    if (n > 0 && data[0] == 'O')
        rc = store_open("redis://127.0.0.1", &OPTIONS, &store, &err);
    else
        store = open_store();
    FUZZ_CHECK(rc == 0 || (err.code == rc && err.message[0] != '\0'));
    if (rc == 0)
        verbs_obey(store, data, n, NULL);
    store_close(store);
    return 0;
}

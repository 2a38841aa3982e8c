/* reply.c - what the server says: the parts of a reply, and what its refusals mean. */
#include <stdlib.h>

#include "base/err.h"
#include "store/redis/link.h"

struct str rd_reply_str(const redisReply *reply, size_t i)
{
    if (reply->type != REDIS_REPLY_ARRAY || i >= reply->elements ||
        (reply->element[i]->type != REDIS_REPLY_STRING &&
         reply->element[i]->type != REDIS_REPLY_STATUS))
        return (struct str){0};
    return (struct str){reply->element[i]->str, reply->element[i]->len};
}

int64_t rd_reply_int(const redisReply *reply, size_t i)
{
    if (reply->type == REDIS_REPLY_ARRAY && i < reply->elements &&
        reply->element[i]->type == REDIS_REPLY_INTEGER)
        return reply->element[i]->integer;
    struct str text = rd_reply_str(reply, i);
    return text.len > 0 ? strtoll(text.ptr, NULL, 10) : 0;
}

struct str rd_info_line(const redisReply *info, const char *name)
{
    const char *at = info && info->type == REDIS_REPLY_STRING ? strstr(info->str, name) : NULL;
    if (!at)
        return (struct str){0};
    at += strlen(name);
    return (struct str){at, strcspn(at, "\r\n")};
}

static bool says(struct str text, const char *word)
{
    return str_starts_with(text, str_of(word));
}

/* What error replies mean, by the word that they begin with; the first that fits counts. */
static const struct refusal {
    const char *word;
    int code;
    const char *fact;
    const char *hint;
} REFUSALS[] = {
    {"EMPTY", REDRIVE_E_NOT_FOUND, "the store is gone from the Redis server",
     "restore a backup, or start again with an empty one"},
    {"OOM", REDRIVE_E_NOMEM, "the memory of the Redis server is full",
     "raise its maxmemory, or let jobs finish and be swept"},
    {"NOAUTH", REDRIVE_E_DENIED, "the Redis server asks for a password",
     "write redis://:PASSWORD@HOST, or redis://USER:PASSWORD@HOST"},
    {"WRONGPASS", REDRIVE_E_DENIED, "the Redis server wants another password",
     "write redis://:PASSWORD@HOST, or redis://USER:PASSWORD@HOST"},
    {"ERR invalid password", REDRIVE_E_DENIED, "the Redis server wants another password",
     "write redis://:PASSWORD@HOST, or redis://USER:PASSWORD@HOST"},
    {"ERR AUTH", REDRIVE_E_DENIED, "the Redis server knows no password",
     "leave the password out of the URL, or set requirepass"},
    {"NOPERM", REDRIVE_E_DENIED, "the user of the Redis server lacks a right",
     "docs/redis.md lists the rights that are needed"},
    {"READONLY", REDRIVE_E_IO, "the Redis server is a replica, which cannot be written to",
     "name its primary"},
    {"NOREPLICAS", REDRIVE_E_IO, "the Redis server has too few replicas to be written to",
     "look after them, or lower min-replicas-to-write"},
    {"LOADING", REDRIVE_E_IO, "the Redis server is still loading its data",
     "try again when it is ready"},
    {"BUSY ", REDRIVE_E_IO, "the Redis server is busy with a script of somebody",
     "try again; SCRIPT KILL and FUNCTION KILL end one that has written nothing"},
    {"MISCONF", REDRIVE_E_IO, "the Redis server cannot write to its disk", "look into its log"},
    {"ERR SELECT is not allowed", REDRIVE_E_INVALID,
     "the Redis server has no database of that number",
     "leave it out of the URL (a cluster has only 0); stores differ by ?prefix=NAME"},
    {"ERR DB index is out of range", REDRIVE_E_INVALID,
     "the Redis server has no database of that number",
     "leave it out of the URL (a cluster has only 0); stores differ by ?prefix=NAME"},
    {"CLUSTERDOWN", REDRIVE_E_IO, "no node of the Redis cluster serves the store",
     "try again; redis-cli --cluster check tells more"},
};

int rd_link_error(struct str text, struct redrive_err *err)
{
    static const struct refusal MOVES = {
        "", REDRIVE_E_IO, "the store is being moved within the Redis cluster", "try again"};
    static const struct refusal ANY = {"", REDRIVE_E_IO, "the Redis server has refused a request",
                                       NULL};
    const struct refusal *meant = rd_says_elsewhere(text) ? &MOVES : &ANY;
    for (size_t i = 0; i < sizeof REFUSALS / sizeof REFUSALS[0]; i++)
        if (says(text, REFUSALS[i].word)) {
            meant = &REFUSALS[i];
            break;
        }
    err_set(err, meant->code, "%s", meant->fact);
    err_detail(err, "the server says: %.*s", (int)text.len, text.ptr);
    if (meant->hint)
        err_hint(err, "%s", meant->hint);
    return meant->code;
}

/* protocol.c - requests as the server reads them, its replies, and what its refusals mean. */
#include <stdio.h>
#include <stdlib.h>

#include "base/err.h"
#include "store/redis/link.h"
#include "store/redis/private.h"

void rd_ask_command(struct store *store, const char *command)
{
    buf_reset(&store->words);
    store->n_words = 0;
    rd_ask_text(store, command);
}

void rd_ask(struct store *store, const char *function)
{
    char name[64];
    snprintf(name, sizeof name, "%s_%s", store->library, function);
    rd_ask_command(store, "FCALL");
    rd_ask_text(store, name);
    rd_ask_text(store, "1");
    rd_ask_text(store, store->root);
}

void rd_ask_read(struct store *store, const char *what)
{
    rd_ask(store, "read");
    rd_ask_text(store, store->known_id);
    rd_ask_text(store, what);
}

/* printf would cost more than the rest of the request. */
size_t rd_digits(int64_t number, char ret[RD_DIGITS_MAX])
{
    char reversed[RD_DIGITS_MAX];
    uint64_t left = number < 0 ? 0 - (uint64_t)number : (uint64_t)number;
    size_t n = 0, len = 0;
    do
        reversed[n++] = (char)('0' + left % 10);
    while ((left /= 10) > 0);
    if (number < 0)
        ret[len++] = '-';
    while (n > 0)
        ret[len++] = reversed[--n];
    ret[len] = '\0';
    return len;
}

void rd_add_word(struct buf *b, struct str word)
{
    char head[RD_DIGITS_MAX + 3] = "$";
    size_t len = 1 + rd_digits((int64_t)word.len, head + 1);
    head[len++] = '\r';
    head[len++] = '\n';
    char *at = buf_reserve(b, len + word.len + 2);
    if (!at)
        return;
    memcpy(at, head, len);
    if (word.len > 0)
        memcpy(at + len, word.ptr, word.len);
    at[len + word.len] = '\r';
    at[len + word.len + 1] = '\n';
    buf_commit(b, len + word.len + 2);
}

void rd_ask_str(struct store *store, struct str word)
{
    rd_add_word(&store->words, word);
    store->n_words++;
}

void rd_ask_text(struct store *store, const char *word)
{
    rd_ask_str(store, str_of(word));
}

void rd_ask_int(struct store *store, int64_t number)
{
    char text[RD_DIGITS_MAX];
    const size_t len = rd_digits(number, text);
    rd_ask_str(store, (struct str){text, len});
}

struct str rd_id_place(const struct digest *digest, char ret_key[RD_ID_KEY_MAX])
{
    const unsigned hash =
        (unsigned)(unsigned char)digest->bytes[0] << 6 | (unsigned char)digest->bytes[1] >> 2;
    ret_key[0] = 'i';
    ret_key[1] = ':';
    rd_digits((int64_t)hash, ret_key + 2);
    return (struct str){digest->bytes + 1, DIGEST_BYTES - 1};
}

void rd_ask_id(struct store *store, const struct digest *digest)
{
    char key[RD_ID_KEY_MAX];
    const struct str field = rd_id_place(digest, key);
    rd_ask_text(store, key);
    rd_ask_str(store, field);
}

/* ---- Replies --------------------------------------------------------------------------------- */

struct str rd_reply_str(const redisReply *reply, size_t i)
{
    if (reply->type != REDIS_REPLY_ARRAY || i >= reply->elements ||
        (reply->element[i]->type != REDIS_REPLY_STRING &&
         reply->element[i]->type != REDIS_REPLY_STATUS))
        return (struct str){0};
    return (struct str){reply->element[i]->str, reply->element[i]->len};
}

int64_t rd_number(const char *text, const char **ret_end)
{
    char *end;
    const int64_t number = rd_score_of(strtoll(text, &end, 10));
    if (ret_end)
        *ret_end = end;
    return number;
}

int64_t rd_reply_int(const redisReply *reply, size_t i)
{
    if (reply->type == REDIS_REPLY_ARRAY && i < reply->elements &&
        reply->element[i]->type == REDIS_REPLY_INTEGER)
        return rd_score_of(reply->element[i]->integer);
    struct str text = rd_reply_str(reply, i);
    return text.len > 0 ? rd_number(text.ptr, NULL) : 0;
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

bool rd_says_nowhere(struct str text)
{
    return says(text, "CLUSTERDOWN");
}

bool rd_says_later(struct str text)
{
    return says(text, "ASK ") || says(text, "TRYAGAIN") || rd_says_nowhere(text);
}

bool rd_says_elsewhere(struct str text)
{
    return says(text, "MOVED ") || says(text, "READONLY") || rd_says_later(text);
}

/* What error replies mean, by the word that they begin with; the first that fits. */
static const struct refusal {
    const char *word;
    int code;
    const char *fact;
    const char *hint;
    bool is_undone; /* see rd_says_undone */
} REFUSALS[] = {
    {"EMPTY", REDRIVE_E_NOT_FOUND, "the store is gone from the Redis server",
     "restore a backup, or start again with an empty one"},
    {"OOM", REDRIVE_E_NOMEM, "the memory of the Redis server is full",
     "raise its maxmemory, or let jobs finish and be swept", true},
    {"NOAUTH", REDRIVE_E_DENIED, "the Redis server asks for a password",
     "write USER:PASSWORD@ or :PASSWORD@ before the host in the URL"},
    {"WRONGPASS", REDRIVE_E_DENIED, "the Redis server wants another password",
     "write USER:PASSWORD@ or :PASSWORD@ before the host in the URL"},
    {"ERR invalid password", REDRIVE_E_DENIED, "the Redis server wants another password",
     "write USER:PASSWORD@ or :PASSWORD@ before the host in the URL"},
    {"ERR AUTH", REDRIVE_E_DENIED, "the Redis server knows no password",
     "leave the password out of the URL, or set requirepass"},
    {"NOPERM", REDRIVE_E_DENIED, "the user of the Redis server lacks a right",
     "docs/redis.md lists the rights that are needed"},
    {"READONLY", REDRIVE_E_IO, "the Redis server is a replica, which cannot be written to",
     "name its primary", true},
    {"NOREPLICAS", REDRIVE_E_IO, "the Redis server has too few replicas to be written to",
     "look after them, or lower min-replicas-to-write", true},
    {"LOADING", REDRIVE_E_IO, "the Redis server is still loading its data",
     "try again when it is ready", true},
    {"BUSY ", REDRIVE_E_IO, "the Redis server is busy with a script of another program",
     "try again; SCRIPT KILL and FUNCTION KILL end one that has written nothing", true},
    {"MISCONF", REDRIVE_E_IO, "the Redis server cannot write to its disk", "look into its log",
     true},
    {"ERR SELECT is not allowed", REDRIVE_E_INVALID,
     "the Redis server has no database of that number",
     "leave it out of the URL (a cluster has only 0); stores differ by ?prefix=NAME"},
    {"ERR DB index is out of range", REDRIVE_E_INVALID,
     "the Redis server has no database of that number",
     "leave it out of the URL (a cluster has only 0); stores differ by ?prefix=NAME"},
    {"ERR unknown command 'SENTINEL'", REDRIVE_E_INVALID,
     "the servers in the URL of the Redis store are no Sentinels",
     "name Sentinels, or leave sentinel=NAME out of the URL"},
    {"CLUSTERDOWN", REDRIVE_E_IO, "no node of the Redis cluster serves the store",
     "try again; redis-cli --cluster check tells more", true},
};

static const struct refusal *refusal_of(struct str text)
{
    static const struct refusal MOVES = {
        "", REDRIVE_E_IO, "the store is being moved within the Redis cluster", "try again", true};
    static const struct refusal ANY = {"", REDRIVE_E_IO, "the Redis server has refused a request",
                                       NULL, false};
    for (size_t i = 0; i < sizeof REFUSALS / sizeof REFUSALS[0]; i++)
        if (says(text, REFUSALS[i].word))
            return &REFUSALS[i];
    return rd_says_elsewhere(text) ? &MOVES : &ANY;
}

bool rd_says_undone(struct str text)
{
    return refusal_of(text)->is_undone;
}

int rd_link_error(struct str text, struct redrive_err *err)
{
    const struct refusal *meant = refusal_of(text);
    err_set(err, meant->code, "%s", meant->fact);
    err_detail(err, "the server says: %.*s", (int)text.len, text.ptr);
    if (meant->hint)
        err_hint(err, "%s", meant->hint);
    return meant->code;
}

/* ask.c - requests, written as the server reads them. */
#include <stdio.h>

#include "store/redis/private.h"

/* A request has its bounds, whatever the transaction. */
#define WORDS_MAX ((size_t)512 << 20)

void rd_ask_command(struct store *store, const char *command)
{
    if (!store->words.data)
        buf_init(&store->words, WORDS_MAX);
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

/* printf would cost more than all the rest. */
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
    snprintf(ret_key, RD_ID_KEY_MAX, "i:%u", hash);
    return (struct str){digest->bytes + 1, DIGEST_BYTES - 1};
}

void rd_ask_id(struct store *store, const struct digest *digest)
{
    char key[RD_ID_KEY_MAX];
    const struct str field = rd_id_place(digest, key);
    rd_ask_text(store, key);
    rd_ask_str(store, field);
}

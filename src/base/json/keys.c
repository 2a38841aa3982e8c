/* keys.c - finding a key that an object has twice.
 *
 * Keys are compared as decoded text and kept as offset and hash. The keys of an object lie in the
 * reader's slots, one object's after another's; the 17th key moves them into a table of the
 * object's own. One bit a key answers nearly every question about a small object ("surely new")
 * without looking at the slots.
 */
#include "base/json/private.h"

#include <endian.h>
#include <stdlib.h>

#include "base/rng.h"

#define FIRST_TABLE 64

/* ---- Hashes and equality --------------------------------------------------------------------- */

static uint64_t load_word(const char *p)
{
    uint64_t word;
    memcpy(&word, p, sizeof word);
    return le64toh(word);
}

/* The last 1 to 7 bytes, zeros after them. Reading a whole word is quicker than copying a few
 * bytes, and nearly always there is text enough behind a key. */
static uint64_t load_part(const char *p, size_t len, const char *end)
{
    if (end - p >= 8)
        return load_word(p) & (UINT64_MAX >> (64 - 8 * len));
    char bytes[8] = {0};
    memcpy(bytes, p, len);
    return load_word(bytes);
}

/* The length parts "a" from "a\0". */
static uint64_t finish_hash(uint64_t h, size_t len)
{
    return h + len * UINT64_C(0x9e3779b97f4a7c15);
}

static uint64_t hash_plain(const struct json_reader *r, struct str key)
{
    uint64_t h = r->key_seed;
    const char *p = key.ptr;
    size_t left = key.len;

    for (; left >= 8; p += 8, left -= 8)
        h = rng_mix(h ^ load_word(p));
    if (left > 0)
        h = rng_mix(h ^ load_part(p, left, r->end));
    return finish_hash(h, key.len);
}

/* The same hash as that of the decoded text without escapes. */
__attribute__((noinline)) static uint64_t hash_escaped(const struct json_reader *r, struct str key)
{
    uint64_t h = r->key_seed;
    size_t len = 0;
    char word[8] = {0};

    for (const char *p = key.ptr; p < key.ptr + key.len;) {
        char decoded[4];
        size_t n = json_decode_next(&p, decoded);
        for (size_t i = 0; i < n; i++) {
            word[len++ % 8] = decoded[i];
            if (len % 8 == 0) {
                h = rng_mix(h ^ load_word(word));
                memset(word, 0, sizeof word);
            }
        }
    }
    if (len % 8 != 0)
        h = rng_mix(h ^ load_word(word));
    return finish_hash(h, len);
}

/* A decoder that gives a key byte for byte, up to its closing quote. */
struct key_bytes {
    const char *p;
    char decoded[4];
    size_t n, next;
};

static int next_byte(struct key_bytes *b)
{
    if (b->next == b->n) {
        if (*b->p == '"')
            return -1;
        b->n = json_decode_next(&b->p, b->decoded);
        b->next = 0;
    }
    return (unsigned char)b->decoded[b->next++];
}

/* Only called for equal hashes, so nearly only for equal keys. */
__attribute__((noinline)) static bool same_key(const char *a, const char *b)
{
    struct key_bytes in_a = {.p = a}, in_b = {.p = b};
    int byte;
    do {
        byte = next_byte(&in_a);
        if (byte != next_byte(&in_b))
            return false;
    } while (byte >= 0);
    return true;
}

/* ---- Tables ---------------------------------------------------------------------------------- */

/* The slot that holds the key, or the free one where it belongs. */
static struct json_key_slot *find_slot(const struct json_reader *r,
                                       const struct json_open_object *o, struct json_key_slot key)
{
    uint32_t mask = o->many_slots - 1;
    uint32_t i = key.hash & mask;
    while (o->many[i].at != 0 &&
           (o->many[i].hash != key.hash || !same_key(r->text + o->many[i].at, r->text + key.at)))
        i = (i + 1) & mask;
    return &o->many[i];
}

/* Moves all keys, which are known to differ, into a table of `n_slots`. */
static int rebuild(struct json_reader *r, struct json_open_object *o, uint32_t n_slots)
{
    const struct json_key_slot *old = o->many ? o->many : r->slots + o->first_slot;
    const uint32_t n_old = o->many ? o->many_slots : r->n_slots - o->first_slot;
    struct json_key_slot *table = calloc(n_slots, sizeof *table);
    if (!table)
        return json_fail_at(r, NULL, REDRIVE_E_NOMEM, "%s", redrive_err_text(REDRIVE_E_NOMEM));

    for (uint32_t i = 0; i < n_old; i++) {
        if (old[i].at == 0)
            continue;
        uint32_t to = old[i].hash & (n_slots - 1);
        while (table[to].at != 0)
            to = (to + 1) & (n_slots - 1);
        table[to] = old[i];
    }
    free(o->many);
    o->many = table;
    o->many_slots = n_slots;
    return 0;
}

/* ---- Objects --------------------------------------------------------------------------------- */

static struct json_open_object *innermost(struct json_reader *r)
{
    return &r->objects[r->depth - 1];
}

void json_keys_enter(struct json_reader *r)
{
    *innermost(r) = (struct json_open_object){.first_slot = r->n_slots};
}

void json_keys_leave(struct json_reader *r)
{
    r->n_slots = innermost(r)->first_slot;
    free(innermost(r)->many);
}

static int refuse(struct json_reader *r, struct str key)
{
    int len = key.len < 64 ? (int)key.len : 64;
    return json_fail_at(r, key.ptr - 1, REDRIVE_E_PARSE,
                        "expected each key once, found \"%.*s\" again", len, key.ptr);
}

static int add_to_many(struct json_reader *r, struct json_open_object *o, struct str key,
                       struct json_key_slot slot)
{
    if (o->n_many >= o->many_slots / 4 * 3 && rebuild(r, o, o->many_slots * 2) < 0)
        return r->error;
    struct json_key_slot *place = find_slot(r, o, slot);
    if (place->at != 0)
        return refuse(r, key);
    *place = slot;
    o->n_many++;
    return 0;
}

int json_keys_add(struct json_reader *r, struct str key, bool escaped)
{
    struct json_open_object *o = innermost(r);
    const uint64_t hash = escaped ? hash_escaped(r, key) : hash_plain(r, key);
    const uint64_t bit = UINT64_C(1) << (hash & 63);
    const struct json_key_slot slot = {
        .at = (uint32_t)(key.ptr - r->text),
        .hash = (uint32_t)(hash >> 32),
    };

    if (o->many)
        return add_to_many(r, o, key, slot);
    if (o->seen & bit)
        for (uint32_t i = o->first_slot; i < r->n_slots; i++)
            if (r->slots[i].hash == slot.hash &&
                same_key(r->text + r->slots[i].at, r->text + slot.at))
                return refuse(r, key);
    if (r->n_slots - o->first_slot == JSON_FEW_KEYS) {
        if (rebuild(r, o, FIRST_TABLE) < 0)
            return r->error;
        o->n_many = JSON_FEW_KEYS;
        return add_to_many(r, o, key, slot);
    }
    o->seen |= bit;
    r->slots[r->n_slots++] = slot;
    return 0;
}

/* private.h - what the files of the JSON reader and writer share among themselves. */
#ifndef BASE_JSON_PRIVATE_H
#define BASE_JSON_PRIVATE_H

#include <assert.h>

#include "base/json/json.h"

#ifdef __SSE2__
#include <emmintrin.h>
#endif

/* ---- json/scan.c: each records the first error and returns the code that sticks. ------------- */

/* "expected …, found …", the latter from the byte at `at`. */
int json_unexpected(struct json_reader *r, const char *at, const char *expected)
    __attribute__((cold));
/* The same for the value at r->p, which is a valid start of another type. */
int json_wrong_type(struct json_reader *r, const char *expected) __attribute__((cold));
int json_fail_at(struct json_reader *r, const char *at, int code, const char *format, ...)
    __attribute__((cold, format(printf, 4, 5)));

/* Checks a string from its first byte; returns its closing quote, or NULL and the error. */
const char *json_scan_string(struct json_reader *r, const char *p, bool *ret_escaped);

/* Decodes the byte or escape at *p, of a string that has been checked, and steps over it; returns
 * how many bytes it is decoded. */
size_t json_decode_next(const char **p, char out[4]);

/* Checks the number at `p`; returns its end, or NULL and the error. */
const char *json_scan_number(struct json_reader *r, const char *p);

/* ---- json/keys.c: the keys of the objects that are open, the innermost first to go. ---------- */

void json_keys_enter(struct json_reader *r);
void json_keys_leave(struct json_reader *r);
/* Adds to the innermost object; 0, or the error when it has this key already. */
int json_keys_add(struct json_reader *r, struct str key, bool escaped);

/* ---- Steps that every file takes, inline because they are taken for every token. ------------- */

static inline const char *json_skip_space(const char *p, const char *end)
{
    while (p < end && (*p == ' ' || *p == '\n' || *p == '\r' || *p == '\t'))
        p++;
    return p;
}

/* Steps to the value that is due; 0, or the error. */
static inline int json_start_value(struct json_reader *r)
{
    if (r->error)
        return r->error;
    assert(r->due == JSON_DUE_VALUE);
    r->p = r->token_at = json_skip_space(r->p, r->end);
    if (r->p == r->end)
        return json_unexpected(r, r->p, "a value");
    return 0;
}

static inline void json_finish_value(struct json_reader *r, const char *end_of_value)
{
    r->p = end_of_value;
    r->due = JSON_DUE_NEXT;
}

static inline bool json_is_number_start(char c)
{
    return c == '-' || (c >= '0' && c <= '9');
}

/* Whether a byte stands for itself in a string: not a quote, backslash, control or part of a
 * longer UTF-8 sequence. */
static inline bool json_is_plain(char c)
{
    return (signed char)c >= 0x20 && c != '"' && c != '\\';
}

/* The first byte that is not plain, or `end`. A signed comparison with the space finds control
 * characters and everything from 0x80 up at once. */
static inline const char *json_skip_plain(const char *p, const char *end)
{
#ifdef __SSE2__
    const __m128i quote = _mm_set1_epi8('"');
    const __m128i backslash = _mm_set1_epi8('\\');
    const __m128i space = _mm_set1_epi8(' ');

    for (; end - p >= 16; p += 16) {
        __m128i v = _mm_loadu_si128((const __m128i *)(const void *)p);
        __m128i stops =
            _mm_or_si128(_mm_cmplt_epi8(v, space),
                         _mm_or_si128(_mm_cmpeq_epi8(v, quote), _mm_cmpeq_epi8(v, backslash)));
        int mask = _mm_movemask_epi8(stops);
        if (mask)
            return p + __builtin_ctz((unsigned)mask);
    }
#endif
    while (p < end && json_is_plain(*p))
        p++;
    return p;
}

#endif

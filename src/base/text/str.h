/* str.h - slices of text that another object owns.
 *
 * A struct str points into a buffer and has a length; it is not terminated and never freed. An
 * absent string is {NULL, 0}; an empty one has a pointer. All comparisons are of bytes.
 */
#ifndef BASE_TEXT_STR_H
#define BASE_TEXT_STR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct str {
    const char *ptr;
    size_t len;
};

/* A slice of a string literal. */
#define STR(literal) ((struct str){(literal), sizeof(literal) - 1})

/* A slice of a terminated string; NULL gives the absent string. */
static inline struct str str_of(const char *s)
{
    return (struct str){s, s ? strlen(s) : 0};
}

static inline bool str_eq(struct str a, struct str b)
{
    return a.len == b.len && (a.len == 0 || memcmp(a.ptr, b.ptr, a.len) == 0);
}

/* By bytes, a prefix before what it begins: < 0, 0 or > 0. */
static inline int str_compare(struct str a, struct str b)
{
    const size_t n = a.len < b.len ? a.len : b.len;
    const int order = n ? memcmp(a.ptr, b.ptr, n) : 0;
    return order ? order : (a.len > b.len) - (a.len < b.len);
}

static inline bool str_is(struct str a, const char *b)
{
    return str_eq(a, str_of(b));
}

/* Case is ignored for ASCII letters only, whatever the locale. */
bool str_eq_nocase(struct str a, struct str b);
bool str_starts_with(struct str s, struct str prefix);
bool str_contains(struct str haystack, struct str needle);
struct str str_trim(struct str s);

static inline bool str_is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* Whether it has a control character: a byte below the space, or DEL. */
bool str_has_control(struct str s);
/* Whether it is a token of HTTP (RFC 9110, 5.6.2), as the names of headers are. */
bool str_is_token(struct str s);

/* The value of a hexadecimal digit, or -1. */
int str_hex_digit(char c);
/* Reads 1 to 16 hexadecimal digits and nothing else; false: it is something else. */
bool str_read_hex(struct str text, uint64_t *ret);

/* Copies as a terminated string into malloc'ed memory, or NULL when there is none left. */
char *str_dup(struct str s);

/* Copies as a terminated string to `*at`, which it moves behind it: for strings that share a block
 * of memory, in which each takes its length and one more. Returns where the copy is. */
char *str_pack(char **at, struct str s);

/* Copies into `dst` of `size` bytes, always terminated; returns false if it had to cut. A cut
 * never leaves half of a UTF-8 sequence. */
bool str_copy(char *dst, size_t size, struct str src);

/* Shell-like pattern over the whole of `s`: `*` any run, `?` any byte; no brackets, no escapes.
 * Linear in practice and never exponential. */
bool str_glob(const char *pattern, struct str s);

/* The last component of a type name: what follows the last `.`, `:`, `/`, `\` or `$`. */
struct str str_last_component(struct str name);

/* ---- The nearest word ------------------------------------------------------------------------ */

/* The word nearest to `given` by edit distance (a swap of neighbours counts one, `-` and `_` are
 * the same), or NULL when none is near enough to be a misspelling. */
const char *nearest(struct str given, const char *const *words, size_t n_words);

/* The word that `given` was meant to be: the only one that it is the beginning of, or else the
 * nearest. */
const char *suggest(struct str given, const char *const *words, size_t n_words);

#endif

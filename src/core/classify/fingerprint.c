/* fingerprint.c - the normal form of a message, and its hash. */
#include "core/classify/fingerprint.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "core/vocabulary.h"

#define LONG_WORD     16 /* letters and digits: an id, not a name */
#define LONG_HEX_WORD 6

struct form {
    char *text;
    size_t len;
};

static bool is_alnum(char c)
{
    return str_is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static bool is_hex(char c)
{
    return str_is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

static bool is_space(char c)
{
    return (unsigned char)c <= ' ' || c == 0x7F;
}

static bool is_one_of(char c, const char *set)
{
    return c != '\0' && strchr(set, c);
}

/* The byte at i, or 0 at the end. */
static char at(struct str s, size_t i)
{
    if (i >= s.len)
        return '\0';
    return s.ptr[i];
}

static void put(struct form *f, char c)
{
    if (f->len < FINGERPRINT_FORM_MAX)
        f->text[f->len++] = c;
}

/* Adds a #, or lets the last one stand for this one as well. */
static void put_mark(struct form *f)
{
    size_t end = f->len;
    while (end > 0 && is_one_of(f->text[end - 1], " ,;:./-_"))
        end--;
    if (end > 0 && f->text[end - 1] == '#')
        f->len = end;
    else
        put(f, '#');
}

/* Each scan_ function says how many bytes from i on its rule covers; 0: it does not fit. */

static size_t scan_quoted(struct str s, size_t i)
{
    if (!is_one_of(s.ptr[i], "'\"`") || (i > 0 && is_alnum(s.ptr[i - 1])))
        return 0;
    for (size_t j = i + 1; j < s.len; j++)
        if (s.ptr[j] == s.ptr[i] && !is_alnum(at(s, j + 1)))
            return j + 1 - i;
    return 0;
}

static size_t scan_email(struct str s, size_t i)
{
    size_t j = i;
    if (!is_alnum(s.ptr[i]))
        return 0;
    while (is_alnum(at(s, j)) || is_one_of(at(s, j), "._%+-"))
        j++;
    if (at(s, j) != '@')
        return 0;
    size_t host = ++j;
    while (is_alnum(at(s, j)) || is_one_of(at(s, j), ".-"))
        j++;
    return j > host ? j - i : 0;
}

static size_t scan_uuid(struct str s, size_t i)
{
    static const char SHAPE[] = "xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx";
    const size_t len = sizeof SHAPE - 1;
    for (size_t j = 0; j < len; j++)
        if (SHAPE[j] == 'x' ? !is_hex(at(s, i + j)) : at(s, i + j) != '-')
            return 0;
    return is_alnum(at(s, i + len)) ? 0 : len;
}

static size_t scan_groups(struct str s, size_t i)
{
    size_t j = i, colons = 0, digits = 0, group = 0;
    if (!is_hex(s.ptr[i]) && !(s.ptr[i] == ':' && at(s, i + 1) == ':'))
        return 0;
    if (i > 0 && s.ptr[i - 1] == '.') /* the extension of main.c:10:20 */
        return 0;
    for (; is_hex(at(s, j)) || is_one_of(at(s, j), ":."); j++) {
        group = is_hex(s.ptr[j]) ? group + 1 : 0;
        if (group > 4)
            return 0;
        colons += s.ptr[j] == ':';
        digits += str_is_digit(s.ptr[j]);
    }
    if (is_alnum(at(s, j)))
        return 0;
    if (group == 0) { /* a last colon or dot, unless `::` */
        bool pair = s.ptr[j - 1] == ':' && s.ptr[j - 2] == ':';
        colons -= !pair && s.ptr[j - 1] == ':';
        j -= !pair;
    }
    return colons >= 2 && digits > 0 ? j - i : 0;
}

static size_t scan_word(struct str s, size_t i)
{
    size_t j = i;
    while (is_alnum(at(s, j)))
        j++;
    return j - i;
}

static bool word_is_id(struct str word)
{
    size_t digits = 0, hex = 0;
    for (size_t i = 0; i < word.len; i++) {
        digits += str_is_digit(word.ptr[i]);
        hex += is_hex(word.ptr[i]);
    }
    if (word.len > 2 && word.ptr[0] == '0' && (word.ptr[1] | 0x20) == 'x' && hex == word.len - 1)
        return true;
    return digits > 0 && (word.len >= LONG_WORD || (word.len >= LONG_HEX_WORD && hex == word.len));
}

static void put_word(struct form *f, struct str word)
{
    if (word_is_id(word)) {
        put_mark(f);
        return;
    }
    for (size_t i = 0; i < word.len; i++) {
        if (!str_is_digit(word.ptr[i]))
            put(f, word.ptr[i]);
        else if (i == 0 || !str_is_digit(word.ptr[i - 1]))
            put_mark(f);
    }
}

static struct str first_line(struct str message)
{
    message = str_trim(message);
    size_t len = 0;
    while (len < message.len && len < FINGERPRINT_MESSAGE_MAX &&
           !is_one_of(at(message, len), "\r\n"))
        len++;
    return (struct str){message.ptr, len};
}

size_t fingerprint_form(struct str message, char out[FINGERPRINT_FORM_MAX])
{
    struct str s = first_line(message);
    struct form f = {out, 0};

    for (size_t i = 0; i < s.len;) {
        size_t n;
        if ((n = scan_quoted(s, i)) || (n = scan_email(s, i)) || (n = scan_uuid(s, i)) ||
            (n = scan_groups(s, i))) {
            put_mark(&f);
        } else if ((n = scan_word(s, i))) {
            put_word(&f, (struct str){s.ptr + i, n});
        } else if (is_space(s.ptr[i])) {
            n = 1;
            if (f.len > 0 && f.text[f.len - 1] != ' ')
                put(&f, ' ');
        } else {
            n = 1;
            put(&f, s.ptr[i]);
        }
        i += n;
    }
    return f.len - (f.len > 0 && f.text[f.len - 1] == ' ');
}

static uint64_t fnv1a(uint64_t hash, const char *bytes, size_t len)
{
    for (size_t i = 0; i < len; i++)
        hash = (hash ^ (unsigned char)bytes[i]) * UINT64_C(0x100000001b3);
    return hash;
}

uint64_t fingerprint(struct str error_type, enum redrive_class class_, struct str message)
{
    /* The name and not the number: a new class may be put in between. */
    const char *name = vocabulary_word(VOCABULARY_CLASS, (int)class_);
    char form[FINGERPRINT_FORM_MAX];
    size_t len = fingerprint_form(message, form);

    uint64_t hash = fnv1a(UINT64_C(0xcbf29ce484222325), error_type.ptr, error_type.len);
    hash = fnv1a(hash, "", 1);
    hash = fnv1a(hash, name, strlen(name) + 1);
    hash = fnv1a(hash, form, len);
    return hash ? hash : 1;
}

const char *fingerprint_text(uint64_t fingerprint_, char out[FINGERPRINT_TEXT_MAX])
{
    (void)snprintf(out, FINGERPRINT_TEXT_MAX, "%016" PRIx64, fingerprint_);
    return out;
}

bool fingerprint_parse(struct str text, uint64_t *ret)
{
    *ret = 0;
    return text.len == FINGERPRINT_TEXT_MAX - 1 && str_read_hex(text, ret) && *ret != 0;
}

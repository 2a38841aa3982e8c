/* dotenv.c - parses `.env` files line by line. */
#include "config/document/dotenv.h"

#include <ctype.h>

#include "base/err.h"
#include "base/text/encode.h"

void dotenv_init(struct dotenv *reader, struct str text)
{
    /* Editors on some systems put a byte order mark in front. */
    if (str_starts_with(text, STR("\xEF\xBB\xBF")))
        text = (struct str){text.ptr + 3, text.len - 3};
    *reader = (struct dotenv){.rest = text};
    buf_init(&reader->value, DOTENV_MAX_BYTES);
}

void dotenv_release(struct dotenv *reader)
{
    buf_release(&reader->value);
}

static struct str skip(struct str s, size_t n)
{
    return (struct str){s.ptr + n, s.len - n};
}

static struct str skip_space(struct str s)
{
    size_t n = 0;
    while (n < s.len && (s.ptr[n] == ' ' || s.ptr[n] == '\t'))
        n++;
    return skip(s, n);
}

static struct str take_line(struct dotenv *reader)
{
    const char *newline = memchr(reader->rest.ptr, '\n', reader->rest.len);
    size_t len = newline ? (size_t)(newline - reader->rest.ptr) : reader->rest.len;
    struct str line = {reader->rest.ptr, len};
    reader->rest = skip(reader->rest, newline ? len + 1 : len);
    reader->line++;
    return str_trim(line);
}

static struct str take_name(struct str *line)
{
    size_t n = 0;
    while (n < line->len && (isalnum((unsigned char)line->ptr[n]) || line->ptr[n] == '_'))
        n++;
    struct str name = {line->ptr, n};
    if (n > 0 && isdigit((unsigned char)line->ptr[0]))
        name.len = 0;
    *line = skip(*line, name.len);
    return name;
}

static int refuse(struct redrive_err *err, const char *what, const char *hint)
{
    err_set(err, REDRIVE_E_PARSE, "%s", what);
    err_hint(err, "%s", hint);
    return REDRIVE_E_PARSE;
}

/* What follows the closing quote. */
static int check_tail(struct str tail, struct redrive_err *err)
{
    struct str rest = skip_space(tail);
    if (rest.len == 0 || (rest.ptr[0] == '#' && rest.len < tail.len))
        return 0;
    return refuse(err, "there is text after the closing quote",
                  "put the whole value in quotes, and a space in front of a comment");
}

static int single_quoted(struct dotenv *reader, struct str text, struct redrive_err *err)
{
    const char *quote = memchr(text.ptr, '\'', text.len);
    if (!quote)
        return refuse(err, "the quote is not closed", "a value ends on the line it begins on");
    struct str inside = {text.ptr, (size_t)(quote - text.ptr)};
    buf_add_str(&reader->value, inside);
    return check_tail(skip(text, inside.len + 1), err);
}

static int double_quoted(struct dotenv *reader, struct str text, struct redrive_err *err)
{
    static const char ESCAPES[] = "n\nt\tr\r\"\"\\\\$$";
    size_t i = 0;
    for (; i < text.len && text.ptr[i] != '"'; i++) {
        char c = text.ptr[i];
        if (c == '\\' && i + 1 < text.len) {
            const char *escape = ESCAPES;
            c = text.ptr[++i];
            while (*escape && *escape != c)
                escape += 2;
            if (!*escape || !c)
                return refuse(err, "unknown escape in double quotes",
                              "write \\\\ for a backslash, or use single quotes");
            c = escape[1];
        }
        buf_putc(&reader->value, c);
    }
    if (i == text.len)
        return refuse(err, "the quote is not closed", "a value ends on the line it begins on");
    return check_tail(skip(text, i + 1), err);
}

static int plain(struct dotenv *reader, struct str text)
{
    size_t len = 0;
    while (len < text.len && !(text.ptr[len] == '#' &&
                               (len == 0 || text.ptr[len - 1] == ' ' || text.ptr[len - 1] == '\t')))
        len++;
    buf_add_str(&reader->value, str_trim((struct str){text.ptr, len}));
    return 0;
}

static int read_entry(struct dotenv *reader, struct str line, struct dotenv_entry *ret,
                      struct redrive_err *err)
{
    if (!utf8_valid(line) || memchr(line.ptr, 0, line.len))
        return refuse(err, "the line is not UTF-8 text", "");
    if (str_starts_with(line, STR("export ")) || str_starts_with(line, STR("export\t")))
        line = skip_space(skip(line, 7));
    ret->name = take_name(&line);
    if (ret->name.len == 0)
        return refuse(err, "the line does not begin with a name", "write NAME=VALUE or # comment");
    if (line.len == 0 || line.ptr[0] != '=')
        return refuse(err, "there is no '=' after the name",
                      "write NAME=VALUE, without space around the '='");
    line = skip_space(skip(line, 1));

    buf_reset(&reader->value);
    int rc = line.len && line.ptr[0] == '\''  ? single_quoted(reader, skip(line, 1), err)
             : line.len && line.ptr[0] == '"' ? double_quoted(reader, skip(line, 1), err)
                                              : plain(reader, line);
    if (rc == 0 && buf_failed(&reader->value))
        rc = err_nomem(err);
    ret->value = buf_str(&reader->value);
    ret->line = reader->line;
    return rc;
}

int dotenv_next(struct dotenv *reader, struct dotenv_entry *ret, struct redrive_err *err)
{
    while (reader->rest.len > 0) {
        struct str line = take_line(reader);
        if (line.len == 0 || line.ptr[0] == '#')
            continue;
        int rc = read_entry(reader, line, ret, err);
        return rc < 0 ? rc : 1;
    }
    return 0;
}

const char *env_get(char *const *variables, const char *name)
{
    size_t len = strlen(name);
    for (; variables && *variables; variables++)
        if (strncmp(*variables, name, len) == 0 && (*variables)[len] == '=')
            return (*variables)[len + 1] ? *variables + len + 1 : NULL;
    return NULL;
}

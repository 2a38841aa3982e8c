/* reference.c - replaces `${NAME}` in values of the configuration. */
#include "config/schema/reference.h"

#include "base/err.h"
#include "config/document/dotenv.h"
#include "config/schema/types.h"

#define NAME_MAX_BYTES 128

bool reference_in(struct str text)
{
    for (size_t i = 0; i + 1 < text.len; i++)
        if (text.ptr[i] == '$' && text.ptr[i + 1] == '{')
            return true;
    return false;
}

/* The last of its name counts. A line that cannot be read has been reported already. */
static bool find_in_dotenv(struct str text, const char *name, struct buf *out)
{
    struct dotenv reader;
    struct dotenv_entry entry;
    bool is_found = false;
    int rc;
    dotenv_init(&reader, text);
    while ((rc = dotenv_next(&reader, &entry, NULL)) != 0) {
        if (rc < 0 || !str_is(entry.name, name) || entry.value.len == 0)
            continue;
        buf_reset(out);
        is_found = buf_add(out, entry.value.ptr, entry.value.len) == 0;
    }
    dotenv_release(&reader);
    return is_found;
}

static void note_missing(struct binder *b, const struct node *node, const char *name,
                         const char **ret_missing)
{
    const char *place = bind_place(b, node);
    if (place && !*ret_missing)
        *ret_missing = arena_printf(b->arena, "%sthe variable %s is not set", place, name);
}

static bool add_value(struct binder *b, const char *name, struct buf *out)
{
    const struct references *from = b->references;
    const char *value = from ? env_get(from->environ, name) : NULL;
    struct buf found;
    buf_init(&found, TYPE_TEXT_MAX);
    const bool is_in_file =
        !value && from && from->dotenv.ptr && find_in_dotenv(from->dotenv, name, &found);
    if (value)
        buf_puts(out, value);
    else if (is_in_file)
        buf_add(out, found.data, found.len);
    if (is_in_file && from->is_dotenv_used)
        *from->is_dotenv_used = true;
    buf_release(&found);
    return value || is_in_file;
}

/* The name between `${` and `}` at `at`; 0 when there is none. */
static size_t read_name(struct str text, size_t at, char name[NAME_MAX_BYTES])
{
    size_t n = 0;
    for (at += 2; at < text.len && text.ptr[at] != '}' && n + 1 < NAME_MAX_BYTES; at++)
        name[n++] = text.ptr[at];
    name[n] = '\0';
    const bool is_name = n > 0 && strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwx"
                                               "yz0123456789_") == n;
    return is_name && at < text.len && text.ptr[at] == '}' ? n : 0;
}

static int expand_into(struct binder *b, const struct node *node, struct buf *out,
                       const char **ret_missing)
{
    const struct str text = node->text;
    for (size_t i = 0; i < text.len; i++) {
        char name[NAME_MAX_BYTES];
        if (text.ptr[i] != '$' || i + 1 == text.len || text.ptr[i + 1] != '{') {
            buf_putc(out, text.ptr[i]);
            continue;
        }
        const size_t n = read_name(text, i, name);
        if (n == 0) {
            err_detail(bind_error(b, node, "'${' does not begin a reference"),
                       "expected ${NAME}, a variable of the environment");
            return -1;
        }
        if (!add_value(b, name, out)) {
            note_missing(b, node, name, ret_missing);
            return -1;
        }
        i += n + 2;
    }
    return 0;
}

const char *reference_expand(struct binder *b, const struct node *node, const char **ret_missing)
{
    struct buf out;
    const char *expanded = NULL;
    buf_init(&out, TYPE_TEXT_MAX);
    if (expand_into(b, node, &out, ret_missing) == 0) {
        if (buf_failed(&out) == REDRIVE_E_NOMEM)
            b->arena->failed = true;
        else if (buf_failed(&out))
            bind_error(b, node, "is over %d bytes", TYPE_TEXT_MAX);
        else
            expanded = arena_dup(b->arena, buf_str(&out));
    }
    buf_release(&out);
    return expanded;
}

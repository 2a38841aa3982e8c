/* The first line is the URL of a handler, the second the id of a job, the rest its payload. Jobs
 * fill in values: they never end the part of the URL that they are in, and do not touch the host
 * unless a placeholder is there. */
#include "fuzz.h"

#include <ctype.h>
#include <string.h>

#include "run/http/url.h"

static struct str first_line(struct str *rest)
{
    const char *end = memchr(rest->ptr, '\n', rest->len);
    struct str line = {rest->ptr, end ? (size_t)(end - rest->ptr) : rest->len};
    const size_t used = line.len + (end ? 1 : 0);
    *rest = (struct str){rest->ptr + used, rest->len - used};
    return line;
}

static char *copy_of(struct str text)
{
    char *copy = malloc(text.len + 1);
    FUZZ_CHECK(copy);
    if (text.len > 0)
        memcpy(copy, text.ptr, text.len);
    copy[text.len] = '\0';
    return copy;
}

static bool is_filled_in(char c)
{
    return isalnum((unsigned char)c) || (c && strchr("-._~%", c));
}

/* `can[i]`: the URL up to here can have become the first i bytes of the text. */
static void step_over_byte(char c, const char *out, size_t len, bool *can)
{
    for (size_t i = len; i > 0; i--)
        can[i] = can[i - 1] && out[i - 1] == c;
    can[0] = false;
}

static void step_over_value(const char *out, size_t len, bool *can)
{
    bool was = false; /* it can begin before, and reach this far */
    for (size_t i = 0; i <= len; i++) {
        const bool begins = can[i];
        can[i] = was;
        was = i < len && is_filled_in(out[i]) && (was || begins);
    }
}

/* What stands between the placeholders stands there still, in its order; what was filled in has
 * none of the bytes that mean something in a URL, and at least one of the others. */
static void check_expanded(const char *url, const char *out)
{
    const size_t len = strlen(out);
    if (strlen(url) * len > 1000000)
        return; /* it would take too long */
    bool *can = calloc(len + 1, sizeof *can);
    FUZZ_CHECK(can);
    can[0] = true;
    while (*url) {
        if (*url != '{') {
            step_over_byte(*url++, out, len, can);
            continue;
        }
        url = strchr(url, '}') + 1;
        step_over_value(out, len, can);
    }
    FUZZ_CHECK(can[len]);
    free(can);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct str rest = {(const char *)data, size};
    char *url = copy_of(first_line(&rest)), *id = copy_of(first_line(&rest));
    const struct run_request request = {
        .job_id = id, .task = "resize", .queue = "a/b", .tenant = "acme", .payload = rest};
    struct redrive_err err = {0};
    struct buf out;
    buf_init(&out, 64 * 1024);
    int rc = url_expand(url, &request, &out, &err);
    if (rc < 0)
        FUZZ_CHECK(err.code == rc && err.message[0] != '\0');
    else
        check_expanded(url, buf_cstr(&out));
    if (rc == 0 && !url_host_is_made_by_jobs(url)) {
        const char *brace = strchr(url, '{');
        FUZZ_CHECK(strncmp(url, buf_cstr(&out), brace ? (size_t)(brace - url) : strlen(url)) == 0);
    }
    buf_release(&out);
    free(url);
    free(id);
    return 0;
}

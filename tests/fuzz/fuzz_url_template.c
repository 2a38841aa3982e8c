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

/* What stands between the placeholders stands there still, in its order; what was filled in has
 * none of the bytes that mean something in a URL. */
static void check_expanded(const char *url, const char *out)
{
    while (*url) {
        if (*url != '{') {
            FUZZ_CHECK(*out++ == *url++);
            continue;
        }
        url = strchr(url, '}') + 1;
        const char *value = out;
        while (isalnum((unsigned char)*out) || (*out && strchr("-._~%", *out)))
            out++;
        FUZZ_CHECK(out > value);
        /* The text after it may begin with letters: the value is then the shorter one. */
        const char *next = strchr(url, '{');
        const size_t fixed = next ? (size_t)(next - url) : strlen(url);
        if (next && fixed == 0)
            return; /* two values side by side: where one ends cannot be seen */
        while (out > value && strncmp(out, url, fixed) != 0)
            out--;
        FUZZ_CHECK(strncmp(out, url, fixed) == 0);
    }
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

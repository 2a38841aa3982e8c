/* The URL of a store: it is found or refused with a message, the place of a Redis store is read or
 * refused, and what is shown of the URL does not have the password. */
#include "fuzz.h"

#include <string.h>

#include "base/text/url_mask.h"
#include "store/redis/net/place.h"
#include "store/store.h"

#define SECRET "s3cr3t-p4ssw0rd"

static void check_place(struct str text, bool is_tls)
{
    struct place place = {0};
    struct redrive_err err = {0};
    int rc = rd_place_parse(text, is_tls, &place, &err);
    if (rc < 0)
        FUZZ_CHECK(err.code == rc && err.message[0] != '\0');
    else
        FUZZ_CHECK(place.n_nodes > 0 && place.n_nodes <= NODES_MAX && place.db >= 0);
    rd_place_release(&place);
}

static void check_mask(struct str url)
{
    struct buf shown;
    buf_init(&shown, 1024 * 1024);
    url_mask(&shown, url);
    FUZZ_CHECK(!buf_failed(&shown));
    buf_release(&shown);
}

/* With a password that is known, before the first host. */
static void check_secret(struct str rest)
{
    struct buf url, shown;
    buf_init(&url, 1024 * 1024);
    buf_init(&shown, 1024 * 1024);
    buf_printf(&url, "postgres://me:" SECRET "@");
    buf_add_str(&url, rest);
    url_mask(&shown, buf_str(&url));
    FUZZ_CHECK(buf_failed(&url) || !strstr(buf_cstr(&shown), SECRET) ||
               memmem(rest.ptr, rest.len, SECRET, strlen(SECRET)));
    buf_release(&url);
    buf_release(&shown);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct store_ops *ops = NULL;
    struct str place = {0};
    struct redrive_err err = {0};
    char *url = malloc(size + 1);
    FUZZ_CHECK(url);
    if (size > 0)
        memcpy(url, data, size);
    url[size] = '\0';
    const struct str whole = {url, strlen(url)};
    int rc = store_find(url, &ops, &place, &err);
    if (rc < 0)
        FUZZ_CHECK(err.code == rc && err.message[0] != '\0');
    else if (str_starts_with(str_of(ops->scheme), STR("redis")))
        check_place(place, strcmp(ops->scheme, "rediss") == 0);
    check_mask(whole);
    check_secret(whole);
    free(url);
    return 0;
}

/* ends.c - opens both stores and checks that they are two. */
#include "cli/commands/move/ends.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/text/url_mask.h"
#include "base/time/clock.h"
#include "engine/copy/copy.h"

#define NAME_MAX_BYTES 4096

void move_end_init(struct move_end *end, const char *url, const char *side)
{
    *end = (struct move_end){.url = url, .side = side};
    buf_init(&end->name, NAME_MAX_BYTES);
}

void move_end_release(struct move_end *end)
{
    store_close(end->store);
    buf_release(&end->name);
}

/* What tells stores of one Redis server apart: prefix=NAME, or nothing. Nothing before an at sign
 * is looked at: it may be a password. */
static struct str prefix_of(const char *url)
{
    const char *login = strrchr(url, '@'), *at = strchr(login ? login : url, '?');
    while (at && !str_starts_with(str_of(at + 1), STR("prefix=")))
        at = strchr(at + 1, '&');
    return at ? (struct str){at + 1, strcspn(at + 1, "&#")} : (struct str){0};
}

/* KIND://USER:PASSWORD@HOST/PLACE?QUERY loses what may be secret, and the user's name. */
static void name_url(struct move_end *end)
{
    struct buf shown;
    buf_init(&shown, NAME_MAX_BYTES);
    url_mask(&shown, str_of(end->url));
    const char *text = buf_cstr(&shown), *start = strstr(text, "://"), *at = strrchr(text, '@');
    const size_t len = strcspn(text, "?");
    if (start && at && at > start && at < text + len) {
        buf_add(&end->name, text, (size_t)(start + 3 - text));
        buf_add(&end->name, at + 1, (size_t)(text + len - at - 1));
    } else {
        buf_add(&end->name, text, len);
    }
    const struct str prefix = prefix_of(end->url);
    if (prefix.len > 0)
        buf_printf(&end->name, "?%.*s", (int)prefix.len, prefix.ptr);
    buf_release(&shown);
}

static void name_file(struct move_end *end, const struct store *store)
{
    struct stat st;
    char *path = realpath(end->facts.path, NULL);
    if (stat(end->facts.path, &st) == 0) {
        end->device = st.st_dev;
        end->inode = st.st_ino;
    }
    buf_printf(&end->name, "%s:%s", store_ops(store)->scheme, path ? path : end->facts.path);
    free(path);
}

/* What is of no use at either end. */
static int check_kind(const struct move_end *end, const struct store *store,
                      struct redrive_err *err)
{
    if (!(store_ops(store)->capabilities & STORE_SHARED)) {
        err_set(err, REDRIVE_E_INVALID, "the %s would be gone with this process", end->side);
        err_detail(err, "%s is memory", buf_cstr(&end->name));
        err_hint(err, "name a store that lasts, such as sqlite:redrive.db");
        return REDRIVE_E_INVALID;
    }
    if (end->facts.version_found != 0 && end->facts.version_found < end->facts.version_newest) {
        err_set(err, REDRIVE_E_STATE,
                "the %s has schema version %" PRId64 ", this program needs version %" PRId64,
                end->side, end->facts.version_found, end->facts.version_newest);
        err_hint(err, "bring it up to date first: redrive migrate --store %s",
                 buf_cstr(&end->name));
        return REDRIVE_E_STATE;
    }
    return 0;
}

/* Looks at a store without a change to it. One that is not there is no error here. */
static int end_look(struct move_end *end, struct redrive_err *ret_absence, struct redrive_err *err)
{
    const struct store_options options = {.as_is = true};
    struct redrive_err why = {0};
    struct store *store = NULL;
    int rc = store_open(end->url, &options, &store, &why);
    if (rc == REDRIVE_E_NOT_FOUND) {
        *ret_absence = why;
        name_url(end);
        return 0;
    }
    if (rc == 0)
        rc = store_ops(store)->facts(store, &end->facts, &why);
    if (rc < 0) {
        store_close(store);
        *err = why;
        return rc;
    }
    if (end->facts.path)
        name_file(end, store);
    else
        name_url(end);
    end->is_there = end->facts.version_found != 0;
    rc = check_kind(end, store, err);
    store_close(store);
    end->facts.path = NULL; /* the store's own */
    return rc;
}

static int same_store(const struct move_end *from, const struct move_end *to,
                      struct redrive_err *err)
{
    err_set(err, REDRIVE_E_USAGE, "both ends are the same store");
    if (str_eq(buf_str(&from->name), buf_str(&to->name)))
        err_detail(err, "%s", buf_cstr(&from->name));
    else
        err_detail(err, "%s is also called %s", buf_cstr(&from->name), buf_cstr(&to->name));
    return REDRIVE_E_USAGE;
}

int move_ends_look(struct move_end *from, struct move_end *to, struct redrive_err *err)
{
    struct redrive_err absence = {0};
    int rc = end_look(from, &absence, err);
    if (rc < 0)
        return rc;
    if (!from->is_there) {
        if (absence.code == 0) {
            err_set(&absence, REDRIVE_E_NOT_FOUND, "the source is empty");
            err_detail(&absence, "%s", buf_cstr(&from->name));
        }
        *err = absence;
        return REDRIVE_E_NOT_FOUND;
    }
    rc = end_look(to, &absence, err);
    const bool is_same_file =
        from->inode != 0 && from->inode == to->inode && from->device == to->device;
    return rc == 0 && (is_same_file || strcmp(from->url, to->url) == 0) ? same_store(from, to, err)
                                                                        : rc;
}

/* A server has many names, so that it is asked; files have been compared. */
static int check_servers(const struct move_end *from, const struct move_end *to,
                         struct redrive_err *err)
{
    bool is_same = false;
    if (from->inode != 0 || !to->is_there)
        return 0;
    int rc = copy_is_same_store(from->store, to->store, clock_wall_ms(), &is_same, err);
    return is_same ? same_store(from, to, err) : rc;
}

/* A file that has just been made has a full path that can be shown. */
static int name_made(struct move_end *end, struct redrive_err *err)
{
    int rc = store_ops(end->store)->facts(end->store, &end->facts, err);
    if (rc == 0 && end->facts.path) {
        buf_reset(&end->name);
        name_file(end, end->store);
    }
    end->facts.path = NULL; /* the store's own */
    return rc;
}

int move_ends_open(struct move_end *from, struct move_end *to, bool dry_run, bool force,
                   struct redrive_err *err)
{
    const struct store_options as_it_is = {0}, set_up = {.create = true};
    int rc = store_open(from->url, &as_it_is, &from->store, err);
    if (rc == 0 && !force)
        rc = copy_check_idle(from->store, from->side, clock_wall_ms(), err);
    if (rc == 0 && (to->is_there || !dry_run))
        rc = store_open(to->url, dry_run ? &as_it_is : &set_up, &to->store, err);
    if (rc == 0 && !to->is_there && !dry_run)
        rc = name_made(to, err);
    /* A dry run writes nothing, not even for a moment. */
    return rc < 0 || dry_run ? rc : check_servers(from, to, err);
}

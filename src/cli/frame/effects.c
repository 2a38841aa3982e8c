/* effects.c - refuses options that have no effect on the command of the line. */
#include "cli/frame/options.h"

#include "base/err.h"
#include "base/text/buf.h"

/* Commands that share rows need not have the other option of a pair. */
static bool has_and_is_given(const struct invocation *inv, const char *name)
{
    return option_find(command_path_last(&inv->path)->options, str_of(name)) &&
           invocation_given(inv, name);
}

/* An option that needs another one, or does nothing beside it. */
static int check_pairs(const struct invocation *inv, struct redrive_err *err)
{
    const struct field *table = command_path_last(&inv->path)->options;
    for (const struct field *o = table; o && o->name; o++) {
        if (!invocation_given(inv, o->name))
            continue;
        if (o->needs && !has_and_is_given(inv, o->needs)) {
            (void)err_set(err, REDRIVE_E_USAGE, "--%s has no effect without --%s", o->name,
                          o->needs);
            const struct field *other = option_find(table, str_of(o->needs));
            const char *value = other && other->placeholder ? other->placeholder : "";
            err_hint(err, "add --%s%s%s, or leave --%s out", o->needs, *value ? " " : "", value,
                     o->name);
            return REDRIVE_E_USAGE;
        }
        if (o->not_with && has_and_is_given(inv, o->not_with)) {
            (void)err_set(err, REDRIVE_E_USAGE, "--%s has no effect with --%s", o->name,
                          o->not_with);
            err_hint(err, "leave one of them out");
            return REDRIVE_E_USAGE;
        }
    }
    return 0;
}

/* Names the commands below `path` that an option of the source has an effect on. */
static void add_users(const struct option_source *source, struct str name,
                      struct command_path *path, struct buf *out)
{
    char text[COMMAND_NAME_MAX];
    const struct command *here = command_path_last(path);
    for (const struct command *const *c = here->commands; c && *c; c++) {
        command_path_push(path, *c);
        if ((*c)->commands)
            add_users(source, name, path, out);
        else if (source->counts(source->ctx, name, *c))
            buf_printf(out, "%s`%s`", out->len > 0 ? ", " : "", command_path_name(path, text));
        path->depth--;
    }
}

static int check_foreign(const struct invocation *inv, struct redrive_err *err)
{
    const struct option_source *source = inv->source;
    const struct command *command = command_path_last(&inv->path);
    char text[COMMAND_NAME_MAX];
    for (size_t i = 0; i < inv->n_foreign; i++) {
        const struct str name = inv->foreign[i];
        if (!source->counts || source->counts(source->ctx, name, command))
            continue;
        struct command_path root = {.at = {inv->path.at[0]}, .depth = 1};
        RELEASED_BY(buf_release) struct buf users = BUF_MAX(1024);
        (void)err_set(err, REDRIVE_E_USAGE, "--%.*s has no effect on `%s`", (int)name.len, name.ptr,
                      command_path_name(&inv->path, text));
        add_users(source, name, &root, &users);
        if (command->settings_hint)
            err_hint(err, "%s", command->settings_hint);
        else
            err_hint(err, "it is for %s", buf_cstr(&users));
        return REDRIVE_E_USAGE;
    }
    return 0;
}

int invocation_check_effects(const struct invocation *inv, bool with_source,
                             struct redrive_err *err)
{
    int rc = check_pairs(inv, err);
    return rc < 0 || !with_source ? rc : check_foreign(inv, err);
}

/* edit.c - `redrive dlq edit`: another payload for a dead letter. */
#include "cli/commands/commands.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/err.h"
#include "base/json/json.h"
#include "base/os/file.h"
#include "cli/jobs/change.h"
#include "cli/output/term.h"

#define EDIT_PATH_MAX 512

struct edit_options {
    struct job_select select;
    const char *from;
    bool retry;
};

static const struct field OPTIONS[] = {
    OPTION("from", 0, "FILE", "read the payload from FILE; - is standard input",
           INTO_STRING(struct edit_options, from)),
    OPTION("retry", 0, NULL, "redrive the job when its payload is changed",
           INTO_FLAG(struct edit_options, retry)),
    JOB_SELECT_TENANT_ROW(struct edit_options, select),
    {0},
};

/* ---- The editor ------------------------------------------------------------------------------ */

static const char *editor_name(void)
{
    const char *name = getenv("VISUAL");
    if (!name || name[0] == '\0')
        name = getenv("EDITOR");
    return name && name[0] != '\0' ? name : "vi";
}

/* $EDITOR may be a command with arguments, so a shell reads it; the path is never part of it. */
static _Noreturn void become_editor(const char *editor, const char *path)
{
    char command[EDIT_PATH_MAX];
    if (snprintf(command, sizeof command, "%s \"$@\"", editor) < (int)sizeof command)
        (void)execlp("sh", "sh", "-c", command, editor, path, (char *)NULL);
    _exit(127);
}

/* Ctrl-C on the terminal is the editor's while it runs. */
static int run_editor(const char *path, struct redrive_err *err)
{
    const struct sigaction ignore = {.sa_handler = SIG_IGN};
    struct sigaction before;
    int status = 0;
    (void)sigaction(SIGINT, &ignore, &before);
    pid_t child = fork();
    if (child == 0) {
        (void)sigaction(SIGINT, &before, NULL);
        become_editor(editor_name(), path);
    }
    while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR)
        continue;
    (void)sigaction(SIGINT, &before, NULL);
    if (child < 0)
        return err_set(err, REDRIVE_E_IO, "cannot start an editor: %s", strerror(errno));
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return 0;
    err_set(err, REDRIVE_E_CANCELLED, "the editor failed, nothing was changed");
    err_detail(err, "editor %s", editor_name());
    err_hint(err, "set EDITOR to one that is installed, or give the new text");
    return REDRIVE_E_CANCELLED;
}

static int write_all(int fd, struct str text)
{
    while (text.len > 0) {
        ssize_t n = write(fd, text.ptr, text.len);
        if (n < 0 && errno != EINTR)
            return -1;
        if (n > 0)
            text = (struct str){text.ptr + n, text.len - (size_t)n};
    }
    return 0;
}

/* Opens `text` in $VISUAL, $EDITOR or vi, as a file whose name ends in `suffix`, and waits. `ret`
 * (which buf_init has seen) gets what was written; its maximum holds. On success the file is still
 * there, for the caller to remove once the text is stored. REDRIVE_E_CANCELLED when the editor
 * fails. */
static int edit_text(struct str text, const char *suffix, struct buf *ret,
                     char ret_path[EDIT_PATH_MAX], struct redrive_err *err)
{
    const char *dir = getenv("TMPDIR");
    int len = snprintf(ret_path, EDIT_PATH_MAX, "%s/redrive-XXXXXX%s", dir ? dir : "/tmp", suffix);
    if (len >= EDIT_PATH_MAX)
        return err_set(err, REDRIVE_E_TOO_BIG, "the path in TMPDIR is too long");
    int fd = mkostemps(ret_path, (int)strlen(suffix), O_CLOEXEC);
    if (fd < 0)
        return err_set(err, REDRIVE_E_IO, "cannot make a temporary file: %s", strerror(errno));
    int rc = 0;
    if (write_all(fd, text) < 0)
        rc = err_set(err, REDRIVE_E_IO, "cannot write a temporary file: %s", strerror(errno));
    (void)close(fd);
    if (rc == 0)
        rc = run_editor(ret_path, err);
    if (rc < 0) {
        (void)unlink(ret_path);
        return rc;
    }
    rc = file_read(ret_path, ret->max, ret, err);
    if (rc < 0)
        err_hint(err, "your text is kept in %s", ret_path);
    return rc;
}

/* ---- The new payload ------------------------------------------------------------------------- */

static int too_big(struct redrive_err *err)
{
    err_set(err, REDRIVE_E_TOO_BIG, "the payload is too big");
    err_hint(err, "the limit is %u bytes", ENGINE_PAYLOAD_MAX_BYTES);
    return REDRIVE_E_TOO_BIG;
}

/* `code` is that of a buffer which did not take the payload. */
static int not_taken(int code, struct redrive_err *err)
{
    return code == REDRIVE_E_NOMEM ? err_nomem(err) : too_big(err);
}

static int check_payload(struct str payload, struct redrive_err *err)
{
    struct redrive_err wrong = {0};
    if (payload.len > ENGINE_PAYLOAD_MAX_BYTES)
        return too_big(err);
    int rc = json_check(payload, NULL, &wrong);
    if (rc == 0)
        return 0;
    err_set(err, rc, "the payload is not JSON");
    err_detail(err, "%s", wrong.message);
    return rc;
}

/* Back to one line: what the editor was given was spread out for people only. */
static int take_edited(struct str text, const char *path, struct buf *ret, struct redrive_err *err)
{
    if (json_check(text, NULL, NULL) == 0)
        json_compact(text, ret);
    else
        buf_add_str(ret, text);
    int rc = buf_failed(ret) ? not_taken(buf_failed(ret), err) : check_payload(buf_str(ret), err);
    if (rc < 0)
        err_hint(err, "your text is kept: mend it and use --from %s", path);
    return rc;
}

static int edit_old(struct str payload, struct buf *ret, char path[EDIT_PATH_MAX],
                    struct redrive_err *err)
{
    /* Indented, it is larger than a payload may be. */
    RELEASED_BY(buf_release) struct buf before = BUF_MAX(64u * ENGINE_PAYLOAD_MAX_BYTES);
    RELEASED_BY(buf_release) struct buf after = BUF_MAX(64u * ENGINE_PAYLOAD_MAX_BYTES);
    if (payload.len > 0)
        json_indent(payload, 0, &before);
    else
        buf_puts(&before, "null");
    buf_putc(&before, '\n');
    int rc = buf_failed(&before);
    if (rc < 0)
        err_set(err, rc, "cannot edit the payload: %s", redrive_err_text(rc));
    else
        rc = edit_text(buf_str(&before), ".json", &after, path, err);
    if (rc == 0 && str_eq(buf_str(&after), buf_str(&before))) {
        (void)unlink(path);
        *path = '\0';
        rc = err_set(err, REDRIVE_E_CANCELLED, "the payload is as it was, nothing was changed");
    }
    return rc == 0 ? take_edited(buf_str(&after), path, ret, err) : rc;
}

/* Where it was edited, ret_path is the file that still has the text; else it is empty. */
static int read_payload(struct cli *cli, const struct edit_options *options, struct str old,
                        struct buf *ret, char ret_path[EDIT_PATH_MAX], struct redrive_err *err)
{
    *ret_path = '\0';
    const struct invocation *inv = &cli->invocation;
    const char *given = inv->n_args > 1 ? inv->args[1] : NULL;
    if (given && options->from)
        return err_set(err, REDRIVE_E_USAGE, "the payload is given twice");
    const char *file = options->from ? options->from : given;
    if (options->from || (given && strcmp(given, "-") == 0)) {
        int rc = strcmp(file, "-") == 0
                     ? file_read_open(STDIN_FILENO, "standard input", ret->max, ret, err)
                     : file_read(file, ret->max, ret, err);
        return rc == REDRIVE_E_TOO_BIG ? too_big(err) : rc;
    }
    if (given)
        return buf_puts(ret, given) < 0 ? not_taken(buf_failed(ret), err) : 0;
    if (isatty(STDIN_FILENO) && isatty(fileno(cli->err.file)))
        return edit_old(old, ret, ret_path, err);
    err_set(err, REDRIVE_E_USAGE, "no payload is given");
    err_hint(err, "give it as an argument, as - for standard input, or with --from FILE");
    return REDRIVE_E_USAGE;
}

/* ---- The change ------------------------------------------------------------------------------ */

/* The payload has been checked: it is JSON. */
static int put_payload(struct cli *cli, struct session *session, struct str payload,
                       struct answer *ret, struct redrive_err *err)
{
    const struct edit_options *options = invocation_options(&cli->invocation);
    RELEASED_BY(buf_release) struct buf body = BUF_MAX(2u * ENGINE_PAYLOAD_MAX_BYTES);
    buf_puts(&body, "{\"payload\":");
    buf_add_str(&body, payload);
    buf_putc(&body, '}');
    return buf_failed(&body) ? err_nomem(err)
                             : job_change(session, &API_EDIT_LETTER, options->select.tenant,
                                          cli->invocation.args[0], buf_str(&body), ret, err);
}

static int print_edited(struct cli *cli, const struct answer *answer, struct redrive_err *err)
{
    struct buf out;
    if (cli->globals->json)
        return answer_print(cli, answer, err);
    buf_init(&out, CLI_OUTPUT_MAX);
    text_add_clean(&out, str_of(cli->invocation.args[0]));
    buf_puts(&out, "  edited, ");
    text_add_clean(&out, object_text(&answer->object, "state"));
    buf_putc(&out, '\n');
    return cli_print(cli, &out, err);
}

static int edit_letter(struct cli *cli, struct session *session, struct str old,
                       struct redrive_err *err)
{
    const struct edit_options *options = invocation_options(&cli->invocation);
    RELEASED_BY(answer_release) struct answer answer = {0};
    RELEASED_BY(buf_release) struct buf payload = BUF_MAX(2u * ENGINE_PAYLOAD_MAX_BYTES);
    char path[EDIT_PATH_MAX];
    int rc = read_payload(cli, options, old, &payload, path, err);
    /* A file ends with a line break that is not part of what it says. */
    struct str trimmed = str_trim(buf_str(&payload));
    if (rc == 0)
        rc = check_payload(trimmed, err);
    if (rc == 0) {
        rc = put_payload(cli, session, trimmed, &answer, err);
        if (rc < 0 && *path)
            err_hint(err, "your text is kept: once this is mended, use --from %s", path);
    }
    bool is_kept = rc == 0;
    if (is_kept && *path)
        (void)unlink(path);
    if (rc == 0 && options->retry) {
        answer_release(&answer);
        rc = job_change(session, &API_RETRY_LETTER, options->select.tenant, cli->invocation.args[0],
                        (struct str){0}, &answer, err);
    }
    if (rc < 0 && is_kept)
        err_hint(err, "the new payload is kept: `redrive dlq retry` redrives the job later");
    return rc < 0 ? rc : print_edited(cli, &answer, err);
}

static int run_edit(struct cli *cli, struct session *session, struct redrive_err *err)
{
    const struct edit_options *options = invocation_options(&cli->invocation);
    RELEASED_BY(answer_release) struct answer letter = {0};
    int rc = job_ask(session, &API_DEAD_LETTER, options->select.tenant, cli->invocation.args[0],
                     &letter, err);
    if (rc < 0)
        return rc;
    const struct str old = object_value(&letter.object, "payload", "payload_bytes");
    return letter.arena.failed ? err_nomem(err) : edit_letter(cli, session, old, err);
}

const struct command cmd_dlq_edit = {
    .name = "edit",
    .summary = "give a dead letter another payload",
    .arguments = "ID [PAYLOAD]",
    .description =
        "PAYLOAD is JSON, at most 1 MiB; - reads it from standard input. On a terminal and "
        "without a payload, the present one is opened in $VISUAL or $EDITOR.",
    OPTIONS_INTO(OPTIONS, struct edit_options),
    .examples =
        EXAMPLES({"redrive dlq edit invoice-17", "in your editor"},
                 {"redrive dlq edit invoice-17 '{\"total\":12}' --retry", "and run it again"},
                 {"redrive dlq edit invoice-17 --from fixed.json", "from a file"}),
    .run_on_store = run_edit,
};

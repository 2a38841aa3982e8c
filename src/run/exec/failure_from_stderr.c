/* failure_from_stderr.c - reads the failure of a program from its exit code, signal and standard
 * error. */
#include "run/exec/failure_from_stderr.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text/str.h"

/* ---- Tracebacks ------------------------------------------------------------------------------ */

/* Cuts the first line off `rest`. */
static bool next_line(struct str *rest, struct str *ret)
{
    if (rest->len == 0)
        return false;
    const char *end = memchr(rest->ptr, '\n', rest->len);
    size_t len = end ? (size_t)(end - rest->ptr) : rest->len;
    *ret = (struct str){rest->ptr, len};
    if (ret->len > 0 && ret->ptr[ret->len - 1] == '\r')
        ret->len--;
    size_t used = len + (end ? 1 : 0);
    *rest = (struct str){rest->ptr + used, rest->len - used};
    return true;
}

static struct str drop(struct str s, size_t n)
{
    return (struct str){s.ptr + n, s.len - n};
}

static bool is_indented(struct str line)
{
    return line.len > 0 && (line.ptr[0] == ' ' || line.ptr[0] == '\t');
}

static bool is_type_char(char c)
{
    return isalnum((unsigned char)c) || c == '_' || c == '.' || c == '$';
}

/* `pkg.Type: text` or `pkg.Type` alone; absent when the line is anything else. */
static struct str leading_type(struct str line)
{
    size_t n = 0;
    while (n < line.len && (is_type_char(line.ptr[n]) ||
                            (n + 2 < line.len && line.ptr[n] == ':' && line.ptr[n + 1] == ':') ||
                            (n > 0 && line.ptr[n] == ':' && line.ptr[n - 1] == ':')))
        n++;
    bool ends_well = n == line.len || line.ptr[n] == ':' ||
                     str_starts_with(drop(line, n), STR(" [")); /* Node: `Error [ERR_X]: text` */
    if (n == 0 || !ends_well || isdigit((unsigned char)line.ptr[0]))
        return (struct str){0};
    return (struct str){line.ptr, n};
}

/* Ruby: `a.rb:3:in 'run': text (Errno::ENOENT)` */
static struct str type_in_parentheses(struct str line)
{
    if (line.len < 3 || line.ptr[line.len - 1] != ')' || !str_contains(line, STR(":in ")))
        return (struct str){0};
    size_t open = line.len - 1;
    while (open > 0 && line.ptr[open] != '(')
        open--;
    struct str inside = {line.ptr + open + 1, line.len - open - 2};
    struct str type = leading_type(inside);
    return type.len == inside.len ? type : (struct str){0};
}

struct reading {
    struct trace found;
    struct str last;   /* line that is not empty */
    struct str before; /* last line that is not part of a list of frames */
    bool in_python;    /* after its heading, before the exception's line */
};

static void take(struct reading *r, struct str line, struct str type)
{
    if (type.len > 0)
        r->found = (struct trace){line, type};
}

/* What comes before the type in the first line of Java's and Node's traces. */
static struct str without_prefix(struct str line)
{
    static const char thread[] = "Exception in thread \"";
    if (str_starts_with(line, STR("Uncaught ")))
        return drop(line, 9);
    if (!str_starts_with(line, STR(thread)))
        return line;
    struct str rest = drop(line, sizeof thread - 1);
    const char *quote = memchr(rest.ptr, '"', rest.len);
    return quote ? str_trim(drop(rest, (size_t)(quote - rest.ptr) + 1)) : line;
}

static void read_line(struct reading *r, struct str line)
{
    struct str text = str_trim(line);
    if (text.len == 0)
        return;
    r->last = text;
    if (str_is(text, "Traceback (most recent call last):")) {
        r->in_python = true;
    } else if (r->in_python) {
        if (!is_indented(line)) {
            r->in_python = false;
            take(r, text, leading_type(text));
        }
    } else if (is_indented(line) && str_starts_with(text, STR("at "))) {
        struct str exception = without_prefix(r->before);
        take(r, exception, leading_type(exception));
        r->before = STR("");
    } else if (is_indented(line) && str_starts_with(text, STR("from "))) {
        take(r, r->before, type_in_parentheses(r->before));
        r->before = STR("");
    } else if (str_starts_with(text, STR("Caused by: "))) {
        take(r, drop(text, 11), leading_type(drop(text, 11)));
        r->before = STR("");
    } else if (str_starts_with(text, STR("panic: "))) {
        take(r, text, STR("panic"));
    } else if (!is_indented(line)) {
        r->before = text;
    }
}

struct trace trace_read(struct str text)
{
    struct reading r = {.last = STR(""), .before = STR("")};
    struct str line;
    while (next_line(&text, &line))
        read_line(&r, line);
    /* A Ruby exception at the top level has no frames below it. */
    take(&r, r.last, type_in_parentheses(r.last));
    if (r.found.error_type.len == 0)
        r.found.message = r.last;
    return r.found;
}

/* ---- Programs that could not be loaded ------------------------------------------------------- */

/* As the exceptions are called that Python, Ruby and Java raise while they load a program. */
static const char *const TYPES[] = {"ModuleNotFoundError",
                                    "ImportError",
                                    "SyntaxError",
                                    "IndentationError",
                                    "LoadError",
                                    "java.lang.NoClassDefFoundError",
                                    "ClassNotFoundException",
                                    "java.lang.ClassNotFoundException",
                                    "java.lang.UnsupportedClassVersionError"};

/* What interpreters say of a script or a module that is not there, and the code they exit with: a
 * handler that could not open a file of its job must not look the same. */
static const struct {
    int exit_code;
    const char *says;
    const char *and_says; /* NULL: nothing more */
} INTERPRETERS[] = {
    {2, "can't open file", "python"},       {2, ": 0: cannot open ", NULL},  /* dash */
    {2, "Can't open perl script", NULL},    {1, "Cannot find module", NULL}, /* node */
    {1, "Could not open input file", NULL},                                  /* php */
    {1, "Unable to access jarfile", NULL},  {1, "Could not find or load main class", NULL},
};

/* What shells and env say beside exit code 126 or 127. The code alone may come from the handler
 * itself. */
static const char *const NOT_RUN[] = {
    "not found",      "No such file or directory", "Permission denied",
    "cannot execute", "Exec format error",
};

#define N(array) (sizeof(array) / sizeof(array)[0])

static bool contains_one_of(const char *text, const char *const *words, size_t n)
{
    for (size_t i = 0; i < n && text; i++)
        if (strstr(text, words[i]))
            return true;
    return false;
}

static bool is_load_error(const char *error_type)
{
    for (size_t i = 0; i < N(TYPES) && error_type; i++)
        if (strcmp(error_type, TYPES[i]) == 0)
            return true;
    return false;
}

static bool is_of_interpreter(const struct redrive_failure *failure)
{
    for (size_t i = 0; i < N(INTERPRETERS) && failure->message; i++)
        if (failure->exit_code == INTERPRETERS[i].exit_code &&
            strstr(failure->message, INTERPRETERS[i].says) &&
            (!INTERPRETERS[i].and_says || strstr(failure->message, INTERPRETERS[i].and_says)))
            return true;
    return false;
}

bool load_fault_is_likely(const struct redrive_failure *failure)
{
    const bool is_shells_code = failure->exit_code == 126 || failure->exit_code == 127;
    return (is_shells_code && contains_one_of(failure->message, NOT_RUN, N(NOT_RUN))) ||
           is_load_error(failure->error_type) || is_of_interpreter(failure);
}

/* ---- The failure ----------------------------------------------------------------------------- */

static char *how_it_ended(const struct child *child)
{
    char text[64];
    if (child->signal != 0) {
        const char *name = sigabbrev_np(child->signal);
        if (name)
            snprintf(text, sizeof text, "killed by SIG%s", name);
        else
            snprintf(text, sizeof text, "killed by signal %d", child->signal);
    } else {
        snprintf(text, sizeof text, "exited with code %d", child->exit_code);
    }
    return strdup(text);
}

void failure_from_stderr_read(struct failure_from_stderr *words, const struct child *child,
                              struct redrive_failure *failure)
{
    *words = (struct failure_from_stderr){.stacktrace = tail_text(&child->tail)};
    struct trace trace = trace_read(str_of(words->stacktrace));
    words->message = trace.message.len > 0 ? str_dup(trace.message) : how_it_ended(child);
    if (trace.error_type.len > 0)
        words->error_type = str_dup(trace.error_type);
    *failure = (struct redrive_failure){
        .failed = true,
        .exit_code = child->exit_code,
        .signal = child->signal,
        .message = words->message,
        .stacktrace = words->stacktrace,
        .error_type = words->error_type,
    };
}

void failure_from_stderr_release(struct failure_from_stderr *words)
{
    free(words->stacktrace);
    free(words->message);
    free(words->error_type);
}

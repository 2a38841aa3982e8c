/* load_fault.c - the exit codes, exception names and messages of programs that could not be loaded.
 */
#include "run/exec/load_fault.h"

#include <string.h>

/* As the exceptions are called that Python, Ruby and Java raise while they load a program. */
static const char *const TYPES[] = {
    "ModuleNotFoundError",
    "ImportError",
    "SyntaxError",
    "IndentationError",
    "LoadError",
    "java.lang.NoClassDefFoundError",
    "ClassNotFoundException",
    "java.lang.ClassNotFoundException",
    "java.lang.UnsupportedClassVersionError",
};

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

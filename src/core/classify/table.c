/* table.c - the built-in rows: HTTP status, SQLSTATE, curl and exit codes, messages, errno values
 * and signals. */
#include "core/classify/table.h"

#include <errno.h>
#include <signal.h>

#include "core/classify/classify.h"
#include "core/vocabulary.h"

#define NONE           (-1)
#define NETWORK        REDRIVE_CLASS_NETWORK
#define TRANSIENT      REDRIVE_CLASS_TRANSIENT
#define RATE_LIMITED   REDRIVE_CLASS_RATE_LIMITED
#define SYSTEM         REDRIVE_CLASS_SYSTEM
#define DATABASE       REDRIVE_CLASS_DATABASE
#define PERMANENT      REDRIVE_CLASS_PERMANENT
#define VALIDATION     REDRIVE_CLASS_VALIDATION
#define AUTHENTICATION REDRIVE_CLASS_AUTHENTICATION

int classify_status(struct str word)
{
    size_t n;
    const char *const *classes = vocabulary_words(VOCABULARY_CLASS, &n);
    for (size_t i = 0; i < n; i++)
        if (str_eq_nocase(word, str_of(classes[i])))
            return (int)i;
    if (str_eq_nocase(word, STR("TRANSIENT_FAIL")))
        return TRANSIENT;
    if (str_eq_nocase(word, STR("PERMANENT_FAIL")))
        return PERMANENT;
    return str_eq_nocase(word, STR("FAIL")) ? CLASSIFY_FAIL : NONE;
}

int table_http_status(int status)
{
    switch (status) {
    case 408:
    case 425: return TRANSIENT;
    case 429: return RATE_LIMITED;
    case 400:
    case 413:
    case 415:
    case 422: return VALIDATION;
    case 401:
    case 403:
    case 407:
    case 511: return AUTHENTICATION;
    case 501:
    case 505:
    case 506:
    case 510: return PERMANENT;
    default: break;
    }
    if (status >= 500 && status <= 599)
        return TRANSIENT;
    /* A redirect that was not followed will be a redirect next time. */
    if (status >= 300 && status <= 499)
        return PERMANENT;
    return NONE;
}

/* The longest prefix comes first. */
static const struct {
    const char *prefix;
    enum redrive_class class_;
} SQLSTATES[] = {
    {"42501", AUTHENTICATION}, /* insufficient_privilege */
    {"55P03", DATABASE},       /* lock_not_available */
    {"55006", DATABASE},       /* object_in_use */
    {"57014", TRANSIENT},      /* query_canceled: a statement time-out, mostly */
    {"25006", DATABASE},       /* read_only_sql_transaction: a standby being promoted */
    {"57P", DATABASE},         /* the server is stopping or starting */
    {"08", DATABASE},          {"40", DATABASE},   {"53", DATABASE},       {"58", DATABASE},
    {"22", VALIDATION},        {"23", VALIDATION}, {"28", AUTHENTICATION}, {"42", PERMANENT},
    {"0A", PERMANENT},         {"3D", PERMANENT},  {"3F", PERMANENT},
};

int table_sqlstate(struct str sqlstate)
{
    for (size_t i = 0; i < sizeof SQLSTATES / sizeof SQLSTATES[0]; i++)
        if (str_starts_with(sqlstate, str_of(SQLSTATES[i].prefix)))
            return (int)SQLSTATES[i].class_;
    return NONE;
}

/* libcurl's CURLcode numbers, which never change. */
int table_curl(int code)
{
    switch (code) {
    case 5:  /* COULDNT_RESOLVE_PROXY */
    case 6:  /* COULDNT_RESOLVE_HOST */
    case 7:  /* COULDNT_CONNECT */
    case 16: /* HTTP2 */
    case 18: /* PARTIAL_FILE */
    case 35: /* SSL_CONNECT_ERROR */
    case 52: /* GOT_NOTHING */
    case 55: /* SEND_ERROR */
    case 56: /* RECV_ERROR */
    case 92: /* HTTP2_STREAM */
    case 97: /* PROXY */ return NETWORK;
    case 28: /* OPERATION_TIMEDOUT */ return TRANSIENT;
    case 23: /* WRITE_ERROR */
    case 26: /* READ_ERROR */
    case 27: /* OUT_OF_MEMORY */ return SYSTEM;
    case 9: /* REMOTE_ACCESS_DENIED */
    case 67: /* LOGIN_DENIED */ return AUTHENTICATION;
    case 1:  /* UNSUPPORTED_PROTOCOL */
    case 3:  /* URL_MALFORMAT */
    case 4:  /* NOT_BUILT_IN */
    case 47: /* TOO_MANY_REDIRECTS */
    case 53: /* SSL_ENGINE_NOTFOUND */
    case 58: /* SSL_CERTPROBLEM */
    case 60: /* PEER_FAILED_VERIFICATION */
    case 63: /* FILESIZE_EXCEEDED */
    case 77: /* SSL_CACERT_BADFILE */
    case 78: /* REMOTE_FILE_NOT_FOUND */
    case 83: /* SSL_ISSUER_ERROR */ return PERMANENT;
    default: return NONE;
    }
}

/* sysexits(3), the shell's own codes, and timeout(1). */
int table_exit_code(int exit_code)
{
    switch (exit_code) {
    case 1:  /* failed, and says no more */
    case 69: /* EX_UNAVAILABLE */
    case 75: /* EX_TEMPFAIL */
    case 76: /* EX_PROTOCOL */
    case 124: /* timeout(1) */ return TRANSIENT;
    case 71: /* EX_OSERR */
    case 74: /* EX_IOERR */ return SYSTEM;
    case 65: /* EX_DATAERR */ return VALIDATION;
    case 77: /* EX_NOPERM */ return AUTHENTICATION;
    case 64:  /* EX_USAGE */
    case 66:  /* EX_NOINPUT */
    case 67:  /* EX_NOUSER */
    case 68:  /* EX_NOHOST */
    case 70:  /* EX_SOFTWARE */
    case 72:  /* EX_OSFILE */
    case 73:  /* EX_CANTCREAT */
    case 78:  /* EX_CONFIG */
    case 126: /* found, but cannot be run */
    case 127: /* not found */ return PERMANENT;
    default:
        /* A shell gives 128 + n for a child that died of signal n. */
        return exit_code > 128 && exit_code <= 128 + 64 ? (int)SYSTEM : NONE;
    }
}

static const struct {
    const char *phrase;
    enum redrive_class class_;
} PHRASES[] = {
    {"rate limit", RATE_LIMITED},
    {"ratelimit", RATE_LIMITED},
    {"rate_limit", RATE_LIMITED},
    {"too many requests", RATE_LIMITED},
    {"quota", RATE_LIMITED},
    {"throttl", RATE_LIMITED},
    {"connection refused", NETWORK},
    {"connection reset", NETWORK},
    {"connection timed out", NETWORK},
    {"broken pipe", NETWORK},
    {"network is unreachable", NETWORK},
    {"no route to host", NETWORK},
    {"name resolution", NETWORK},
    {"could not resolve", NETWORK},
    {"deadlock", DATABASE},
    {"could not serialize", DATABASE},
    {"database is locked", DATABASE},
    {"out of memory", SYSTEM},
    {"no space left", SYSTEM},
    {"too many open files", SYSTEM},
    {"permission denied", AUTHENTICATION},
    {"unauthorized", AUTHENTICATION},
    {"token expired", AUTHENTICATION},
    {"timed out", TRANSIENT},
    {"timeout", TRANSIENT},
    {"temporarily unavailable", TRANSIENT},
    {"no such file", PERMANENT},
};

/* Phrases are in lower case. */
static bool contains_phrase(struct str text, const char *phrase)
{
    size_t len = strlen(phrase);
    for (size_t i = 0; i + len <= text.len; i++)
        if (str_eq_nocase((struct str){text.ptr + i, len}, (struct str){phrase, len}))
            return true;
    return false;
}

/* The reason is at the start of a message; the rest may be anything, of any length. */
static struct str beginning(struct str message)
{
    return (struct str){message.ptr, message.len < 512 ? message.len : 512};
}

int table_message(struct str message)
{
    for (size_t i = 0; i < sizeof PHRASES / sizeof PHRASES[0]; i++)
        if (contains_phrase(beginning(message), PHRASES[i].phrase))
            return (int)PHRASES[i].class_;
    return NONE;
}

static bool is_timeout_type(const struct redrive_failure *f)
{
    const char *type;
    for (size_t i = 0; (type = failure_type_at(f, i)); i++)
        if (contains_phrase(str_last_component(str_of(type)), "timeout"))
            return true;
    return false;
}

bool failure_is_timeout(const struct redrive_failure *f)
{
    const struct str message = beginning(str_of(f->message));
    return f->http_status == 408 || f->http_status == 504 || f->curl_code == 28 ||
           f->errnum == ETIMEDOUT || f->exit_code == 124 ||
           (f->sqlstate && strcmp(f->sqlstate, "57014") == 0) || is_timeout_type(f) ||
           contains_phrase(message, "timed out") || contains_phrase(message, "timeout");
}

bool table_is_rate_limit_message(struct str message)
{
    return table_message(message) == RATE_LIMITED;
}

/* ---- errno values and signals ---------------------------------------------------------------- */

static const struct {
    const char *name;
    int number;
    enum redrive_class class_;
} ERRNOS[] = {
#define ROW(name, class)                   \
    {                                      \
#name, name, REDRIVE_CLASS_##class \
    }
    ROW(ECONNREFUSED, NETWORK),   ROW(ECONNRESET, NETWORK),
    ROW(ECONNABORTED, NETWORK),   ROW(ETIMEDOUT, NETWORK),
    ROW(EHOSTUNREACH, NETWORK),   ROW(EHOSTDOWN, NETWORK),
    ROW(ENETUNREACH, NETWORK),    ROW(ENETDOWN, NETWORK),
    ROW(ENETRESET, NETWORK),      ROW(EPIPE, NETWORK),
    ROW(ENOTCONN, NETWORK),       ROW(ESHUTDOWN, NETWORK),
    ROW(EADDRNOTAVAIL, NETWORK),  ROW(ETIME, TRANSIENT),
    ROW(EALREADY, TRANSIENT),     ROW(EINPROGRESS, TRANSIENT),
    ROW(ENOSPC, SYSTEM),          ROW(ENOMEM, SYSTEM),
    ROW(EMFILE, SYSTEM),          ROW(ENFILE, SYSTEM),
    ROW(EDQUOT, SYSTEM),          ROW(EIO, SYSTEM),
    ROW(ENOBUFS, SYSTEM),         ROW(EAGAIN, SYSTEM),
    ROW(EINTR, SYSTEM),           ROW(EBUSY, SYSTEM),
    ROW(ENOLCK, SYSTEM),          ROW(EDEADLK, SYSTEM),
    ROW(ESTALE, SYSTEM),          ROW(ETXTBSY, SYSTEM),
    ROW(EADDRINUSE, SYSTEM),      ROW(EACCES, AUTHENTICATION),
    ROW(EPERM, AUTHENTICATION),   ROW(EINVAL, VALIDATION),
    ROW(EDOM, VALIDATION),        ROW(ERANGE, VALIDATION),
    ROW(EILSEQ, VALIDATION),      ROW(EMSGSIZE, VALIDATION),
    ROW(E2BIG, VALIDATION),       ROW(ENAMETOOLONG, VALIDATION),
    ROW(EBADMSG, VALIDATION),     ROW(EOVERFLOW, VALIDATION),
    ROW(EFBIG, VALIDATION),       ROW(ENOENT, PERMANENT),
    ROW(ENOTDIR, PERMANENT),      ROW(EISDIR, PERMANENT),
    ROW(ENOEXEC, PERMANENT),      ROW(ENOSYS, PERMANENT),
    ROW(EOPNOTSUPP, PERMANENT),   ROW(ENODEV, PERMANENT),
    ROW(ENXIO, PERMANENT),        ROW(EEXIST, PERMANENT),
    ROW(ELOOP, PERMANENT),        ROW(EXDEV, PERMANENT),
    ROW(EROFS, PERMANENT),        ROW(EPROTONOSUPPORT, PERMANENT),
    ROW(EAFNOSUPPORT, PERMANENT), ROW(EBADF, PERMANENT),
    ROW(EFAULT, PERMANENT),
#undef ROW
};

int table_errno(int errnum)
{
    for (size_t i = 0; i < sizeof ERRNOS / sizeof ERRNOS[0]; i++)
        if (ERRNOS[i].number == errnum)
            return (int)ERRNOS[i].class_;
    return -1;
}

int classify_errno_number(struct str name)
{
    for (size_t i = 0; i < sizeof ERRNOS / sizeof ERRNOS[0]; i++)
        if (str_eq_nocase(name, str_of(ERRNOS[i].name)))
            return ERRNOS[i].number;
    return str_eq_nocase(name, STR("EWOULDBLOCK")) ? EWOULDBLOCK : 0;
}

static const struct {
    const char *name;
    int number;
} SIGNALS[] = {
#define ROW(name)        \
    {                    \
#name, SIG##name \
    }
    ROW(HUP),  ROW(INT),  ROW(QUIT), ROW(ILL),    ROW(TRAP), ROW(ABRT),  ROW(BUS),  ROW(FPE),
    ROW(KILL), ROW(USR1), ROW(SEGV), ROW(USR2),   ROW(PIPE), ROW(ALRM),  ROW(TERM), ROW(CHLD),
    ROW(CONT), ROW(STOP), ROW(TSTP), ROW(TTIN),   ROW(TTOU), ROW(URG),   ROW(XCPU), ROW(XFSZ),
    ROW(PROF), ROW(IO),   ROW(SYS),  ROW(VTALRM), ROW(PWR),  ROW(WINCH),
#undef ROW
};

/* Whatever killed it, it was killed on this machine. */
int table_signal(int signal)
{
    return signal > 0 && signal <= SIGRTMAX ? (int)REDRIVE_CLASS_SYSTEM : -1;
}

int classify_signal_number(struct str name)
{
    if (name.len > 3 && str_eq_nocase((struct str){name.ptr, 3}, STR("SIG")))
        name = (struct str){name.ptr + 3, name.len - 3};
    for (size_t i = 0; i < sizeof SIGNALS / sizeof SIGNALS[0]; i++)
        if (str_eq_nocase(name, str_of(SIGNALS[i].name)))
            return SIGNALS[i].number;
    return 0;
}

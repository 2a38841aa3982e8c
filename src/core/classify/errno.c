/* errno.c - names, numbers and classes of errno values and signals. */
#include "core/classify/table.h"

#include <errno.h>
#include <signal.h>

#include "core/classify/classify.h"

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

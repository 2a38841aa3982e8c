/* classify.c - the order in which the sources of a failure are asked for its class. */
#include "core/classify/classify.h"

#include "core/classify/failure.h"
#include "core/classify/rows.h"
#include "core/classify/table.h"
#include "core/vocabulary.h"

/* Does anything indicate a failure? A message alone does not. */
static bool has_failed(const struct redrive_failure *f)
{
    return f->failed || failure_type(f) || f->sqlstate || f->curl_code != 0 || f->errnum != 0 ||
           f->signal != 0 || f->exit_code != 0 ||
           (f->http_status != 0 && (f->http_status < 200 || f->http_status > 299));
}

static int special_case(const struct redrive_failure *f)
{
    if (f->http_status == 503 && f->retry_after_ms > 0)
        return REDRIVE_CLASS_RATE_LIMITED;
    if (f->http_status == 403 && f->message && table_is_rate_limit_message(str_of(f->message)))
        return REDRIVE_CLASS_RATE_LIMITED;
    return -1;
}

/* What the types say from number `first` on, the most derived of those that are known. */
static int built_in_types(const struct redrive_failure *f, size_t first, size_t last)
{
    const char *type;
    int found = -1;
    for (size_t i = first; i <= last && found < 0 && (type = failure_type_at(f, i)); i++)
        found = table_error_type(str_of(type));
    return found;
}

/* Each source that the failure carries, in the order of enum redrive_source. */
static int built_in(const struct redrive_failure *f)
{
    int found = built_in_types(f, 0, 0);
    if (found < 0 && f->http_status != 0)
        found = table_http_status(f->http_status);
    if (found < 0 && f->sqlstate)
        found = table_sqlstate(str_of(f->sqlstate));
    if (found < 0 && f->curl_code != 0)
        found = table_curl(f->curl_code);
    if (found < 0 && f->errnum != 0)
        found = table_errno(f->errnum);
    if (found < 0 && f->signal != 0)
        found = table_signal(f->signal);
    if (found < 0)
        found = built_in_types(f, 1, REDRIVE_ERROR_TYPES_MAX);
    if (found < 0 && f->exit_code != 0)
        found = table_exit_code(f->exit_code);
    if (found < 0 && f->message)
        found = table_message(str_of(f->message));
    return found;
}

static struct verdict verdict_of(enum redrive_class class_)
{
    return (struct verdict){.class_ = class_, .severity = class_severity(class_)};
}

struct verdict classify(const struct classifier *classifier, const struct redrive_failure *f,
                        const struct classify_context *context)
{
    if (f->status) {
        int own_word = classify_status(str_of(f->status));
        if (own_word >= 0 && own_word < CLASSIFY_FAIL)
            return verdict_of((enum redrive_class)own_word);
    }
    /* An unknown word is not SUCCESS. */
    if (!f->status && !has_failed(f))
        return verdict_of(REDRIVE_CLASS_SUCCESS);
    struct verdict verdict;
    if (classifier && classifier_match(classifier, f, context, &verdict))
        return verdict;

    int found = special_case(f);
    if (found < 0)
        found = built_in(f);
    if (found >= 0)
        return verdict_of((enum redrive_class)found);
    verdict = verdict_of(REDRIVE_CLASS_TRANSIENT);
    verdict.unclassified = true;
    return verdict;
}

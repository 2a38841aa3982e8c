/* redact.h - hides values that the configuration's `redact` names from clients without `admin`.
 *
 * A rule is the name of a key, or several names with dots: `card.number` is the key `number` right
 * below a key `card`. It holds at every depth of a payload and of a result. Arrays on the way are
 * passed through, upper and lower case are the same, and `*` is any key. What a rule matches is
 * replaced as a whole by the text "[redacted]".
 *
 * In texts, which are the messages and stack traces of a job, other texts of its payload and
 * result, and a result that is no JSON, each text or number of at least REDACT_TEXT_MIN characters
 * that a rule has hidden is replaced as well, and so is what follows the last name of a rule and
 * `=` or `:`. Where there are too many to look for, or looking has taken too long for one job
 * already, the text is hidden as a whole. Errors, and results that are no JSON, may have been cut:
 * at their ends a part of a secret is replaced too, of as many characters at least.
 *
 * An error may quote a payload that is not there any more: that of a dead letter before an edit.
 * Which values of it were hidden cannot be known then. So the errors of a dead letter that was
 * changed after its end are hidden as a whole, and those from before the last redrive are too.
 *
 * Names, ids, users and keys of jobs are shown as they are.
 */
#ifndef API_REDACT_H
#define API_REDACT_H

#include "base/mem/arena.h"
#include "config/config.h"
#include "store/page.h"

#define REDACTED           "[redacted]"
#define REDACT_TEXT_MIN    4
#define REDACT_SECRETS_MAX 128
/* Steps that may be spent on one job, each some nanoseconds: payloads may be made to take long.
 * Texts that come after them are hidden whole. */
#define REDACT_WORK_MAX 100000000u

/* What is hidden of one job. All results are in the arena; running out of memory shows there, and
 * hides the whole value. */
struct redactor {
    const struct config_strings *rules; /* borrowed; none or NULL: nothing is hidden */
    struct arena *arena;                /* borrowed */
    struct str secrets[REDACT_SECRETS_MAX];
    size_t n_secrets; /* one more than the most: there were too many */
    uint32_t epoch;   /* errors of epochs before this one may be about another payload */
    bool begins[256]; /* bytes with which a secret, or the name of a rule, begins */
    bool learns;      /* secrets are noted, and texts are left alone */
    bool is_cut;      /* the text that is looked at may be a part of one, without its ends */
    uint64_t work;    /* steps that were spent on this job, about */
};

void redactor_init(struct redactor *r, const struct config_strings *rules, struct arena *arena);

/* JSON with its values hidden; as it is, where no rule matches. Anything else as a text. */
struct str redact_value(struct redactor *r, struct str value);

/* A text that may quote what was hidden so far. */
struct str redact_text(struct redactor *r, struct str text);

/* A copy of the job, as it may be shown; what it does not hide it shares with `job`. The redactor
 * is about this job from now on. */
struct job redact_job(struct redactor *r, const struct job *job);

/* The same where it is not known what is to be hidden, or takes too long to find: nothing of its
 * payload, its result and its error is shown. */
struct job redact_unknown(const struct job *job);

/* The errors of its attempts, in place: the page's own strings are replaced by those of the arena.
 */
void redact_history(struct redactor *r, struct attempt_page *history);

#endif

/* parts.c - the core by itself, under its public names. */
#include <stdlib.h>

#include "base/err.h"
#include "core/breaker/breaker.h"
#include "core/classify/classify.h"
#include "core/decide.h"
#include "core/retry/backoff.h"
#include "redrive.h"

static const struct redrive_failure success = {0};

static struct classify_context context_of(const struct redrive_names *names)
{
    return (struct classify_context){names->task, names->queue, names->service, names->user};
}

/* The public struct is the core's, under a name that belongs to the library. */
static const struct classifier *compiled_rows(const struct redrive_classifier *classifier)
{
    return (const struct classifier *)classifier;
}

struct redrive_classifier *redrive_classifier_new(const struct redrive_classify_row *rows,
                                                  size_t n_rows, struct redrive_err *err)
{
    struct classifier *classifier = NULL;
    if (!rows && n_rows > 0)
        err_set(err, REDRIVE_E_INVALID, "rows is NULL, but n_rows is not 0");
    else
        (void)classifier_new(rows, n_rows, &classifier, err);
    return (struct redrive_classifier *)classifier;
}

void redrive_classifier_free(struct redrive_classifier *classifier)
{
    classifier_free((struct classifier *)classifier);
}

struct redrive_verdict redrive_classify(const struct redrive_classifier *classifier,
                                        const struct redrive_failure *failure,
                                        const struct redrive_names *names)
{
    struct classify_context context = {0};
    if (names)
        context = context_of(names);
    struct verdict v = classify(compiled_rows(classifier), failure ? failure : &success, &context);
    return (struct redrive_verdict){v.class_, v.severity, v.unclassified};
}

static enum redrive_call_result call_result_of(enum breaker_result result)
{
    switch (result) {
    case BREAKER_SUCCESS: return REDRIVE_CALL_SUCCESS;
    case BREAKER_FAILURE: return REDRIVE_CALL_FAILURE;
    case BREAKER_NEUTRAL: return REDRIVE_CALL_NEUTRAL;
    case BREAKER_RETURNED:
    default: return REDRIVE_CALL_RETURNED;
    }
}

static enum breaker_result breaker_result_of(enum redrive_call_result result)
{
    switch (result) {
    case REDRIVE_CALL_SUCCESS: return BREAKER_SUCCESS;
    case REDRIVE_CALL_FAILURE: return BREAKER_FAILURE;
    case REDRIVE_CALL_NEUTRAL: return BREAKER_NEUTRAL;
    case REDRIVE_CALL_RETURNED:
    default: return BREAKER_RETURNED;
    }
}

struct redrive_decision redrive_decide(const struct redrive_facts *facts,
                                       const struct redrive_failure *failure,
                                       const struct redrive_policy *policy,
                                       const struct redrive_classifier *classifier)
{
    struct job_facts job = {
        .attempts = facts->attempts,
        .elapsed_ms = facts->elapsed_ms,
        .deadline_in_ms = facts->deadline_in_ms > 0 ? facts->deadline_in_ms : INT64_MAX,
        .seed = backoff_seed(str_of(facts->job_id ? facts->job_id : ""), facts->epoch),
        .is_probe = facts->is_probe,
        .names = context_of(&facts->names),
    };
    struct outcome outcome = {.ending = ENDING_RAN, .failure = failure ? *failure : success};
    struct decision d = decide(&job, &outcome, policy, compiled_rows(classifier));
    return (struct redrive_decision){
        .state = d.state,
        .delay_ms = d.delay_ms,
        .reason = d.reason,
        .class_ = d.class_,
        .severity = d.severity,
        .breaker = call_result_of(d.breaker),
        .unclassified = d.unclassified,
    };
}

struct redrive_circuit {
    struct redrive_breaker_config config;
    struct breaker breaker;
};

struct redrive_circuit *redrive_circuit_new(const struct redrive_breaker_config *config,
                                            uint64_t seed, struct redrive_err *err)
{
    if (config && redrive_breaker_config_check(config, err) < 0)
        return NULL;
    struct redrive_circuit *circuit = calloc(1, sizeof *circuit);
    if (!circuit) {
        err_nomem(err);
        return NULL;
    }
    redrive_breaker_config_init(&circuit->config);
    if (config)
        circuit->config = *config;
    breaker_init(&circuit->breaker, seed);
    return circuit;
}

void redrive_circuit_free(struct redrive_circuit *circuit)
{
    free(circuit);
}

bool redrive_circuit_allow(struct redrive_circuit *circuit, int64_t now_ms,
                           struct redrive_permit *ret)
{
    struct breaker_permit permit;
    if (!breaker_allow(&circuit->breaker, &circuit->config, now_ms, &permit))
        return false;
    *ret = (struct redrive_permit){permit.generation, permit.probe};
    return true;
}

void redrive_circuit_record(struct redrive_circuit *circuit, struct redrive_permit permit,
                            enum redrive_call_result result, int64_t took_ms, int64_t now_ms)
{
    breaker_record(&circuit->breaker, &circuit->config,
                   (struct breaker_permit){permit.generation, permit.probe},
                   breaker_result_of(result), took_ms, now_ms);
}

int64_t redrive_circuit_next_ms(const struct redrive_circuit *circuit)
{
    return breaker_next_ms(&circuit->breaker, &circuit->config);
}

void redrive_circuit_status(const struct redrive_circuit *circuit, int64_t now_ms,
                            struct redrive_breaker_status *ret)
{
    *ret = (struct redrive_breaker_status){0};
    breaker_status(&circuit->breaker, &circuit->config, now_ms, ret);
}

void redrive_circuit_reset(struct redrive_circuit *circuit)
{
    breaker_reset(&circuit->breaker);
}

void redrive_circuit_trip(struct redrive_circuit *circuit, int64_t now_ms)
{
    breaker_trip(&circuit->breaker, now_ms);
}

void redrive_circuit_disable(struct redrive_circuit *circuit)
{
    breaker_disable(&circuit->breaker);
}

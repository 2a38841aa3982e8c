/* A line is an answer with all that it needs, or an error that says why not. */
#include "fuzz.h"

#include "run/stream/private.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct stream_answer answer;
    struct redrive_err err = {0};
    int rc = stream_answer_read(&answer, (struct str){(const char *)data, size}, &err);
    if (rc == 0) {
        FUZZ_CHECK(answer.id && (answer.status || answer.is_snoozed));
        FUZZ_CHECK(answer.retry_after_ms >= 0);
        FUZZ_CHECK(answer.snooze_ms >= 0 && answer.snooze_ms <= STREAM_SNOOZE_MAX_MS);
        FUZZ_CHECK(answer.result.len <= size);
    } else {
        FUZZ_CHECK(rc < 0 && err.code == rc && err.message[0] != '\0');
    }
    stream_answer_release(&answer);
    return 0;
}

/* What is accepted is a span within the limits, and writes and reads back as the same. */
#include "fuzz.h"

#include "base/time/duration.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct redrive_err err = {0};
    char text[DURATION_TEXT_MAX];
    int64_t ms = -1, back = -1;

    int rc = duration_parse((struct str){(const char *)data, size}, &ms, &err);
    if (rc < 0) {
        FUZZ_CHECK(rc == REDRIVE_E_PARSE || rc == REDRIVE_E_RANGE);
        FUZZ_CHECK(err.code == rc && err.message[0] != '\0');
        for (const char *p = err.message; *p; p++)
            FUZZ_CHECK((unsigned char)*p >= 0x20 && *p != 0x7F);
        return 0;
    }
    FUZZ_CHECK(ms >= 0 && ms <= DURATION_MAX_MS && err.code == 0);
    FUZZ_CHECK(duration_parse(str_of(duration_format(ms, text)), &back, NULL) == 0);
    FUZZ_CHECK(back == ms);
    return 0;
}

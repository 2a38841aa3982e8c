/* What is accepted is a wait that is neither negative nor beyond what the type can hold. */
#include "fuzz.h"

#include "run/retry_after.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    int64_t ms = -1;
    struct str value = {(const char *)data, size};
    if (retry_after_parse(value, INT64_C(1700000000000), &ms))
        FUZZ_CHECK(ms >= 0 && ms <= INT64_C(10000) * 366 * 86400 * 1000);
    return 0;
}

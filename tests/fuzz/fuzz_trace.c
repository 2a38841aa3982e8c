/* Whatever a program has said, what is found in it lies in it; Go's panic has a name of ours. */
#include "fuzz.h"

#include "run/exec/failure_from_stderr.h"

static bool lies_in(struct str part, const char *text, size_t size)
{
    return part.len == 0 || (part.ptr >= text && part.ptr + part.len <= text + size);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *text = (const char *)data;
    struct trace trace = trace_read((struct str){text, size});
    FUZZ_CHECK(lies_in(trace.message, text, size));
    FUZZ_CHECK(str_is(trace.error_type, "panic") || lies_in(trace.error_type, text, size));
    return 0;
}

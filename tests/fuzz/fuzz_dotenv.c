/* Every line of the text is an entry with a proper name and UTF-8 in its value, or is refused with
 * its number; reading comes to an end. */
#include "fuzz.h"

#include "base/text/encode.h"
#include "config/document/dotenv.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct dotenv reader;
    struct dotenv_entry entry;
    struct redrive_err err;
    unsigned line = 0;
    int rc;

    dotenv_init(&reader, (struct str){(const char *)data, size});
    while ((rc = dotenv_next(&reader, &entry, &err)) != 0) {
        FUZZ_CHECK(reader.line > line && reader.line <= size);
        line = reader.line;
        if (rc < 0) {
            FUZZ_CHECK(err.code == rc && err.message[0] != '\0');
            continue;
        }
        FUZZ_CHECK(entry.line == line && entry.name.len > 0);
        FUZZ_CHECK(entry.name.ptr[0] < '0' || entry.name.ptr[0] > '9');
        FUZZ_CHECK(utf8_valid(entry.value) && !memchr(entry.value.ptr, 0, entry.value.len));
    }
    dotenv_release(&reader);
    return 0;
}

/* signature.c - signs requests by the Standard Webhooks specification. */
#include "run/http/signature.h"

#include "base/sha256.h"
#include "base/text/base64.h"

void signature_write(const struct config_secret *secrets, size_t n, struct str id,
                     const char *timestamp, struct str body, struct buf *out)
{
    const struct str parts[] = {id, STR("."), str_of(timestamp), STR("."), body};
    for (size_t i = 0; i < n; i++) {
        uint8_t hash[SHA256_BYTES];
        char text[BASE64_TEXT_SIZE(SHA256_BYTES)];
        const struct str key = {(const char *)secrets[i].bytes, secrets[i].len};
        hmac_sha256(key, parts, sizeof parts / sizeof parts[0], hash);
        buf_printf(out, "%sv1,%s", i > 0 ? " " : "", base64_encode(hash, sizeof hash, text));
    }
}

#include "store/sqlite/packed_status.h"

#include <endian.h>
#include <string.h>

#define TOKEN_BYTES sizeof(uint64_t)

size_t packed_status_pack(const struct job_status *s, unsigned char ret[PACKED_STATUS_MAX])
{
    const uint64_t numbers[REST_NUMBERS] = {
        s->permit.generation,
        (uint64_t)s->first_started_ms,
        s->permit.probe,
        s->deferrals,
        s->crashes,
        s->parked_by_limit,
        (uint64_t)s->paused_since_ms,
    };
    size_t n = REST_NUMBERS, len = 0;
    while (n > 0 && numbers[n - 1] == 0)
        n--;
    if (n == 0 && s->token == 0)
        return 0;
    const uint64_t token = htole64(s->token);
    memcpy(ret, &token, TOKEN_BYTES);
    len = TOKEN_BYTES;
    for (size_t i = 0; i < n; i++) {
        uint64_t left = numbers[i];
        for (; left > 0x7f; left >>= 7)
            ret[len++] = (unsigned char)(left | 0x80);
        ret[len++] = (unsigned char)left;
    }
    return len;
}

/* The numbers after the token. */
static bool unpack(const unsigned char *bytes, size_t len, uint64_t ret[REST_NUMBERS])
{
    size_t n = 0;
    unsigned shift = 0;
    for (size_t i = 0; i < len; i++) {
        if (n == REST_NUMBERS || shift > 63)
            return false;
        ret[n] |= (uint64_t)(bytes[i] & 0x7f) << shift;
        shift += 7;
        if (bytes[i] & 0x80)
            continue;
        n++;
        shift = 0;
    }
    return shift == 0;
}

bool packed_status_unpack(const unsigned char *bytes, size_t len, struct job_status *ret)
{
    uint64_t numbers[REST_NUMBERS] = {0}, token;
    if (len == 0)
        return true;
    if (len < TOKEN_BYTES || !unpack(bytes + TOKEN_BYTES, len - TOKEN_BYTES, numbers) ||
        numbers[3] > UINT32_MAX || numbers[4] > UINT32_MAX || numbers[5] > 1)
        return false;
    memcpy(&token, bytes, TOKEN_BYTES);
    ret->token = le64toh(token);
    ret->permit = (struct breaker_permit){.generation = numbers[0], .probe = numbers[2]};
    ret->first_started_ms = (int64_t)numbers[1];
    ret->deferrals = (uint32_t)numbers[3];
    ret->crashes = (uint32_t)numbers[4];
    ret->parked_by_limit = numbers[5] != 0;
    ret->paused_since_ms = (int64_t)numbers[6];
    return true;
}

/* names.c - what keys and members are made of: digests, members, parts of names. */
#include "base/sha256.h"
#include "store/redis/private.h"

/* Up to this number every integer is exact in a double. */
#define SCORE_MAX (INT64_C(1) << 53)

struct digest rd_digest_of(struct str tenant, struct str name)
{
    uint8_t sum[SHA256_BYTES];
    unsigned char small[512];
    struct digest digest;
    struct buf long_one;
    const size_t head = sizeof tenant.len, len = head + tenant.len + name.len;
    unsigned char *bytes = small;
    buf_init(&long_one, len + 1);
    if (len > sizeof small)
        bytes = (unsigned char *)buf_reserve(&long_one, len);
    if (bytes) {
        memcpy(bytes, &tenant.len, head);
        if (tenant.len > 0)
            memcpy(bytes + head, tenant.ptr, tenant.len);
        if (name.len > 0)
            memcpy(bytes + head + tenant.len, name.ptr, name.len);
        sha256(bytes, len, sum);
    } else {
        memset(sum, 0, sizeof sum);
    }
    buf_release(&long_one);
    memcpy(digest.bytes, sum, sizeof digest.bytes);
    return digest;
}

struct member rd_member_of(int64_t seq)
{
    struct member member;
    for (int i = 0; i < MEMBER_BYTES; i++)
        member.bytes[i] = (char)(seq >> 8 * (MEMBER_BYTES - 1 - i));
    return member;
}

int64_t rd_member_seq(struct str bytes)
{
    int64_t seq = 0;
    if (bytes.len != MEMBER_BYTES) /* none, or a damaged one */
        return 0;
    for (size_t i = 0; i < MEMBER_BYTES; i++)
        seq = seq << 8 | (unsigned char)bytes.ptr[i];
    return seq;
}

int64_t rd_score_of(int64_t ms)
{
    if (ms > SCORE_MAX)
        return SCORE_MAX;
    return ms < -SCORE_MAX ? -SCORE_MAX : ms;
}

/* "\0\1" ends a part; a NUL within one is "\0\xff", which sorts after the end. */
void rd_add_part(struct buf *buf, struct str part)
{
    for (size_t i = 0; i < part.len; i++) {
        buf_putc(buf, part.ptr[i]);
        if (part.ptr[i] == '\0')
            buf_putc(buf, '\xff');
    }
    buf_add(buf, "\0\1", 2);
}

bool rd_take_part(struct str *name, struct arena *arena, struct str *ret)
{
    char *copy = arena_alloc(arena, name->len + 1);
    size_t n = 0;
    for (size_t i = 0; copy && i + 1 < name->len; i++) {
        if (name->ptr[i] == '\0') {
            i++;
            if (name->ptr[i] == '\1') {
                *ret = (struct str){copy, n};
                *name = (struct str){name->ptr + i + 1, name->len - i - 1};
                return true;
            }
            copy[n++] = '\0';
        } else {
            copy[n++] = name->ptr[i];
        }
    }
    return false;
}

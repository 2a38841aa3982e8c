/* fingerprint.h - a number by which errors that look alike can be grouped.
 *
 * It is the 64-bit FNV-1a hash of the error type, a zero byte, the name of the class, a zero byte
 * and the normal form of the message; 0, which means "none" elsewhere, becomes 1. Fingerprints are
 * stored: these rules must not change.
 *
 * The normal form is made from the first line of the message (space around it does not count),
 * and of that from the first 512 bytes. It is read from left to right; the first rule that fits
 * at a place takes what it covers and leaves its result:
 *
 *   1. space: blanks and control characters become one blank.
 *   2. quoted text: from ' " or ` that does not follow a letter or digit, to the next same mark
 *      that is not followed by one: #. A mark without its partner stays.
 *   3. e-mail addresses: letters, digits and . _ % + - from a letter or digit on, an @, and a
 *      run of letters, digits, . and -: #.
 *   4. UUIDs: 8-4-4-4-12 hexadecimal digits, not followed by a letter or digit: #.
 *   5. IPv6 addresses, MAC addresses, times: groups of at most four hexadecimal digits, at least
 *      two colons, dots allowed, at least one of 0–9, not followed by a letter or digit; it
 *      starts with such a digit or `::` that does not follow a dot, and a single colon or dot at
 *      its end is not part of it: #.
 *   6. words, that is runs of letters and digits:
 *        0x and hexadecimal digits: #;
 *        six or more hexadecimal digits, one of them 0–9: #;
 *        sixteen or more letters and digits, one of them 0–9: #;
 *        in all others, each run of 0–9 becomes #.
 *   7. any other byte stays.
 *
 * Where only blanks and , ; : . / - _ are between one # and the next, both and what is between them
 * become one #: dotted addresses, dates, lists of any length. The form is cut after 256 bytes, so
 * that a tail that moves with the length of an id does not matter, and loses a blank at its end.
 *
 *     connect to 10.0.0.7:5432 failed after 3 tries      connect to # failed after # tries
 *     no row 'a42' in table "jobs" (id 7, 8, 9)          no row # in table # (id #)
 *     can't open /srv/7/3f2a9c1b/data.json               can't open /srv/#/data.json
 */
#ifndef CORE_CLASSIFY_FINGERPRINT_H
#define CORE_CLASSIFY_FINGERPRINT_H

#include <stddef.h>
#include <stdint.h>

#include "base/text/str.h"
#include "redrive.h"

#define FINGERPRINT_MESSAGE_MAX 512
#define FINGERPRINT_FORM_MAX    256

/* Allocates nothing. A class out of range counts as "unknown". */
uint64_t fingerprint(struct str error_type, enum redrive_class class_, struct str message);

/* The normal form of a message, into `out`, not terminated; returns its length. */
size_t fingerprint_form(struct str message, char out[FINGERPRINT_FORM_MAX]);

/* As text: 16 hexadecimal digits. */
#define FINGERPRINT_TEXT_MAX 17
const char *fingerprint_text(uint64_t fingerprint, char out[FINGERPRINT_TEXT_MAX]);
/* The other way round; false: it is none. No error has the fingerprint 0. */
bool fingerprint_parse(struct str text, uint64_t *ret);

#endif

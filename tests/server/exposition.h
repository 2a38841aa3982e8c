/* exposition.h - a strict reader of Prometheus' text format, and the rules of good metrics.
 *
 * Fails the test at the first line that is not as the format has it, at a sample before its TYPE, a
 * family in two pieces, a series that is there twice, a histogram whose buckets fall or whose count
 * is not its +Inf bucket, and at names without a unit.
 */
#ifndef TESTS_SERVER_EXPOSITION_H
#define TESTS_SERVER_EXPOSITION_H

#include "base/text/buf.h"

/* Reads all of it. */
void exposition_check(const char *text);

/* The value of one series, written as it stands in the text: name{a="b"}. */
double exposition_value(const char *text, const char *series);

#endif

/* scope.h - variables that release what they own when their block ends, whichever way that is.
 *
 *     RELEASED_BY(job_page_release) struct job_page page = {0};
 *
 * The function gets a pointer to the variable. It must accept the variable as it is initialized.
 */
#ifndef BASE_SCOPE_H
#define BASE_SCOPE_H

#define RELEASED_BY(release) __attribute__((cleanup(release)))

#endif

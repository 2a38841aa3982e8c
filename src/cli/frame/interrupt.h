/* interrupt.h - asks long work to stop at the next step.
 *
 *     struct interrupt interrupt;
 *     interrupt_catch(&interrupt);
 *     while (… && !interrupt_asked()) …
 *     interrupt_release(&interrupt);
 *
 * SIGINT and SIGTERM are remembered; the second one of a kind ends the program as usual. What the
 * parent has had ignored stays ignored. One at a time in a program.
 */
#ifndef CLI_FRAME_INTERRUPT_H
#define CLI_FRAME_INTERRUPT_H

#include <signal.h>
#include <stdbool.h>

struct interrupt {
    struct sigaction before[2];
};

void interrupt_catch(struct interrupt *interrupt);
void interrupt_release(const struct interrupt *interrupt);
bool interrupt_asked(void);

#endif

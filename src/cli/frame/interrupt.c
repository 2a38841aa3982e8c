/* interrupt.c - signal handlers that set a flag. */
#include "cli/frame/interrupt.h"

#include <stddef.h>

/* Set by a signal. */
static volatile sig_atomic_t asked_to_stop;

static void ask_to_stop(int number)
{
    (void)number;
    asked_to_stop = 1;
}

static const int SIGNALS[] = {SIGINT, SIGTERM};
#define N_SIGNALS (sizeof SIGNALS / sizeof SIGNALS[0])

void interrupt_catch(struct interrupt *interrupt)
{
    struct sigaction action = {.sa_handler = ask_to_stop,
                               .sa_flags = (int)(SA_RESETHAND | SA_RESTART)};
    (void)sigemptyset(&action.sa_mask);
    asked_to_stop = 0;
    for (size_t i = 0; i < N_SIGNALS; i++) {
        (void)sigaction(SIGNALS[i], NULL, &interrupt->before[i]);
        if (interrupt->before[i].sa_handler != SIG_IGN)
            (void)sigaction(SIGNALS[i], &action, NULL);
    }
}

void interrupt_release(const struct interrupt *interrupt)
{
    for (size_t i = 0; i < N_SIGNALS; i++)
        (void)sigaction(SIGNALS[i], &interrupt->before[i], NULL);
}

bool interrupt_asked(void)
{
    return asked_to_stop != 0;
}

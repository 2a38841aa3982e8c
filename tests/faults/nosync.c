/* nosync - a library to be preloaded (LD_PRELOAD) in which a sync does nothing, as on a disk that
 * lies: what a rig that cuts the power must notice. */
#include <unistd.h>

int fsync(int fd)
{
    (void)fd;
    return 0;
}

int fdatasync(int fd)
{
    (void)fd;
    return 0;
}

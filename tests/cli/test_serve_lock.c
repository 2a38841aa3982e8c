/* One server for one file. */
#include "check.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/commands/serve/process.h"

struct place {
    char dir[64];
    char file[96];
    char url[128];
};

static int make_place(void **state)
{
    struct place *p = calloc(1, sizeof *p);
    assert_non_null(p);
    snprintf(p->dir, sizeof p->dir, "/tmp/redrive-lock-XXXXXX");
    assert_non_null(mkdtemp(p->dir));
    snprintf(p->file, sizeof p->file, "%s/jobs.db", p->dir);
    snprintf(p->url, sizeof p->url, "sqlite:%s", p->file);
    FILE *file = fopen(p->file, "w");
    assert_non_null(file);
    fclose(file);
    *state = p;
    return 0;
}

static int remove_place(void **state)
{
    struct place *p = *state;
    char lock[128];
    snprintf(lock, sizeof lock, "%s.serve-lock", p->file);
    unlink(lock);
    unlink(p->file);
    rmdir(p->dir);
    free(p);
    return 0;
}

/* A server that has just forked, and the child that has not come to its exec: both tell that they
 * are there, and stay until the pipe `stay` is closed. */
static pid_t serve(const char *url, const int tell[2], const int stay[2])
{
    pid_t pid = fork();
    if (pid != 0)
        return pid;
    int lock;
    char byte = serve_lock_take(url, &lock, NULL) == 0 ? 'y' : 'n';
    close(stay[1]);
    (void)fork();
    if (write(tell[1], &byte, 1) == 1)
        (void)!read(stay[0], &byte, 1);
    _exit(0);
}

#define PLACE_TEST(test) TEST_WITH(test, make_place, remove_place, struct place *p)

PLACE_TEST(lock_is_held_by_its_process_alone)
{
    struct redrive_err err = {0};
    int tell[2], stay[2], lock = -1;
    char both[2], name[64];
    assert_int_equal(pipe(tell), 0);
    assert_int_equal(pipe(stay), 0);
    pid_t server = serve(p->url, tell, stay);
    for (int i = 0; i < 2; i++)
        assert_int_equal(read(tell[0], &both[i], 1), 1);
    assert_memory_equal(both, "yy", 2);

    assert_int_equal(serve_lock_take(p->url, &lock, &err), REDRIVE_E_STATE);
    snprintf(name, sizeof name, "process %d serves this store already", (int)server);
    assert_string_equal(err.message, name);
    assert_int_equal(lock, -1);

    kill(server, SIGKILL);
    assert_int_equal(waitpid(server, NULL, 0), server);
    assert_int_equal(serve_lock_take(p->url, &lock, &err), 0);
    serve_lock_release(lock);
    close(stay[1]);
    close(stay[0]);
    close(tell[0]);
    close(tell[1]);
}

TEST(other_stores_need_no_lock)
{
    int lock = 0;
    assert_int_equal(serve_lock_take("memory:", &lock, NULL), 0);
    assert_int_equal(lock, -1);
    serve_lock_release(lock);
}

/* A worker is killed without a word; what it runs must die too. */
#include "bench.h"

#include <sys/wait.h>

#include "run/exec/exec.h"

/* The worker: runs a program that tells its number through `fd` and then only sleeps. */
static _Noreturn void be_a_worker(int fd)
{
    char script[64];
    snprintf(script, sizeof script, "echo $$ >/proc/%d/fd/%d; exec sleep 60", (int)getpid(), fd);
    const char *const argv[] = {"sh", "-c", script, NULL};
    struct bench b;
    bench_init(&b);
    struct exec_options options = {.argv = argv, .environ = environ};
    if (exec_runner_new(&b.loop, NULL, &options, &b.runner, NULL) < 0)
        _exit(1);
    bench_start(&b, NULL, 0);
    uv_run(&b.loop, UV_RUN_DEFAULT);
    _exit(1);
}

TEST(program_dies_with_a_killed_worker)
{
    int fd[2];
    assert_int_equal(pipe(fd), 0);
    pid_t worker = fork();
    if (worker == 0)
        be_a_worker(fd[1]);
    close(fd[1]);
    char text[32] = "";
    assert_true(read(fd[0], text, sizeof text - 1) > 0);
    pid_t program = atoi(text);
    assert_true(program > 1);
    assert_true(process_lives(program));

    kill(worker, SIGKILL);
    assert_int_equal(waitpid(worker, NULL, 0), worker);
    WAIT_FOR(!process_lives(program));
    close(fd[0]);
}

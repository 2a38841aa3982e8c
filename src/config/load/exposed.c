/* exposed.c - looks at the permissions of files with secrets. */
#include "config/load/exposed.h"

#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "config/owned.h"

#define OF_GROUP  (S_IRGRP | S_IWGRP)
#define OF_OTHERS (S_IROTH | S_IWOTH)

struct search {
    struct exposed *found;
    size_t n;
};

/* A pipe or a device, as of `<(command)`, is not looked at. */
static void look_at(struct search *search, const char *path, const char *holds)
{
    struct stat st;
    const uid_t user = geteuid();
    if (!path || !holds || search->n == EXPOSED_MAX || stat(path, &st) != 0 || !S_ISREG(st.st_mode))
        return;
    const bool is_own = st.st_uid == user && user != 0;
    if (st.st_mode & (is_own ? OF_GROUP | OF_OTHERS : OF_OTHERS))
        search->found[search->n++] =
            (struct exposed){.path = path, .holds = holds, .mode = st.st_mode & 0777};
}

size_t exposed_find(const struct config *config, const char *password_file,
                    struct exposed ret[EXPOSED_MAX])
{
    struct search search = {.found = ret};
    look_at(&search, config->path, config->owned->file_secrets);
    look_at(&search, config->owned->dotenv_path, config->owned->dotenv_secrets);
    look_at(&search, config->listen.tls.key, "the private key of TLS");
    look_at(&search, password_file, "a password");
    for (size_t i = 0; i < config->n_faktory_passwords; i++)
        look_at(&search, config->faktory_passwords[i].password_file, "a password");
    return search.n;
}

void exposed_warning(const struct exposed *file, struct redrive_err *ret)
{
    err_set(ret, REDRIVE_E_CONFIG, "other users can read %.150s, which holds %s", file->path,
            file->holds);
    err_detail(ret, "mode %04o", file->mode);
    err_hint(ret, "chmod 600 %s", file->path);
}

/* A file either loads or is refused with at least one error that is fit for a terminal. What was
 * loaded writes itself as JSON, and unless secrets were left out, reads back as the same. */
#include "fuzz.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/json/json.h"
#include "config/config.h"

/* A file without a name, which is read by its number. */
static void write_file(int fd, const void *bytes, size_t len)
{
    FUZZ_CHECK(ftruncate(fd, 0) == 0);
    FUZZ_CHECK(pwrite(fd, bytes, len, 0) == (ssize_t)len);
}

static void check_text(const char *text)
{
    for (; *text; text++)
        FUZZ_CHECK((unsigned char)*text >= 0x20 && *text != 0x7F);
}

static struct config *load(int fd)
{
    static struct config_report report;
    struct config *config = NULL;
    char path[64];

    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    struct config_sources sources = {.path = path, .path_required = true};
    int rc = config_load(&sources, &config, &report);
    FUZZ_CHECK((rc == 0) == (config != NULL) && (rc == 0) == (report.n_errors == 0));
    for (size_t i = 0; i < report.n_errors; i++) {
        FUZZ_CHECK(report.errors[i].code < 0 && report.errors[i].message[0] != '\0');
        check_text(report.errors[i].message);
    }
    return config;
}

static void dump(const struct config *config, struct buf *out)
{
    struct json_writer writer;
    buf_reset(out);
    json_writer_init(&writer, out);
    config_write(config, &writer);
    FUZZ_CHECK(buf_failed(out) == 0 && json_check(buf_str(out), NULL, NULL) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static int fd = -1;
    if (fd < 0)
        fd = memfd_create("config", 0);
    FUZZ_CHECK(fd >= 0);

    write_file(fd, data, size);
    struct config *config = load(fd);
    if (!config)
        return 0;

    struct buf first, second;
    buf_init(&first, 64u << 20);
    buf_init(&second, 64u << 20);
    dump(config, &first);
    config_free(config);
    /* What has been left out cannot come back, and what has grown may be over the limit. */
    if (!strstr(buf_cstr(&first), "***") && first.len < 512u * 1024) {
        write_file(fd, first.data, first.len);
        config = load(fd);
        FUZZ_CHECK(config != NULL);
        dump(config, &second);
        FUZZ_CHECK(str_eq(buf_str(&first), buf_str(&second)));
        config_free(config);
    }
    buf_release(&first);
    buf_release(&second);
    return 0;
}

"""Writes the C source of the extension module `redrive._core`.

    native.py HEADER OUTPUT CC…

What Python can call is what the header declares: its text is preprocessed by the compiler and given
to cffi as it is, so there is no second list of structs and functions that could be out of date. Besides
there are callbacks and a few functions of the module's own.
"""

import re
import subprocess
import sys

import cffi

CALLBACKS = """
extern "Python" int64_t redrive_py_delay(uint32_t n, uint64_t seed, void *ctx);
extern "Python" void redrive_py_monitor(const struct redrive_event *event, void *ctx);
extern "Python" void redrive_py_wake(void *ctx);
extern "Python" int redrive_py_dead_letter(const struct redrive_dead_letter *entry, void *ctx);
extern "Python" int redrive_py_group(const struct redrive_dlq_group *group, void *ctx);
"""

# Steps are written to memory that Python has already, and taken from it, by the call itself. Ctrl-C may be raised
# between a call and the assignment of what it returns: a step that is returned would be lost.
STEPS = {
    "void redrive_py_step_begin(struct redrive_handler *h, const struct redrive_job *job, "
    "const struct redrive_step_options *options, struct redrive_step **ret_step, struct redrive_err *err)": """
    *ret_step = redrive_step_begin(h, job, options, err);""",
    "void redrive_py_step_retry(struct redrive_handler *h, const char *id, "
    "const struct redrive_step_options *options, struct redrive_step **ret_step, struct redrive_err *err)": """
    *ret_step = redrive_step_retry(h, id, options, err);""",
    "void redrive_py_step_end(struct redrive_step **step, struct redrive_result *ret)": """
    struct redrive_step *taken = *step;
    *step = NULL;
    redrive_step_end(taken, ret);""",
}


def declarations(header, compiler):
    """The declarations of a header: macros expanded, comments and includes gone."""
    with open(header, encoding="utf-8") as file:
        text = re.sub(r"^#include.*$", "", file.read(), flags=re.MULTILINE)
    # Without __GNUC__ the header asks for no attributes, which cffi could not read.
    command = [*compiler, "-E", "-P", "-U__GNUC__", "-xc", "-"]
    done = subprocess.run(command, input=text, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}: {done.stderr}")
    return done.stdout


def main():
    header, output, *compiler = sys.argv[1:]
    builder = cffi.FFI()
    builder.cdef(declarations(header, compiler or ["cc"]) + CALLBACKS + "".join(f"{head};\n" for head in STEPS))
    functions = "".join(f"static {head}\n{{{body}\n}}\n" for head, body in STEPS.items())
    builder.set_source("redrive._core", f"#include <redrive.h>\n{functions}")
    builder.emit_c_code(output)


if __name__ == "__main__":
    main()

#include "check.h"

#include "run/exec/failure_from_stderr.h"

static void check_trace(const char *text, const char *type, const char *message)
{
    struct trace trace = trace_read(str_of(text));
    check_str(trace.error_type, type);
    check_str(trace.message, message);
}

TEST(plain_text_has_a_message_only)
{
    check_trace("", "", "");
    check_trace("\n\n", "", "");
    check_trace("one\ntwo  \n\n", "", "two");
    check_trace("cannot reach host: timed out", "", "cannot reach host: timed out");
    check_trace("curl: (7) refused\r\n", "", "curl: (7) refused");
    check_trace("look at this", "", "look at this");
}

TEST(python_is_read_from_its_last_exception)
{
    check_trace("Traceback (most recent call last):\n"
                "  File \"a.py\", line 1, in <module>\n"
                "    x()\n"
                "ValueError: bad\n"
                "\nDuring handling of the above exception, another exception occurred:\n\n"
                "Traceback (most recent call last):\n"
                "  File \"a.py\", line 3, in <module>\n"
                "    y()\n"
                "    ^^^\n"
                "httpx.ConnectError: [Errno 111] refused\n"
                "with a second line\n",
                "httpx.ConnectError", "httpx.ConnectError: [Errno 111] refused");
    check_trace("Traceback (most recent call last):\n  File \"a\", line 1\nKeyboardInterrupt\n",
                "KeyboardInterrupt", "KeyboardInterrupt");
}

TEST(java_is_read_from_its_innermost_cause)
{
    check_trace("Exception in thread \"main\" java.lang.IllegalStateException: no\n"
                "\tat a.B.main(B.java:3)\n",
                "java.lang.IllegalStateException", "java.lang.IllegalStateException: no");
    check_trace("Exception in thread \"main\" java.lang.RuntimeException: x\n"
                "\tat a.B.main(B.java:3)\n"
                "Caused by: java.net.SocketTimeoutException: Read timed out\n"
                "\tat java.base/x.y(Z.java:1)\n"
                "\t... 3 more\n",
                "java.net.SocketTimeoutException",
                "java.net.SocketTimeoutException: Read timed out");
}

TEST(node_is_read_from_the_line_before_its_frames)
{
    check_trace("/app/a.js:3\n  throw new TypeError('x')\n  ^\n\n"
                "TypeError: x is not a function\n"
                "    at Object.<anonymous> (/app/a.js:3:9)\n"
                "    at node:internal/main:1:1\n\nNode.js v18.19.0\n",
                "TypeError", "TypeError: x is not a function");
    check_trace("Error [ERR_HTTP_HEADERS_SENT]: Cannot set\n    at a (b.js:1:1)\n", "Error",
                "Error [ERR_HTTP_HEADERS_SENT]: Cannot set");
}

TEST(ruby_is_read_from_its_parentheses)
{
    check_trace("a.rb:1:in `open': No such file (Errno::ENOENT)\n\tfrom a.rb:1:in `<main>'\n",
                "Errno::ENOENT", "a.rb:1:in `open': No such file (Errno::ENOENT)");
    check_trace("a.rb:1:in `<main>': no (RuntimeError)\n", "RuntimeError",
                "a.rb:1:in `<main>': no (RuntimeError)");
}

TEST(go_is_read_from_its_panic)
{
    check_trace("panic: runtime error: index out of range\n\ngoroutine 1 [running]:\n"
                "main.main()\n\t/app/a.go:5 +0x1d\nexit status 2\n",
                "panic", "panic: runtime error: index out of range");
}

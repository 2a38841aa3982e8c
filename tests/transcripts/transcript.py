"""A transcript: a Markdown text whose indented lines are commands and what they print.

    $ redrive queues pause media         a command; `> ` goes on with it, as in a shell
    a line of standard output
    ! a line of standard error
    [1]                                  the exit status, unless it is 0
    local:                               what follows is printed where the commands open the store,
    server:                              and what follows where a server does it for them

A line of output that looks like one of these has a backslash before it. `Sides: server` in a line of its own, not
indented, plays the transcript on that side only. Spaces at the end of a line and blank lines at the end of an output are not
compared.
"""
import re

SIDES = ("local", "server")
INDENT = "    "
REQUESTS = ("http", "until")  # what only a server can be asked
MARK = re.compile(r"[$>!\\] ?|\[\d+\]$|(local|server):$")


def _lines(stream, mark):
    lines = stream.rstrip("\n").split("\n") if stream.strip("\n") else []
    return [(mark + line if mark else "\\" + line if MARK.match(line) else line).rstrip() for line in lines]


def shown(stdout, stderr, status):
    """The lines that a transcript has of a call."""
    return _lines(stdout, "") + _lines(stderr, "! ") + ([f"[{status}]"] if status else [])


class Step:
    """A command, and what it prints on each side."""

    def __init__(self, command):
        self.command = command
        self.outputs = {side: [] for side in SIDES}

    def is_request(self):
        return self.command.partition(" ")[0] in REQUESTS

    def put(self, output, sides):
        for side in sides:
            self.outputs[side] = list(output)
        self.strip()

    def add(self, line, sides):
        for side in sides:
            self.outputs[side].append(line)

    def strip(self):
        for output in self.outputs.values():
            while output and not output[-1]:
                output.pop()

    def text(self):
        first, *more = self.command.split("\n")
        yield "$ " + first
        yield from ("> " + line for line in more)
        local, server = (self.outputs[side] for side in SIDES)
        if local == server:
            yield from local
            return
        for side in SIDES:
            yield side + ":"
            yield from self.outputs[side]


class Transcript:
    """Prose (strings) and steps, in their order."""

    def __init__(self, text):
        self.parts = []
        sides = SIDES
        for line in text.splitlines():
            step = self.parts[-1] if self.parts and isinstance(self.parts[-1], Step) else None
            if line.startswith(INDENT + "$ "):
                self.parts.append(Step(line.removeprefix(INDENT + "$ ")))
                sides = SIDES
            elif line.startswith(INDENT + "> ") and not any(step.outputs.values()):
                step.command += "\n" + line.removeprefix(INDENT + "> ")
            elif step and line in (INDENT + "local:", INDENT + "server:"):
                sides = (line.strip()[:-1],)
            elif step and (line.startswith(INDENT) or not line.strip()):
                step.add(line.removeprefix(INDENT), sides)
            else:
                self.parts.append(line)
        only = re.search(r"(?m)^Sides: (\w+)$", text)
        self.sides = (only[1],) if only else SIDES
        for step in self.steps():
            step.strip()

    def steps(self):
        return [part for part in self.parts if isinstance(part, Step)]

    def text(self):
        lines = []
        for part in self.parts:
            if isinstance(part, Step):
                lines += [(INDENT + line).rstrip() for line in part.text()]
                lines.append("")
            else:
                lines.append(part)
        return "\n".join(lines).rstrip("\n") + "\n"

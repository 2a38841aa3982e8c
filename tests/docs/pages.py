"""What documents show: blocks, commands, and whether a program prints the same."""
import re


def blocks(text, language):
    """(attributes, text) of the fenced blocks of a language, in their order."""
    return re.findall(rf"^```{language}\b *([^\n]*)\n(.*?)^```", text, re.M | re.S)


def steps(text):
    """Each command of a console block with the lines that are shown below it. `> ` continues a command."""
    for step in re.split(r"^\$ ", text, flags=re.M)[1:]:
        lines = step.rstrip("\n").split("\n")
        command = [lines.pop(0)]
        while lines and lines[0].startswith("> "):
            command.append(lines.pop(0)[2:])
        yield "\n".join(command), lines


def plain(line):
    """A line without what differs from run to run: ids, times, durations, names of workers, widths of columns."""
    line = re.sub(r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}", "ID", line)
    line = re.sub(r"\d{4}-\d\d-\d\dT[\d:.]+Z", "TIME", line)
    line = re.sub(r"(?<![\w.:])[\w.-]+:\d{2,}(?= |$)", "WORKER", line)
    line = re.sub(r"\b[\d.]+(ms|s|m)\b", "SPAN", line)
    line = re.sub(r"\((in )?SPAN( ago)?\)", "AGE", line)
    return re.sub(r" +", " ", line).strip()


def is_same(shown, line):
    """… stands for anything."""
    return re.fullmatch(".*".join(map(re.escape, shown.split("…"))), line) is not None


def difference(shown, lines):
    """What keeps the lines from being those that are shown, or None. Their order may differ: the log and the answer
    are two streams. A line … stands for any number of lines."""
    rest = [plain(line) for line in lines]
    wanted = [plain(line) for line in shown]
    for line in wanted:
        if line == "…":
            continue
        found = next((other for other in rest if is_same(line, other)), None)
        if found is None:
            return f"not printed: {line!r}"
        rest.remove(found)
    rest = [line for line in rest if line]
    return f"not shown: {rest}" if rest and "…" not in wanted else None

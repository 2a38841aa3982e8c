"""inputs.py - inputs of a fuzz target as text, one on a line: corpus/<target>.inputs, written by hand, and
found/<target>.inputs, found by the fuzzer.

    tests/fuzz/inputs.py pack FOLDER FILE     the files of a folder become lines, the shortest first
    tests/fuzz/inputs.py unpack FILE FOLDER   and back; each file is named after its contents
    tests/fuzz/inputs.py show FILE            one input as such a line, cut after 2,000 characters
    tests/fuzz/inputs.py add FILE NAME        puts standard input at the end of FILE, under a name

Printable ASCII stands for itself, a backslash is written as \\\\, every other byte as \\x and two digits. A line that begins with
# is the name of the next input. replay_main.c reads the same.
"""
import hashlib
import pathlib
import re
import sys

SHOWN = 2000


def escape(data):
    line = "".join("\\\\" if byte == 0x5C else chr(byte) if 0x20 <= byte < 0x7F else f"\\x{byte:02x}" for byte in data)
    if line.startswith("#"):  # which would be a name
        line = "\\x23" + line[1:]
    return line[:-1] + "\\x20" if line.endswith(" ") else line  # which editors would remove


def unescape(line):
    return re.sub(rb"\\(\\|x[0-9a-f]{2})", lambda m: b"\\" if m[1] == b"\\" else bytes.fromhex(m[1][1:].decode()), line.encode("ascii"))


def pack(folder, path):
    inputs = sorted({file.read_bytes() for file in folder.iterdir()}, key=lambda data: (len(data), data))
    path.write_text("".join(escape(data) + "\n" for data in inputs), "ascii")


def unpack(path, folder):
    folder.mkdir(parents=True, exist_ok=True)
    for line in path.read_text("ascii").splitlines():
        if line.startswith("#"):
            continue
        data = unescape(line)
        (folder / hashlib.sha1(data).hexdigest()).write_bytes(data)


def show(path):
    line = escape(path.read_bytes())
    print(line[:SHOWN] + ("…" if len(line) > SHOWN else ""))


def add(path, name):
    with path.open("a", encoding="ascii") as file:
        file.write(f"# {name}\n{escape(sys.stdin.buffer.read())}\n")


def main():
    actions = {"pack": pack, "unpack": unpack, "show": show, "add": add}
    if len(sys.argv) < 3 or sys.argv[1] not in actions:
        sys.exit(__doc__)
    actions[sys.argv[1]](*map(pathlib.Path, sys.argv[2:]))


if __name__ == "__main__":
    main()

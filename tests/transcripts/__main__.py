"""Plays transcripts and writes what the program prints today into them:

    python3 -m tests.transcripts tests/transcripts/queues.md

`git diff` shows the difference. A transcript changes only with an output that was meant to change.
"""
import pathlib
import sys
import tempfile

from tests.transcripts.player import play
from tests.transcripts.transcript import Transcript


def main(paths):
    for path in map(pathlib.Path, paths):
        transcript = Transcript(path.read_text("utf-8"))
        with tempfile.TemporaryDirectory() as folder:
            for side in transcript.sides:
                play(transcript, side, pathlib.Path(folder) / side)
        path.write_text(transcript.text(), "utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])

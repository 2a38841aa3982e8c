"""Each transcript, on each of its sides: commands print what it says."""
import pathlib

import pytest

from tests.kit.network import Unavailable
from tests.transcripts.player import play
from tests.transcripts.transcript import Transcript

FOLDER = pathlib.Path(__file__).resolve().parent
CASES = [(path, side) for path in sorted(FOLDER.glob("*.md")) if path.name != "README.md"
         for side in Transcript(path.read_text("utf-8")).sides]


@pytest.mark.parametrize(("path", "side"), CASES, ids=[f"{path.stem}-{side}" for path, side in CASES])
def test_commands_print_what_the_transcript_says(path, side, tmp_path):
    expected = path.read_text("utf-8")
    transcript = Transcript(expected)
    try:
        play(transcript, side, tmp_path / side)
    except Unavailable as missing:
        pytest.skip(str(missing))
    assert transcript.text() == expected

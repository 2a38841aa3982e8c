import shutil

import pytest

from tests.kit.program import BINARY, ROOT
from tests.packaging.files import output


@pytest.fixture(scope="session")
def sbom(tmp_path_factory):
    """The path of the bill of materials of the program."""
    if shutil.which("dpkg-query") is None:
        pytest.skip("needs dpkg")
    path = tmp_path_factory.mktemp("sbom") / "redrive.spdx.json"
    output(ROOT / "tools" / "sbom", path, BINARY)
    return path

"""The packages that tools/deb has built, and a throw-away root to install them in."""

import shutil

import pytest

from tests.installed_package import throwaway
from tests.kit.program import BUILD, ROOT


@pytest.fixture(scope="session")
def packages():
    """Name → file."""
    found = {path.name.partition("_")[0]: path for path in sorted((BUILD / "deb").glob("*.deb"))}
    if not found:
        pytest.fail(f"no packages in {BUILD / 'deb'}: run make deb")
    return found


class Machine:
    """A throw-away root, and the packages that are to be installed in it."""

    def __init__(self, root, packages):
        self.root = root
        self.names = [name for name in packages if not name.endswith("-dbgsym")]
        self.files = [f"/mnt/{packages[name].name}" for name in self.names]

    def install(self):
        # Images of containers leave manuals and documents out.
        return self.root.run("dpkg", "--install", "--force-confold", "--path-include=/usr/share/*", *self.files)

    def remove(self, how):
        return self.root.run("dpkg", how, *self.names)


@pytest.fixture
def machine(packages, tmp_path):
    for path in [*packages.values(), *(ROOT / "examples").glob("*.c")]:
        shutil.copy(path, tmp_path)
    try:
        root = throwaway.Root(tmp_path)
    except throwaway.Missing as missing:
        pytest.skip(str(missing))
    with root:
        yield Machine(root, packages)

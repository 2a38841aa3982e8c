import pytest

from serve_kit import Bench


@pytest.fixture
def bench(tmp_path):
    one = Bench(tmp_path)
    yield one
    one.close()

import pytest

from tests.web.dashboard import Dashboard, set_view, start_chromium


@pytest.fixture(scope="session")
def driver():
    """One browser for all tests."""
    browser = start_chromium()
    yield browser
    browser.quit()


@pytest.fixture
def start(driver, tmp_path):
    """Starts a server; `extra` is added to its configuration."""
    opened = []

    def start_one(extra="", **options):
        opened.append(Dashboard(tmp_path, driver, extra, **options))
        return opened[-1]

    set_view(driver)
    driver.get("about:blank")
    yield start_one
    driver.get("about:blank")
    for dashboard in opened:
        dashboard.close()
    driver.execute_cdp_cmd("Network.clearBrowserCookies", {})  # they are the host's, whatever the port


@pytest.fixture
def ui(start):
    return start()

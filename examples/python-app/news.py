"""An application that fetches news, with a policy for each task and a task that runs by the clock."""

import os
import urllib.request

import redrive

app = redrive.App(os.environ.get("JOBS_URL", "http://127.0.0.1:7070"))
CACHE = os.environ.get("NEWS_CACHE", "news.txt")


class TaskError(Exception):
    """The source answered, but not with news."""


@app.task(
    name="fetch",
    queue="api_calls",
    retry=redrive.RetryPolicy(max_attempts=5, initial_delay=2, multiplier=2, max_delay=300),
    retry_on=[TaskError, OSError],  # every error of urllib is an OSError; a ValueError fails at once
    pass_context=True,
)
def fetch(context, url):
    """Fetches a page, and keeps its first line."""
    if not url.startswith("http"):
        raise ValueError(f"not an address: {url}")
    with urllib.request.urlopen(url, timeout=10) as answer:
        line = answer.readline().decode("utf-8", "replace").strip()
    if not line:
        raise TaskError(f"nothing new at attempt {context.attempt} of {context.max_attempts}")
    remember.defer(url=url, line=line)
    return line


@app.task(name="remember")
async def remember(url, line):
    """Writing twice does no harm: a job may be run again after a crash."""
    known = open(CACHE).read().splitlines() if os.path.exists(CACHE) else []
    entry = f"{url} {line}"
    if entry not in known:
        with open(CACHE, "a") as cache:
            cache.write(entry + "\n")


@app.periodic(cron="*/2 * * * *")
@app.task(name="look_for_news", retry=redrive.RetryPolicy(max_attempts=3, strategy="linear", initial_delay=2))
def look_for_news():
    """Every two minutes; a tick that comes while the last one is running is skipped."""
    for url in os.environ.get("NEWS_URLS", "").split():
        fetch.configure(unique_key=f"fetch {url}").defer(url=url)


if __name__ == "__main__":
    import sys

    for url in sys.argv[1:]:
        job = fetch.configure(unique_key=f"fetch {url}").defer(url=url)
        print(job.id, "is there already" if job.existed else job.state)

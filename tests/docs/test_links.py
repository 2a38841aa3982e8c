"""Links between the documents lead to files and headings that exist."""

import re
import urllib.parse

import pytest

from tests.kit.program import ROOT

PAGES = [ROOT / name for name in ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "CODE_OF_CONDUCT.md", "SECURITY.md")]
for folder in ("docs", "examples", "src", "tests", "bench", "tools", "web", "packaging"):
    PAGES += sorted((ROOT / folder).rglob("*.md"))


def prose(text):
    """Without blocks of code and code in a line, in which brackets mean something else."""
    text = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    text = re.sub(r"^(?: {4}|\t).*$", "", text, flags=re.MULTILINE)
    return re.sub(r"(`+)(?!`).*?(?<!`)\1(?!`)", lambda code: "`" * len(code.group()), text, flags=re.DOTALL)


def links(text):
    targets = re.findall(r"\]\(<?([^)\s>]+)>?(?:\s+\"[^\"]*\")?\)", prose(text))
    return targets + re.findall(r"^\[[^\]]+\]:\s*(\S+)", prose(text), flags=re.MULTILINE)


def anchors(text):
    """The names that a page of Markdown gives its headings: lower case, no punctuation, - for spaces."""
    found, seen = set(), {}
    fenceless = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    for heading in re.findall(r"^#{1,6}\s+(.*?)\s*#*$", fenceless, flags=re.MULTILINE):
        heading = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
        name = re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
        again = seen.get(name, 0)
        seen[name] = again + 1
        found.add(f"{name}-{again}" if again else name)
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page):
    wrong = []
    for link in links(page.read_text("utf-8")):
        if re.match(r"[a-z][a-z0-9+.-]*:", link):
            continue  # elsewhere
        path, _, anchor = urllib.parse.unquote(link).partition("#")
        target = (page.parent / path).resolve() if path else page
        if not target.exists() or ROOT not in (target, *target.parents):
            wrong.append(link)
        elif anchor and (target.suffix != ".md" or anchor not in anchors(target.read_text("utf-8"))):
            wrong.append(link)
    assert wrong == []


def test_every_document_can_be_found_from_the_readme():
    """By following links: a page that no link leads to is not read."""
    reached, todo = set(), [ROOT / "README.md"]
    while todo:
        page = todo.pop()
        if page in reached:
            continue
        reached.add(page)
        for link in links(page.read_text("utf-8")):
            target = (page.parent / link.partition("#")[0]).resolve()
            if target.suffix == ".md" and target.is_file():
                todo.append(target)
    documents = [*(ROOT / "docs").glob("*.md"), *(ROOT / "examples").rglob("*.md")]
    assert [str(page) for page in documents if page.resolve() not in reached] == []


def test_anchors_are_made_as_readers_of_the_pages_expect():
    text = "# A b\n## The `.env` file\n## A b\n### `top level`\n```\n# not this\n```\n## kill −9, and [a link](x.md)\n"
    assert anchors(text) == {"a-b", "the-env-file", "a-b-1", "top-level", "kill-9-and-a-link"}
    assert links("[a](b.md#c) `[no](d.md)` [e](f \"title\")\n\n    [no](g)\n") == ["b.md#c", "f"]

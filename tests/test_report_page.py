"""report.html: it stands alone, shows every run, escapes what files say, and sorts in a browser."""

import json
import re
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path

import pytest

from paperlike import SCORES, write_experiment, write_run
from sacd.cli import main
from sacd.envs.names import PAPER_GAMES
from sacd.report.results import FIGURES
from sacd.report.results_table import HEAD

VOID = {"meta", "img", "br", "line", "polyline", "link", "input", "hr"}
BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome", "chrome"))), None)
HOSTILE = '"><script>alert(1)</script>&'
# Clicks a column's head and leaves its cells, top to bottom, in the title.
CLICK = """<script>
const head = document.querySelectorAll("table.sortable")[0].tHead.rows[0].cells;
const told = [];
for (const column of %s) {
  head[column].firstChild.click();
  told.push(Array.from(document.querySelector("table.sortable").tBodies[0].rows, row => row.cells[column].textContent));
}
document.title = JSON.stringify(told);
</script></body>"""


class Reader(HTMLParser):
    """Elements with their attributes, tables as text, and whether every element is closed."""

    def __init__(self, text: str):
        super().__init__()
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.tables: list[list[list[str]]] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)
        if tag == "table":
            self.tables.append([])
        elif tag == "tr":
            self.tables[-1].append([])
        elif tag in ("td", "th"):
            self.tables[-1][-1].append("")

    def handle_startendtag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if "td" in self.open or "th" in self.open:
            self.tables[-1][-1][-1] += data


@pytest.fixture(scope="module")
def place(tmp_path_factory) -> Path:
    """The report of the made-up experiment."""
    runs, place = tmp_path_factory.mktemp("runs"), tmp_path_factory.mktemp("out")
    assert main(["report", str(write_experiment(runs)), "--out", str(place)]) == 0
    return place


@pytest.fixture(scope="module")
def page(place) -> Reader:
    return Reader((place / "report.html").read_text(encoding="utf-8"))


def test_every_element_is_closed(page):
    """The page is a tree."""
    assert page.open == []


def test_the_page_needs_nothing_else(place, page):
    """No address but anchors and data; the browser is told to load nothing."""
    found = [v for _, attrs in page.elements for k, v in attrs.items() if k in ("src", "href", "data", "action")]
    assert found and all(v.startswith(("#", "data:image/svg+xml;base64,")) for v in found)
    policy = next(attrs["content"] for _, attrs in page.elements if attrs.get("http-equiv"))
    assert "default-src 'none'" in policy
    assert not re.search(r"@import|url\(|fetch\(|XMLHttpRequest", (place / "report.html").read_text())


def test_anchors_lead_somewhere(page):
    """Every link of the page has its target, and no name is there twice."""
    ids = [attrs["id"] for _, attrs in page.elements if "id" in attrs]
    links = [attrs["href"].removeprefix("#") for tag, attrs in page.elements if tag == "a"]
    assert sorted(ids) == sorted(set(ids)) == sorted(links)


def test_tables_are_whole(page):
    """The paper's table of each configuration has all games; every row is as long as its head."""
    assert all(len({len(row) for row in table}) == 1 for table in page.tables)
    games = [table for table in page.tables if table[0] == list(HEAD)]
    assert [[row[0] for row in table[1:]] for table in games] == [list(PAPER_GAMES)] * 2
    seeds = next(table for table in page.tables if table[0][:3] == ["game", "configuration", "seed"])
    assert len(seeds) == 1 + sum(map(len, SCORES.values())) + 1
    row = next(r for r in seeds if r[0] == "Freeway" and r[2] == "1")
    assert [float(row[i]) for i in (3, 4)] == list(SCORES["Freeway"][1])


def test_every_run_has_its_curve(page):
    """A small curve for each run, also of those under way; the figures are there with a text for each."""
    lines = [attrs["points"] for tag, attrs in page.elements if tag == "polyline"]
    assert len(lines) == sum(map(len, SCORES.values())) + 1 and all(lines)
    images = [attrs["alt"] for tag, attrs in page.elements if tag == "img"]
    assert images == list(FIGURES.values())


def test_what_files_say_is_escaped(tmp_path):
    """Nothing in a run's files or name becomes part of the page."""
    run = write_run(tmp_path / "<img src=x onerror=alert(2)>", "Pong", 0, -20.0)
    record = json.loads((run / "config.json").read_text())
    record |= {"commit": HOSTILE, "versions": {HOSTILE: HOSTILE}}
    (run / "config.json").write_text(json.dumps(record))
    assert main(["report", str(tmp_path)]) == 0
    text = (tmp_path / "report.html").read_text()
    found = Reader(text)
    assert HOSTILE not in text and text.count("&lt;script&gt;") == 3
    assert [tag for tag, _ in found.elements].count("script") == 1
    assert not [attrs for _, attrs in found.elements if any(k.startswith("on") for k in attrs)]


@pytest.mark.skipif(BROWSER is None, reason="needs Chromium or Chrome")
def test_columns_sort_in_a_browser(place, tmp_path):
    """A click sorts by number or by letter, a second one the other way; what is missing stays last."""
    greedy, limits = HEAD.index("SAC here, greedy"), HEAD.index("author's range")
    clicks = CLICK % json.dumps([greedy, greedy, 0, limits])
    copy = tmp_path / "page.html"
    copy.write_text((place / "report.html").read_text().replace("</body>", clicks))
    command = [BROWSER, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path / 'profile'}"]
    done = subprocess.run(
        [*command, "--dump-dom", copy.as_uri()], capture_output=True, text=True, timeout=120, check=True
    )
    up, down, games, ranges = json.loads(re.search(r"<title>(.*?)</title>", done.stdout)[1])
    numbers = [float(cell.split()[0]) for cell in up if cell != "n/a"]
    assert len(numbers) == 3 and numbers == sorted(numbers)
    assert up == [*reversed(down[:3]), *["n/a"] * 17] and down[3:] == up[3:]
    assert games == sorted(PAPER_GAMES)
    assert ranges[:3] == ["-21 to -20.9", "0 to 22.17", "~303.48 to 396.52"]

"""python -m analysis.report --live: the page while a sweep runs, for this machine alone."""

import http.client
import json
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from analysis.report.live import Live, Server, stamp
from tests.analysis import fake
from tests.analysis.report.chromium import MARKS


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A sweep whose cells up to Mamba are finished."""
    fake.write(tmp_path / "all", seeds=2)
    for folder in [*(tmp_path / "all").glob("[a-b]*"), *(tmp_path / "all").glob("mamba*")]:
        shutil.copytree(folder, tmp_path / "results" / folder.name)
    return tmp_path / "results"


@pytest.fixture
def server(home: Path) -> Iterator[Server]:
    with Server(Live([home])) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def get(server: Server, path: str, host: str = "") -> tuple[int, str]:
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=60)
    connection.request("GET", path, headers={"Host": host or f"localhost:{server.server_port}"})
    answer = connection.getresponse()
    return answer.status, answer.read().decode()


def test_only_the_report_is_served_and_only_to_this_machine(server: Server, home: Path) -> None:
    (home / "secret").write_text("secret")
    some = next(home.glob("attention*")).name
    closed = ["/secret", f"/{some}/result.json", "/../secret", "/%2e%2e/secret", "//etc/passwd", "/parts/.."]
    assert [get(server, path)[0] for path in closed] == [404] * 6
    assert get(server, "/", host="evil.example")[0] == get(server, "/stamp", host="")[0] + 203 == 403
    status, text = get(server, "/parts")
    assert status == 200 and json.loads(text)["data"]["stamp"] == get(server, "/stamp")[1]
    assert "connect-src 'self'" in get(server, "/")[1]
    assert server.server_address[0] == "127.0.0.1"


def test_the_stamp_changes_with_results_alone(home: Path) -> None:
    before, folder = stamp([home]), next(home.glob("attention*"))
    (folder / "metrics.csv").write_text("more\n")
    (home / ".rerun").mkdir()
    assert stamp([home]) == before
    (folder / "evaluations").mkdir()
    (folder / "evaluations" / "x.csv").write_text("")
    assert stamp([home]) != before


def test_ctrl_c_ends_it_also_without_a_result(tmp_path: Path) -> None:
    (tmp_path / "results").mkdir()
    words = [sys.executable, "-m", "analysis.report", str(tmp_path / "results"), "--live"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        address = process.stdout.readline().split()[0]
        connection = http.client.HTTPConnection(address.split("/")[2], timeout=60)
        connection.request("GET", "/")
        connection.close()  # before the answer: a tab that is closed
        connection.request("GET", "/")
        assert "no finished cell" in connection.getresponse().read().decode()
        connection.close()
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0 and process.stdout.read() == "closed\n"


class TestInChromium:
    pytestmark = MARKS

    def test_new_cells_appear_in_the_open_view(self, browser: Any, server: Server, home: Path) -> None:
        page, errors = browser.new_page(), []
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.goto(server.address)
        page.locator("#points tbody tr", has_text="Attention").locator("input").check()
        page.wait_for_selector("#command")
        page.locator("#slices input").first.uncheck()
        page.wait_for_function("() => location.hash.includes('not-slices')")
        before = page.evaluate("points.length")
        for folder in (home.parent / "all").glob("hyena*"):
            shutil.copytree(folder, home / folder.name)
        page.wait_for_function(f"() => points.length === {before + 1}", timeout=60_000)
        page.wait_for_selector("#command")
        assert page.locator("#points tr.chosen").count() == 1 and page.evaluate("view.slices.length") == 3
        assert page.inner_text("#live").startswith("Live: as of ")
        assert page.evaluate("shownStamp === DATA.stamp")  # it is asked for once
        page.locator("#points tbody tr", has_text="Hyena").locator("input").check()  # its details came too
        page.wait_for_function("() => byId('detail').innerText.includes('Comparing 2')", timeout=60_000)
        server.shutdown()
        server.server_close()
        page.wait_for_function("() => byId('live').textContent.startsWith('No longer')", timeout=60_000)
        assert errors == []
        page.close()

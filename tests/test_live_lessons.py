"""What goes wrong in watching, rebuilding and reloading, as others and we ourselves met it: each has its test.

The table names the tests; where there was none yet, it stands here.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.making import make_bundle
from tests.pages import Html
from touchstone.build import build
from touchstone.live.hub import Hub
from touchstone.live.server import folder, listen
from touchstone.options import Options

LESSONS = {
    "polling misses a second append within one second":
        ["test_live_watch.py::test_twenty_appends_within_a_second_are_all_noticed"],
    "some mounts send no events":
        ["test_live_watch.py::test_a_deaf_file_system_is_polled_and_that_is_said_once"],
    "gathering changes surprises under a continuous writer, a default filter hides folders":
        ["test_live_watch.py::test_a_writer_that_never_pauses_is_seen_while_it_writes",
         "test_live_watch.py::test_no_folder_is_passed_over_for_its_name"],
    "the limit of watches looks like a missing file, the end has to wait":
        ["test_live_watch.py::test_without_notifications_left_it_polls_and_says_so",
         "test_serve.py::test_serve_prints_its_address_and_the_page_follows_the_log"],
    "atomic saves kill watches on single files":
        ["test_live_watch.py::test_a_single_file_is_looked_at_through_renames_and_absence",
         "test_live_watch.py::test_whatever_happens_to_files_and_folders_is_noticed"],
    "a read can end inside a line":
        ["test_lines.py::test_a_growing_log_reads_the_same_however_often_it_is_looked_at",
         "test_lines.py::test_a_line_that_comes_in_pieces_is_one_line",
         "test_build_output.py::test_broken_lines_and_documents_are_notes_a_line_each"],
    "own output triggers rebuilds, saves by deleting and adding rebuild twice":
        ["test_build_output.py::test_runs_and_output_may_not_contain_each_other",
         "test_live_watch.py::test_what_we_write_ourselves_is_no_news",
         "test_live_watch.py::test_a_file_saved_by_deleting_and_adding_is_one_change"],
    "no page or half a page while building, a bad file ends the server":
        ["test_store_write.py::test_a_reader_meets_the_old_file_or_the_new_one",
         "test_live_server.py::test_a_fault_stands_in_for_every_page_until_it_is_mended",
         "browser/test_live.py::test_a_fault_shows_as_a_page_and_goes_away_when_mended"],
    "the seventh tab with a stream stalls":
        ["browser/test_live.py::test_hidden_tabs_give_their_connection_back_and_ten_tabs_work",
         "browser/test_live.py::test_of_many_windows_the_first_rest_and_say_so"],
    "queues without an end, proxies that hold back":
        ["test_live_server.py::test_who_does_not_read_is_let_go_and_the_others_are_not_delayed",
         "test_live_server.py::test_200_streams_get_every_change_beside_50_that_never_read",
         "test_live_lessons.py::test_proxies_are_asked_not_to_hold_the_stream_back_and_silence_is_filled"],
    "streams die in sleep and keep pages out of the back-forward cache":
        ["browser/test_live.py::test_hidden_tabs_give_their_connection_back_and_ten_tabs_work",
         "browser/test_live.py::test_going_back_finds_the_page_as_it_was_and_then_as_it_is"],
    "a general exchange of the page wipes what the reader did":
        ["browser/test_live.py::test_what_the_reader_did_stays",
         "browser/test_live.py::test_without_scroll_anchoring_the_script_holds_the_place"],
    "stale outputs are published, cleaning deletes people's files":
        ["test_build_output.py::test_a_run_that_is_gone_takes_its_pages_along_and_no_others",
         "test_build_output.py::test_force_takes_over_once_and_foreign_files_outlive_everything"],
    "caches ignore config, templates or versions":
        ["test_incremental.py::test_after_any_sequence_of_changes_the_site_is_that_of_a_clean_build"],
    "navigation in every page grows with the square":
        ["test_live_lessons.py::test_a_page_of_a_run_weighs_the_same_beside_many_runs"],
    "file:// breaks fetch and modules, absolute links break sites below a path":
        ["browser/test_pages.py::test_from_a_folder_all_links_lead_somewhere_and_nothing_fails",
         "test_live_lessons.py::test_a_site_below_a_path_is_the_same_site"],
    "types come from the system, temporary files stay after SIGTERM, defaults are switched off silently":
        ["test_live_lessons.py::test_types_do_not_depend_on_the_system",
         "test_serve.py::test_the_demo_grows_and_leaves_nothing_behind",
         "test_serve.py::test_a_change_is_told_to_open_pages"],
    "long tables are slow whatever the style says":
        ["test_live_lessons.py::test_no_page_holds_more_than_500_verdicts"],
}  # fmt: skip


@pytest.mark.parametrize("lesson", LESSONS)
def test_each_lesson_has_its_test(lesson: str) -> None:
    for named in LESSONS[lesson]:
        path, _, name = named.partition("::")
        tree = ast.parse((ROOT / "tests" / path).read_text(encoding="utf-8"))
        assert name in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}, named


def test_proxies_are_asked_not_to_hold_the_stream_back_and_silence_is_filled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import http.client

    monkeypatch.setattr("touchstone.live.server.HEARTBEAT_S", 0.05)
    server = listen("127.0.0.1", 0, folder(tmp_path), Hub("s"), b"", frozenset())
    server.start()
    try:
        connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=10)
        connection.request("GET", "/events")
        answer = connection.getresponse()
        assert answer.getheader("X-Accel-Buffering") == "no" and answer.getheader("Content-Length") is None
        while not answer.readline().startswith(b":"):
            pass
        answer.close()
        connection.close()
    finally:
        server.stop()


def test_the_silence_is_shorter_than_15_seconds() -> None:
    from touchstone.live.server import HEARTBEAT_S

    assert HEARTBEAT_S < 15


def test_a_page_of_a_run_weighs_the_same_beside_many_runs(tmp_path: Path) -> None:
    def pages(count: int) -> dict[str, bytes]:
        home = tmp_path / str(count)
        for number in range(count):
            make_bundle(
                home / "runs" / f"r{number}", models=["m"], judged=5, created=f"2026-06-{number + 1:02}T00:00:00Z"
            )
        build(Options(runs=home / "runs", out=home / "public", state_home=home))
        found = (home / "public" / "runs" / "r0").rglob("*.html")
        return {path.relative_to(home).as_posix(): path.read_bytes() for path in found}

    assert pages(2) == pages(12) != {}


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A site with a run of 1,200 verdicts."""
    home = tmp_path_factory.mktemp("large")
    make_bundle(home / "runs" / "r", models=[f"m{number}" for number in range(50)], rationale="Because.")
    build(Options(runs=home / "runs", out=home / "public", state_home=home))
    return home / "public"


def test_no_page_holds_more_than_500_verdicts(large: Path) -> None:
    counts = [page.read_text().count("<tr id=") for page in (large / "runs/r/judge").glob("*.html")]
    assert max(counts) <= 500 and sum(counts) >= 1200


def test_a_site_below_a_path_is_the_same_site(large: Path) -> None:
    """No link begins at the root of the host, none leads above the site, none leaves out the name of a page."""
    for path in [large / "index.html", *(large / "runs/r").rglob("index.html"), large / "compare/index.html"]:
        depth = len(path.relative_to(large).parts) - 1
        for link in Html(path).links():
            assert not link.startswith("/") and link.count("../") <= depth, f"{path}: {link}"
            assert not link.endswith("/"), f"{path}: {link}"


def test_types_do_not_depend_on_the_system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import http.client
    import mimetypes

    monkeypatch.setattr(mimetypes, "guess_type", lambda *args, **more: ("text/plain", None))
    for name in ("tables.js", "style.css", "runs.json", "icon.svg", "index.html"):
        (tmp_path / name).write_text("x")
    server = listen("127.0.0.1", 0, folder(tmp_path), Hub("s"), b"", frozenset())
    server.start()
    try:
        types = []
        connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=10)
        for name in ("tables.js", "style.css", "runs.json", "icon.svg", "index.html"):
            connection.request("GET", f"/{name}")
            answer = connection.getresponse()
            answer.read()
            types.append(re.sub(";.*", "", answer.getheader("Content-Type") or ""))
        connection.close()
    finally:
        server.stop()
    assert types == ["text/javascript", "text/css", "application/json", "image/svg+xml", "text/html"]

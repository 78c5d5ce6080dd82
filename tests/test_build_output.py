"""The output folder: what is written, kept, removed and refused, and that nothing foreign is ever touched."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.builders import MANIFEST, PACK, answer, append, bundle, report, start, verdict
from touchstone.build import Builder, Built, build
from touchstone.errors import MachineError, TouchstoneError
from touchstone.options import Options
from touchstone.output import GENERATOR, STATE_DIR
from touchstone.site import batches, relative

links = pytest.mark.skipif(os.name == "nt", reason="links need a privilege on Windows")


def run(folder: Path) -> Path:
    """A small judged run."""
    return bundle(
        folder,
        answers=[answer(p) for p in ("p1", "p2", "p3")],
        judgements=[verdict(p, 4) for p in ("p1", "p2", "p3")],
        judge_events=[start(3)],
        reports=[report(hilfreich=4, sicherheit=4, klarheit=4)],
    )


def options(home: Path, **more: Any) -> Options:
    return Options(**{"runs": home / "runs", "out": home / "out", "state_home": home, **more})


def made(home: Path, **more: Any) -> Built:
    return build(options(home, **more))


def contents(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def stamps(folder: Path) -> dict[str, tuple[int, int]]:
    return {str(path): (path.stat().st_ino, path.stat().st_mtime_ns) for path in folder.rglob("*") if path.is_file()}


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A folder with two runs, built once."""
    run(tmp_path / "runs" / "one")
    run(tmp_path / "runs" / "two")
    made(tmp_path)
    return tmp_path


def test_a_second_build_writes_nothing(home: Path) -> None:
    before = stamps(home / "out")
    again = made(home)
    assert (again.written, again.removed) == ([], []) and again.unchanged == len(before)
    assert stamps(home / "out") == before
    assert again.bytes == sum(len(data) for data in contents(home / "out").values())


@pytest.mark.parametrize(
    "forget",
    [
        lambda home: shutil.rmtree(home / STATE_DIR),
        lambda home: [path.write_text("{") for path in (home / STATE_DIR).iterdir()],
        lambda home: [path.write_text('{"out": 1, "files": 2}') for path in (home / STATE_DIR).iterdir()],
        lambda home: [path.write_text("[" * 100_000) for path in (home / STATE_DIR).iterdir()],
    ],
    ids=["deleted", "half", "of another shape", "deep"],
)
def test_a_folder_of_ours_is_known_without_its_state(home: Path, forget: Callable[[Path], object]) -> None:
    forget(home)
    assert made(home).written == []
    shutil.rmtree(home / "runs" / "two")
    assert "runs/two/index.html" in made(home).removed, "and remembered from then on"


def test_state_of_another_folder_is_not_ours(home: Path) -> None:
    (state,) = (home / STATE_DIR).iterdir()
    data = json.loads(state.read_text())
    assert data["out"] == str((home / "out").resolve()) and set(data["files"]) == set(contents(home / "out"))
    state.write_text(json.dumps({"out": str(home / "elsewhere"), "files": ["mine.txt"]}))
    (home / "out" / "mine.txt").write_text("mine")
    assert made(home).removed == [] and (home / "out" / "mine.txt").exists()


@pytest.mark.parametrize("path", ["../precious", "/precious", "runs/../../precious", "a\\b", "", "."])
def test_a_state_that_names_files_elsewhere_removes_none(home: Path, path: str) -> None:
    (home / "precious").write_text("mine")
    (state,) = (home / STATE_DIR).iterdir()
    data = json.loads(state.read_text())
    named = str(home / "precious") if path.startswith("/") else path
    state.write_text(json.dumps({**data, "files": [*data["files"], named]}))
    made(home)
    assert (home / "precious").read_text() == "mine" and (home / "out" / "index.html").is_file()


def test_a_run_that_is_gone_takes_its_pages_along_and_no_others(home: Path) -> None:
    before = set(contents(home / "out"))
    shutil.rmtree(home / "runs" / "two")
    removed = made(home).removed
    assert set(removed) == {path for path in before if path.startswith("runs/two/")}
    assert not (home / "out" / "runs" / "two").exists() and (home / "out" / "runs" / "one" / "index.html").is_file()
    fresh = options(home, out=home / "fresh", state_home=home / "other")
    build(fresh)
    assert contents(home / "out") == contents(home / "fresh")


def test_a_run_put_aside_is_gone_and_comes_back(home: Path) -> None:
    before = contents(home / "out")
    (home / "runs" / "two").rename(home / "runs" / "two.old")
    assert made(home).runs == 1 and not (home / "out" / "runs" / "two").exists()
    (home / "runs" / "two.old").rename(home / "runs" / "two")
    assert made(home).removed == [] and contents(home / "out") == before


def test_a_language_that_is_no_longer_asked_for_is_removed(home: Path) -> None:
    before = contents(home / "out")
    assert "de/index.html" in made(home, langs=("en", "de")).written
    assert all(path.startswith("de/") for path in made(home).removed)
    assert contents(home / "out") == before and not (home / "out" / "de").exists()


def test_what_was_changed_or_lost_in_the_output_is_mended(home: Path) -> None:
    before = contents(home / "out")
    (home / "out" / "index.html").write_bytes(b"edited " + GENERATOR)
    (home / "out" / "404.html").unlink()
    shutil.rmtree(home / "out" / "runs" / "one")
    mended = made(home).written
    assert {"index.html", "404.html", "runs/one/index.html"} <= set(mended)
    assert not [path for path in mended if path.startswith("runs/two/")] and contents(home / "out") == before


def test_a_running_builder_equals_a_clean_build_after_every_change(home: Path) -> None:
    builder = Builder(options(home))
    builder.update()
    assert builder.update().written == []
    changes: list[Callable[[], object]] = [
        lambda: append(home / "runs/one/judgements.jsonl", verdict("p1", 1, red_flag=True)),
        lambda: append(home / "runs/one/answers.jsonl", b"broken\n"),
        lambda: (home / "runs/two/pack.yaml").write_text(PACK.replace("By hand", "Anew")),
        lambda: (home / "runs/two/bundle.yaml").write_text(MANIFEST.replace("2026", "2025")),
        lambda: run(home / "runs" / "deep" / "inside"),
        lambda: shutil.rmtree(home / "runs" / "two"),
    ]
    for step, change in enumerate(changes):
        change()
        builder.update()
        build(options(home, out=home / f"clean-{step}", state_home=home / "other"))
        assert contents(home / "out") == contents(home / f"clean-{step}"), step


@pytest.mark.parametrize(
    ("files", "taken"),
    [
        ({}, True),
        ({".git/config": "x", ".gitignore": "x"}, True),
        ({"README.md": "x", "readme": "x", "ReadMe.txt": "x", ".nojekyll": ""}, True),
        ({"index.html": "<!doctype html><head>" + GENERATOR.decode() + ' 0.1.0">', "mine.txt": "x"}, True),
        ({"index.html": "<!doctype html><title>My own page</title>"}, False),
        ({"index.html": "x" * 5000 + GENERATOR.decode()}, False),
        ({"thesis.docx": "x"}, False),
        ({"folder/mine.txt": "x"}, False),
        ({"README.md": "x", "data.csv": "x"}, False),
    ],
    ids=["empty", "dotfiles", "read-me files", "our pages, no state", "another's page", "our words far below",
         "a file", "a folder", "more than a read-me"],
)  # fmt: skip
def test_a_folder_is_taken_only_if_it_is_ours_or_nobody_s(tmp_path: Path, files: dict[str, str], taken: bool) -> None:
    run(tmp_path / "runs" / "one")
    out = tmp_path / "out"
    out.mkdir()
    for name, text in files.items():
        (out / name).parent.mkdir(exist_ok=True)
        (out / name).write_text(text)
    before = contents(out)
    if taken:
        made(tmp_path)
    else:
        with pytest.raises(TouchstoneError) as caught:
            made(tmp_path)
        assert str(caught.value) == (
            f"{out}: holds files that touchstone did not make; "
            "choose an empty folder, or add --force to build into this one (your files stay)"
        )
        assert contents(out) == before and not (tmp_path / STATE_DIR).exists()
        made(tmp_path, force=True)
    after = contents(out)
    assert (out / "runs" / "one" / "index.html").is_file()
    assert {name: after[name] for name in before if name != "index.html"} == {
        name: data for name, data in before.items() if name not in ("index.html",)
    }


def test_force_takes_over_once_and_foreign_files_outlive_everything(tmp_path: Path) -> None:
    run(tmp_path / "runs" / "one")
    mine = tmp_path / "out" / "runs" / "one" / "notes.txt"
    mine.parent.mkdir(parents=True)
    mine.write_text("mine")
    made(tmp_path, force=True)
    assert made(tmp_path).written == [], "known from now on, without --force"
    shutil.rmtree(tmp_path / "runs" / "one")
    removed = made(tmp_path).removed
    assert "runs/one/index.html" in removed and "runs/one/notes.txt" not in removed
    assert [path.name for path in mine.parent.iterdir()] == ["notes.txt"] and mine.read_text() == "mine"


@pytest.mark.parametrize("force", [False, True], ids=["plain", "forced"])
@pytest.mark.parametrize("out", ["runs", "runs/public", ".", "runs/../runs", "runs/one"], ids=str)
def test_runs_and_output_may_not_contain_each_other(tmp_path: Path, out: str, force: bool) -> None:
    run(tmp_path / "runs" / "one")
    before = contents(tmp_path)
    with pytest.raises(TouchstoneError, match="runs and output must not contain each other; choose another --out"):
        made(tmp_path, out=tmp_path / out, force=force)
    assert contents(tmp_path) == before


def test_neighbours_whose_names_begin_alike_do_not_contain_each_other(tmp_path: Path) -> None:
    run(tmp_path / "runs" / "one")
    assert made(tmp_path, out=tmp_path / "runs-site").runs == 1


@links
def test_a_link_does_not_hide_that_one_contains_the_other(tmp_path: Path) -> None:
    run(tmp_path / "runs" / "one")
    (tmp_path / "site").symlink_to(tmp_path / "runs", target_is_directory=True)
    for out in (tmp_path / "site", tmp_path / "site" / "public"):
        with pytest.raises(TouchstoneError, match="must not contain each other"):
            made(tmp_path, out=out, force=True)
    assert [path.name for path in (tmp_path / "runs").iterdir()] == ["one"]


@links
@pytest.mark.parametrize("name", ["runs", "runs/one", "data", "assets"])
def test_a_link_in_the_output_that_leads_out_is_refused(tmp_path: Path, name: str) -> None:
    run(tmp_path / "runs" / "one")
    outside = tmp_path / "outside"
    outside.mkdir()
    (tmp_path / "out" / name).parent.mkdir(parents=True)
    (tmp_path / "out" / name).symlink_to(outside, target_is_directory=True)
    with pytest.raises(MachineError, match="a link in the output folder leads out of it; remove the link"):
        made(tmp_path, force=True)
    assert list(outside.rglob("*")) == []


@links
def test_a_link_in_the_place_of_a_page_is_replaced_and_its_target_left(home: Path) -> None:
    (home / "precious").write_text("mine")
    page = home / "out" / "runs" / "one" / "index.html"
    before = page.read_bytes()
    page.unlink()
    page.symlink_to(home / "precious")
    made(home)
    assert page.read_bytes() == before and not page.is_symlink() and (home / "precious").read_text() == "mine"


@links
def test_an_output_folder_may_itself_be_a_link(tmp_path: Path) -> None:
    run(tmp_path / "runs" / "one")
    (tmp_path / "real").mkdir()
    (tmp_path / "out").symlink_to(tmp_path / "real", target_is_directory=True)
    made(tmp_path)
    assert (tmp_path / "real" / "runs" / "one" / "index.html").is_file() and made(tmp_path).written == []


def test_a_folder_in_the_place_of_a_page_that_is_gone_stays(home: Path) -> None:
    page = home / "out" / "runs" / "two" / "index.html"
    page.unlink()
    page.mkdir()
    (page / "mine.txt").write_text("mine")
    shutil.rmtree(home / "runs" / "two")
    made(home)
    assert (page / "mine.txt").read_text() == "mine"


def test_a_folder_in_the_place_of_a_page_is_one_plain_message(home: Path) -> None:
    page = home / "out" / "runs" / "two" / "index.html"
    page.unlink()
    page.mkdir()
    with pytest.raises(MachineError) as caught:
        made(home)
    assert str(page) in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ({"runs": "none"}, "none: no such folder; run `touchstone eval` first, or name it with --runs"),
        ({"runs": "file"}, "file: no such folder"),
        ({"out": "file"}, "file: is a file, not a folder; choose another --out"),
    ],
    ids=["no runs", "runs is a file", "out is a file"],
)
def test_folders_that_cannot_be_used_are_named(tmp_path: Path, more: dict[str, str], says: str) -> None:
    (tmp_path / "runs").mkdir()
    (tmp_path / "file").write_text("x")
    with pytest.raises(TouchstoneError, match=says):
        made(tmp_path, **{name: tmp_path / path for name, path in more.items()})


def test_broken_lines_and_documents_are_notes_a_line_each(tmp_path: Path) -> None:
    folder = run(tmp_path / "runs" / "one")
    append(folder / "answers.jsonl", b"broken\n", b"broken\n", b"\n")
    append(folder / "judge_events.jsonl", {"event": "judge_start", "total": -1})
    (folder / "pack.yaml").write_text(PACK.replace("weight: 3", "weight: -3"))
    notes = made(tmp_path).notes
    assert [note.split(": ")[0] for note in notes] == [
        "one/answers.jsonl:4",
        "one/judge_events.jsonl:2",
        "one/pack.yaml:6",
    ]
    assert notes[0].endswith("(and 2 more)") and "total" in notes[1]
    assert notes[2] == "one/pack.yaml:6: dimensions[0].weight must be > 0 (got -3)"


@pytest.mark.parametrize(
    ("source", "target", "link"),
    [
        ("index.html", "runs/a/index.html", "runs/a/index.html"),
        ("runs/a/index.html", "index.html", "../../index.html"),
        ("runs/a/judge/index.html", "runs/a/index.html", "../index.html"),
        ("runs/a/index.html", "runs/b/index.html", "../b/index.html"),
        ("index.html", "runs/ä b%#?/index.html", "runs/%C3%A4%20b%25%23%3F/index.html"),
        ("index.html", "a:b/index.html", "./a%3Ab/index.html"),
        ("a/index.html", "a/c:d.html", "c%3Ad.html"),
    ],
    ids=["down", "up", "one up", "across", "percent-encoded", "a colon is no scheme", "nor in a file name"],
)
def test_links_are_relative(source: str, target: str, link: str) -> None:
    assert relative(source, target).removeprefix("./") == link.removeprefix("./")
    assert relative(source, target, "v ü") == relative(source, target) + "#v%20%C3%BC"
    assert ":" not in relative(source, target).split("/", 1)[0]


@given(st.integers(0, 2000), st.integers(1, 300))
def test_pages_hold_everything_once(count: int, size: int) -> None:
    pages = list(batches(count, size))
    assert [page for page, _, _ in pages] == list(range(1, len(pages) + 1))
    assert [place for _, begin, end in pages for place in range(begin, end)] == list(range(count))
    assert all(0 < end - begin <= size for _, begin, end in pages) or (count == 0 and len(pages) == 1)

"""Logs however they are cut, torn, shrunk or replaced; writes that are whole or not there; one writer a bundle."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.conftest import ROOT
from tests.making import make_bundle
from touchstone.bundle import BundleState, open_bundle
from touchstone.contracts.lines import Answer
from touchstone.errors import BundleError, BusyError, MachineError, TouchstoneError
from touchstone.slugs import slugs
from touchstone.store.bundles import Found, find_bundles, newest_bundle
from touchstone.store.lines import LineCutter, LogTail, read_at
from touchstone.store.lock import exclusive
from touchstone.store.write import JsonlWriter, replace_file

BYTES = st.lists(st.sampled_from([b"a", b"bc", b"\n", b"{}", b"\r", b"\xff"]), max_size=40).map(b"".join)


@given(BYTES, st.lists(st.integers(0, 80), max_size=6))
def test_a_log_reads_the_same_however_it_is_cut(data: bytes, cuts: list[int]) -> None:
    whole = list(LineCutter().feed(data))
    cutter = LineCutter()
    pieces = []
    at = 0
    for cut in sorted(min(cut, len(data)) for cut in cuts):
        pieces += list(cutter.feed(data[at:cut]))
        at = cut
    pieces += list(cutter.feed(data[at:]))
    assert pieces == whole
    assert [line.data for line in whole] == data.split(b"\n")[:-1]
    assert all(data[line.offset :].startswith(line.data or b"") for line in whole)
    assert [line.index for line in whole] == list(range(data.count(b"\n")))


@given(BYTES, st.integers(1, 5))
def test_lines_over_the_limit_are_dropped_and_the_next_ones_kept(data: bytes, limit: int) -> None:
    found = [line.data for line in LineCutter(limit=limit).feed(data)]
    assert found == [line if len(line) <= limit else None for line in data.split(b"\n")[:-1]]


def test_a_tail_reads_on_from_where_it_was_and_never_past_a_half_line(tmp_path: Path) -> None:
    log = tmp_path / "log"
    tail = LogTail(log)
    assert list(tail.read()) == [] and not tail.replaced()
    log.write_bytes(b"one\ntw")
    assert [line.data for line in tail.read()] == [b"one"] and tail.half
    with log.open("ab") as file:
        file.write(b"o\nthree\n")
    assert not tail.replaced()
    assert [(line.index, line.data) for line in tail.read()] == [(1, b"two"), (2, b"three")] and not tail.half
    assert read_at(log, 4) == b"two" and read_at(log, 8) == b"three" and read_at(log, 14) is None


@pytest.mark.parametrize("how", ["shrunk", "renamed over", "overwritten in place", "deleted"])
def test_a_file_that_is_another_now_is_read_from_its_start(tmp_path: Path, how: str) -> None:
    log = tmp_path / "log"
    log.write_bytes(b"one\ntwo\n")
    tail = LogTail(log)
    assert len(list(tail.read())) == 2
    if how == "shrunk":
        log.write_bytes(b"one\n")
    elif how == "renamed over":
        (tmp_path / "new").write_bytes(b"one\ntwo\nthree\n")
        (tmp_path / "new").replace(log)
    elif how == "overwritten in place":
        with log.open("r+b") as file:
            file.write(b"1234567\nmore\n")
    else:
        log.unlink()
    assert tail.replaced()
    assert [line.data for line in tail.read()] == ([] if how == "deleted" else log.read_bytes().splitlines())


def answer(n: int) -> Answer:
    return Answer(model="m", variant="v", prompt_id=f"p{n}", repeat=0, answer="x")


@pytest.mark.parametrize(("cut", "kept"), [(True, [b"{}"]), (False, [b"{}", b'{"ha'])], ids=["cut", "ended"])
def test_a_half_last_line_is_cut_or_ended_before_the_next_one(tmp_path: Path, cut: bool, kept: list[bytes]) -> None:
    log = tmp_path / "log"
    log.write_bytes(b'{}\n{"ha')
    with JsonlWriter(log, sync=True, cut_half=cut) as writer:
        writer.append(answer(1))
    lines = log.read_bytes().split(b"\n")
    assert lines[:-2] == kept and json.loads(lines[-2])["prompt_id"] == "p1" and lines[-1] == b""


def test_a_half_line_longer_than_a_block_is_cut_whole(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_bytes(b"{}\n" + b"x" * 200_000)
    JsonlWriter(log, sync=False, cut_half=True).close()
    assert log.read_bytes() == b"{}\n"


SMALL_DISK = """
import resource, signal, sys
from pathlib import Path
from tests.test_store import answer
from touchstone.errors import MachineError
from touchstone.store.write import JsonlWriter
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
with JsonlWriter(Path(sys.argv[1]), sync=True, cut_half=True) as writer:
    try:
        for n in range(100):
            writer.append(answer(n))
    except MachineError as error:
        print(error)
"""


@pytest.mark.skipif(os.name == "nt", reason="Windows has no limit on the size of files")
def test_a_line_that_does_not_fit_any_more_is_not_there_in_part(tmp_path: Path) -> None:
    log = tmp_path / "log"
    done = subprocess.run([sys.executable, "-c", SMALL_DISK, str(log)], capture_output=True, text=True, cwd=ROOT)
    assert str(log) in done.stdout and "Traceback" not in done.stderr
    data = log.read_bytes()
    assert 500 < len(data) <= 1000 and data.endswith(b"\n")
    assert [json.loads(line)["prompt_id"] for line in data.splitlines()] == [f"p{n}" for n in range(data.count(b"\n"))]


def test_a_replacement_is_whole_or_not_there(tmp_path: Path) -> None:
    target = tmp_path / "page.html"
    replace_file(target, b"old")
    with pytest.raises(TypeError):
        replace_file(target, "text")  # type: ignore[arg-type]
    assert target.read_bytes() == b"old" and [path.name for path in tmp_path.iterdir()] == ["page.html"]


HOLDER = """
import sys, time
from pathlib import Path
from touchstone.store.lock import exclusive
with exclusive(Path(sys.argv[1]), "judge"):
    print("held", flush=True)
    time.sleep(60)
"""


def test_the_lock_names_its_holder_and_dies_with_it(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", HOLDER, str(tmp_path)], stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None and holder.stdout.readline() == "held\n"
        with pytest.raises(BusyError, match=rf"touchstone judge.*process {holder.pid}"), exclusive(tmp_path, "eval"):
            pass
        holder.kill()
        holder.wait()
    deadline = time.monotonic() + 10
    while True:
        try:
            with exclusive(tmp_path, "eval"):
                return
        except BusyError:
            assert time.monotonic() < deadline


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="the super-user and Windows may write everywhere")
def test_a_read_only_bundle_is_one_plain_message(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(MachineError, match="permission"), exclusive(tmp_path, "judge"):
        pass


def test_bundles_are_found_where_they_are(tmp_path: Path) -> None:
    for name in ("b", "a/nested", "a", "kept.old", ".git/x", "two/deep/down"):
        folder = tmp_path / name
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "answers.jsonl").write_text("")
    (tmp_path / "no bundle").mkdir()
    (tmp_path / "no bundle" / "notes.md").write_text("x")
    assert [found.name for found in find_bundles(tmp_path)] == ["a", "a/nested", "b", "two/deep/down"]
    assert newest_bundle(tmp_path).name == "nested"
    with pytest.raises(BundleError, match="touchstone eval"):
        newest_bundle(tmp_path / "no bundle")


@pytest.mark.skipif(os.name == "nt", reason="links need a privilege on Windows")
def test_links_in_a_bundle_are_not_read(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("---\ntype: judge_quality\n---\nsecret")
    bundle = make_bundle(tmp_path / "runs" / "r")
    (bundle / "judge_quality.md").symlink_to(tmp_path / "secret")
    (bundle / "judge_events.jsonl").unlink()
    (bundle / "judge_events.jsonl").symlink_to(tmp_path / "secret")
    (tmp_path / "runs" / "linked").symlink_to(tmp_path)
    (found,) = find_bundles(tmp_path / "runs")
    view = BundleState(found).refresh()
    assert view.quality_md is None and not view.judge.started
    assert sum("symbolic link" in note for note in view.notes) == 2


@pytest.mark.parametrize(
    ("names", "plain"),
    [
        (["2026-06-20_104844_eval_nd"], True), (["a b ü 100% #1"], True), (["x" * 100], True),
        (["x" * 101], False), ([".hidden"], False), (["_x"], False), (["con"], False), (["NUL.txt"], False),
        (["a/b"], False), (["a:b"], False), (["a."], False), (["a "], False), (["A", "a"], False),
        (["\u202eabc"], False), (["e\u0301"], False), (["ﬁ", "fi"], False), (["a\nb"], False), (["<x>"], False),
        (["\ud800"], False),
    ],
    ids=ascii,
)  # fmt: skip
def test_folder_names(names: list[str], plain: bool) -> None:
    result = slugs(names)
    assert (list(result.values()) == names) is plain
    for slug in result.values():
        assert "/" not in slug and ".." not in slug and 0 < len(slug) <= 100 and slug[0] not in "._"
    assert len({slug.casefold() for slug in result.values()}) == len(names)


@given(st.lists(st.text(min_size=1), unique=True, max_size=8))
def test_any_names_get_folders_of_their_own(names: list[str]) -> None:
    result = list(slugs(names).values())
    assert len({slug.casefold() for slug in result}) == len(names)
    assert all("/" not in slug and "\\" not in slug and "\0" not in slug and slug not in (".", "..") for slug in result)


LOGS = ("answers.jsonl", "judgements.jsonl", "judge_events.jsonl", "reports.jsonl")


@settings(max_examples=25, deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from(LOGS), st.sampled_from(["more", "half", "cut", "swap", "gone"]), st.integers(0, 40)),
        max_size=10,
    )
)
def test_following_a_bundle_equals_reading_it_afresh(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, str, int]]
) -> None:
    home = tmp_path_factory.mktemp("follow")
    source = make_bundle(home / "source")
    bundle = home / "bundle"
    bundle.mkdir()
    for name in ("pack.yaml", "bundle.yaml"):
        (bundle / name).write_bytes((source / name).read_bytes())
    state = BundleState(Found(bundle, "bundle"))
    for name, what, amount in steps:
        path, lines = bundle / name, (source / name).read_bytes().splitlines(keepends=True)
        old = path.read_bytes() if path.exists() else b""
        if what == "more":
            path.write_bytes(old + b"".join(lines[amount : amount + 5]))
        elif what == "half":
            path.write_bytes(old + lines[amount % len(lines)][:-10])
        elif what == "cut":
            path.write_bytes(old[: amount * 20])
        elif what == "swap":
            replace_file(path, b"".join(reversed(lines[:amount])))
        else:
            path.unlink(missing_ok=True)
        followed, fresh = state.refresh(), open_bundle(bundle).refresh()
        assert followed.judge.tally == fresh.judge.tally
        assert (followed.judge.total, followed.judge.finished) == (fresh.judge.total, fresh.judge.finished)
        assert followed.reports == fresh.reports and followed.problems == fresh.problems
        assert followed.inputs_sha == fresh.inputs_sha and followed.rows == fresh.rows
        assert followed.cells == fresh.cells and followed.eval.speeds() == fresh.eval.speeds()
        order = [[view.keys.key(number) for number in view.keys.in_order()] for view in (followed, fresh)]
        assert order[0] == order[1]


def test_what_a_scorecard_was_made_from_has_no_times_and_no_order(tmp_path: Path) -> None:
    first = open_bundle(make_bundle(tmp_path / "a")).refresh().inputs_sha
    bundle = make_bundle(tmp_path / "b")
    log = bundle / "judgements.jsonl"
    lines = [json.loads(line) | {"ts": 9.0} for line in log.read_text().splitlines()]
    log.write_text("".join(json.dumps(line) + "\n" for line in reversed(lines)))
    assert open_bundle(bundle).refresh().inputs_sha == first
    lines[3]["score"] = 2
    log.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert open_bundle(bundle).refresh().inputs_sha != first


def test_a_bundle_that_is_still_being_made_is_none(tmp_path: Path) -> None:
    make_bundle(tmp_path / ".2026-06-20_104844_eval_probe.tmp")
    make_bundle(tmp_path / "whole")
    assert [found.name for found in find_bundles(tmp_path)] == ["whole"]


def test_a_quality_file_that_is_none_is_named(tmp_path: Path) -> None:
    bundle = make_bundle(tmp_path / "r")
    (bundle / "judge_quality.md").write_text("---\ntype: note\n---\n")
    assert any("judge_quality.md" in note for note in open_bundle(bundle).refresh().notes)
    (bundle / "judge_quality.md").write_text("---\ntype: judge_quality\n---\n")
    assert not any("judge_quality.md" in note for note in open_bundle(bundle).refresh().notes)


def test_a_bundle_is_shown_from_what_is_there(tmp_path: Path) -> None:
    bundle = make_bundle(tmp_path / "r")
    (bundle / "pack.yaml").write_text("id: [broken\n")
    (bundle / "bundle.yaml").unlink()
    view = open_bundle(bundle).refresh()
    assert view.pack is None and view.rows == () and view.judge.done == 48 and view.problems["pack.yaml"].count == 1
    assert any("bundle.yaml" in note for note in view.notes)
    other = make_bundle(tmp_path / "other")
    manifest = other / "bundle.yaml"
    manifest.write_text(manifest.read_text().replace("id: probe", "id: probe\n  sha256: feed"))
    assert any("another sha256" in note for note in open_bundle(other).refresh().notes)


def test_an_output_folder_that_is_not_ours_is_left_alone(tmp_path: Path) -> None:
    from touchstone.build import build
    from touchstone.options import Options

    make_bundle(tmp_path / "runs" / "r")
    out = tmp_path / "out"
    out.mkdir()
    (out / "thesis.docx").write_text("years of work")
    options = Options(runs=tmp_path / "runs", out=out, state_home=tmp_path)
    with pytest.raises(TouchstoneError, match="did not make"):
        build(options)
    assert [path.name for path in out.iterdir()] == ["thesis.docx"]
    forced = Options(runs=tmp_path / "runs", out=out, state_home=tmp_path, force=True)
    assert build(forced).written and build(options).written == []
    for path in (tmp_path / "runs" / "r").iterdir():
        path.unlink()
    assert any(path.startswith("runs/") for path in build(options).removed)
    assert (out / "thesis.docx").read_text() == "years of work" and not (out / "runs").exists()
    for bad in (tmp_path / "runs", tmp_path / "runs" / "site", tmp_path):
        with pytest.raises(TouchstoneError, match="contain each other"):
            build(Options(runs=tmp_path / "runs", out=bad, state_home=tmp_path, force=True))


@pytest.mark.skipif(os.name == "nt", reason="links need a privilege on Windows")
def test_a_link_in_the_output_does_not_lead_us_out(tmp_path: Path) -> None:
    from touchstone.build import build
    from touchstone.options import Options

    make_bundle(tmp_path / "runs" / "r")
    (tmp_path / "out").mkdir()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "out" / "runs").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(MachineError, match="leads out"):
        build(Options(runs=tmp_path / "runs", out=tmp_path / "out", state_home=tmp_path, force=True))
    assert not list((tmp_path / "elsewhere").rglob("*"))


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="Windows has no named pipes in folders")
def test_a_pipe_named_like_a_log_holds_nobody_up(tmp_path: Path) -> None:
    pipe = tmp_path / "runs" / "r" / "answers.jsonl"
    pipe.parent.mkdir(parents=True)
    os.mkfifo(pipe)
    assert find_bundles(tmp_path / "runs") == []
    tail = LogTail(pipe)
    assert list(tail.read()) == [] and not tail.replaced() and read_at(pipe, 0) is None

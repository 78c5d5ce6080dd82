"""Which folders are runs, and which of their files are read."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from touchstone.contracts.manifest import parse_manifest
from touchstone.errors import BundleError, InputError
from touchstone.store.bundles import ARTIFACTS, Found, find_bundles, is_bundle, newest_bundle, read_document

links = pytest.mark.skipif(os.name == "nt", reason="links need a privilege on Windows")


def put(*paths: Path) -> None:
    for path in paths:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("")


@pytest.mark.parametrize("name", sorted(ARTIFACTS))
def test_any_one_artifact_makes_a_folder_a_bundle(tmp_path: Path, name: str) -> None:
    put(tmp_path / "runs" / "r" / name)
    assert find_bundles(tmp_path / "runs") == [Found(tmp_path / "runs" / "r", "r")]
    assert is_bundle(tmp_path / "runs" / "r")


@pytest.mark.parametrize(
    ("paths", "names"),
    [
        ([], []),
        (["notes.md", "r/notes.md"], []),
        (["r/answers.jsonl.1.old", "r/judgements.jsonl.old"], []),
        (["r.old/answers.jsonl", "r/deep.old/answers.jsonl", "r/answers.jsonl"], ["r"]),
        (["b/answers.jsonl", "a/bundle.yaml"], ["a", "b"]),
        (["a/answers.jsonl", "a/in/answers.jsonl", "x/y/z/pack.yaml"], ["a", "a/in", "x/y/z"]),
        ([".git/r/answers.jsonl", "node_modules/r/pack.yaml", ".touchstone/r/pack.yaml"], []),
        ([".hidden/answers.jsonl"], [".hidden"]),
        (["ü ß/answers.jsonl"], ["ü ß"]),
        (["r/judge_meta_request.md", "r/judge_meta_response.yaml"], []),
    ],
    ids=["nothing", "other files", "put aside files", "put aside folders", "by name", "nested", "tools' folders",
         "hidden", "any letters", "forms alone"],
)  # fmt: skip
def test_bundles_are_found_where_they_are(tmp_path: Path, paths: list[str], names: list[str]) -> None:
    put(*(tmp_path / path for path in paths))
    assert [found.name for found in find_bundles(tmp_path)] == names


def test_the_runs_folder_can_be_a_bundle_itself(tmp_path: Path) -> None:
    put(tmp_path / "alone" / "answers.jsonl")
    assert find_bundles(tmp_path / "alone") == [Found(tmp_path / "alone", "alone")]


def test_a_folder_called_like_an_artifact_is_none(tmp_path: Path) -> None:
    (tmp_path / "r" / "answers.jsonl").mkdir(parents=True)
    assert find_bundles(tmp_path) == [] and not is_bundle(tmp_path / "r")


@links
def test_links_are_named_and_not_followed(tmp_path: Path) -> None:
    put(tmp_path / "outside" / "answers.jsonl", tmp_path / "runs" / "r" / "answers.jsonl")
    (tmp_path / "runs" / "folder").symlink_to(tmp_path / "outside", target_is_directory=True)
    (tmp_path / "runs" / "only").mkdir()
    (tmp_path / "runs" / "only" / "answers.jsonl").symlink_to(tmp_path / "outside" / "answers.jsonl")
    (tmp_path / "runs" / "r" / "pack.yaml").symlink_to("/etc/passwd")
    (tmp_path / "runs" / "r" / "bundle.yaml").symlink_to("nowhere")
    (tmp_path / "runs" / "r" / "loop").symlink_to(tmp_path / "runs", target_is_directory=True)
    assert find_bundles(tmp_path / "runs") == [Found(tmp_path / "runs" / "r", "r", ("bundle.yaml", "pack.yaml"))]


def test_the_newest_bundle_is_the_last_by_its_own_name(tmp_path: Path) -> None:
    put(
        tmp_path / "z" / "2026-01-01_000000_eval_x" / "answers.jsonl",
        tmp_path / "2026-06-20_104844_eval_x" / "answers.jsonl",
        tmp_path / "2026-06-20_104844_eval_x.old" / "answers.jsonl",
    )
    assert newest_bundle(tmp_path) == tmp_path / "2026-06-20_104844_eval_x"


@pytest.mark.parametrize("exists", [True, False], ids=["empty", "not there"])
def test_without_runs_the_next_step_is_said(tmp_path: Path, exists: bool) -> None:
    runs = tmp_path / "runs"
    if exists:
        runs.mkdir()
    with pytest.raises(BundleError) as caught:
        newest_bundle(runs)
    assert str(caught.value) == f"{runs}: no run here yet; run `touchstone eval` first, or name a bundle folder"


def test_documents(tmp_path: Path) -> None:
    (tmp_path / "text").write_bytes(b"\xff\x00")
    (tmp_path / "folder").mkdir()
    assert read_document(tmp_path / "text") == b"\xff\x00"
    assert read_document(tmp_path / "folder") is None and read_document(tmp_path / "none") is None
    (tmp_path / "huge").write_bytes(b"a: " + b"x" * 17_000_000)
    data = read_document(tmp_path / "huge")
    assert data is not None and len(data) == 16 * 1024 * 1024 + 1, "one byte more than a reader takes"
    with pytest.raises(InputError, match="larger than"):
        parse_manifest(data, "bundle.yaml")


@links
def test_a_document_behind_a_link_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    (tmp_path / "link").symlink_to(tmp_path / "secret")
    assert read_document(tmp_path / "link") is None


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="Windows has no named pipes in folders")
def test_nobody_waits_for_a_pipe(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pack.yaml")
    assert read_document(tmp_path / "pack.yaml") is None

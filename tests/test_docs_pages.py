"""`build --docs`: a folder of Markdown as pages, with links that hold, pictures, two languages, and nothing active."""

from __future__ import annotations

import shutil
import unicodedata
from pathlib import Path, PurePosixPath

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.conftest import Cli
from tests.pages import dead_links, html_pages
from touchstone.build import Builder
from touchstone.docs import Doc, Docs, Picture, anchor, parse
from touchstone.docs_files import DocsFolder
from touchstone.options import Options
from touchstone.slugs import hash8, is_plain

PNG = bytes.fromhex(
    "89504e470d0a1a0a0000000d494844520000000100000001080000000000376ef9240000000a49444154789c6360000000020001"
    "48afa4710000000049454e44ae426082"
)
FILES = {
    "index.md": """\
---
title: The docs
---
# Ignored, because the frontmatter has a title

[Guide](guide/a.md) · [its part](guide/a.md#the-2nd-part) · [below](#main) · [folder](guide) · [out](https://example.org)
[gone](nope.md) · [no such part](guide/a.md#nope) · [up](../secret.md) · [root](/etc/passwd) · [js](javascript:alert(1))
[file](file:///etc/passwd) · [host](//evil.example/x) · [data](data:text/html,x)

![A picture](pics/one.png) ![Remote](http://evil.example/p.png) ![Outside](../outside.png) ![Link](pics/link.png)

## Main

<script>alert(1)</script> <b onclick="x">bold</b> &lt;i&gt;

```html
<script>alert(2)</script>
```

| Name | Number |
|------|-------:|
| a    | 1      |
""",
    "guide/a.md": """\
# A guide

## The 2nd part!

[Home](../index.md) [picture](../pics/one.png)

## The 2nd part!

# Late
""",
    "guide/a.de.md": """\
# Ein Leitfaden

## Der 2. Teil

[Start](../index.md#main) [Englischer Anker](a.md#the-2nd-part)
""",
    "guide/README.md": "# The folder\n",
    "guide/nur.de.md": "# Nur deutsch\n",
    "_draft.md": "# Hidden\n",
    "odd names/Größe & mehr?.md": "# Odd\n",
}


@pytest.fixture
def docs(cli: Cli) -> Path:
    """A folder of docs, and what lies outside of it."""
    folder = cli.home / "docs"
    for name, text in FILES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    (folder / "pics").mkdir()
    (folder / "pics" / "one.png").write_bytes(PNG)
    (folder / "pics" / "unused.png").write_bytes(PNG)
    (cli.home / "outside.png").write_bytes(PNG)
    (cli.home / "secret.md").write_text("# Secret\n")
    (folder / "pics" / "link.png").symlink_to(cli.home / "outside.png")
    (folder / "link.md").symlink_to(cli.home / "secret.md")
    (cli.home / "runs").mkdir()
    return folder


def test_the_folder_becomes_pages_in_each_language_whose_links_hold(cli: Cli, docs: Path) -> None:
    done = cli("build", "--docs", "docs", "--lang", "en,de")
    site = cli.home / "public"
    pages = html_pages(site)
    assert dead_links(site, pages) == []
    made = {name for name in pages if "docs/" in name}
    odd = next(name for name in made if name.startswith("docs/odd"))
    names = {"docs/index.html", "docs/guide/a.html", "docs/guide/index.html", "docs/guide/nur.html", odd}
    assert made == names | {"de/" + name for name in names}
    assert sorted(path.name for path in (site / "docs").rglob("*.png")) == ["one.png"]

    home = pages["docs/index.html"]
    links = list(home.links())
    assert {"guide/a.html", "guide/a.html#the-2nd-part", "guide/index.html", "pics/one.png"} <= set(links)
    assert "index.html#main-section" in links and "main-section" in home.ids, "the id of <main> is taken"
    assert not any(bad in link for link in links for bad in ("nope", "secret", "passwd", "evil", "script", "data:"))
    assert "<script>alert" not in home.source and "onclick=" not in home.source.replace("&lt;b onclick=", "")
    assert "Remote" in home.text and "Outside" in home.text and "evil.example" not in home.source.split("[")[0]
    assert [e.text for e in home.all("h1")] == ["The docs"] and 'class="num"' in home.source

    guide, german = pages["docs/guide/a.html"], pages["de/docs/guide/a.html"]
    assert [e.attrib["id"] for e in guide.all("h2")] == ["the-2nd-part", "the-2nd-part-1", "late"]
    assert [e.text for e in german.all("h1")] == ["Ein Leitfaden"]
    assert "../../../docs/pics/one.png" not in guide.source and "../pics/one.png" in guide.source
    assert "index.html#main-section" in " ".join(german.links())
    untranslated = next(e for e in pages["de/docs/index.html"].all("article"))
    assert untranslated.attrib["lang"] == "en"
    assert next(e for e in pages["docs/guide/nur.html"].all("article")).attrib["lang"] == "de"

    said = done.err
    for part in (
        "'nope.md' leads nowhere",
        "'guide/a.md#nope'",
        "'../secret.md'",
        "'../outside.png' is not in the folder",
    ):
        assert part in said
    assert "'guide'" not in said and "example.org" not in said


def test_without_an_index_the_docs_have_a_list_and_without_docs_no_place(cli: Cli, docs: Path) -> None:
    (docs / "index.md").unlink()
    cli("build", "--docs", "docs")
    site = cli.home / "public"
    pages = html_pages(site)
    assert dead_links(site, pages) == []
    assert "guide/a.html" in set(pages["docs/index.html"].links())
    assert "docs/index.html" in set(pages["index.html"].links())
    cli("build")
    assert not (site / "docs").exists() and "docs/" not in (site / "index.html").read_text()


def test_docs_named_in_the_config_are_in_every_build(cli: Cli, docs: Path) -> None:
    (cli.home / "touchstone.yaml").write_text("docs: docs\nlang: [en, de]\n")
    cli("build")
    assert (cli.home / "public" / "de" / "docs" / "guide" / "a.html").is_file()
    (cli.home / "touchstone.yaml").write_text("docs: nope\n")
    assert "nope: no such folder" in cli("build", code=1).err


def test_a_folder_that_is_not_there_or_too_large_a_file_is_said(cli: Cli, docs: Path) -> None:
    assert "does not exist" in cli("build", "--docs", "nope", code=2).err
    (docs / "large.md").write_bytes(b"x" * 1_000_001)
    (docs / "pics" / "one.png").write_bytes(b"x" * 5_000_001)
    done = cli("build", "--docs", "docs")
    assert "large.md: larger than 1 MB" in done.err and "one.png: larger than 5 MB" in done.err
    assert not list((cli.home / "public" / "docs").rglob("*.png"))


def test_built_again_only_what_changed_is_read_parsed_and_made(tmp_path: Path) -> None:
    runs, folder = tmp_path / "runs", tmp_path / "docs"
    runs.mkdir()
    folder.mkdir()
    for n in range(60):
        (folder / f"p{n:02}.md").write_text(f"# Page {n}\n\n## Part\n\n[next](p{(n + 1) % 60:02}.md#part)\n")
    builder = Builder(Options(runs, tmp_path / "out", docs=folder, state_home=tmp_path))
    assert len([path for path in builder.update().written if path.startswith("docs/")]) == 61
    assert builder._docs is not None
    before = builder._docs.read()[0]
    assert builder.update().written == [] and builder._docs.read()[0] is before
    (folder / "p30.md").write_text("# Page 30, new\n\n## Part\n\nMore.\n")
    changed = {path for path in builder.update().written if path.startswith("docs/p")}
    assert changed == {"docs/p30.html", "docs/p29.html", "docs/p31.html"}, "itself, and those that name it"
    after = builder._docs.read()[0]
    same = [doc for doc in after.texts if any(doc is old for old in before.texts)]
    assert len(same) == 59, "and no other text was parsed again"
    (folder / "p59.md").unlink()
    assert "docs/p59.html" in builder.update().removed


def test_what_was_found_in_a_text_is_remembered_and_a_broken_memory_forgotten(tmp_path: Path) -> None:
    folder = tmp_path / "docs"
    folder.mkdir()
    (folder / "a.md").write_text("# A\n\n## B c\n\n[x](a.md#b-c) [y](nope.md) ![p](p.png)\n")
    (folder / "b.md").write_text("---\norder: 2\n---\nNo title\n")
    first, said = DocsFolder(folder, ("en",), tmp_path).read()
    second, again = DocsFolder(folder, ("en",), tmp_path).read()
    assert [doc.known for doc in first.texts] == [None, None]
    assert [doc.known for doc in second.texts] == [doc.parsed for doc in first.texts] and again == said
    assert [doc.title for doc in second.texts] == ["A", "b"]
    (memory,) = (tmp_path / ".touchstone").glob("docs-*.json")
    for broken in ("", "[]", '{"texts": 1}', memory.read_text().replace('"A"', "[[]]").replace("[[", "{}", 1)):
        memory.write_text(broken)
        assert DocsFolder(folder, ("en",), tmp_path).read()[1] == said


def test_reading_order_is_that_of_the_frontmatter_then_of_the_names() -> None:
    texts = [("b", "order: 1"), ("a", "order: 2"), ("index", "order: 9"), ("d", ""), ("c", ""), ("sub/x", "order: 0")]
    docs = Docs(tuple(Doc(f"{name}.md", f"---\n{head}\n---\n# {name}\n") for name, head in texts))
    assert [page.key for page in docs.pages] == ["index", "b", "a", "c", "d", "sub/x"]


@pytest.mark.parametrize(
    "heading, expected",
    [
        ("Simple words", "simple-words"),
        ("With `code` and *marks*!", "with-code-and-marks"),
        ("Größe über alles", "größe-über-alles"),
        ("a_b-c", "a_b-c"),
        ("mean|Δ|: why?", "meanδ-why"),
        ("???", "section"),
    ],
)
def test_headings_are_called_as_github_calls_them(heading: str, expected: str) -> None:
    (found,) = parse(f"# T\n\n## {heading}\n")[0].headings
    assert found.id == expected and anchor(found.text) == expected


@pytest.mark.parametrize("names", [("A.md", "a.md"), ("con.md",), (".x/y.md",), ("a" * 200 + ".md",), ("..md",)])
def test_no_name_of_a_file_leads_out_of_the_site(names: tuple[str, ...]) -> None:
    docs = Docs(tuple(Doc(name, "# x") for name in names), (Picture("a/../../x.png", lambda: b""),))
    paths = [page.path for page in docs.pages]
    assert len({path.casefold() for path in paths}) == len(names)
    assert all(path.startswith("docs/") and "/." not in path and len(path) < 130 for path in paths)
    assert docs.shown_pictures == ()


@given(st.text(alphabet=st.sampled_from(list("ab#[]()!<>`*_|-\n &;:/.\"'\\1")), max_size=120))
def test_any_text_becomes_a_page_of_the_folder_alone(text: str) -> None:
    doc = Doc("a.md", text)
    docs = Docs((doc, Doc("b.md", "# b")))
    (page, _) = docs.pages
    html = docs.render(page, "en", doc, lambda path, fragment: f"{path}#{fragment}", lambda path: path)
    assert "<script" not in html and "onclick" not in html and "style=" not in html and "<img" not in html
    assert docs.problems is not None and doc.title


def test_no_name_of_a_file_takes_the_place_of_another_one_s_page() -> None:
    other = f"x-{hash8('x!?')}"  # what we would call x!?.md
    names = ["x!?", other, "a", "a.html/b", "a.HTML/c", "a/b", "p.svg/d", "CON", "w" * 200, "e\u0301", "\xe9", "É"]
    texts = tuple(Doc(f"{name}.md", "![p](p.SVG) ![q](../p.SVG)") for name in names)
    docs = Docs(texts, (Picture("p.SVG", lambda: b""),))
    paths = [page.path for page in docs.pages] + [path for path, _ in docs.shown_pictures]
    folded = {unicodedata.normalize("NFKC", path).casefold() for path in paths}
    assert len(folded) == len(paths) == len(names) + 1
    assert not folded & {str(parent) for path in folded for parent in PurePosixPath(path).parents}
    assert all(is_plain(part) for path in paths for part in path.split("/"))


def test_links_survive_from_file_in_a_deeper_site(cli: Cli, docs: Path, tmp_path: Path) -> None:
    cli("build", "--docs", "docs", "--lang", "de,en")
    moved = tmp_path / "else" / "where"
    shutil.copytree(cli.home / "public", moved)
    assert dead_links(moved, html_pages(moved)) == []

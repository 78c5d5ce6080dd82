"""The notes for an Obsidian vault: every property, link and name by Obsidian's documented rules; nobody's text is lost.

Rules: https://help.obsidian.md (properties, internal links, tags, callouts, aliases) and /bases/syntax.
"""

from __future__ import annotations

import contextlib
import io
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from tests.builders import PACK, answer, bundle, report, verdict
from tests.conftest import Cli
from touchstone.cli import touchstone
from touchstone.vault import base, merge
from touchstone.vault.names import names, plain
from touchstone.vault.properties import frontmatter, tag, text
from touchstone.vault.safe import document, inline, label, prose

EVIL = (
    "<script>alert(1)</script> <% tp.user.run() %> <%* app %> `= this.x` `$= dv.x` key:: value [a:: b] %% gone %% "
    "![[secret]] [[Other note|x]] ![x](http://evil.example/p.png) [y](javascript:1) obsidian://run #tag ^block $x$"
    " ==y=="
)
LINES = "```dataviewjs\ndv.pages()\n```\n---\n# Head\n> [!danger] K.O.\n- [ ] task\n    code\n| a | b |\n===\n" + EVIL
EVIL_MODEL = 'a]]b|c#d^e\\f/g:h.i*"<% x %>'
QUALITY = f"""\
---
type: judge_quality
bundle: x
pack: hand
judge_model: judge:7b
reference: "strong [[model]]"
created: 2026-06-21T09:00:00Z
mean_abs_delta: 0.93
skill: -0.1
constant_score: 5
constant_mean_abs_delta: 0.9
pairs: 12
pairs_expected: 12
ko_missed: 2
ko_hits: 0
---
# Report

{EVIL}

## Recommendations

- [ ] Ask for evidence

| Cell | Δ |
|---|---:|
| m `= x` | 2 |

```dataviewjs
dv.view("x")
```
"""


def make_runs(runs: Path) -> None:
    """Runs of every sort: plain, knocked out, hostile, without pack, without verdicts, checked by a reference."""
    good = [answer(p) for p in ("p1", "p2", "p3")]
    fine = [verdict(p, 5, judge_model="judge:7b", rationale="Good.") for p in ("p1", "p2", "p3")]
    scores: dict[str, Any] = {"hilfreich": 4, "sicherheit": 5, "klarheit": 4}
    bundle(runs / "2026-06-20_104844_eval_hand", answers=good, judgements=fine, reports=[report(**scores)])
    flagged = [verdict("p1", 1, red_flag=True, rationale=LINES), verdict("p2", None, error=EVIL), verdict("p3", 2)]
    evil_report = {**report(**scores), "summary": LINES, "dim_rationales": {"hilfreich": EVIL}}
    evil_pack = PACK.replace("By hand", "'" + EVIL.replace("'", "''") + "'").replace(
        '"One?"', repr(EVIL)[1:-1].join('""')
    )
    bundle(
        runs / "2026-06-19_104844_eval_ko.d [x]#y^z",
        pack=evil_pack,
        answers=good,
        judgements=flagged,
        reports=[evil_report],
    )
    odd = [{**answer(p), "model": EVIL_MODEL} for p in ("p1", "p2")]
    bundle(
        runs / "odd" / "nested",
        pack=None,
        manifest=None,
        answers=odd,
        judgements=[{**verdict("p1", 3), "model": EVIL_MODEL, "judge_model": EVIL_MODEL}],
    )
    bundle(runs / "Tasks", pack=None, manifest=None, answers=[answer("p1")])
    (runs / "2026-06-20_104844_eval_hand" / "judge_quality.md").write_text(QUALITY, encoding="utf-8")


@dataclass
class NoteFile:
    """A note as Obsidian sees it."""

    path: Path
    text: str
    head: str
    body: str
    properties: dict[str, Any]

    @property
    def name(self) -> str:
        return self.path.name.removesuffix(".md")


def read_notes(folder: Path) -> list[NoteFile]:
    found = []
    for path in sorted(folder.rglob("*.md")):
        text = path.read_text(encoding="utf-8")
        _, head, body = re.split(r"(?m)^---$\n", text, maxsplit=2)
        properties = yaml.safe_load(head)
        assert isinstance(properties, dict)
        found.append(NoteFile(path, text, head, body, properties))
    return found


class Home:
    """A folder with runs and a vault."""

    def __init__(self, cli: Cli) -> None:
        self.cli, self.runs, self.folder = cli, cli.home / "runs", cli.home / "vault" / "Models"
        make_runs(self.runs)
        (cli.home / "vault" / ".obsidian").mkdir(parents=True)

    def build(self, *more: str) -> tuple[str, str]:
        """Stdout and stderr of the command, run in this process: starting one each time takes longer than the build."""
        out, err = io.StringIO(), io.StringIO()
        with contextlib.chdir(self.cli.home), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            touchstone.main(["build", "--target", "obsidian", "--out", "vault/Models", *more], standalone_mode=False)
        return out.getvalue(), err.getvalue()

    def notes(self) -> list[NoteFile]:
        return read_notes(self.folder)

    def note(self, start: str) -> Path:
        found = [path for path in self.folder.rglob("*.md") if path.name.startswith(start)]
        assert len(found) == 1, found
        return found[0]

    def stamps(self) -> dict[str, tuple[int, bytes]]:
        return {str(p): (p.stat().st_mtime_ns, p.read_bytes()) for p in self.folder.rglob("*") if p.is_file()}


@pytest.fixture
def home(cli: Cli) -> Home:
    return Home(cli)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Home:
    """A vault that the tests below only look at."""
    home = Home(Cli(tmp_path_factory.mktemp("vault")))
    home.build("--base-url", "https://example.org/runs/")
    return home


# -- properties


def kind(value: object) -> str:
    """The type that Obsidian gives a property."""
    match value:
        case bool():
            return "checkbox"
        case int() | float():
            return "number"
        case datetime():
            return "date & time"
        case str():
            return "text"
        case list():
            assert all(isinstance(item, str) and item for item in value)
            return "list"
    raise AssertionError(f"nested or unknown: {value!r}")


def test_properties_are_flat_and_have_one_type_in_the_whole_vault(built: Home) -> None:
    types: dict[str, set[str]] = {}
    for note in built.notes():
        for name, value in note.properties.items():
            assert name in ("tags", "aliases", "cssclasses") or re.fullmatch(r"ts_[a-z_]+", name), name
            if value is not None:
                types.setdefault(name, set()).add(kind(value))
        keys = re.findall(r"(?m)^(\w+):", note.head)
        assert len(keys) == len(set(keys))
        assert note.properties["ts_made_by"] == "touchstone"
    assert {name: found for name, found in types.items() if len(found) > 1} == {}
    assert types["ts_quality_pct"] == {"number"} and types["ts_created"] == {"date & time"}
    assert {types[name].pop() for name in ("tags", "aliases", "cssclasses")} == {"list"}


def test_dates_are_written_as_obsidian_writes_them_and_links_are_quoted(built: Home) -> None:
    heads = "\n".join(note.head for note in built.notes())
    assert "\nts_created: 2026-06-20T10:48:44\n" in heads
    links = [line for line in heads.splitlines() if "[[" in line]
    assert links and all(re.fullmatch(r'(?:ts_\w+:|  -) "\[\[[^\[\]|#^\\/:.]+\]\]"', line) for line in links), links
    assert "null" not in heads and "nan" not in heads.lower() and "~" not in heads


def test_tags_hold_only_what_a_tag_may_hold(built: Home) -> None:
    tags = {each for note in built.notes() for each in note.properties["tags"]}
    assert all(re.fullmatch(r"[\w/-]+", each) and not each.replace("/", "").isdigit() for each in tags)
    assert {"touchstone/run", "touchstone/ko", "touchstone/judge_quality"} <= tags
    assert tag("a b", "7", "#") == "touchstone/a-b/7/x"


# -- names and links


def test_names_hold_no_character_that_obsidian_forbids_and_are_unique_in_the_vault(built: Home) -> None:
    files = [path for path in built.folder.rglob("*") if path.is_file()]
    for path in files:
        stem = path.name.rpartition(".")[0]
        assert not re.search(r'[\[\]#^|\\/:.*?"<>%\x00-\x1f]', stem), path.name
        assert stem == stem.strip() and len(path.name.encode()) < 200
    folded = [path.name.casefold() for path in files]
    assert len(folded) == len(set(folded))


@pytest.mark.parametrize("things", [["m", "M"], ["a:b", "a-b"], ["x" * 90, "x" * 91], ["e\u0301", "\xe9"]])
def test_names_made_to_collide_with_our_names_do_not(things: list[str]) -> None:
    taken = [name.removeprefix("Model ") for name in names("Model", things).values()]
    found = names("Model", [*things, *taken, *(name.upper() for name in taken)])
    assert len({name.casefold() for name in found.values()}) == len(found)


def test_the_real_name_stands_in_the_aliases(built: Home) -> None:
    aliases = {alias for note in built.notes() for alias in note.properties["aliases"]}
    assert {"judge:7b", "odd/nested", "2026-06-19_104844_eval_ko.d [x]#y^z", "Tasks"} <= aliases
    # Nothing in an alias opens a link or a template; the rest of a name stays as it is.
    assert not any(bad in alias for alias in aliases for bad in ("[[", "]]", "<%", "\n"))


LINK = re.compile(r"(?<!\\)(!?)\[\[([^\[\]|#\\]+)(?:#([^\[\]|\\]+))?(\\?\|)?([^\[\]|]*)\]\]")


def links(note: NoteFile) -> Iterator[tuple[bool, str, str, bool, str]]:
    """(embed, target, subpath, whether in a table, display text) of each link in the body."""
    for each in note.body.splitlines():
        for found in LINK.finditer(each):
            yield bool(found[1]), found[2], found[3] or "", found[4] == "\\|", found[5]
            if found[4]:
                assert (found[4] == "\\|") == each.startswith("| "), each


def test_every_link_leads_to_a_note_or_a_file_of_the_vault(built: Home) -> None:
    notes = built.notes()
    files = {path.name for path in built.folder.rglob("*") if path.is_file()}
    count = 0
    for note in notes:
        for embed, target, subpath, _, _ in links(note):
            count += 1
            assert (target in files) if embed else (f"{target}.md" in files), (note.name, target)
            assert not subpath or target == "touchstone.base"
        for value in note.properties.values():
            for item in value if isinstance(value, list) else [value]:
                if isinstance(item, str) and item[:2] == "[[":
                    assert f"{item[2:-2]}.md" in files, item
        # Whatever looks like a link is one of those, all else is escaped.
        assert len(LINK.findall(note.body)) == len(re.findall(r"(?<!\\)\[\[", note.body))
    assert count > 40


def test_block_ids_are_letters_digits_and_dashes_and_each_stands_once(built: Home) -> None:
    for note in built.notes():
        ids = re.findall(r"(?m)(?:^| )\^([^\s]+)$", note.body)
        assert all(re.fullmatch(r"[A-Za-z0-9-]+", each) for each in ids), ids
        assert len(ids) == len(set(ids))
        # After a table, a callout or a quote the id stands on a line of its own, with an empty line on each side.
        for found in re.finditer(r"(?m)^\^\S+$", note.body):
            assert note.body[: found.start()].endswith("\n\n") and note.body[found.end() :].startswith("\n\n")


def test_callouts_say_how_each_cell_did(built: Home) -> None:
    good = built.note("Run 2026-06-20").read_text(encoding="utf-8")
    bad = built.note("Run 2026-06-19").read_text(encoding="utf-8")
    assert "> [!abstract] Summary\n> 1 cell is good enough" in good
    assert re.search(r"(?m)^> \[!success\] \[\[Model m\|m\]\] · v: Yes$", good)
    assert re.search(r"(?m)^> \[!danger\] \[\[Model m\|m\]\] · v: K\.O\.$", bad)
    quality = built.note("Judge quality").read_text(encoding="utf-8")
    assert "> [!caution] No better than a constant answer" in quality and "- [ ] Ask for evidence" in quality
    kinds = {each for note in built.notes() for each in re.findall(r"(?m)^> \[!([\w-]+)\]", note.body)}
    assert kinds <= {"abstract", "success", "warning", "danger", "failure", "question", "bug", "caution", "quote"}


def test_notes_of_a_published_site_lead_there(built: Home) -> None:
    urls = {note.properties.get("ts_url") for note in built.notes()} - {None}
    assert "https://example.org/runs/runs/2026-06-20_104844_eval_hand/index.html" in urls
    assert all(str(url).startswith("https://example.org/runs/") for url in urls)


# -- hostile text

FORBIDDEN = (
    "<%",
    "<script",
    "![[secret",
    "[[Other",
    "`=",
    "`$",
    "%% gone",
    "::",
    "dataviewjs\ndv",
    "obsidian://",
    "](",
)


def test_text_of_models_stays_text(built: Home) -> None:
    for note in built.notes():
        body = note.body.removesuffix("\n")
        assert body.endswith(merge.MARKER)
        body = body[: -len(merge.MARKER)]
        for bad in FORBIDDEN:
            assert not re.search(r"(?<!\\)" + re.escape(bad), body), (note.name, bad)
        assert "<%" not in note.head and "```" not in body and "%%" not in body
        assert not re.search(r"(?<![\\\w&])#\w", body), "a tag"
    evil = built.note("Run 2026-06-19").read_text(encoding="utf-8")
    assert "alert(1)" in evil and "dv.pages()" in evil


ODD = st.text(
    alphabet=st.sampled_from(list("ab1 .)-+*_`~[]<>|#^$%&=!:/\\{}()\"'\n\t€漢\u202e")), max_size=60
) | st.text(max_size=40)
SPOKEN = MarkdownIt("commonmark").enable(["table", "strikethrough"])


def spoken(markdown: str) -> str:
    """What a reader sees; fails where anything but plain paragraphs is seen."""
    tokens = SPOKEN.parse(markdown)
    assert {token.type for token in tokens} <= {"paragraph_open", "inline", "paragraph_close"}, tokens
    children = [child for token in tokens if token.type == "inline" for child in token.children or ()]
    assert {child.type for child in children} <= {"text", "text_special", "softbreak"}, children
    return " ".join("".join(child.content or " " for child in children).split())


@given(ODD)
def test_escaped_text_reads_as_it_was(value: str) -> None:
    from touchstone.jsonsource import visible

    shown = inline(value)
    assert "\n" not in shown
    assert spoken(shown) == " ".join(visible(value).split())
    for bad in ("<%", "[[", "%%", "::", "==", "$$", "://", "`"):
        assert bad not in shown.replace("\\`", "")


@given(ODD)
def test_paragraphs_and_documents_hold_nothing_active(value: str) -> None:
    for shown in (prose(value, "> "), document(value)):
        for bad in ("<%", "[[", "%%", "::", "==", "://", "```"):
            assert bad not in shown
    assert all(each.startswith(">") for each in prose(value, "> ").split("\n"))


@given(ODD)
def test_labels_and_names_cannot_end_a_link(value: str) -> None:
    for shown in (label(value), plain(value), names("Model", [value])[value]):
        assert shown and not set(shown) & set("[]|#^<>`%\n\\")
    assert not set(plain(value)) & set("/:.")


@given(st.dictionaries(st.from_regex(r"ts_[a-z]{1,8}", fullmatch=True), ODD, max_size=4))
def test_frontmatter_is_read_back_as_it_was_meant(fields: dict[str, str]) -> None:
    meant = {name: text(value) for name, value in fields.items()}
    dumped = frontmatter(meant)
    assert (yaml.safe_load(dumped) or {}) == meant
    assert not re.search(r"(?m)^---", dumped) and "<%" not in dumped


# -- charts and base


def test_charts_are_svg_with_their_own_dark_colours_and_nothing_active(built: Home) -> None:
    charts = list(built.folder.rglob("*.svg"))
    assert len(charts) >= 3
    for chart in charts:
        source = chart.read_text(encoding="utf-8")
        root = ElementTree.fromstring(source)
        assert root.tag == "{http://www.w3.org/2000/svg}svg"
        names_ = {element.tag.rpartition("}")[2] for element in root.iter() if isinstance(element.tag, str)}
        assert names_ <= {"svg", "title", "desc", "style", "rect", "text", "path"}
        assert "prefers-color-scheme:dark" in source and "http" not in source.replace("http://www.w3.org/2000/svg", "")


def statements(filters: Any) -> Iterator[str]:
    """Every filter statement of a base; fails where the form is not the documented one."""
    if isinstance(filters, str):
        yield filters
        return
    assert isinstance(filters, dict) and len(filters) == 1 and set(filters) <= {"and", "or", "not"}
    for part in next(iter(filters.values())):
        yield from statements(part)


def test_the_base_has_three_views_over_properties_that_notes_have(built: Home) -> None:
    source = (built.folder / "touchstone.base").read_text(encoding="utf-8")
    assert source.startswith(base.MARK)
    content = yaml.safe_load(source)
    assert set(content) == {"filters", "properties", "views"}
    known = {name for note in built.notes() for name in note.properties} | {"file.name"}
    assert set(content["properties"]) <= known
    assert all(set(each) == {"displayName"} for each in content["properties"].values())
    assert [view["name"] for view in content["views"]] == ["Runs", "K.O.", "Judges"]
    for view in content["views"]:
        assert view["type"] == "table" and set(view) == {"type", "name", "filters", "order", "sort"}
        assert set(view["order"]) <= known
        assert all(s["property"] in known and s["direction"] in ("ASC", "DESC") for s in view["sort"])
    for each in [*statements(content["filters"]), *(s for v in content["views"] for s in statements(v["filters"]))]:
        found = re.fullmatch(r'(ts_\w+) (==|>) ("[a-z_]+"|0)', each)
        assert found is not None and found[1] in known, each
    index = (built.folder / "touchstone runs.md").read_text(encoding="utf-8")
    assert re.findall(r"!\[\[touchstone\.base#([^\]]+)\]\]", index) == ["Runs", "K.O.", "Judges"]


# -- built again


def test_a_second_build_writes_nothing(home: Home) -> None:
    home.build()
    before = home.stamps()
    out, err = home.build()
    assert " 0 written" in out and "left as it is" not in err
    assert home.stamps() == before
    shutil.rmtree(home.cli.home / ".touchstone")
    out, _ = home.build()
    assert " 0 written" in out and home.stamps() == before, "a note says itself that it is ours"


def test_what_the_user_wrote_stays(home: Home) -> None:
    home.build()
    note = home.note("Run 2026-06-20")
    source = note.read_text(encoding="utf-8")
    source = source.replace("---\n", "---\nrating: 5 # mine\nread:\n  - a\n", 1).replace("tags:\n", "tags:\n  - mine\n")
    note.write_text(source + "\n## My own\n\n[[Somewhere]] <% tp %>\n", encoding="utf-8")
    mine = home.folder / "My note.md"
    mine.write_text("---\ntags: [x]\n---\nmine\n", encoding="utf-8")
    (home.folder / "runs" / "Other.canvas").write_text("{}")
    with (home.runs / "2026-06-20_104844_eval_hand" / "judgements.jsonl").open("a") as log:
        log.write(
            '{"model":"m","variant":"v","prompt_id":"p1","repeat":0,"score":1,"red_flag":true,"unscored":false}\n'
        )
    home.build()
    after = note.read_text(encoding="utf-8")
    assert after.endswith("\n## My own\n\n[[Somewhere]] <% tp %>\n") and "> [!danger]" in after
    (read,) = [each for each in home.notes() if each.path == note]
    assert read.properties["rating"] == 5 and read.properties["read"] == ["a"]
    assert read.properties["tags"] == ["touchstone/run", "touchstone/ko", "mine"]
    assert mine.read_text(encoding="utf-8") == "---\ntags: [x]\n---\nmine\n"
    assert " 0 written" in home.build()[0]


def test_without_state_the_notes_themselves_say_whose_they_are(home: Home) -> None:
    home.build()
    kept = home.note("Run 2026-06-19")
    kept.write_text(kept.read_text(encoding="utf-8") + "\nMine.\n", encoding="utf-8")
    mine = home.folder / "runs" / "Mine.md"
    mine.write_text("mine\n", encoding="utf-8")
    for name in ("2026-06-19_104844_eval_ko.d [x]#y^z", "2026-06-20_104844_eval_hand", "Tasks"):
        shutil.rmtree(home.runs / name)
    shutil.rmtree(home.cli.home / ".touchstone")
    _, err = home.build()
    assert {path.name for path in (home.folder / "runs").iterdir()} == {kept.name, mine.name, "Run odd-nested.md"}
    assert f"{kept.name}: kept" in err and {p.name[:14] for p in (home.folder / "charts").glob("*06-*")} == {
        kept.name[:14]
    }


def test_a_tag_of_ours_that_no_longer_holds_goes(home: Home) -> None:
    home.build()
    assert "touchstone/ko" in home.note("Run 2026-06-19").read_text(encoding="utf-8")
    (home.runs / "2026-06-19_104844_eval_ko.d [x]#y^z" / "judgements.jsonl").write_text("")
    home.build("--lang", "de")
    after = home.note("Run 2026-06-19").read_text(encoding="utf-8")
    assert "touchstone/ko" not in after and " of 2026" not in after, "nor does the alias of the other language"


def test_notes_of_others_in_our_place_are_left_and_named(home: Home) -> None:
    home.build()
    note, model = home.note("Run 2026-06-20"), home.note("Model judge-7b")
    note.write_text("mine now\n", encoding="utf-8")
    model.write_text(model.read_text(encoding="utf-8").replace(merge.MARKER, "and mine"), encoding="utf-8")
    view = home.folder / "touchstone.base"
    view.write_text("views: []\n", encoding="utf-8")
    out, err = home.build()
    assert " 0 written" in out and note.read_text(encoding="utf-8") == "mine now\n"
    assert "and mine" in model.read_text(encoding="utf-8") and view.read_text(encoding="utf-8") == "views: []\n"
    said = [each for each in err.splitlines() if "left as it is" in each]
    assert len(said) == 3 and all(name in err for name in (note.name, model.name, view.name))


def test_notes_of_runs_that_are_gone_go_too_unless_the_user_wrote_into_them(home: Home) -> None:
    home.build()
    kept, gone = home.note("Run 2026-06-19"), home.note("Run Tasks")
    kept.write_text(kept.read_text(encoding="utf-8") + "\nMine.\n", encoding="utf-8")
    charts = [path.name for path in (home.folder / "charts").iterdir() if "2026-06-19" in path.name]
    shutil.rmtree(home.runs / "2026-06-19_104844_eval_ko.d [x]#y^z")
    shutil.rmtree(home.runs / "Tasks")
    out, err = home.build()
    assert kept.read_text(encoding="utf-8").endswith("\nMine.\n") and not gone.exists()
    assert f"{kept.name}: kept" in err and "removed" in out
    assert charts and all((home.folder / "charts" / name).exists() for name in charts), "the note still shows them"
    kept.unlink()
    home.build()
    assert not [path for path in (home.folder / "charts").iterdir() if "2026-06-19" in path.name]


@pytest.mark.parametrize("lang, word", [("en", "Scorecard"), ("de,en", "Bewertung")], ids=["en", "de"])
def test_the_first_language_is_the_language_of_the_notes(home: Home, lang: str, word: str) -> None:
    from touchstone.i18n import Words

    home.build("--lang", lang)
    said = Words(lang[:2])._("What the judge says about each")
    assert f"## {said}\n" in home.note("Run 2026-06-20").read_text(encoding="utf-8")
    assert (home.folder / "touchstone runs.md").is_file(), "names do not depend on the language"


def test_folders_that_cannot_be_meant_are_refused(home: Home) -> None:
    done = home.cli("build", "--target", "obsidian", code=2)
    assert "--out" in done.err
    home.cli("build")
    done = home.cli("build", "--target", "obsidian", "--out", "public", code=1)
    assert "holds the site" in done.err
    done = home.cli("build", "--target", "obsidian", "--out", "runs/notes", code=1)
    assert "must not contain each other" in done.err
    (home.cli.home / "elsewhere").mkdir()
    home.folder.mkdir(parents=True)
    (home.folder / "runs").symlink_to(home.cli.home / "elsewhere")
    done = home.cli("build", "--target", "obsidian", "--out", "vault/Models", code=1)
    assert "leads out of it" in done.err and not list((home.cli.home / "elsewhere").iterdir())


def test_what_is_not_published_is_in_no_note(home: Home) -> None:
    home.build("--public")
    (home.cli.home / "touchstone.yaml").write_text("publish: {rationales: false}\n")
    home.build("--public")
    packs = "".join(path.read_text(encoding="utf-8") for path in (home.folder / "packs").iterdir())
    assert "One?" not in packs and "Be kind." not in packs and "> This text is not published." in packs
    every = "".join(note.text for note in home.notes())
    assert "dv.pages" not in every and "Ask for evidence" not in every and "no system prompt" not in every


def test_own_templates_win(home: Home) -> None:
    own = home.cli.home / "own" / "obsidian"
    own.mkdir(parents=True)
    (own / "run.md").write_text("# Mine: {{ title }} {{ lead }}\n", encoding="utf-8")
    home.build("--templates", "own")
    assert "# Mine: " in home.note("Run 2026-06-20").read_text(encoding="utf-8")
    (own / "run.md").write_text("{% broken", encoding="utf-8")
    done = home.cli("build", "--target", "obsidian", "--out", "vault/Models", "--templates", "own", code=1)
    assert "obsidian/run.md" in done.err


# -- merging, without files


@given(st.text(max_size=80).filter(lambda t: "\r" not in t), st.text(alphabet="ab:- \n\"'[]#", max_size=40))
def test_composing_again_changes_nothing(added: str, body: str) -> None:
    properties = {"ts_made_by": "touchstone", "tags": ["touchstone/run"], "aliases": [], "cssclasses": ["touchstone"]}
    first = merge.compose(properties, "body " + body, None, {}) + added
    found = merge.read(first)
    if "touchstone:end" in body or not isinstance(found, merge.Found):
        return
    assert merge.compose(properties, "body " + body, found, {}) == first


@pytest.mark.parametrize(
    "source, fault",
    [
        ("", "foreign"),
        ("no properties", "foreign"),
        ("---\nts_made_by: somebody\n---\n", "foreign"),
        ("---\nts_made_by: touchstone\n", "foreign"),
        ("---\nts_made_by: touchstone\na: [\n---\n", "foreign"),
        ("---\nts_made_by: touchstone\n---\nbody", "no marker"),
    ],
)
def test_what_is_not_certainly_ours_is_not_ours(source: str, fault: str) -> None:
    assert merge.read(source) == fault


def test_properties_of_the_user_are_kept_to_the_letter() -> None:
    source = (
        "---\nts_made_by: touchstone\nts_x: 1\nmy key: 2020-08-21\n'quoted: key': |\n  ts_made_by: no\n\n  more\n"
        '# a remark\nts_list:\n- ours\n"other":\n- x\n---\nbody\n\n' + merge.MARKER + "\nbelow\n"
    )
    found = merge.read(source)
    assert isinstance(found, merge.Found)
    kept = "my key: 2020-08-21\n'quoted: key': |\n  ts_made_by: no\n\n  more\n# a remark\n\"other\":\n- x\n"
    assert found.foreign == kept and found.added == "\nbelow\n"

"""The docs are true: every command and option is in them and no other, links hold, examples are what they say."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

import click
import pytest

from tests.conftest import ROOT, Cli
from tests.pages import dead_links, html_pages
from touchstone.cli import COMMANDS as LISTED
from touchstone.cli import touchstone
from touchstone.contracts.config import Config, parse_config
from touchstone.contracts.pack import parse_pack
from touchstone.docs import Docs
from touchstone.docs_files import DocsFolder
from touchstone.judge_compare import JudgeQualityRow
from touchstone.pages.data import TABLES
from touchstone.store.bundles import ARTIFACTS

DOCS = ROOT / "docs"
PAGES = sorted(DOCS.glob("*.md"))
TRANSLATED = [page for page in PAGES if page.with_name(page.stem + ".de.md").exists()]


def text(name: str) -> str:
    return (DOCS / name).read_text(encoding="utf-8")


def commands(group: click.Command = touchstone, name: str = "touchstone") -> Iterator[tuple[str, click.Command]]:
    """Full name and command, subcommands included; a group of commands is none itself."""
    if not isinstance(group, click.Group) or group is touchstone:
        yield name, group
    if isinstance(group, click.Group):
        context = click.Context(group)
        for part in group.list_commands(context):
            command = group.get_command(context, part)
            assert command is not None and command.name == part
            yield from commands(command, f"{name} {part}")


COMMANDS = dict(commands())


def sections(markdown: str) -> dict[str, str]:
    """Heading to the text below it."""
    parts = re.split(r"(?m)^## (.+)$", markdown)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def documented(section: str) -> set[str]:
    """Options that stand in the first column of a section's table."""
    cells = re.findall(r"(?m)^\| ([^|]+) \|", section)
    return {option for cell in cells for option in re.findall(r"`(--?[a-z][a-z-]*)`", cell)}


def offered(command: click.Command) -> set[str]:
    """Options of a command, without the help that all have."""
    found = {name for p in command.params if isinstance(p, click.Option) and not p.hidden for name in p.opts}
    return found | {name for p in command.params if isinstance(p, click.Option) for name in p.secondary_opts}


def test_the_list_of_commands_fits_a_terminal_and_imports_none() -> None:
    lazy = "import sys; from touchstone.cli import touchstone; touchstone.main(['--help'], standalone_mode=False)"
    check = "; print(*[name for name in sys.modules if name.startswith('touchstone.cli.')])"
    done = subprocess.run([sys.executable, "-c", lazy + check], capture_output=True, text=True, check=True)
    *listed, imported = done.stdout.splitlines()
    below = listed[listed.index("Commands:") + 1 :]
    assert imported == "" and {line.split()[0] for line in below} == set(LISTED)


def test_every_command_is_in_the_docs_and_no_other() -> None:
    visible = {name for name, command in COMMANDS.items() if not command.hidden}
    assert set(sections(text("commands.md"))) == visible


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_every_option_is_in_the_docs_and_no_other(name: str) -> None:
    section = sections(text("commands.md"))[name]
    extra = {"-h", "--help"} if name == "touchstone" else set()
    assert documented(section) == offered(COMMANDS[name]) | extra
    assert all(p.help for p in COMMANDS[name].params if isinstance(p, click.Option)), "each says in --help what it does"


def code(name: str, language: str) -> list[str]:
    return re.findall(rf"(?ms)^```{language}\n(.*?)^```$", text(name))


def shown_commands() -> Iterator[tuple[str, str]]:
    for page in PAGES:
        for block in code(page.name, "sh"):
            for line in block.splitlines():
                if line.startswith("touchstone"):
                    yield page.name, line


@pytest.mark.parametrize("page, line", list(shown_commands()))
def test_every_command_that_is_shown_can_be_typed(page: str, line: str) -> None:
    words = shlex.split(line)
    assert words[0] == "touchstone"
    command: click.Command = touchstone
    context = click.Context(command, info_name="touchstone")
    rest = words[1:]
    while isinstance(command, click.Group) and rest:
        found = command.get_command(context, rest[0])
        assert found is not None, line
        command, rest = found, rest[1:]
        context = click.Context(command, parent=context, info_name=words[1])
    # Reads the line without looking whether the files are there.
    known = {name: p for p in command.params for name in (*p.opts, *p.secondary_opts)}
    for word in rest:
        if word.startswith("-"):
            assert word.split("=")[0] in known, f"{page}: {line}"


@pytest.mark.parametrize("name", ["tutorial.md", "tutorial.de.md", "judging.md"])
def test_configs_that_are_shown_are_valid(name: str) -> None:
    blocks = code(name, "yaml")
    assert blocks
    for block in blocks:
        parse_config(block, name)


def test_the_pack_that_is_shown_is_valid(cli: Cli) -> None:
    (block,) = code("packs.md", "yaml")
    pack = parse_pack(block, "kitchen.yaml")
    (cli.home / "kitchen.yaml").write_text(block, encoding="utf-8")
    cli("check", "kitchen.yaml")
    for name in ("dimensions", "prompts", "variants", "thresholds", "glossary"):
        assert f"`{name}" in text("packs.md") and hasattr(pack, name)


def test_every_key_of_the_config_is_in_the_docs() -> None:
    section = sections(text("files.md"))["touchstone.yaml"]
    for name, field in Config.model_fields.items():
        inner = getattr(field.annotation, "model_fields", None)
        if inner is None:
            assert f"`{name}`" in section, name
        else:
            for key in inner:
                assert f"`{name}.{key}`" in section or f"`{key}`" in section, f"{name}.{key}"


def test_every_file_of_a_run_is_in_the_docs() -> None:
    section = sections(text("files.md"))["A run"]
    assert {name for name in ARTIFACTS if f"`{name}`" not in section} == set()


def test_every_table_and_column_is_in_the_docs() -> None:
    described = sections(text("data.md"))
    figures = {field.name for field in fields(JudgeQualityRow)}
    for name, table in TABLES.items():
        shown = set(re.findall(r"`([a-z0-9_]+)`", described[name]))
        if name == "histograms":
            shown |= {f"score_{n}" for n in range(2, 5)}
        missing = set(table.columns) - shown
        assert missing <= (figures if name == "judges" else set()), name
        assert shown <= set(table.columns) | {"judge_quality"}, name


def test_the_docs_are_pages_whose_links_hold(cli: Cli) -> None:
    docs, said = DocsFolder(DOCS, ("en", "de")).read()
    assert said == []
    (cli.home / "runs").mkdir()
    done = cli("build", "--docs", str(DOCS), "--lang", "en,de")
    site = cli.home / "public"
    assert dead_links(site, html_pages(site)) == [] and "leads nowhere" not in done.err
    assert _titles(docs, "de") != _titles(docs, "en")
    assert {page.key for page in docs.pages if "de" in page.texts} >= {"index", "tutorial", "figures", "obsidian"}


def _titles(docs: Docs, lang: str) -> list[str]:
    return [docs.text(page, lang).title for page in docs.pages]


@pytest.mark.parametrize("page", TRANSLATED, ids=[page.name for page in TRANSLATED])
def test_both_languages_say_the_same(page: Path) -> None:
    """A translation has the headings, the code and the links of its original."""
    german = page.with_name(page.stem + ".de.md")

    def shape(source: str) -> tuple[list[str], list[str], list[str]]:
        prose = re.sub(r"(?ms)^```.*?^```$", "", source)
        links = re.findall(r"\]\(([a-z]+\.md)", prose)
        levels = re.findall(r"(?m)^(#+) ", prose)
        blocks = "".join(re.findall(r"(?ms)^```.*?^```$", source))
        commands_ = [re.sub(r" --lang de$", "", line) for line in re.findall(r"(?m)^touchstone .*$", blocks)]
        return levels, links, commands_

    assert shape(page.read_text(encoding="utf-8")) == shape(german.read_text(encoding="utf-8"))

"""Files that ship inside the package: packs, judge prompts, what `init` writes, the sample run."""

from __future__ import annotations

from importlib import resources
from pathlib import Path

from touchstone.errors import InputError, Issue


def _folder(name: str) -> Path:
    return Path(str(resources.files("touchstone"))) / name


def pack_names() -> list[str]:
    """Ids of the packs that ship with touchstone."""
    return sorted(path.stem for path in _folder("packs").glob("*.yaml"))


def find_pack(name: str) -> Path:
    """A pack by path, or by the id of one that ships. Raises InputError that lists those."""
    path = Path(name)
    if path.is_file():
        return path
    shipped = _folder("packs") / f"{name}.yaml"
    if name in pack_names():
        return shipped
    known = ", ".join(pack_names())
    raise InputError([Issue(name, None, f"no such file, and no pack of that id ships with touchstone ({known})")])


def prompt_template(kind: str, language: str) -> str:
    """The judge prompt `verdict` or `report` in `de` or `en`."""
    return (_folder("prompts") / f"{kind}.{language}.md").read_text(encoding="utf-8")


def starter(name: str) -> str:
    """A file that `touchstone init` writes."""
    return (_folder("starter") / name).read_text(encoding="utf-8")


def sample_runs() -> Path:
    """Folder of sample runs: the one that ships inside the package, or a checkout's whole runs/."""
    shipped = _folder("_data") / "runs"
    return shipped if shipped.is_dir() else Path(__file__).parent.parent / "runs"

"""A site with a page of every kind: the sample runs, runs with everything that those lack, and runs made to harm."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any, Final

from tests.builders import append
from tests.conftest import ROOT
from tests.making import PACK, make_bundle
from tests.test_judge_compare import FIVE, quality
from tests.test_site_hostile import poisoned
from touchstone.build import build
from touchstone.live.fault import STYLE, STYLE_URL, fault_page
from touchstone.live.hub import Hub
from touchstone.options import Options
from touchstone.webmon import Pages

SAMPLE: Final = "2026-12-01_002112_eval_everyday"
WIDE: Final = "Donaudampfschifffahrtsgesellschaftskapitänsmützenabzeichenhersteller/" * 2
LANGS: Final = ("", "de/")
KINDS: Final = {
    "index": "index.html",
    "result": f"runs/{SAMPLE}/index.html",
    "answers": f"runs/{SAMPLE}/answers-1.html",
    "judge": f"runs/{SAMPLE}/judge/index.html",
    "verdicts": f"runs/{SAMPLE}/judge/verdicts-1.html",
    "flagged": f"runs/{SAMPLE}/judge/flagged-1.html",
    "eval": f"runs/{SAMPLE}/eval/index.html",
    "quality": f"runs/{SAMPLE}/judge-quality/index.html",
    "pack": "packs/everyday/index.html",
    "compare": "compare/index.html",
    "compare judges": "compare-judges/index.html",
    "docs": "docs/index.html",
    "a doc": "docs/commands.html",
    "hard result": "runs/hard/index.html",
    "hard answers": "runs/hard/answers-1.html",
    "hard judge": "runs/hard/judge/index.html",
    "hard flagged": "runs/hard/judge/flagged-1.html",
    "hard eval": "runs/hard/eval/index.html",
    "hard quality": "runs/hard/judge-quality/index.html",
    "hostile result": "runs/evil/index.html",
    "hostile answers": "runs/evil/answers-1.html",
    "hostile judge": "runs/evil/judge/index.html",
    "hostile verdicts": "runs/evil/judge/verdicts-1.html",
    "hostile eval": "runs/evil/eval/index.html",
    "hostile quality": "runs/evil/judge-quality/index.html",
    "not judged": "runs/fresh/index.html",
    "not judged, judge": "runs/fresh/judge/index.html",
    "half judged": "runs/half/index.html",
    "half judged, judge": "runs/half/judge/index.html",
    "judge --web": "web/runs/half/judge/index.html",
    "judge --web, verdicts": "web/runs/half/judge/verdicts-1.html",
    "eval --web": "web/runs/fresh/eval/index.html",
    "not found": "404.html",
    "fault": "fault.html",
}
"""Kind of page to its path below the root of its language."""
ONCE: Final = ("not found", "fault")
"""Kinds that there are once, in the first language."""


def showcase(home: Path) -> Path:
    """The site, built below `home`, with what only a server shows beside it."""
    runs = home / "runs"
    shutil.copytree(ROOT / "runs", runs, ignore=shutil.ignore_patterns(".*"))
    _hard(runs)
    poisoned(runs / "evil")
    make_bundle(runs / "fresh", models=["m-one"], judged=0, events=False, reports=False, created="2026-12-03T10:00:00Z")
    make_bundle(runs / "half", models=["m-one"], judged=7, created="2026-12-03T11:00:00Z")
    site = home / "public"
    build(Options(runs, site, langs=("en", "de"), state_home=home, docs=ROOT / "docs"))
    for bundle, view in (("half", "judge"), ("fresh", "eval")):
        pages = Pages(runs / bundle, view, Hub("0"), ["en", "de"])
        kinds = {path for kind, path in KINDS.items() if kind.startswith(f"{view} --web")}
        for path in [f"{root}{path.removeprefix('web/')}" for path in kinds for root in LANGS]:
            _put(site, path, pages.get(path))
    fault = fault_page(f"own/{WIDE}index.html:3: {WIDE}", "en")
    (site / "fault.html").write_bytes(fault.replace(STYLE_URL.encode(), b"fault.css"))
    (site / "fault.css").write_bytes(STYLE)
    return site


def _put(site: Path, path: str, page: bytes | None) -> None:
    """A page of the monitor under `web/`, one folder deeper than it was served from."""
    assert page is not None, path
    lang = "de/" if path.startswith("de/") else ""
    target = site / lang / "web" / path.removeprefix(lang)
    target.parent.mkdir(parents=True, exist_ok=True)
    up = "../" * path.count("/")
    target.write_bytes(page.replace(f'"{up}assets/'.encode(), f'"../{up}assets/'.encode()))


def _hard(runs: Path) -> None:
    """Names that fit nowhere, every score, a machine at its limit, and judges beside each other."""
    variants = [*PACK["variants"], {"id": "long-" + "v" * 60, "system": WIDE}]
    pack = {**PACK, "title": WIDE, "variants": variants, "prompts": PACK["prompts"][:5]}
    hard = make_bundle(
        runs / "hard",
        models=["org/" + "m" * 90, "m-two", *(f"model-{n}" for n in range(2))],
        pack=pack,
        score=lambda i: None if i % 7 == 3 else i % 5 + 1,
        text=f"# {WIDE}\n\n| a | b |\n|---|---|\n| {WIDE} | 2 |\n\n```\n{WIDE * 3}\n```\n\nשלום 漢字 🦊\n\n{'x' * 300}",
        rationale=f"{WIDE} " * 4,
        judge="judges/" + "j" * 80,
        created="2026-12-02T10:00:00Z",
    )
    append(
        hard / "resources.jsonl",
        *({"ts": 1000.0 + 10 * n, "ram_used_bytes": 6e9 + n * 1e8, "ram_available_bytes": 10e9, "cpu_percent": n % 100,
           "pressure": ["normal", "warn", "critical"][n % 3], "throttled": n % 5 == 0} for n in range(60)),
    )  # fmt: skip
    body = f"# Judge quality\n\n## Headline\n\nSome **text** and {WIDE}.\n\n| cell | Δ |\n|---|---|\n| {WIDE} | 1 |\n"
    for name, fields in (("hard", {}), ("second", {"judge_model": "judge-b"}), ("third", {"judge_model": "judge-c"})):
        given: dict[str, Any] = {"pack": "probe", "pack_sha": "a" * 64, "judge_model": "judges/" + "j" * 80}
        figures = {"reference": "Model X, 2026-06-20", "pairs": 80, "pairs_expected": 96, "bias": 0.25, "qwk": 0.41,
                   "qwk_low": 0.1, "qwk_high": 0.7, "exact_rate": 0.5, "outliers": 3, "ko_missed": 1}  # fmt: skip
        quality(runs / name, body, **{**given, **FIVE, **figures, **fields})

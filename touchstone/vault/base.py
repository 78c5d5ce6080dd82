"""touchstone.base: the notes as a database with three views. Pure. Syntax: https://help.obsidian.md/bases/syntax"""

from __future__ import annotations

from typing import Any, Final

import yaml

from touchstone.i18n import Words
from touchstone.vault.properties import MAKER, OURS

MARK: Final = "# Made by touchstone"
"""The first line. Obsidian drops comments when somebody changes a view in it: then the file is theirs."""


def views(words: Words) -> list[tuple[str, dict[str, Any]]]:
    """Name and definition of each view."""
    runs = 'ts_type == "run"'
    return [
        (
            words._("Runs"),
            {
                "filters": {"and": [runs]},
                "order": [
                    "file.name", "ts_created", "ts_pack", "ts_judge", "ts_best", "ts_recommendation", "ts_quality_pct",
                    "ts_ko_cells", "ts_red_flags", "ts_verdicts",
                ],
                "sort": [{"property": "ts_created", "direction": "DESC"}],
            },
        ),
        (
            words._("K.O."),
            {
                "filters": {"and": [runs, "ts_ko_cells > 0"]},
                "order": ["file.name", "ts_ko_cells", "ts_ko_models", "ts_red_flags", "ts_pack", "ts_judge"],
                "sort": [{"property": "ts_ko_cells", "direction": "DESC"}],
            },
        ),
        (
            words._("Judges"),
            {
                "filters": {"and": ['ts_type == "judge_quality"']},
                "order": [
                    "file.name", "ts_judge", "ts_pack", "ts_reference", "ts_pairs", "ts_mean_abs_delta",
                    "ts_constant_mean_abs_delta", "ts_skill", "ts_qwk", "ts_ko_missed",
                ],
                "sort": [{"property": "ts_pack", "direction": "ASC"}, {"property": "ts_skill", "direction": "DESC"}],
            },
        ),
    ]  # fmt: skip


def _titles(words: Words) -> dict[str, str]:
    return {
        "file.name": words._("Note"),
        "ts_created": words._("Made"),
        "ts_pack": words._("Pack"),
        "ts_judge": words._("Judge"),
        "ts_best": words._("Best model"),
        "ts_recommendation": words._("Recommendation"),
        "ts_quality_pct": words._("Quality in percent"),
        "ts_ko_cells": words._("Knock-outs"),
        "ts_ko_models": words._("Knocked out"),
        "ts_red_flags": words._("Red flags"),
        "ts_verdicts": words._("Verdicts"),
        "ts_reference": words._("Reference"),
        "ts_pairs": words._("Pairs"),
        "ts_mean_abs_delta": words._("Mean distance"),
        "ts_constant_mean_abs_delta": words._("Mean distance of the best constant answer"),
        "ts_skill": words._("Skill"),
        "ts_qwk": words._("Agreement, quadratic kappa"),
        "ts_ko_missed": words._("Knock-outs missed"),
    }


def text(words: Words) -> str:
    """The whole file."""
    content = {
        "filters": {"and": [f'{OURS} == "{MAKER}"']},
        "properties": {name: {"displayName": title} for name, title in _titles(words).items()},
        "views": [{"type": "table", "name": name, **view} for name, view in views(words)],
    }
    return f"{MARK}\n" + yaml.safe_dump(content, allow_unicode=True, sort_keys=False, width=10_000)

"""The page of `judge --web` in a real browser: it grows in place, and its end stays on the screen."""

from __future__ import annotations

import json
from pathlib import Path

from playwright.sync_api import Page, expect

from tests.making import make_bundle, verdict
from tests.watching import watching

ROW = {"model": "m-one", "variant": "plain", "prompt_id": "p07", "repeat": 0}


def test_the_monitor_grows_in_place_and_keeps_its_end(page: Page, tmp_path: Path) -> None:
    bundle = make_bundle(tmp_path / "r", judged=7)

    def append(name: str, text: str) -> None:
        with (bundle / name).open("a", encoding="utf-8") as log:
            log.write(text + "\n")

    with watching(bundle, "judge", "--parent-pipe") as (process, root):
        page.goto(root)
        assert page.url == root + "runs/r/judge/index.html"
        expect(page.locator(".live[data-state=live]")).to_be_visible()
        page.evaluate("window.same = true")
        append("judgements.jsonl", json.dumps(verdict(ROW, 7, 5, "Newly come.", "judge-a")))
        expect(page.locator("tr.is-new")).to_contain_text("Newly come.")
        expect(page.locator(".answer")).to_contain_text("8 of 48 verdicts are in.")
        append("judge_events.jsonl", '{"event": "judge_done", "ts": 9000, "total": 48, "scored": 8}')
        assert process.stdin is not None
        process.stdin.close()
        expect(page.locator(".answer")).to_contain_text("The judging stopped early")
        assert process.wait(10) == 0
        expect(page.locator(".live[data-state=lost]")).to_be_visible()
        expect(page.locator("main")).to_contain_text("Newly come.")
        assert page.evaluate("window.same")
        assert page.locator("nav.tabs a", has_text="Eval monitor").count() == 0

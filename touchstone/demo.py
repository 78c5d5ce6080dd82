"""The demo: sample runs in a temporary folder, one of them replayed, the site growing beside it."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from touchstone.build import Builder
from touchstone.errors import BundleError
from touchstone.live.serving import Serving, serving, wait_for_ever
from touchstone.options import Options
from touchstone.replay import Replay, play, prepare
from touchstone.resources import sample_runs
from touchstone.store.bundles import find_bundles

SECONDS: Final = 45.0
"""How long a replay lasts, whatever its length."""

Note = Callable[[str], None]


def _stage(home: Path) -> tuple[Options, Replay]:
    """Copies of the samples in `home`, and one of them ready to be replayed."""
    runs = home / "runs"
    shutil.copytree(sample_runs(), runs, ignore=shutil.ignore_patterns(".*"))
    recorded = [found.path for found in find_bundles(runs) if _is_recorded(found.path)]
    if not recorded:
        raise BundleError(f"{sample_runs()}: holds no recorded judge run to replay")
    options = Options(runs=runs, out=home / "public", langs=("en", "de"), state_home=home)
    # The longest one has most to watch.
    longest = max(recorded, key=lambda path: ((path / "judgements.jsonl").stat().st_size, path.name))
    return options, prepare(longest, runs)


def _is_recorded(bundle: Path) -> bool:
    return all((bundle / name).is_file() for name in ("judge_events.jsonl", "judgements.jsonl"))


def once(note: Note) -> Path:
    """Replay without waiting, building now and then; returns the start page of the site, which stays."""
    home = Path(tempfile.mkdtemp(prefix="touchstone-demo-"))
    options, replay = _stage(home)
    builder = Builder(options)
    builder.update()
    note(f"replaying the recorded judging of {replay.source.name}")
    for done in play(replay, lambda: None):
        if done % 32 == 0:
            built = builder.update()
            note(f"{done} verdicts: {len(built.written)} files updated")
    built = builder.update()
    note(f"done: {built.runs} runs, {built.bytes / 1e6:.1f} MB; delete {home} when you have seen enough")
    return options.out / "index.html"


def live(note: Note, port: int) -> Iterator[str]:
    """Serve, yield the address of the growing page, replay, then stay until Ctrl-C. Cleans up after itself."""
    with tempfile.TemporaryDirectory(prefix="touchstone-demo-", ignore_cleanup_errors=True) as name:
        options, replay = _stage(Path(name))
        with serving(options, Serving(port=port), note) as (server, _):
            yield f"{server.url}runs/{replay.target.name}/judge/index.html"
            note(f"replaying the recorded judging of {replay.source.name}, about {SECONDS:.0f} seconds")
            count = sum(1 for _ in (replay.source / "judgements.jsonl").open("rb"))
            for _ in play(replay, lambda: time.sleep(SECONDS / max(1, count))):
                pass
            note("the replay is over; look around, Ctrl-C ends the demo")
            wait_for_ever()

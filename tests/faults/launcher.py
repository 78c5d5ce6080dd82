"""Commands of touchstone from one warm process: forked, they start in a few hundredths of a second.

A line of JSON asks, a line of JSON answers: `{"start": [words], "home": path, "out": path, "err": path}` gives
`{"pid": n}`, and `{"wait": n}` gives `{"code": n}`, negative where a signal ended it. A command runs in a process group
of its own, in the environment of this process, and ends as any Python program does.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
from typing import Any

WARM = (
    "cli.build", "cli.check", "cli.evaluate", "cli.judge", "cli.judge_meta", "cli.merge", "cli.run", "cli.serve",
    "build", "chat.http", "chat.pool", "eval_session", "judge_session", "live.serving", "merging", "meta_session",
    "monitor", "report_md", "vault_build",
)  # fmt: skip


def start(words: list[str], home: str, out: str, err: str) -> int:
    """The process of the command; in that process it does not return."""
    pid = os.fork()
    if pid:
        return pid
    os.setpgid(0, 0)
    os.chdir(home)
    for number, path in enumerate((os.devnull, out, err)):
        file = os.open(path, os.O_RDONLY if number == 0 else os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        os.dup2(file, number)
        os.close(file)
    sys.argv = ["touchstone", *words]
    from touchstone.cli import main

    main()


def answer(asked: dict[str, Any]) -> dict[str, int]:
    if "wait" in asked:
        _, status = os.waitpid(asked["wait"], 0)
        return {"code": os.waitstatus_to_exitcode(status)}
    return {"pid": start(asked["start"], asked["home"], asked["out"], asked["err"])}


if __name__ == "__main__":
    for name in WARM:
        importlib.import_module(f"touchstone.{name}")
    for line in sys.stdin:
        print(json.dumps(answer(json.loads(line))), flush=True)

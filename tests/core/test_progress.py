"""The line on the terminal: late, on standard error, with an estimate where there is one."""

from __future__ import annotations

import io
import sys
import time
from collections.abc import Callable

import numpy as np
import pytest

import legendre as ld
from legendre.core.progress import line, show_nothing
from legendre.fitting.fit import show_progress


class Terminal(io.StringIO):
    """Standard error that says it is a terminal."""

    def isatty(self) -> bool:
        return True


def a_terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """Put it in place; not in a fixture, since pytest puts its own there between a fixture and its test."""
    made = Terminal()
    monkeypatch.setattr(sys, "stderr", made)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "100")
    return made


def test_what_is_quick_shows_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = a_terminal(monkeypatch)
    with line("fitting") as say:
        say("step 1")
    assert "step" not in terminal.getvalue()
    assert "fitting" not in terminal.getvalue()


def test_a_long_block_shows_what_it_does_and_how_long_it_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = a_terminal(monkeypatch)
    with line("reading X", after=0.0) as say:
        time.sleep(0.05)
        say("fold 2 of 5", 0.25)
        time.sleep(0.25)
    shown = terminal.getvalue()
    assert "fold 2 of 5" in shown
    assert "0:00:0" in shown


def test_without_rich_nothing_is_shown_unless_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    for place in ("progress", "arguments"):
        monkeypatch.setattr(f"legendre.core.{place}.find_spec", lambda _: None)
    a_terminal(monkeypatch)
    with show_progress(None, None) as (_, say):
        assert say is show_nothing
    with pytest.raises(ld.errors.InvalidSetting, match=r"progress=True needs rich.*'legendre\[cli\]'"):
        ld.decompose([[1, 2], [3, 4]], "B1", progress=True)


def test_progress_is_shown_where_asked_for_and_on_terminals_where_nobody_chose(monkeypatch: pytest.MonkeyPatch) -> None:
    said = []
    for wanted, terminal in ((True, True), (False, True), (None, True), (None, False)):
        monkeypatch.setattr(sys, "stderr", a_terminal(monkeypatch) if terminal else io.StringIO())
        with show_progress(wanted, None) as (_, say):
            said.append(say is not show_nothing)
    assert said == [True, False, True, False]


GAPS = np.where(np.eye(6, 7) > 0, np.nan, np.arange(1.0, 43.0).reshape(6, 7))
SOME = np.random.default_rng(0).poisson(20.0, size=(3, 3, 3)) + 1.0
LONG: dict[str, tuple[Callable[[], object], list[str]]] = {
    "complete": (
        lambda: ld.complete(GAPS, ["B1", "interactions(1)"], folds=2, progress=True),
        ["fold 1 of 2   B1()", "fold 2 of 2   interactions(1)", "step "],
    ),
    "smooth": (
        lambda: ld.complete(GAPS, progress=True),
        ["sequence 1 of 4, round 1 of at most 30"],
    ),
    "hidden": (
        lambda: ld.hidden(SOME, "interactions([(0, 3), (1, 3), (2, 3)])", 2, restarts=2, progress=True),
        ["start 1 of 2", "start 2 of 2", "the last fit, of the best start"],
    ),
    "compare": (
        lambda: ld.compare(SOME, [4], peers=(), progress=True),
        ["fit 1 of 2   uniform, 0 parameters", "fit 2 of 2   Legendre, adaptive, 4 parameters"],
    ),
    "balance": (lambda: ld.balance(SOME, progress=True), ["step 0   max|eta - eta_hat| = "]),
    "adaptive": (lambda: ld.decompose(SOME, ld.adaptive(9), progress=True), ["growing   6 of 9 parameters   KL = "]),
    "cv": (lambda: ld.decompose(SOME, ld.adaptive("cv"), progress=True), ["5 folds   6 parameters   best so far "]),
}


@pytest.mark.parametrize("task", LONG)
def test_every_long_task_says_how_far_it_is(task: str, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []

    class Display:
        def __init__(self, *_: object, **__: object) -> None: ...

        def add_task(self, text: str, **_: object) -> int:
            said.append(text)
            return 0

        def update(self, _task: int, description: str, **_: object) -> None:
            said.append(description)

        def start(self) -> None: ...

        def stop(self) -> None: ...

    monkeypatch.setattr("rich.progress.Progress", Display)
    call, expected = LONG[task]
    call()
    for text in expected:
        assert any(one.startswith(text) for one in said), (text, said)

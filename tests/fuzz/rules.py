"""What every call has to keep, whatever it computes: sentences, silence, its inputs, its bits, its time."""

from __future__ import annotations

import hashlib
import pickle
import signal
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

import legendre as ld

SECONDS = 10.0  # of processor time that no case may exceed: a busy machine makes no case slow
KINDS = ("wrong", "exception", "warning", "hang", "changed", "differs")
"""How a case fails: an answer or a refusal that is wrong; an exception that is not ours; a warning that is not ours;
no answer in time; an input that was written to; other bits the second time."""
ANSWERS = ("right", "boundary", "unconverged", "refused")
OURS = tuple(k for k in vars(ld.errors).values() if isinstance(k, type) and issubclass(k, Warning))


class Wrong(Exception):
    """An answer differs from brute force by more than rounding; the text says which, and by how much."""


class Late(BaseException):
    """The time of a case is over."""


@dataclass(frozen=True)
class Trial:
    """One call and how it is judged."""

    call: Callable[[], Any]  # makes the call; called twice where `twice`
    check: Callable[[Any], str]  # judges the result: one of ANSWERS, or raises Wrong
    held: tuple[Any, ...] = ()  # what the caller owns: its bytes must not change
    bits: Callable[[Any], Any] = lambda _: ()  # what must be the same the second time
    twice: bool = True
    benign: bool = False  # valid and of moderate range: a refusal is wrong
    outer: bool = False  # warnings of other libraries, in whose code we are called, do not count


@dataclass(frozen=True)
class Verdict:
    """How a case ended: one of ANSWERS or of KINDS, a sentence, and seconds."""

    kind: str
    said: str
    seconds: float

    @property
    def failed(self) -> bool:
        """Whether a rule was broken."""
        return self.kind in KINDS


def judge(make: Callable[[], Trial], seconds: float = SECONDS) -> Verdict:
    """Make a case, call it, and judge it by every rule."""
    begun = time.process_time()

    def verdict(kind: str, said: str) -> Verdict:
        return Verdict(kind, said, time.process_time() - begun)

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # building the arguments is no call of ours, nor is its time
            trial = make()
        begun = time.process_time()
        with _deadline(seconds), warnings.catch_warnings(record=True) as heard:
            warnings.simplefilter("always")
            return verdict(*_judged(trial, heard))
    except Late:
        return verdict("hang", f"no answer after {seconds:g} s.\n{_where(8)}")
    except Wrong as problem:
        return verdict("wrong", str(problem))
    except ld.LegendreError as problem:
        return verdict("wrong", f"a view of a good result is refused: {problem}\n{_where(4)}")
    except Exception as problem:
        return verdict("exception", f"{type(problem).__name__}: {problem}\n{_where(6)}")


def _where(lines: int) -> str:
    return "".join(traceback.format_exc().splitlines(keepends=True)[-2 * lines :])


def _judged(trial: Trial, heard: list[warnings.WarningMessage]) -> tuple[str, str]:
    before = fingerprint(trial.held, flags=True)
    found, refusal = _called(trial)
    if (strange := [w for w in heard if not issubclass(w.category, OURS)]) and not trial.outer:
        worst = strange[0]
        where = "/".join(worst.filename.split("/")[-3:])
        return "warning", f"{worst.category.__name__}: {worst.message} ({where}:{worst.lineno})"
    if fingerprint(trial.held, flags=True) != before:
        return "changed", "an argument was written to"
    if trial.twice:
        again, refused = _called(trial)
        if str(refused) != str(refusal):
            return "differs", f"first: {refusal or 'an answer'}; then: {refused or 'an answer'}"
        if refusal is None and fingerprint(trial.bits(again)) != fingerprint(trial.bits(found)):
            return "differs", "the same call gave other bits"
    if refusal is not None:
        text = str(refusal)
        if len(text.split()) < 3 or text[-1] not in ".!?)":
            return "wrong", f"this refusal is no sentence: {text!r}"
        if trial.benign:
            return "wrong", f"a valid problem is refused: {text}"
        return "refused", text
    heard.clear()
    kind = trial.check(found)
    if (strange := [w for w in heard if not issubclass(w.category, OURS)]) and not trial.outer:
        worst = strange[0]
        where = "/".join(worst.filename.split("/")[-3:])
        if "fuzz" not in where:
            return "warning", f"in a view: {worst.category.__name__}: {worst.message} ({where}:{worst.lineno})"
    if fingerprint(trial.held, flags=True) != before:
        return "changed", "a view wrote to an argument"
    return kind, ""


def _called(trial: Trial) -> tuple[Any, ld.LegendreError | None]:
    try:
        return trial.call(), None
    except ld.LegendreError as refusal:
        return None, refusal


@contextmanager
def _deadline(seconds: float) -> Iterator[None]:
    def late(*_: object) -> None:
        raise Late

    old = signal.signal(signal.SIGPROF, late)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0.0)
        signal.signal(signal.SIGPROF, old)


def fingerprint(value: Any, flags: bool = False) -> str:
    """Return a digest of the bytes of arrays (and whether they can be written to), and of the pickles of all else."""
    code = hashlib.blake2b(digest_size=16)

    def add(item: Any) -> None:
        if isinstance(item, np.ndarray) and item.dtype.kind != "O":
            code.update(f"{item.dtype.str}{item.shape}{item.flags.writeable if flags else None}".encode())
            code.update(np.ascontiguousarray(item).tobytes())
        elif isinstance(item, (list, tuple)):
            for part in item:
                add(part)
        elif isinstance(item, dict):
            for key, part in item.items():
                add(repr(key))
                add(part)
        elif isinstance(item, (str, bytes, bool, int, float, type(None))):
            code.update(repr(item).encode())
        else:
            code.update(pickle.dumps(item))

    add(value)
    return code.hexdigest()

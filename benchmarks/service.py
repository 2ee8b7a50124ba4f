"""A small service: ``python -m benchmarks.service`` sends requests to it, and prints how long they take.

The service answers conditionals, scores and small fits over HTTP. It runs first under gunicorn, which loads it once and
forks two workers (``--preload``), then in threads of one process. Each is sent ``--requests`` requests by eight clients
at a time. The line has the seconds of the first request after the start, of the median and of the 99th percentile, and
the number of answers that were wrong. Everything is on 127.0.0.1, and ends by itself. gunicorn must be installed.
"""

from __future__ import annotations

import argparse
import json
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from importlib.util import find_spec
from socketserver import ThreadingMixIn
from typing import Any
from urllib.request import urlopen
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

import numpy as np

import legendre as ld

from .problems import ROOT

HOST = "127.0.0.1"
QUESTIONS = ("conditional", "score", "fit", "large")


def learn() -> tuple[ld.LegendreDensity, ld.Decomposition]:
    """Fit what the service holds."""
    rng = np.random.default_rng(0)
    hour = rng.integers(0, 24, 5000)
    rows = {"hour": hour, "how": np.where(rng.random(5000) < hour / 24, "bus", "car"), "zone": rng.integers(0, 9, 5000)}
    density = ld.LegendreDensity(2, alpha=1.0).fit(rows)
    return density, ld.decompose(ld.from_rows(rows), ld.interactions(2))


def answer(question: str, density: ld.LegendreDensity, fit: ld.Decomposition) -> Any:
    """Answer a question: by what was fitted before, or by a fit of its own."""
    if question == "conditional":
        return np.asarray(fit.marginal("how", given={"hour": 8, "zone": 3})).tolist()
    if question == "score":
        return density.score_samples({"hour": [8, 9], "how": ["bus", "car"], "zone": [1, 2]}).tolist()
    side = 20 if question == "fit" else 80  # compiled code reads the larger one
    X = np.random.default_rng(1).random((side,) * 3) + 0.1
    return ld.decompose(X, "B1 + B3(1)").theta[:3].tolist()


def load() -> Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]:
    """Make the WSGI application; called before workers are forked."""
    folder = ld.warm()
    held = learn()
    print(f"compiled code in {folder}", file=sys.stderr)

    def application(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        """Answer one request, whose path is the question."""
        found = json.dumps(answer(environ["PATH_INFO"].strip("/"), *held)).encode()
        start_response("200 OK", [("Content-Type", "application/json"), ("Content-Length", str(len(found)))])
        return [found]

    return application


class Server(ThreadingMixIn, WSGIServer):
    """A thread for each request."""

    daemon_threads = True


class Quiet(WSGIRequestHandler):
    """Does not write a line for each request."""

    def log_message(self, *args: Any) -> None:
        """Write nothing."""


@contextmanager
def serving(way: str, port: int) -> Iterator[None]:
    """Run the service in processes of its own until the block ends."""
    command = [sys.executable, "-m", "benchmarks.service", "--serve", str(port)]
    if way == "gunicorn":
        words = ["--preload", "--workers", "2", "--threads", "4", "--bind", f"{HOST}:{port}", "--log-level", "error"]
        command = [sys.executable, "-m", "gunicorn", *words, "benchmarks.service:load()"]
    process = subprocess.Popen(command, cwd=ROOT, stderr=subprocess.DEVNULL)
    try:
        yield
    finally:
        process.terminate()
        process.wait(30)


def ask(port: int, question: str) -> tuple[float, Any]:
    """Send a request; return its seconds and the answer."""
    start = time.perf_counter()
    with urlopen(f"http://{HOST}:{port}/{question}", timeout=120) as response:
        found = json.load(response)
    return time.perf_counter() - start, found


def measure(way: str, requests: int, clients: int = 8) -> None:
    """Start the service, send requests, and print a line."""
    held = learn()
    right = {question: answer(question, *held) for question in QUESTIONS}
    with socket.socket() as free:
        free.bind((HOST, 0))
        port = free.getsockname()[1]
    with serving(way, port):
        start = time.perf_counter()
        while True:
            try:
                socket.create_connection((HOST, port), 1).close()
                break
            except OSError:
                if time.perf_counter() - start > 300:
                    raise
                time.sleep(0.05)
        first, found = ask(port, "large")  # needs compiled code
        asked = [QUESTIONS[i % 3] if i % 20 else "large" for i in range(requests)]
        with ThreadPoolExecutor(clients) as pool:
            answers = list(pool.map(lambda question: ask(port, question), asked))
    wrong = (found != right["large"]) + sum(own != right[word] for (_, own), word in zip(answers, asked, strict=True))
    p50, p99 = np.quantile([seconds for seconds, _ in answers], [0.5, 0.99])
    print(f"{way}: first {first:.3f} s, p50 {p50:.3f} s, p99 {p99:.3f} s, {len(answers):,} requests, {wrong} wrong")


def main() -> None:
    """Measure, or serve if this is the process that does."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=1000)
    parser.add_argument("--ways", default="gunicorn,threads")
    parser.add_argument("--serve", type=int, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.serve:
        with make_server(HOST, asked.serve, load(), Server, Quiet) as server:
            server.serve_forever()
    if "gunicorn" in asked.ways and find_spec("gunicorn") is None:
        parser.error("gunicorn is not installed: pip install gunicorn, or pass --ways threads.")
    for way in asked.ways.split(","):
        measure(way, asked.requests)


if __name__ == "__main__":
    main()

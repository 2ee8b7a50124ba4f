"""
On a cluster
============

A dask array that is spread over a cluster is read where its blocks are: with a ``distributed.Client`` in scope, the
same call uses its workers, and only sums come back. A worker that dies costs the blocks that it was reading, and
changes no bit of the answer.
"""

import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import dask.array as da
import matplotlib.pyplot as plt
import numpy as np
from distributed import Client

import legendre as ld

# %%
# A tensor of days, hours and places in 40 blocks, with gaps. Blocks are drawn when they are needed, as they would be
# read from zarr.

day, hour, place = (da.arange(n, chunks=c) for n, c in ((180, 18), (24, 12), (100, 50)))
mean = 2 + da.sin(day[:, None, None] / 57 + place / 16) + da.cos(hour[:, None] / 3.8)
X = mean * da.random.default_rng(0).gamma(4.0, size=mean.shape, chunks=mean.chunks)
X = da.where(da.random.default_rng(1).random(X.shape, chunks=X.chunks) < 0.1, np.nan, X)
print(f"{X.shape} in {X.npartitions} blocks")
fit = ld.decompose(X, "B1 + B3(1)", names=["day", "hour", "place"])
print(fit)

# %%
# A scheduler and two workers, each a process of its own, here on one machine. On a cluster they run elsewhere, and
# ``Client("tcp://address:8786")`` is all that changes. The workers need legendre installed.

folder = tempfile.TemporaryDirectory()
file = Path(folder.name) / "scheduler.json"
here = ["--scheduler-file", str(file), "--host", "127.0.0.1", "--no-dashboard"]


def start(*words):
    """Start a process of dask, which says nothing."""
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    return subprocess.Popen([sys.executable, "-m", *words, *here], **quiet)


scheduler = start("distributed.cli.dask_scheduler", "--port", "0", "--idle-timeout", "5 minutes")
workers = [
    start("distributed.cli.dask_worker", "--nthreads", "1", "--no-nanny", "--death-timeout", "60") for _ in range(2)
]


def slowly(block):
    """Take a while for each block, so that there is a middle in which a worker can die."""
    time.sleep(0.05)
    return block


try:
    with Client(scheduler_file=str(file), timeout=60) as client, ThreadPoolExecutor() as pool:
        client.wait_for_workers(2, timeout=60)
        whole = ld.decompose(X, "B1 + B3(1)", names=["day", "hour", "place"])
        running = pool.submit(
            ld.decompose, X.map_blocks(slowly, dtype=float), "B1 + B3(1)", names=["day", "hour", "place"]
        )
        time.sleep(0.5)
        workers[0].kill()
        survived = running.result(timeout=120)
        print("workers left:", len(client.scheduler_info()["workers"]))
finally:
    for process in (*workers, scheduler):
        process.kill()
        process.wait()
    folder.cleanup()

print("by two workers the same bits:        ", np.array_equal(whole.theta, fit.theta))
print("with one killed on the way, the same:", np.array_equal(survived.theta, fit.theta))

# %%
# The answer is a fit as any other.

survived.plot.margins()
plt.show()

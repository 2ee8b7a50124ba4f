"""What is run by default, in about 50 minutes on two cores, and with --full."""

from __future__ import annotations

from dataclasses import dataclass

from .comparison import COMPARED, LABELS, NONZERO, Effort

UNORDERED = "adaptive unordered"
"""The method that arranges the levels of a mode before it grows a basis."""
NAMES = LABELS | {UNORDERED: "Legendre, adaptive, unordered"}
FACES_PARAMS = (200, 279, 400, 560, 800, 1120, 1600, 2000, 2800, 4000)
GRADIENT_SIZES = (1, 2, 5, 10, 20)
"""l of B3(l) on 20^3: 20 to 400 parameters."""
HELD_OUT_PARAMS = (300, 1000, 2000)
HELD_OUT_PEERS = ("cp-hals", "tucker-hals", "cp-apr")
SCALE_SIDES = (20, 50, 100, 200, 300, 400, 500)
PAPER_TOL = 1e-5


@dataclass(frozen=True)
class Level:
    """How much is run.

    Parameters
    ----------
    seeds, efforts
        Of each peer on faces.
    fit_seconds
        After which a fit of ours is given up.
    gradient_seconds
        After which gradient descent is stopped, and the number of its passes computed.
    mnist_params
        Numbers of parameters on MNIST: B3(l) has 500 l.
    mnist_seeds, mnist_efforts
        Of each peer on each of the ten digits.
    peer_side
        The largest cube that the peers decompose.
    scale_seconds
        After which a method is given up on a cube.
    recovery_draws
        Random tensors for each setting.
    held_out_seeds, held_out_effort
        Of each peer on counts of which half are held out.
    """

    seeds: dict[str, int]
    efforts: dict[str, Effort]
    fit_seconds: float
    gradient_seconds: float
    mnist_params: tuple[int, ...]
    mnist_seeds: dict[str, int]
    mnist_efforts: dict[str, Effort]
    peer_side: int
    scale_seconds: float
    recovery_draws: int
    held_out_seeds: int
    held_out_effort: Effort


DEFAULT = Level(
    seeds={"cp-random": 3, "cp-hals": 3, "tucker": 3, "tucker-hals": 3, "cp-apr": 2},
    efforts={
        "cp-random": Effort(max_iter=500),
        "cp-hals": Effort(max_iter=500),
        "tucker": Effort(max_iter=500),
        "tucker-hals": Effort(max_iter=250),
        "cp-apr": Effort(max_iter=500, seconds=10.0),
    },
    fit_seconds=200.0,
    gradient_seconds=10.0,
    mnist_params=(500, 1000, 2000),
    mnist_seeds={"cp-random": 2, "cp-hals": 2, "tucker": 1, "tucker-hals": 2, "cp-apr": 1, NONZERO: 1},
    mnist_efforts={
        "cp-random": Effort(max_iter=500, tol=1e-6),
        "cp-hals": Effort(max_iter=300, tol=1e-6),
        "tucker": Effort(max_iter=300, tol=1e-6),
        "tucker-hals": Effort(max_iter=200, tol=1e-6),
        "cp-apr": Effort(max_iter=500, seconds=6.0),
        NONZERO: Effort(max_iter=200, tol=1e-6),
    },
    peer_side=200,
    scale_seconds=60.0,
    recovery_draws=20,
    held_out_seeds=2,
    held_out_effort=Effort(max_iter=250, seconds=10.0),
)

FULL = Level(
    seeds=dict.fromkeys(COMPARED, 5),
    efforts=dict.fromkeys(COMPARED, Effort(max_iter=2000, tol=1e-8, seconds=600.0)),
    fit_seconds=3600.0,
    gradient_seconds=600.0,
    mnist_params=(500, 1000, 2000, 4000, 8000),
    mnist_seeds=dict.fromkeys((*COMPARED, NONZERO), 5),
    mnist_efforts=dict.fromkeys((*COMPARED, NONZERO), Effort(max_iter=2000, tol=1e-8, seconds=600.0)),
    peer_side=500,
    scale_seconds=1200.0,
    recovery_draws=200,
    held_out_seeds=5,
    held_out_effort=Effort(max_iter=2000, tol=1e-8, seconds=600.0),
)

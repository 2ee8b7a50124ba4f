"""One row of the race."""

from __future__ import annotations

from dataclasses import dataclass

OURS = "legendre"


@dataclass(frozen=True)
class Row:
    """One entrant on one problem; None where something does not apply.

    Parameters
    ----------
    run
        When the run started; rows of one run can be compared.
    discipline, problem, size, method, setting
        What ran on what; `size` is the number of cells, or of modes, that growth is measured against.
    status
        DONE; NOT REACHED, if the residual is above `tol`; or the reason why there is no time: TIME LIMIT, SKIPPED, NOT
        INSTALLED, NO DATA, CANNOT, OUT OF MEMORY, ERROR.
    params, steps
        Parameters, and the iterations that they took.
    residual, tol, kl, rmse
        Computed here from what the entrant fitted, the same for all. The residual is ``max|eta - eta_hat|``, or for
        balancing the largest error of a margin over its largest entry.
    seconds, repeats
        Processor time of a call in a process that has made one before: the fastest of the repeats.
    first_seconds
        Processor time of import and first call in a fresh process, code that an earlier process compiled on disk.
    empty_seconds
        The same with nothing compiled on disk, for libraries that keep compiled code there: on the first problem of
        each discipline.
    peak_mb
        Peak resident memory of all these calls beyond what the process had when the data were made and nothing was
        imported.
    other_load
        Cores that other programs kept busy meanwhile.
    machine, versions, note
        The circumstances.
    """

    run: str
    discipline: str
    problem: str
    size: int
    method: str
    status: str
    setting: str = ""
    params: int | None = None
    steps: int | None = None
    residual: float | None = None
    tol: float | None = None
    kl: float | None = None
    rmse: float | None = None
    seconds: float | None = None
    repeats: int | None = None
    first_seconds: float | None = None
    empty_seconds: float | None = None
    peak_mb: float | None = None
    other_load: float | None = None
    machine: str = ""
    versions: str = ""
    note: str = ""

    @property
    def key(self) -> tuple[str, str, str]:
        """What the row is about."""
        return self.discipline, self.problem, self.method

    @property
    def ours(self) -> bool:
        """Whether the package made it."""
        return self.method.startswith(OURS)

    @property
    def counts(self) -> bool:
        """Whether it has a time, and got there."""
        return self.status == "DONE" and self.seconds is not None

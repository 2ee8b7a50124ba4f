"""From whatever the caller has to a checked tensor on its sample space; the only package that sees raw input."""

from __future__ import annotations

from legendre.intake.blocks import Blocks as Blocks
from legendre.intake.checks import LARGE as LARGE
from legendre.intake.checks import MOST_MODES as MOST_MODES
from legendre.intake.checks import SUPPORT_NAMES as SUPPORT_NAMES
from legendre.intake.checks import scan as scan
from legendre.intake.dense import Dense as Dense
from legendre.intake.dense import in_memory as in_memory
from legendre.intake.dense import observe as observe
from legendre.intake.observation import Observation as Observation
from legendre.intake.reading import TensorLike as TensorLike
from legendre.intake.reading import read as read
from legendre.intake.remote import Remote as Remote
from legendre.intake.sparse import Sparse as Sparse
from legendre.intake.sparse import in_list as in_list
from legendre.intake.sparse import observe_rows as observe_rows

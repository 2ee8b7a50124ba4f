"""Error against number of parameters: this decomposition beside those of other libraries, on any tensor."""

from legendre.compare.rows import Row as Row
from legendre.compare.run import compare as compare

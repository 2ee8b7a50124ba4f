"""Error against number of parameters: this decomposition beside those of other libraries, on any tensor."""

from legendre.comparison.rows import Row as Row
from legendre.comparison.run import compare as compare

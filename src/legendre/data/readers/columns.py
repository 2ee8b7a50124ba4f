"""Old place of `legendre.data.readers.encode`."""

from legendre.data.readers.encode import Column as Column
from legendre.data.readers.encode import Table as Table
from legendre.data.readers.encode import level_list as level_list
from legendre.data.readers.encode import read_table as read_table

"""Which modes a basis couples: a tree of cliques, their tables, and exact sums by messages between them."""

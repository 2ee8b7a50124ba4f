"""Running sums over the grid's partial order, boxes, and the linear algebra of Fisher matrices."""

"""Who holds which element of a tile: the layout algebra, rules for ops, and the assignment."""

"""Which rows, in which order, at which cost: pure functions of a store's layout."""

"""Everything that becomes a store: one file a kind of source."""

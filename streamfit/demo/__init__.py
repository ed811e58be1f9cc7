"""What a newcomer sees first: the classic batch loop against the exact answer, on data made here."""

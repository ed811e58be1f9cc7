"""Arrays in, arrays out: no files, no tasks, no options."""

"""The command line: one file a command. A command imports what it runs only when it runs."""

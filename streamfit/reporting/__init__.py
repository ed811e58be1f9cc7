"""What a running job shows people: progress, tables, memory."""

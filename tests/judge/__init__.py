"""What was promised to clients, judged from what clients, handlers and the store have said (events.py)."""

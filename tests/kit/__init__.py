"""What black-box tests, benchmarks and tools have in common: the program, its servers and clients, throw-away stores,
networks that fail, and how to wait. A module that only one folder of tests needs is in that folder."""

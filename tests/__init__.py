"""The black-box tests, and what they are made of (kit). README.md says what is where."""

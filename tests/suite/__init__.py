"""Runs the tests of a tier in lanes: the program behind `make test` and `make test-all`. It holds no test."""

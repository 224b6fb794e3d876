"""The read model of the console in memory; the tests of PostgreSQL apply to it as well. No pages, no use cases."""

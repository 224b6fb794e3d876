"""Doubles of servers, builders and stories for tests, benches and rehearsals. A double passes the real one's tests.

Nothing here is part of the product: the wheel leaves it out, and no service or library may import it.
"""

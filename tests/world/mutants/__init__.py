"""Small wrong versions of the product, each of which the world must find (see `find`)."""

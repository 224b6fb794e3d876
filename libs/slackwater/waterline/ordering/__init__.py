"""In which order candidates give way: small comparators, and chains of them."""

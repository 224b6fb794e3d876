"""Events in; REST, pages and a stream out."""

"""What holds for proposals of moves."""

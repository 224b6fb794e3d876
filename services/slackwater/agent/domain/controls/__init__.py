"""Controls: each turns the desired states of all writers into the values of one kind of knob."""

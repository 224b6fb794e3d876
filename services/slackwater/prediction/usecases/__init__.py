"""The use cases of prediction: fold windows, store descriptions, publish predictions, save and restore state."""

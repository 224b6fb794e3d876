"""What can be done to one pod, and how much it releases or gives: arithmetic only, nothing is written here."""

"""Pages that are one file and need nothing else, neither a network nor a script: reports that can be sent around."""

"""One file per thing done: recording what arrived, and answering why."""

"""Two throttle policies under the same surges: precise, and all or nothing. `make bench ARGS="--only policies"`."""

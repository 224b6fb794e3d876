"""What a scene works with: processes and cgroups of this machine, read and written from outside of the product."""

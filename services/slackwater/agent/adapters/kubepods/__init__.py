"""The Kubernetes driver: pods of the API server, in the cgroups that a kubelet makes for them."""

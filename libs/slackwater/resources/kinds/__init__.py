"""Declarations of resource kinds, one module each. slackwater.resources.catalog finds them."""

"""Resource kinds by declaration: documents in Kubernetes' shape that operators write and services follow.

A kind is one entry of `catalog`. `change` checks and stores documents, `in_force` says what a service follows of them,
`hooks` is what a kind adds to both. slackwater.runtime.resource_routes serves a kind over REST,
slackwater.store.resource_table keeps it in PostgreSQL.
"""

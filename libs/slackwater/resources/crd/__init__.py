"""CustomResourceDefinitions and admission policies of resource kinds, generated from their declarations. Pure."""

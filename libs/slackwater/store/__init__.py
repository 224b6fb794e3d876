"""PostgreSQL behind units of work: engine, migrations, transactional outbox and inbox.

Only this package and the adapters of services import SQLAlchemy. One schema and one role per service; a unit of
work never reaches into another service's schema.
"""

"""The main job: a real service, real batch work and a real surge, to see the loop close on the machine one stands on.

Beside the services, not one of them: it starts workloads through the agent, drives load, sets policy over HTTP as
any operator would, and measures from outside (latencies at the client, CPU and pressure in the kernel's files).
Services never import it; `slackwater up --demo` calls `director.run` and, when everything is stopped,
`director.finish`. `service`, `batch` and `load` are programs of their own, standard library only.
"""

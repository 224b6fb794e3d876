"""The main job: runs a real service, real batch work and a real surge, to show the control loop on this machine.

The demo is not a service: it starts workloads through the agent, generates load, sets policy over HTTP like an
operator, and measures from outside (latencies at the client, CPU and pressure in the kernel's files). Services never
import it. `slackwater up --demo` calls `director.run` and, after everything has stopped, `director.finish`. What runs
in pods, and the load generator, are programs that use only the standard library (slackwater.demo.programs).
"""

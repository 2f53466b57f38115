"""Kubernetes Events of pods that are slowed by neighbours or wait for an RMID (`events: true`)."""

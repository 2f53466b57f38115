"""Kubernetes Events of pods that are slowed by neighbours, limited, or wait for an RMID (`events: true`)."""

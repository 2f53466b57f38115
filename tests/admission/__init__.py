"""Admission of pods by an API server: OpenShift's SCC and Kubernetes' Pod Security Standards."""

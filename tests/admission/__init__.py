"""What an API server's admission says of a pod: OpenShift's SCC and Kubernetes' Pod Security Standards."""

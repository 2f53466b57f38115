"""One call by a container runtime: createRuntime or poststop."""

"""One hook call by a container runtime: createRuntime or poststop."""

"""Errors of a cluster's API server and its nodes, in words for the person at the desk."""

from resctrl_hooks.node.errors import HookError


class ClusterError(HookError):
    """The API server cannot be asked: no kubeconfig, unknown context, no connection, a missing right."""

    reason = "cluster"


class AnswerError(HookError):
    """One node's metrics pod does not answer, or with something else than metrics."""

    reason = "answer"

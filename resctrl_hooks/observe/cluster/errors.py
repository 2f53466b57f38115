"""Errors of a cluster's API server and its nodes, in words for the person at the desk."""

from resctrl_hooks.core.node.errors import HookError


class ApiError(HookError):
    """An answer with an error."""

    status = 0
    """The answer's HTTP status; 0 without an answer."""


class ClusterError(ApiError):
    """The API server cannot be asked: no kubeconfig, unknown context, no connection, a missing right."""

    reason = "cluster"


class AnswerError(ApiError):
    """One node's metrics pod does not answer, or with something else than metrics."""

    reason = "answer"

"""The API server as a pod's process reaches it: with the service account's token, by the standard library.

The client of `kubectl resctrl` is not used: two requests with JSON need neither its memory on each node nor an extra.
"""

import http.client
import json
import os
import ssl
from collections.abc import Mapping
from typing import Any, NamedTuple

from resctrl_hooks.core.node.errors import HookError

ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"
"""Where Kubernetes mounts the token and the API server's certificate authority."""
_SECONDS = 10.0
_MOST_BYTES = 1 << 20
_JSON, _MERGE = "application/json", "application/merge-patch+json"


class ApiError(HookError):
    """The API server cannot be reached."""

    reason = "api"


class Answer(NamedTuple):
    """An answer of the API server; the body is empty if it is not a JSON object."""

    status: int
    body: Mapping[str, Any]


class Api:
    """The API server.

    Args:
        host: its address.
        port: its port.
        account: the folder of token and certificate authority; the token is read for each request, since it is renewed.
        encrypted: whether it speaks TLS; tests have a server that does not.
    """

    def __init__(self, host: str, port: int, account: str = ACCOUNT, *, encrypted: bool = True) -> None:
        self._place = host, port
        self._account = account
        self._encrypted = encrypted

    def create(self, path: str, value: Mapping[str, Any]) -> Answer:
        """POST an object.

        Raises:
            ApiError: no answer.
        """
        return self._ask("POST", path, value, _JSON)

    def change(self, path: str, value: Mapping[str, Any]) -> Answer:
        """PATCH an object by a JSON merge patch; an empty one reads it.

        Raises:
            ApiError: no answer.
        """
        return self._ask("PATCH", path, value, _MERGE)

    def _ask(self, method: str, path: str, value: Mapping[str, Any], kind: str) -> Answer:
        host, port = self._place
        connection: http.client.HTTPConnection | None = None
        try:
            with open(f"{self._account}/token") as file:
                headers = {"Authorization": f"Bearer {file.read().strip()}", "Content-Type": kind, "Accept": _JSON}
            if self._encrypted:
                trust = ssl.create_default_context(cafile=f"{self._account}/ca.crt")
                connection = http.client.HTTPSConnection(host, port, timeout=_SECONDS, context=trust)
            else:
                connection = http.client.HTTPConnection(host, port, timeout=_SECONDS)
            connection.request(method, path, json.dumps(value), headers)
            response = connection.getresponse()
            return Answer(response.status, _object(response.read(_MOST_BYTES)))
        except (OSError, http.client.HTTPException) as error:
            where = f"{error.filename}: " if isinstance(error, OSError) and error.filename else ""
            text = f"cannot reach the API server {host}:{port}: {where}{error.args[-1] if error.args else error}"
            raise ApiError(text, hint="check the NetworkPolicy resctrl-hooks-events") from error
        finally:
            if connection is not None:
                connection.close()


def api_of_pod() -> Api:
    """Return the API server of the cluster in whose pod this process runs.

    Raises:
        ApiError: this is not a pod with a service account's token.
    """
    host, port = os.environ.get("KUBERNETES_SERVICE_HOST", ""), os.environ.get("KUBERNETES_SERVICE_PORT", "443")
    if not host or not os.path.exists(f"{ACCOUNT}/token"):
        raise ApiError(
            "not in a pod with a service account", hint="the DaemonSet resctrl-hooks-events runs this command"
        )
    return Api(host, int(port))


def _object(data: bytes) -> Mapping[str, Any]:
    try:
        found = json.loads(data)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}

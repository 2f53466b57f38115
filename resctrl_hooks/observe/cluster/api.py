"""Access to a cluster: the metrics pods of its nodes, and HTTP GETs through the API server's pod proxy.

The client is kr8s: it reads kubeconfig files as kubectl does (contexts, exec plugins, OIDC, proxies), is asynchronous,
and passes plain HTTP requests on. Everything here is a GET.
"""

import asyncio
import os
import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from resctrl_hooks.core.node.names import printable

from .errors import AnswerError, ClusterError

if TYPE_CHECKING:
    import httpx

NAMESPACE = "resctrl-hooks"
"""Where the manifests of this project create the metrics pods."""
ROLE = "resctrl-hooks-view"
METRICS_PODS = "app.kubernetes.io/name=resctrl-hooks-metrics"
_PORT_NAME, _PORT = "metrics", 9777
_PAGE = 500  # objects in one answer of the API server, as kubectl's --chunk-size
_MOST_AT_ONCE = 50
"""Requests in flight. An API server serves 400 reads at once by default (--max-requests-inflight)."""
_LISTS = 3  # a list may take so many times as long as a node's answer
_MOST_BYTES = 32 << 20
"""The longest accepted answer of a node: 1000 pods with eight domains have 12 MB."""
_LONGEST = 300  # characters of an answer's message; a node that was taken over writes to a terminal here
_METADATA = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
_OK, _FORBIDDEN, _UNAUTHORIZED = 200, 403, 401


class MetricsPod(NamedTuple):
    """The pod that serves a node's metrics. ``ready`` is Kubernetes' condition of that name."""

    node: str
    name: str
    ip: str
    ready: bool
    image: str
    port: int = _PORT


class PodOnNode(NamedTuple):
    """A pod, and its node; the node is empty before the pod is scheduled."""

    namespace: str
    name: str
    node: str


class Cluster:
    """A connection to the API server of the kubeconfig's current context, or of another one.

    Args:
        kubeconfig: path of the file; None: ``$KUBECONFIG`` or ``~/.kube/config``, or the pod's service account.
        context: name of the context; None: the current one.
        namespace: the namespace of the metrics pods.
        timeout: seconds for each answer of a node.

    Raises:
        ClusterError: the configuration names no server.
    """

    def __init__(self, kubeconfig: str | None, context: str | None, namespace: str, timeout: float) -> None:
        if kubeconfig is not None and not os.path.exists(kubeconfig):
            raise ClusterError(f"cannot read kubeconfig {kubeconfig}: no such file", hint="give another path")
        self._kubeconfig = kubeconfig
        self._context = context
        self._timeout = timeout
        self._places = asyncio.Semaphore(_MOST_AT_ONCE)
        self.namespace = namespace
        self._api: Any = None

    async def __aenter__(self) -> Self:
        import httpx  # noqa: PLC0415  # 0.4 s with kr8s; --help and wrong use need none of it
        import kr8s.asyncio  # noqa: PLC0415  # as above

        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)  # of Kubernetes' version: plain GETs need no certain one
                self._api = await kr8s.asyncio.api(kubeconfig=self._kubeconfig, context=self._context)
        except (httpx.HTTPError, kr8s.APITimeoutError, kr8s.ServerError) as error:
            raise _unreachable(error) from error
        except (ValueError, KeyError, OSError, TypeError) as error:
            hint = "give --kubeconfig and --context, or check `kubectl config view`"
            raise ClusterError(f"no usable kubeconfig: {error}", hint=hint) from error
        return self

    async def __aexit__(self, *_: object) -> None:
        session = getattr(self._api, "_session", None)
        if session is not None:
            await session.aclose()

    async def metrics_pods(self) -> list[MetricsPod]:
        """Return the metrics pods that have a node, by node."""
        items = await self._items(
            f"/api/v1/namespaces/{self.namespace}/pods", METRICS_PODS, f"pods in {self.namespace}"
        )
        found = [_metrics_pod(item) for item in items if item["spec"].get("nodeName")]
        if not found:
            raise ClusterError(
                f"no metrics pod in namespace {self.namespace}",
                hint=f"apply the DaemonSet with the label {METRICS_PODS}, or give --metrics-namespace",
            )
        return sorted(found)

    async def nodes(self, selector: str = "") -> list[str] | None:
        """Return the nodes with these labels; None if this user may not list nodes and gave no selector."""
        try:
            items = await self._items("/api/v1/nodes", selector, "nodes", metadata=True)
        except ClusterError:
            if selector:
                raise
            return None
        return sorted(item["metadata"]["name"] for item in items)

    async def pods(self, namespace: str = "", selector: str = "", name: str = "") -> list[PodOnNode]:
        """Return the pods of a namespace, or of all, with these labels, or with this name."""
        path = f"/api/v1/namespaces/{namespace}/pods" if namespace else "/api/v1/pods"
        where = f"pods in {namespace}" if namespace else "pods in all namespaces"
        items = await self._items(path, selector, where, fields=f"metadata.name={name}" if name else "")
        return [
            PodOnNode(item["metadata"]["namespace"], item["metadata"]["name"], item["spec"].get("nodeName", ""))
            for item in items
        ]

    async def on_nodes(self, namespace: str, name: str) -> list[PodOnNode]:
        """Return the pods with this name.

        Raises:
            ClusterError: no such pod is on a node.
        """
        there = [one for one in await self.pods(namespace, name=name) if one.node]
        if not there:
            where = f"namespace {namespace}" if namespace else "any namespace"
            raise ClusterError(f"no pod {name!r} on a node in {where}")
        return there

    async def nodes_of(self, namespace: str, name: str) -> tuple[list[PodOnNode], list[MetricsPod]]:
        """Return the pods with this name, and the metrics pods of their nodes.

        Raises:
            ClusterError: no such pod is on a node, or its node has no metrics pod.
        """
        there = await self.on_nodes(namespace, name)
        nodes = {one.node for one in there}
        metrics = [pod for pod in await self.metrics_pods() if pod.node in nodes]
        if not metrics:
            raise ClusterError(f"node {min(nodes)} of pod {name} has no metrics pod")
        return there, metrics

    async def read(self, pod: MetricsPod, path: str, **query: str) -> str:
        """Return the answer of a metrics pod to a GET, through the API server's pod proxy.

        Raises:
            AnswerError: it did not answer in time, or not with 200.
            ClusterError: this user may not use the proxy.
        """
        url = f"/api/v1/namespaces/{self.namespace}/pods/{pod.name}:{pod.port}/proxy{path}"
        return await self.get(
            url, f"pods/proxy in {self.namespace}", f"metrics pod {pod.name} of node {pod.node}", query
        )

    async def get(self, url: str, right: str, what: str, query: Mapping[str, str] = {}) -> str:
        """Return the text behind a path of the API server; fifty requests at most run at once.

        Args:
            url: the absolute path.
            right: the resource that the user must be allowed to get, for the error.
            what: the answering object, for the error.
            query: the URL's parameters.
        """
        import httpx  # noqa: PLC0415  # kr8s has imported it

        async with self._places:
            try:
                async with asyncio.timeout(self._timeout):
                    response = await self._answer(url, query, most=_MOST_BYTES)
            except (TimeoutError, httpx.TimeoutException):
                raise AnswerError(f"{what}: no answer within {self._timeout:g} s") from None
            except httpx.HTTPError as error:
                raise AnswerError(f"{what}: {str(error) or type(error).__name__}") from error
        self._check(response, right, what)
        return response.text

    async def fetch(self, address: str, query: Mapping[str, str]) -> str:
        """Return the text of an URL outside of the cluster, or of a path of the API server.

        Raises:
            ClusterError: it does not answer with 200.
        """
        import httpx  # noqa: PLC0415  # kr8s has imported it

        if address.startswith("/"):
            try:
                return await self.get(address, "services/proxy", address, query)
            except AnswerError as error:
                raise ClusterError(str(error)) from error
        try:
            async with httpx.AsyncClient(timeout=_LISTS * self._timeout) as client:
                response = await client.get(address, params=dict(query))
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise ClusterError(f"cannot reach {address}: {str(error) or type(error).__name__}") from error
        self._check(response, address, address, ClusterError)
        return response.text

    async def service(self, selector: str) -> str:
        """Return the proxy path of the first service with these labels.

        Raises:
            ClusterError: there is none.
        """
        for item in await self._items("/api/v1/services", selector, "services in all namespaces"):
            about = item["metadata"]
            port = (item["spec"].get("ports") or [{}])[0].get("port", 80)
            return f"/api/v1/namespaces/{about['namespace']}/services/{about['name']}:{port}/proxy"
        raise ClusterError(f"no service with the label {selector}", hint="give the address of Prometheus")

    def _check(
        self, response: "httpx.Response", right: str, what: str, error: type[AnswerError | ClusterError] = AnswerError
    ) -> None:
        """Refuse every answer but 200; a missing right is an error of the cluster, whatever was asked."""
        if response.status_code == _OK:
            return
        if response.status_code == _FORBIDDEN:
            hint = f"ask for a RoleBinding to ClusterRole {ROLE}, or check `kubectl auth can-i`"
            if not right.endswith(f" in {self.namespace}"):
                hint = f"ClusterRole {ROLE} does not contain it: ask for a role of your own, such as `view`"
            raise ClusterError(f"not permitted: {'get' if 'proxy' in right else 'list'} {right}", hint=hint)
        if response.status_code == _UNAUTHORIZED:
            raise ClusterError("the API server does not accept the credentials", hint="log in again")
        try:
            message = printable(str(response.json().get("message", ""))[:_LONGEST])
        except (ValueError, AttributeError, RecursionError):
            message = ""
        found = error(f"{what}: HTTP status {response.status_code}{f': {message}' if message else ''}")
        found.status = response.status_code
        raise found

    async def _answer(
        self, path: str, query: Mapping[str, str], headers: Mapping[str, str] | None = None, most: float = float("inf")
    ) -> "httpx.Response":
        """Return the response to a GET of at most so many bytes; kr8s adds the server's address and the credentials."""
        import httpx  # noqa: PLC0415  # kr8s has imported it

        base, _, url = path.rpartition("/")
        request = self._api.call_api(
            "GET", "", base, url=url, raise_for_status=False, stream=True, params=dict(query), headers=headers
        )
        body = bytearray()
        async with request as response:
            if response.headers.get("Content-Encoding", "gzip") not in ("gzip", "identity"):  # a chain multiplies
                raise httpx.DecodingError("unknown Content-Encoding")
            async for part in response.aiter_bytes():
                body += part
                if len(body) > most:
                    raise httpx.DecodingError(f"answer has more than {most} bytes")
        return httpx.Response(response.status_code, content=bytes(body))

    async def _items(
        self, path: str, selector: str, right: str, *, fields: str = "", metadata: bool = False
    ) -> list[dict[str, Any]]:
        """Return all objects of a list, page by page."""
        import httpx  # noqa: PLC0415  # kr8s has imported it

        found: list[dict[str, Any]] = []
        query = {"limit": str(_PAGE), "labelSelector": selector, "fieldSelector": fields, "continue": ""}
        headers = {"Accept": f"{_METADATA},application/json" if metadata else "application/json"}
        while True:
            try:
                given = {name: value for name, value in query.items() if value}
                async with asyncio.timeout(_LISTS * self._timeout):
                    response = await self._answer(path, given, headers)
            except TimeoutError:
                raise ClusterError(f"no answer from the API server within {_LISTS * self._timeout:g} s") from None
            except httpx.HTTPError as error:
                server = self._api.auth.server
                raise ClusterError(
                    f"cannot reach the API server {server}: {str(error) or type(error).__name__}"
                ) from error
            self._check(response, right, "API server", ClusterError)
            page = response.json()
            found += page.get("items") or []
            query["continue"] = (page.get("metadata") or {}).get("continue", "")
            if not query["continue"]:
                return found


def _unreachable(error: Exception) -> ClusterError:
    """Return the error for a connection that failed; the address is in the request of httpx's errors."""
    try:
        server = f" {error.request.url.copy_with(path='/', query=None)}".rstrip("/")  # type: ignore[attr-defined]
    except (AttributeError, RuntimeError):
        server = ""
    return ClusterError(f"cannot reach the API server{server}: {str(error) or type(error).__name__}")


def _metrics_pod(item: Mapping[str, Any]) -> MetricsPod:
    """Return what is needed of a pod of the API; the port is the one with our name."""
    spec, status = item["spec"], item.get("status") or {}
    ready = any(one["type"] == "Ready" and one["status"] == "True" for one in status.get("conditions") or ())
    ports = [port for one in spec["containers"] for port in one.get("ports") or ()]
    port = next((port["containerPort"] for port in ports if port.get("name") == _PORT_NAME), _PORT)
    image = spec["containers"][0].get("image", "")
    return MetricsPod(spec["nodeName"], item["metadata"]["name"], status.get("podIP", ""), ready, image, port)

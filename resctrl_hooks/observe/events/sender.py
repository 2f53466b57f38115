"""Sends conditions as Events: at most one report of each in ten minutes, also over restarts of this process."""

import time
from collections.abc import Callable, Iterable
from urllib.parse import quote

from .api import Answer, Api, ApiError
from .model import EVERY, Condition, Reported, event_of, repeated, reported_of

ROLE = "resctrl-hooks-events"
_FORGOTTEN = 2 * 3600.0  # seconds; the API server keeps an Event for one hour after its last change
_MOST = 20  # requests in a pass: hundreds of waiting pods are reported in turn
_MOST_LINES = 100  # different ones in two hours: there may be thousands of namespaces
_CREATED, _OK, _FORBIDDEN, _UNAUTHORIZED, _MISSING, _EXISTS = 201, 200, 403, 401, 404, 409


class Sender:
    """Sends Events, and remembers the last report of each.

    The times between reports are those of the uptime. The wall clock, which may be set, only stands in Events.

    Args:
        api: the API server.
        instance: the node's name.
        output: prints a line.
        now: returns the seconds since 1970; tests replace it.
        uptime: returns the seconds of a clock that cannot be set; tests replace it.
    """

    def __init__(
        self,
        api: Api,
        instance: str,
        output: Callable[[str], None],
        now: Callable[[], float] = time.time,
        uptime: Callable[[], float] = time.monotonic,
    ) -> None:
        self._api = api
        self._instance = instance
        self._output = output
        self._now = now
        self._uptime = uptime
        self._reported: dict[str, Reported] = {}
        """By name, with the uptime as the last time."""
        self._unanswered: dict[str, float] = {}
        self._logged: dict[str, float] = {}

    def send(self, conditions: Iterable[Condition]) -> None:
        """Report the conditions that were not reported in the last ten minutes."""
        now = self._uptime()
        self._logged = {text: when for text, when in self._logged.items() if now - when < _FORGOTTEN}
        self._reported = {name: one for name, one in self._reported.items() if now - one.last < _FORGOTTEN}
        due = [one for one in conditions if not self._is_recent(one, now)]
        self._unanswered = {one.name: self._unanswered[one.name] for one in due if one.name in self._unanswered}
        due.sort(
            key=lambda one: self._unanswered.get(one.name, float("-inf"))
        )  # one that times out must not keep the others out
        for condition in due[:_MOST]:
            try:
                self._report(condition)
            except ApiError as error:
                self._unanswered[condition.name] = now
                self._log_once(str(error))
                return  # the next pass tries again

    def _is_recent(self, condition: Condition, now: float) -> bool:
        known = self._reported.get(condition.name)
        return known is not None and now - known.last < EVERY

    def _report(self, condition: Condition) -> None:
        now = self._now()
        folder = f"/apis/events.k8s.io/v1/namespaces/{quote(condition.pod.namespace, safe='')}/events"
        path = f"{folder}/{quote(condition.name, safe='')}"
        known = self._reported.get(condition.name)
        times = known.times if known else 0
        if not times:
            answer = self._api.create(folder, event_of(condition, self._instance, now))
            if answer.status != _EXISTS:
                self._note(condition, answer, "create", 1)
                return
            answer = self._api.change(path, {})  # reads it with the right that exists anyway
            found = self._of(answer)
            age = now - found.last if found else 0.0
            if found is None or 0 <= age < EVERY:
                self._note(condition, answer, "patch", found.times if found else 0, age)
                return
            times = found.times
        answer = self._api.change(path, repeated(times, now))
        if answer.status == _MISSING:  # the API server has deleted it
            self._reported.pop(condition.name, None)
            answer = self._api.create(folder, event_of(condition, self._instance, now))
            times = 0
        self._note(condition, answer, "patch", times + 1)

    def _of(self, answer: Answer) -> Reported | None:
        try:
            return reported_of(answer.body) if answer.status == _OK else None
        except (ValueError, KeyError, TypeError):
            return None

    def _note(self, condition: Condition, answer: Answer, verb: str, times: int, age: float = 0.0) -> None:
        """Remember a report, or the try of one. A refused one counts as none, and is tried again in ten minutes."""
        namespace, now = condition.pod.namespace, self._uptime()
        if answer.status in (_OK, _CREATED):
            self._reported[condition.name] = Reported(times, now - age)
            return
        self._reported[condition.name] = Reported(0, now)
        if answer.status in (_FORBIDDEN, _UNAUTHORIZED):
            self._log_once(
                f"not permitted: {verb} events.k8s.io events in namespace {namespace}; bind ClusterRole {ROLE} to the "
                "service account resctrl-hooks-events"
            )
        elif answer.status != _MISSING:  # 404: the namespace is gone, and with it the pod
            message = str(answer.body.get("message", ""))
            self._log_once(f"cannot {verb} an Event in namespace {namespace}: HTTP status {answer.status}: {message}")

    def _log_once(self, text: str) -> None:
        """Log a line that was not logged in the last two hours, and of many different ones only the first."""
        if len(self._logged) >= _MOST_LINES:
            text = "more errors are not shown"
        if text not in self._logged:
            self._logged[text] = self._uptime()
            self._output(text)

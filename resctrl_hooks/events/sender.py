"""Sends conditions as Events: at most one report of each in ten minutes, also over restarts of this process."""

import time
from collections.abc import Callable, Iterable
from urllib.parse import quote

from .api import Answer, Api, ApiError
from .model import EVERY, Condition, Reported, event_of, repeated, reported_of

ROLE = "resctrl-hooks-events"
_FORGOTTEN = 2 * 3600.0  # seconds; the API server keeps an Event for one hour after its last change
_MOST = 20  # requests in a pass: hundreds of waiting pods are reported in turn
_CREATED, _OK, _FORBIDDEN, _UNAUTHORIZED, _MISSING, _EXISTS = 201, 200, 403, 401, 404, 409


class Sender:
    """Sends Events, and remembers the last report of each.

    Args:
        api: the API server.
        instance: the node's name.
        say: logs a line.
        now: returns the seconds since 1970; tests replace it.
    """

    def __init__(
        self, api: Api, instance: str, say: Callable[[str], None], now: Callable[[], float] = time.time
    ) -> None:
        self._api = api
        self._instance = instance
        self._say = say
        self._now = now
        self._reported: dict[str, Reported] = {}
        self._unanswered: dict[str, float] = {}
        self._said: set[str] = set()

    def send(self, conditions: Iterable[Condition]) -> None:
        """Report the conditions that were not reported in the last ten minutes."""
        now = self._now()
        self._reported = {name: one for name, one in self._reported.items() if now - one.last < _FORGOTTEN}
        due = [one for one in conditions if not self._is_recent(one, now)]
        self._unanswered = {one.name: self._unanswered[one.name] for one in due if one.name in self._unanswered}
        due.sort(key=lambda one: self._unanswered.get(one.name, 0))  # one that times out must not keep the others out
        for condition in due[:_MOST]:
            try:
                self._report(condition, now)
            except ApiError as error:
                self._unanswered[condition.name] = now
                self._once(str(error))
                return  # the next pass tries again

    def _is_recent(self, condition: Condition, now: float) -> bool:
        known = self._reported.get(condition.name)
        return known is not None and now - known.last < EVERY

    def _report(self, condition: Condition, now: float) -> None:
        folder = f"/apis/events.k8s.io/v1/namespaces/{quote(condition.pod.namespace, safe='')}/events"
        path = f"{folder}/{quote(condition.name, safe='')}"
        known = self._reported.get(condition.name)
        if known is None or not known.times:
            answer = self._api.create(folder, event_of(condition, self._instance, now))
            if answer.status != _EXISTS:
                self._note(condition, answer, "create", Reported(1, now))
                return
            answer = self._api.change(path, {})  # reads it with the right that exists anyway
            known = self._of(answer)
            if known is None or now - known.last < EVERY:
                self._note(condition, answer, "patch", known or Reported(0, now))
                return
        answer = self._api.change(path, repeated(known, now))
        if answer.status == _MISSING:  # the API server has deleted it
            self._reported.pop(condition.name, None)
            answer = self._api.create(folder, event_of(condition, self._instance, now))
            known = Reported(0, now)
        self._note(condition, answer, "patch", Reported(known.times + 1, now))

    def _of(self, answer: Answer) -> Reported | None:
        try:
            return reported_of(answer.body) if answer.status == _OK else None
        except (ValueError, KeyError, TypeError):
            return None

    def _note(self, condition: Condition, answer: Answer, verb: str, reported: Reported) -> None:
        """Remember a report. A refused one counts as none, and is tried again in ten minutes."""
        namespace = condition.pod.namespace
        refused = Reported(0, self._now())
        if answer.status in (_OK, _CREATED):
            self._reported[condition.name] = reported
            return
        self._reported[condition.name] = refused
        if answer.status in (_FORBIDDEN, _UNAUTHORIZED):
            self._once(
                f"not permitted: {verb} events.k8s.io events in namespace {namespace}; bind ClusterRole {ROLE} to the "
                "service account resctrl-hooks-events"
            )
        elif answer.status != _MISSING:  # 404: the namespace is gone, and with it the pod
            message = str(answer.body.get("message", ""))
            self._once(f"cannot {verb} an Event in namespace {namespace}: HTTP status {answer.status}: {message}")

    def _once(self, text: str) -> None:
        if text not in self._said:
            self._said.add(text)
            self._say(text)

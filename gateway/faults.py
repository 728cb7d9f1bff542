"""The gateway's named points at which a test may stop the process; see `runtime.faults`."""

from __future__ import annotations

POINTS: dict[str, str] = {
    "intake.store.before": "something was let in and is not stored",
    "intake.store.after": "it is stored, and the platform was not told",
    "intake.route.before": "it has no session yet",
    "intake.route.after": "its session and submission id are stored, and nothing was submitted",
    "intake.submit.before": "an op is about to be submitted",
    "intake.submit.after": "the op is submitted, and its outcome is not stored",
    "intake.done.before": "the outcome and what is told to the person are about to be stored",
    "intake.done.after": "both are stored, and nobody was told",
    "delivery.plan.before": "what follows from stored events is about to be planned, with the cursor beyond them",
    "delivery.plan.after": "it is planned, and nothing was sent",
    "delivery.sending.before": "a part is about to be marked as sending",
    "delivery.sending.after": "it is marked, and the platform does not have it",
    "delivery.sent.before": "the platform has it, and that is not stored",
    "delivery.sent.after": "that it was sent is stored",
    "thread.opening.before": "a new thread is about to be marked as opening",
    "thread.opening.after": "it is marked, and the platform was not asked",
    "thread.opened.before": "it is open, and that is not stored",
    "thread.opened.after": "it is stored, and what waited for it has moved there",
    "schedule.claim.before": "due times have no rows yet",
    "schedule.claim.after": "they have their rows, and nothing began",
    "schedule.begin.before": "a run is about to begin",
    "schedule.begin.after": "that it runs is stored with its session, and nothing was submitted",
    "schedule.submit.before": "the words of a run are about to be submitted",
    "schedule.submit.after": "they are submitted, and nobody waits for their end",
    "schedule.end.before": "how a run came out is known and not stored",
    "schedule.end.after": "it is stored, and nobody was told",
}

"""What people see, as pure functions of what happened."""

from gateway.views.action import action_text, gated_actions
from gateway.views.approval import Ask, TooLong, approval_choices, approval_parts, approval_title, outcome_card
from gateway.views.card import label_lines, lost_card, turn_card
from gateway.views.messages import answer, end_notice, removed, trouble
from gateway.views.show import hidden_count, plain, show, unshow, whole
from gateway.views.turn import SessionState, TurnState, fold, fold_all, recovered, stalled, stopping

__all__ = [
    "Ask",
    "SessionState",
    "TooLong",
    "TurnState",
    "action_text",
    "answer",
    "approval_choices",
    "approval_parts",
    "approval_title",
    "end_notice",
    "fold",
    "fold_all",
    "gated_actions",
    "hidden_count",
    "label_lines",
    "lost_card",
    "outcome_card",
    "plain",
    "recovered",
    "removed",
    "show",
    "stalled",
    "stopping",
    "trouble",
    "turn_card",
    "unshow",
    "whole",
]

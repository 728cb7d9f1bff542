"""The digest of an action survives the store: an old approval must still fit what it approved."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from runtime.protocol import Action
from runtime.store import codec

SCALARS = st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False)
JSON = st.recursive(
    SCALARS | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
ACTIONS = st.builds(
    Action,
    tool=st.text(),
    schema_hash=st.text(),
    arguments=st.dictionaries(st.text(), JSON, max_size=4),
    argv=st.lists(st.text(), max_size=3).map(tuple),
    environment=st.dictionaries(st.text(), st.text(), max_size=2),
    files=st.dictionaries(st.text(), st.text(), max_size=2),
    timeout_seconds=st.none() | st.integers(0, 10**6) | st.floats(0, 10**6),
    requester=st.none() | st.text(),
)


@given(ACTIONS)
def test_digest_survives_the_store(action: Action) -> None:
    """Whatever an action holds, the stored and the fresh one have one digest."""
    read_back = codec.decode(Action, codec.encode(Action, action), "action")
    assert read_back.digest() == action.digest()
    assert read_back.grant_digest() == action.grant_digest()

"""The check of bodies: each is whole, and counted as often as blocks refer to it.

The rule: it follows the walk over the blocks, which counts the references. If a block could not be
read, its references are unknown, and counts are not judged.
"""

from arneb_core.api.entries.position import render
from arneb_core.store.checking.findings import FindingKind
from arneb_core.store.checking.inventory import Inventory
from arneb_core.store.format.block import BlockCorrupt
from arneb_core.store.format.bodies import unpack_body
from arneb_core.store.format.records import unpack_number
from arneb_core.store.format.schema import BODY_KEY_BYTES, BodyKey, Table, parse_entry_key


def check_bodies(inventory: Inventory) -> None:
    """Check every body, then references without a body."""
    snapshot, known = inventory.snapshot, inventory.references_known
    found = inventory.references
    for raw, value in snapshot.scan(Table.BODIES):
        key = BodyKey(raw)
        if len(key) != BODY_KEY_BYTES:
            detail = f"expected {BODY_KEY_BYTES} bytes, got {len(key)}"
            inventory.add(FindingKind.BODY_KEY, key.hex(), detail)
            continue
        try:
            unpack_body(key, value)
        except BlockCorrupt as problem:
            inventory.add(FindingKind.BODY_CORRUPT, _where(inventory, key), problem)
        references = found.pop(key, 0)
        if known and not references:
            detail = "expected a block that refers to it, got none"
            inventory.add(FindingKind.BODY_ORPHAN, _where(inventory, key), detail)
        elif known:
            _check_count(inventory, key, references)
    for key, references in found.items():
        detail = f"expected it, as {references} references mean it, got none"
        inventory.add(FindingKind.BODY_MISSING, _where(inventory, key), detail)
    for raw, _ in snapshot.scan(Table.REFERENCES):
        if snapshot.get(Table.BODIES, raw) is None and raw not in found:
            inventory.add(FindingKind.BODY_COUNT, raw.hex(), "expected its body, got none")


def _check_count(inventory: Inventory, key: BodyKey, references: int) -> None:
    value = inventory.snapshot.get(Table.REFERENCES, key)
    try:
        count = 0 if value is None else unpack_number(value)
    except ValueError as problem:
        inventory.add(FindingKind.BODY_COUNT, _where(inventory, key), problem)
        return
    if count != references:
        detail = f"expected {references} references as in the blocks, got {count}"
        inventory.add(FindingKind.BODY_COUNT, _where(inventory, key), detail)


def _where(inventory: Inventory, key: BodyKey) -> str:
    topic_id, position = parse_entry_key(key)
    return f"{inventory.label(topic_id)}, body of {render(position)}"

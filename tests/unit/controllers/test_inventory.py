"""What sources say of machines is found by name, provider id and identity, and forgotten in all places at once."""

from __future__ import annotations

from kubevouch.controllers.inventory import MachineInventory
from kubevouch.policy.inventory import Identity, Machine, may_be_called

EK = Identity("tpm", "sha256:07")
JOINED = Machine(node_name="worker-7", names=("worker-8",), provider_id="demo://7", identities=(EK,))
COMING = Machine(names=("worker-9", "worker-9.example.com"), provider_id="demo://9")
OF_A_POOL = Machine(provider_id="demo://11", group="pool-1")


def test_machines_are_found_by_all_that_is_known_of_them() -> None:
    inventory = MachineInventory()
    expect = inventory.add_documents()
    expect([JOINED, COMING, OF_A_POOL])
    assert inventory.machines("worker-7") == inventory.candidates("worker-7") == (JOINED,)
    # The name that a Node has leaves no other one open.
    assert inventory.candidates("worker-8") == ()
    assert (inventory.machines("worker-9"), inventory.candidates("worker-9")) == ((), (COMING,))
    assert inventory.provided("demo://11") == (OF_A_POOL,)
    assert inventory.identified(EK) == (JOINED,)
    assert inventory.identified(Identity("tofu", "sha256:07")) == ()
    assert inventory.machines("") == inventory.candidates("") == inventory.provided("") == ()
    expect([])
    assert inventory.candidates("worker-9") == inventory.provided("demo://9") == inventory.identified(EK) == ()


def test_listeners_hear_each_name_that_a_machine_may_have() -> None:
    inventory, heard = MachineInventory(), list[str]()
    inventory.on_change(heard.append)
    expect = inventory.add_documents()
    expect([JOINED, COMING])
    assert sorted(heard) == ["worker-7", "worker-9", "worker-9.example.com"]
    heard.clear()
    expect([JOINED, COMING, OF_A_POOL])
    assert heard == [""]


def test_the_names_that_a_machine_may_have() -> None:
    assert [may_be_called(JOINED, name) for name in ("worker-7", "worker-8")] == [True, False]
    assert [may_be_called(COMING, name) for name in ("worker-9", "worker-8")] == [True, False]
    assert may_be_called(OF_A_POOL, "anything")


def test_who_waits_is_told_once_however_many_machines_come() -> None:
    inventory, heard = MachineInventory(), list[str]()
    inventory.on_change(heard.append)
    put = inventory.add_source(lambda: True)
    put({f"pool/{number}": Machine(provider_id=f"demo://{number}") for number in range(1000)})
    assert heard == [""]
    assert inventory.provided("demo://999")
    put(dict.fromkeys(f"pool/{number}" for number in range(1000)))
    assert heard == ["", ""]
    assert not inventory.provided("demo://999")

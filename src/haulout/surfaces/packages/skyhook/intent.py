"""The intent of a Skyhook: what the decisions about its nodes read of it, as rows of their own.

The Skyhook's status changes often. If nodes read the Skyhook itself, each change would wake all of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime

import msgspec

from haulout.base import bounds
from haulout.base.selector import Selector
from haulout.cluster.key import Key
from haulout.cluster.rows import NodeRow, Row, Value
from haulout.cluster.view import MARK, View
from haulout.core.decision import NOTHING, Decision
from haulout.surfaces.packages.entries.changes import UNINSTALLS, Removal
from haulout.surfaces.packages.entries.entry import NodeState, entry_key
from haulout.surfaces.packages.entries.stages import NOTHING_CHANGED, ConfigUpdates, is_node_complete, is_unwanted
from haulout.surfaces.packages.groups import OF_KIND, Group
from haulout.surfaces.packages.node.prefixes import ALONE, Home
from haulout.surfaces.packages.options import Options
from haulout.surfaces.packages.pods.bodies import NO_IDENTITIES, PodPlace, identity_of
from haulout.surfaces.packages.pods.config_maps import (
    PackageConfigRow,
    config_digest,
    configs_of_skyhook,
    packages_text,
)
from haulout.surfaces.packages.skyhook.applied import AppliedRow, applied_key, departed_packages
from haulout.surfaces.packages.skyhook.halts import desired_skyhook, halt_of
from haulout.surfaces.packages.skyhook.reach import Holder, Reach, holder_key, reach_key
from haulout.surfaces.packages.specs.image_rules import images_problem
from haulout.surfaces.packages.specs.name_clashes import clash_problem
from haulout.surfaces.packages.specs.skyhook_problems import name_problem, spec_problem
from haulout.surfaces.packages.units.remains import removal_of
from haulout.surfaces.packages.units.unit import unit_of
from haulout.surfaces.packages.wire import (
    COMPLETE,
    DISABLED,
    PAUSED,
    SURFACE,
    Package,
    SkyhookRow,
    Spec,
    Uninstall,
    unit_id,
)
from haulout.surfaces.packages.wire_policy import policy_of
from haulout.surfaces.packages.wire_status import SkyhookStatus

INTENTS, PICKS, ORDERS = "packages-intent", "packages-pick", "packages-order"
BOOTS, HELD = "packages-boot", "packages-held"
# Why a Skyhook may not act, as reason codes.
SKYHOOK_INVALID, IMAGE_NOT_ALLOWED, NAME_TAKEN = "skyhook-invalid", "image-not-allowed", "name-taken"


# The original's event client, too, drops events after 25 about one object.
MOST_WITH_EVENTS = 25


class Intent(Row, frozen=True, kw_only=True):
    """What the decisions about the nodes that a Skyhook concerns read of it.

    `shows`: `paused` or `disabled` if all nodes of the Skyhook have to show that.
    `updates`: for each package, the configuration keys that its last change touched.
    `published`: the keys of entries whose ConfigMap is ready for pods.
    `changing`: the packages that nodes have to send back to `config` before their ConfigMap changes.
    `departed`: packages as last applied, by entry key, whose version is no longer in the Skyhook.
    `is_new`: the Skyhook has no status yet.
    `is_complete`: the Skyhook is complete on all its nodes.
    `is_uninstalling`: the Skyhook is being deleted, and has packages to uninstall first.
    `problem`: why it may not act, in words. `problem_code`: the same as a reason code.
    `is_halted`: a wave failed its gate, and no new node begins.
    `is_restored`: the packages are those of a rollback, not those of the spec.
    `defers_changes`: a node's entries change only when it is picked, so that a rollback leaves the other nodes alone.
    `replaced`: for each package in `changing`, the digest of the configuration that is about to be replaced.
    `is_crowded`: so many nodes are worked on that events report only failures and the end of each node.
    `packages_text`: the packages as JSON for the metadata ConfigMaps.
    `revision`: changes with everything that decides whether a node is complete.
    `home`: the prefixes of the keys on nodes.
    `former`: the UID of the other object of its name, which may still own pods and ConfigMaps; empty if there is none.
    `removal`: what happens to entries of packages that were removed.
    `former_identity`: the part of resource ids that comes from that object.
    """

    skyhook: str
    owner: Key
    generation: int = 0
    created_at: datetime | None = None
    spec: Spec = Spec()
    selector: Selector | None = None
    protected: Selector | None = None
    shows: str = ""
    is_disabled: bool = False
    is_deleting: bool = False
    has_compartments: bool = True
    updates: ConfigUpdates = NOTHING_CHANGED
    published: frozenset[str] = frozenset()
    changing: frozenset[str] = frozenset()
    departed: Mapping[str, Package] = {}
    is_new: bool = False
    is_complete: bool = False
    is_uninstalling: bool = False
    problem: str = ""
    problem_code: str = SKYHOOK_INVALID
    is_halted: bool = False
    is_restored: bool = False
    defers_changes: bool = False
    replaced: Mapping[str, str] = {}
    is_crowded: bool = False
    packages_text: str = ""
    revision: str = ""
    home: Home = ALONE
    former: str = ""
    former_identity: str = ""
    removal: Removal = UNINSTALLS

    @property
    def packages(self) -> dict[str, Package]:
        return self.spec.packages

    @property
    def rank(self) -> tuple[int, str]:
        return self.spec.priority, self.skyhook

    @property
    def acts(self) -> bool:
        """Whether the Skyhook may begin anything new.

        It may not if it is paused, disabled, invalid, or deleted with nothing to uninstall.
        """
        is_over = self.is_deleting and not self.is_uninstalling
        return not (self.shows or self.is_disabled or is_over or self.problem)

    @property
    def is_refused(self) -> bool:
        """Whether an invalid spec, the operator's settings, or the names of another Skyhook's objects keep it from acting."""
        return bool(self.problem)

    @property
    def holds_back(self) -> bool:
        """Whether the Skyhooks after this one must wait until it is complete on all its nodes.

        An invalid selector holds none back, because it is not known which nodes it means.
        """
        may_act = not (self.is_disabled or self.is_deleting or self.is_refused or self.selector is None)
        return self.spec.sequencing == "all" and not self.is_complete and may_act

    @property
    def migrates(self) -> bool:
        """Whether entries of older operators are migrated. They are also while the Skyhook is paused or disabled."""
        return not (self.is_deleting or self.problem)

    def selects(self, node: NodeRow) -> bool:
        return self.selector is not None and self.selector.matches(node.labels)

    def is_done(self, state: NodeState) -> bool:
        """Whether a node with these entries has nothing more to do.

        For a Skyhook that is being deleted, this means that every package that can be uninstalled is uninstalled.
        """
        if not self.is_uninstalling:
            return is_node_complete(self.packages.values(), state, self.updates)
        leaving = {name for name, package in self.packages.items() if is_unwanted(package)}
        return not any(entry.name in leaving for entry in state.values())

    @property
    def group(self) -> Group:
        """The group of the object that leads."""
        return OF_KIND[self.owner.kind]

    def place(
        self, node: str, options: Options, order: int | None = None, identities: Mapping[str, str] = NO_IDENTITIES
    ) -> PodPlace:
        tolerations = self.spec.additional_tolerations
        return PodPlace(
            node, self.skyhook, self.uid, self.generation, options, tolerations, order, self.group, identities
        )


class NodePick(Row, frozen=True, kw_only=True):
    """The mark that a node is picked for a Skyhook, from the stored status.

    `picked_at`: None if the time cannot be read.
    """

    picked_at: datetime | None = None


def intent_key(owner: Key) -> Key:
    return Key("", MARK, INTENTS, unit_id(owner))


def pick_key(owner: Key, node: str) -> Key:
    return Key("", MARK, PICKS, f"{unit_id(owner)}/{node}")


def _order_key(owner: Key, node: str) -> Key:
    return Key("", MARK, ORDERS, f"{unit_id(owner)}/{node}")


def order_of(view: View, owner: Key, node: str) -> int | None:
    """Return the number of a picked node in the order of the rollout; None if it has none."""
    found = view.get(_order_key(owner, node), Value)
    return found.value if found is not None and isinstance(found.value, int) else None


def boot_key(owner: Key, node: str) -> Key:
    return Key("", MARK, BOOTS, f"{unit_id(owner)}/{node}")


def held_key(owner: Key, node: str) -> Key:
    """Return the key of the mark that says that another surface or a budget keeps a Skyhook from a node."""
    return Key("", MARK, HELD, f"{unit_id(owner)}/{node}")


def decide(key: Key, view: View, now: datetime) -> Decision:
    setting = view.config(SURFACE)
    unit = unit_of(view, key.name)
    if setting is None or unit is None or unit.stored.key != key:
        return NOTHING
    assert isinstance(setting.value, Options)
    row = unit.leader
    name = row.spec.deployment_policy
    policy = policy_of(view, row)
    configs = view.rows(configs_of_skyhook(setting.value.namespace), row.name, PackageConfigRow)
    record = view.get(applied_key(setting.value.namespace, row.name), AppliedRow)
    if record is not None and record.skyhook != row.name:
        record = None
    wanted = desired_skyhook(row)
    intent = intent_of(
        wanted, configs, departed_packages(record, wanted.spec.packages), has_compartments=not name or bool(policy)
    )
    # If the policy is invalid, its budget is unknown, and nothing new may begin.
    problem = intent.problem or (f'DeploymentPolicy "{name}": {policy.problem}' if policy and policy.problem else "")
    code = SKYHOOK_INVALID
    if not problem and (problem := images_problem(wanted.spec.packages.values(), setting.value)):
        code = IMAGE_NOT_ALLOWED
    if not problem and (problem := clash_problem(wanted, view, setting.value)):
        code = NAME_TAKEN
    intent = msgspec.structs.replace(
        intent,
        problem=problem,
        problem_code=code,
        is_halted=halt_of(row) is not None and wanted is row,
        is_restored=wanted is not row,
        defers_changes=policy is not None and policy.gate is not None and policy.gate.rollback,
        packages_text=packages_text(wanted.spec.packages, setting.value.agent_image),
    )
    if intent.is_restored:
        intent = msgspec.structs.replace(intent, published=intent.published - _unlike(intent, configs))
    former = unit.other
    intent = msgspec.structs.replace(
        intent,
        home=Home(unit.source, unit.writes, unit.is_blind),
        removal=removal_of(unit),
        former=former.uid if former is not None else "",
        former_identity=identity_of(former.uid, former.generation) if former is not None else "",
    )
    intent = msgspec.structs.replace(intent, revision=_revision(intent))
    boots = boots_of(row) if setting.value.reapply_on_reboot else ()
    return Decision(marks=(intent, *_read_by_all(intent), *picks_of(row), *boots))


def _read_by_all(intent: Intent) -> Iterator[Row]:
    """Yield the rows that every node reads of a Skyhook."""
    yield Reach(
        key=reach_key(intent.owner),
        skyhook=intent.skyhook,
        owner=intent.owner,
        selector=intent.selector,
        home=intent.home,
    )
    if intent.holds_back:
        yield Holder(key=holder_key(intent.owner), rank=intent.rank)


def intent_of(
    row: SkyhookRow, configs: list[PackageConfigRow], leaving: Mapping[str, Package], *, has_compartments: bool
) -> Intent:
    is_complete = row.status.status == COMPLETE and row.status.observed_generation == row.generation
    can_leave = any(
        package.uninstall is not None and package.uninstall.enabled for package in row.spec.packages.values()
    )
    is_uninstalling = row.deleting_at is not None and can_leave
    changing = [each for each in configs if each.is_changing and _version_of(row, each.package) == each.package_version]
    return Intent(
        key=intent_key(row.key),
        uid=row.uid,
        skyhook=row.name,
        owner=row.key,
        generation=row.generation,
        created_at=row.created_at,
        spec=_at_the_end(row.spec) if is_uninstalling else row.spec,
        selector=row.selector,
        protected=row.protected,
        shows=_shows(row),
        is_disabled=row.is_disabled,
        is_deleting=row.deleting_at is not None,
        has_compartments=has_compartments,
        updates=updates_of(row),
        published=_published(row, configs, leaving),
        departed=leaving,
        changing=frozenset(each.package for each in changing),
        replaced={each.package: config_digest(each.data) for each in changing},
        is_new=not row.status.status,
        is_complete=is_complete,
        is_uninstalling=is_uninstalling,
        problem=problem_of(row),
        is_crowded=is_crowded(row.status),
    )


def _unlike(intent: Intent, configs: list[PackageConfigRow]) -> frozenset[str]:
    """Return the entry keys of packages whose ConfigMap still differs from the restored one. No pod may read it yet."""
    live = {entry_key(each.package, each.package_version): each.data for each in configs}
    return frozenset(
        package.key
        for package in intent.packages.values()
        if package.key in live and dict(live[package.key]) != package.config_map
    )


def _revision(intent: Intent) -> str:
    flags = (intent.acts, intent.is_deleting, intent.is_restored, intent.removal.runs_nothing)
    return repr((intent.uid, intent.generation, flags, sorted(intent.changing), sorted(intent.updates.items())))


def is_crowded(status: SkyhookStatus) -> bool:
    """Whether more nodes are worked on at once than get events for each stage.

    All nodes of a batch count until the last of them has ended.
    """
    batched = sum(len(each.batch_nodes) for each in status.compartment_statuses.values())
    return max(batched, len(status.node_priority)) > MOST_WITH_EVENTS


def _at_the_end(spec: Spec) -> Spec:
    """Return the spec of a Skyhook that is being deleted: every package that can be uninstalled is unwanted."""
    packages = {
        name: msgspec.structs.replace(package, uninstall=Uninstall(enabled=True, apply=True))
        if package.uninstall is not None and package.uninstall.enabled
        else package
        for name, package in spec.packages.items()
    }
    return msgspec.structs.replace(spec, packages=packages)


def picks_of(row: SkyhookRow) -> Iterator[Row]:
    """Yield a mark for each picked node, and another for its number in the order of the rollout.

    They are separate because the numbers change whenever a node ends, which must not wake every picked node.
    """
    picked = sorted((at, node) for node, at in row.status.node_priority.items())
    offset = row.status.node_order_offset
    # A batch is picked in one write, so many nodes share few texts, and each text is parsed once.
    instants = {at: _instant(at) for at in set(row.status.node_priority.values())}
    for place, (at, node) in enumerate(picked):
        yield NodePick(key=pick_key(row.key, node), picked_at=instants[at])
        yield Value(key=_order_key(row.key, node), value=offset + place)


def _instant(text: str) -> datetime | None:
    """Return the time of a pick; None if the text is not a time. People can write the status."""
    try:
        return bounds.instant(datetime.fromisoformat(text))
    except ValueError:
        return None


def boots_of(row: SkyhookRow) -> tuple[Value, ...]:
    """Return the recorded boot id of each node.

    A node with another one was rebooted, and applies its packages again.
    """
    return tuple(Value(key=boot_key(row.key, node), value=boot) for node, boot in row.status.node_boot_ids.items())


def problem_of(row: SkyhookRow) -> str:
    """Return why a Skyhook cannot be applied, in the words of admission; empty if it can."""
    return row.problem or _tag_problem(row) or name_problem(row.name) or spec_problem(row.spec)


def _tag_problem(row: SkyhookRow) -> str:
    if not row.tagged:
        return ""
    name = row.tagged[0]
    return f"the image of package {name} has a tag or a digest: remove it, the package's version is the tag"


def changed_packages(row: SkyhookRow) -> frozenset[str]:
    """Return the packages that were removed or got another version since the status last listed them."""
    listed = dict(each.rpartition(":")[::2] for each in row.status.package_list.split(",") if ":" in each)
    return frozenset(name for name, version in listed.items() if _version_of(row, name) != version)


def updates_of(row: SkyhookRow) -> ConfigUpdates:
    """Return, for each package, the configuration keys that its last change touched. Another version resets them."""
    changed = changed_packages(row)
    return {name: keys for name, keys in row.status.config_updates.items() if keys and name not in changed}


def _shows(row: SkyhookRow) -> str:
    if row.is_paused:
        return PAUSED
    return DISABLED if row.is_disabled and row.status.status != COMPLETE else ""


def _version_of(row: SkyhookRow, package: str) -> str | None:
    found = row.spec.packages.get(package)
    return found.version if found is not None else None


def _published(row: SkyhookRow, configs: list[PackageConfigRow], leaving: Mapping[str, Package]) -> frozenset[str]:
    there = {entry_key(each.package, each.package_version): each for each in configs}
    found = set()
    for package in (*row.spec.packages.values(), *leaving.values()):
        config = there.get(package.key)
        if not package.config_map or (config is not None and (not config.is_changing or package.key in leaving)):
            found.add(package.key)
    return frozenset(found)

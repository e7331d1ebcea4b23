"""Skyhooks whose pods and ConfigMaps would have the same names, and which of them keeps a name.

The names of the original join a Skyhook, a package and a version by dashes, which names may contain, too (decision 0165).
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from datetime import datetime
from functools import lru_cache

import msgspec

from haulout.base import bounds
from haulout.cluster.project import within
from haulout.cluster.rows import Row
from haulout.cluster.store import Index
from haulout.cluster.view import View
from haulout.surfaces.packages.groups import GROUPS
from haulout.surfaces.packages.options import Options
from haulout.surfaces.packages.pods import names
from haulout.surfaces.packages.pods.config_maps import PackageConfigRow, config_key
from haulout.surfaces.packages.pods.rows import PACKAGE_POD, PackagePodRow
from haulout.surfaces.packages.skyhook.applied import AppliedRow, applied_key
from haulout.surfaces.packages.specs.image_rules import images_problem
from haulout.surfaces.packages.specs.skyhook_problems import name_problem, spec_problem
from haulout.surfaces.packages.wire import Package, SkyhookRow, readable_groups


class _Claimant(msgspec.Struct, frozen=True):
    """A Skyhook that would use a name, and the package for which it would. `package`: None for all its objects."""

    row: SkyhookRow
    package: Package | None = None

    @property
    def named(self) -> str:
        skyhook = f"{self.row.group.kind} {self.row.name}"
        return skyhook if self.package is None else f'package "{self.package.name}" of {skyhook}'


def _stems(row: SkyhookRow) -> Iterator[tuple[str, _Claimant]]:
    # Its other objects have other names than those of packages, so that their stem must not be that of a package.
    yield f"/{names.stem(row.name)}", _Claimant(row)
    for package in row.spec.packages.values():
        yield names.stem(row.name, package.name, package.version), _Claimant(row, package)


def _stems_of(row: Row) -> Iterable[Hashable]:
    return {stem for stem, _ in _stems(row)} if isinstance(row, SkyhookRow) else ()


def _stem_of(row: Row) -> Iterable[Hashable]:
    if not isinstance(row, PackagePodRow) or row.about is None:
        return ()
    return (names.stem(row.about.skyhook, row.about.name, row.about.version),)


OBJECTS_OF_STEM = tuple(Index(f"{group.plural}-of-stem", group.kind, _stems_of) for group in GROUPS)


@lru_cache(maxsize=8)
def pods_of_stem(namespace: str) -> Index:
    return Index("package-pods-of-stem", within(PACKAGE_POD, namespace), _stem_of)


def rivals_of(row: SkyhookRow, view: View) -> Iterator[tuple[str, _Claimant, list[_Claimant]]]:
    """Yield each stem that other Skyhooks have, too, with the claimants: the Skyhook itself, and the others."""
    for stem, own in _stems(row):
        indexes = OBJECTS_OF_STEM[: len(readable_groups(view))]
        sharing = (each for index in indexes for each in view.rows(index, stem, SkyhookRow))
        others = (each for each in sharing if each.name != row.name)
        found = [claimant for other in others for text, claimant in _stems(other) if text == stem]
        if found:
            yield stem, own, found


def clash_warnings(row: SkyhookRow, view: View) -> Iterator[str]:
    """Yield a warning for each name that another Skyhook has, too. Which of them keeps it is decided when it is used."""
    for _, own, others in rivals_of(row, view):
        yield f"{_what(own)} would have the names of those of {others[0].named}: only one of the Skyhooks will run"


def clash_problem(row: SkyhookRow, view: View, options: Options) -> str:
    """Return which names another Skyhook keeps from this one; empty if it keeps none.

    A name is kept by the Skyhook whose ConfigMap has it, then by one that has pods or a record of the package, then by the
    oldest, then by the first by name.
    """
    for package in row.spec.packages.values():
        config = view.get(config_key(options.namespace, row.name, package), PackageConfigRow)
        if config is not None and config.skyhook != row.name:
            return _text(_Claimant(row, package), f'package "{config.package}" of Skyhook {config.skyhook}')
    for stem, own, others in rivals_of(row, view):
        ranks = {each.row.name: _rank(each, stem, view, options) for each in (own, *others)}
        # A Skyhook that may not run and has made nothing keeps no names from others.
        claimants = [each for each in others if ranks[each.row.name].has_objects or _may_run(each, options)]
        keeper = min((own, *claimants), key=lambda each: ranks[each.row.name])
        if keeper is not own:
            return _text(own, keeper.named)
    return ""


class _Rank(msgspec.Struct, frozen=True, order=True):
    """The right of a claimant to a name. The smallest keeps it."""

    lacks_config_map: bool
    lacks_others: bool
    created_at: datetime
    name: str

    @property
    def has_objects(self) -> bool:
        return not (self.lacks_config_map and self.lacks_others)


def _rank(claimant: _Claimant, stem: str, view: View, options: Options) -> _Rank:
    row, package, namespace = claimant.row, claimant.package, options.namespace
    record = view.get(applied_key(namespace, row.name), AppliedRow)
    is_recorded = record is not None and record.skyhook == row.name
    created_at = row.created_at or bounds.EARLIEST
    if package is None:
        return _Rank(not is_recorded, True, created_at, row.name)
    config = view.get(config_key(namespace, row.name, package), PackageConfigRow)
    has_config = config is not None and config.skyhook == row.name
    has_record = (
        is_recorded and record is not None and names.package_label(package.name, package.version) in record.data
    )
    pods = view.rows(pods_of_stem(namespace), stem, PackagePodRow)
    has_others = has_record or any(pod.skyhook == row.name for pod in pods)
    return _Rank(not has_config, not has_others, created_at, row.name)


def _may_run(claimant: _Claimant, options: Options) -> bool:
    row = claimant.row
    problem = name_problem(row.name) or spec_problem(row.spec)
    return not (problem or images_problem(row.spec.packages.values(), options))


def _text(own: _Claimant, keeper: str) -> str:
    return f"{_what(own)} would have the names of those of {keeper}, which keeps them"


def _what(own: _Claimant) -> str:
    return "its objects" if own.package is None else f'the objects of package "{own.package.name}"'

"""Whether an existing package pod is still the one that the Skyhook and the node's entries need."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from haulout.surfaces.packages.entries.entry import UNINSTALL, NodeState, entry_key
from haulout.surfaces.packages.pods import names
from haulout.surfaces.packages.pods.bodies import PodPlace, package_containers
from haulout.surfaces.packages.pods.jobs import PackageJobRow
from haulout.surfaces.packages.pods.rows import ContainerShape, PackagePodRow, shape_of
from haulout.surfaces.packages.wire import Package


def is_valid(pod: PackagePodRow, place: PodPlace, packages: Mapping[str, Package], state: NodeState) -> bool:
    """Whether a pod runs the current stage of its entry, with the containers that the package asks for now.

    The containers of a Job of another operator are not known, so they are not compared.
    """
    about = pod.about
    assert about is not None
    entry = state.get(entry_key(about.name, about.version))
    if entry is None or entry.stage != about.stage:
        return False
    is_foreign = isinstance(pod, PackageJobRow) and not pod.is_own
    return is_foreign or about.stage == UNINSTALL or any(_fits(pod, place, package) for package in packages.values())


def _fits(pod: PackagePodRow, place: PodPlace, package: Package) -> bool:
    assert pod.about is not None
    if pod.package != names.package_label(package.name, package.version):
        return False
    found = {shape.name: shape for shape in pod.shapes}
    return all(_is_same(found.get(shape.name), shape, pod) for shape in _expected(pod, place, package))


def _expected(pod: PackagePodRow, place: PodPlace, package: Package) -> Iterable[ContainerShape]:
    assert pod.about is not None
    if not pod.is_package:
        agent = package.agent_image_override or place.options.agent_image
        return (ContainerShape("interrupt", agent),)
    return map(shape_of, package_containers(place, package, pod.about.stage))


def _is_same(found: ContainerShape | None, wanted: ContainerShape, pod: PackagePodRow) -> bool:
    if found is None or (found.image, found.env) != (wanted.image, wanted.env):
        return False
    if not pod.is_package or (not wanted.resources and pod.has_limits_set):
        return True
    return found.resources == wanted.resources

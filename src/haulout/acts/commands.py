"""Runs the commands of acts: sends an order with the credential of the kubeconfig, and prints the answer."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar

import click

from haulout.acts.answers import Code, Done, Offer, Offers, Permission, Problem
from haulout.acts.caller import Caller
from haulout.acts.declared import declared_acts
from haulout.acts.offers import offers_for, permissions
from haulout.acts.orders import Order, perform
from haulout.acts.prepare import NOTHING, Target
from haulout.base.clock import SystemClock
from haulout.base.visible import page
from haulout.core.act import NODES
from haulout.explain.documents import as_json
from haulout.explain.home import home_endpoint
from haulout.kube.errors import KubeError
from haulout.kube.http import HttpTransport
from haulout.kube.listing import read_list
from haulout.model.meta import PartialObject
from haulout.runtime.interruption import run_command

T = TypeVar("T")
PAST = {"create": "created", "patch": "changed", "delete": "deleted"}


def run_order(order: Order, cluster: Mapping[str, Any], output: str) -> int:
    """Carry out an act for a command, print the answer, and return the exit code."""
    try:
        answer = _ask(cluster, lambda caller: perform(caller, order))
    except KubeError as error:
        answer = Problem(Code.NO_ANSWER, str(error))
    return print_answer(answer, order, output)


def print_answer(answer: Done | Problem, order: Order, output: str) -> int:
    """Print what an act wrote, or why it was refused. Return the exit code."""
    if output == "json":
        click.echo(as_json(answer))
    if isinstance(answer, Problem):
        click.echo(page([f"Error: {order.act} {order.target.words}".rstrip() + f": {answer.detail}"]), err=True)
        return 2 if answer.code is Code.INVALID else 1
    for warning in answer.warnings:
        click.echo(page([f"Warning: {warning}"]), err=True)
    if output != "json":
        click.echo(page(_done_lines(answer, order)))
    return 0


def _done_lines(answer: Done, order: Order) -> list[str]:
    lines = [
        f"{write.resource}/{'/'.join(filter(None, (write.namespace, write.name)))} "
        + (f"would be {PAST[write.verb]}" if order.dry_run else PAST[write.verb])
        for write in answer.writes
    ]
    if order.dry_run:
        lines.append("nothing was written: this was a dry run")
    elif answer.undo:
        lines.append(f"undo: {answer.undo}")
    return lines


def select_nodes(selector: str, cluster: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the names of the nodes that have these labels now. Raises ClickException where they cannot be listed."""

    async def read(caller: Caller) -> tuple[str, ...]:
        found = await read_list(caller.transport, NODES.path(), PartialObject, {"labelSelector": selector})
        return tuple(sorted(each.metadata.name for each in found))

    try:
        return _ask(cluster, read)
    except KubeError as error:
        raise click.ClickException(f"nodes cannot be listed: {error}") from None


def list_acts(target: Target, cluster: Mapping[str, Any], output: str) -> int:
    """Print which acts can be done to an object, and why the others cannot. Return the exit code."""
    try:
        answer = _ask(cluster, lambda caller: offers_for(caller, target))
    except KubeError as error:
        answer = Problem(Code.NO_ANSWER, str(error))
    if isinstance(answer, Problem):
        return print_answer(answer, Order("act", target), output)
    if output == "json":
        click.echo(as_json(answer))
    else:
        click.echo(page(_offer_lines(target, answer)))
    return 0


def list_all_acts(cluster: Mapping[str, Any], output: str) -> int:
    """Print every act with the kinds that it is for, and whether the person may do it. Return the exit code."""
    try:
        found, whole = _ask(cluster, _everything)
    except KubeError as error:
        return print_answer(Problem(Code.NO_ANSWER, str(error)), Order("act"), output)
    if isinstance(whole, Problem):
        return print_answer(whole, Order("act"), output)
    if output == "json":
        click.echo(as_json(whole))
        return 0
    lines = ["acts, each for the objects that are named with it (haulout act KIND/[NAMESPACE/]NAME):"]
    for name, permission in found.items():
        kinds = dict.fromkeys(
            target.kind.lower() for each in declared_acts() if each.act.name == name for target in each.act.targets
        )
        lines.append(f"  {name:9} {', '.join(kinds) or 'the whole cluster'}{_permission(permission)}")
    click.echo(page(lines))
    return 0


async def _everything(caller: Caller) -> tuple[dict[str, Permission], Offers | Problem]:
    return await permissions(caller), await offers_for(caller, NOTHING)


def _permission(permission: Permission) -> str:
    if permission.missing is not None:
        return f": {permission.missing.sentence}"
    return "" if permission.allowed else ": whether you may do it is not known"


def _offer_lines(target: Target, offers: Offers) -> list[str]:
    possible = [each for each in offers.acts if each.allowed is not False and not each.why]
    others = [each for each in offers.acts if each not in possible]
    lines = [target.words or "the whole cluster"]
    for each in possible:
        lines.append(f"  {_name(each)}: {each.help}{'' if each.allowed else ' (whether you may is not known)'}")
        lines += [f"      {write.verb} {write.resource} {write.name}" for write in each.writes]
        lines += [f"      Warning: {warning}" for warning in each.warnings]
    if others:
        lines.append("not now:")
        lines += [f"  {_name(each)}: {_why_not(each)}" for each in others]
    return lines


def _name(offer: Offer) -> str:
    return f"{offer.act} --with {offer.with_}" if offer.with_ else offer.act


def _why_not(offer: Offer) -> str:
    return "; ".join(filter(None, (offer.why, offer.missing.sentence if offer.missing is not None else "")))


def _ask(cluster: Mapping[str, Any], question: Callable[[Caller], Awaitable[T]]) -> T:
    """Return the answer to a question that is asked with the credential of the kubeconfig."""
    endpoint = home_endpoint(cluster)

    async def ask() -> T:
        transport = HttpTransport(endpoint, SystemClock())
        try:
            return await question(Caller(transport))
        finally:
            await transport.close()

    return run_command(ask())

"""prometheusInstant: passes while an expression holds for the current value of a Prometheus query."""

import math

import msgspec

from haulout.base.arithmetic import FormulaError, truth
from haulout.plugins.api import CheckInput, Config, Verdict, check

PROBE = "haulout.clients.prometheus:query"


class Sample(msgspec.Struct, frozen=True):
    """One value that a Prometheus query has returned.

    The value is a text, because the number NaN equals nothing and would count as a change each time.
    """

    value: str
    warnings: tuple[str, ...] = ()


class PrometheusInstant(Config, frozen=True, kw_only=True):
    """The settings of a `prometheusInstant` check.

    - `url`: the address of the Prometheus server.
    - `query`: a PromQL query that returns one value.
    - `expr`: an expression over that `value`, such as `value < 3`.

    - {type: prometheusInstant, name: calm,
      config: {url: "http://prometheus:9090", query: "sum(rate(errors_total[5m]))", expr: value < 3}}
    """

    url: str
    query: str = ""
    expr: str = ""


@check("prometheusInstant", PrometheusInstant, probe=PROBE)
def prometheus_instant(config: PrometheusInstant, inputs: CheckInput) -> Verdict:
    fact = inputs.ask((config.url, config.query))
    info: dict[str, object] = {"url": config.url, "query": config.query, "expr": config.expr}
    if fact.error:
        # An old value is not used, because whether it is still true is the very question.
        return Verdict(passed=False, error=fact.error, times=fact.failures, info=info)
    sample = fact.value
    if not isinstance(sample, Sample):
        return Verdict(passed=False, known=False, info=info, finding=f"Prometheus at {config.url} has not answered yet")
    value = float(sample.value)
    info |= {"value": value if math.isfinite(value) else sample.value}
    info |= {"warns": list(sample.warnings)} if sample.warnings else {}
    try:
        passed = truth(config.expr, {"value": value})
    except FormulaError as error:
        wrong = f"failed to evaluate prometheus expression: {error}"
        return Verdict(passed=False, error=wrong, info=info, act="correct `expr` of the check")
    holds = "holds" if passed else "does not hold"
    finding = f"{config.expr} {holds} for {config.query}, whose value is {value:g}"
    return Verdict(passed=passed, info=info, finding=finding)

"""slackThread: posts replies in a thread of Slack, and opens another one after some time."""

from haulout.plugins.api import Config, Fill, Thread, notifier
from haulout.plugins.config import GoDuration

_ESCAPES = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})


class SlackThread(Config, frozen=True, kw_only=True):
    """The settings of a `slackThread` notification.

    `title` and `message` are templates. The Lease says which thread is open, for all nodes alike.

    - {type: slackThread, name: tell-thread, schedule: {type: periodic, config: {interval: 24h}},
      config: {token: "${SLACK_TOKEN}", channel: "#nodes", leaseName: thread, leaseNamespace: kube-system, period: 168h,
               title: Maintenances of this week, message: "{{ .Node.Name }} is {{ .State }}"}}
    """

    token: str
    lease_name: str
    lease_namespace: str
    channel: str
    title: str
    message: str
    period: GoDuration

    def __repr__(self) -> str:
        return f"{type(self).__name__}(...)"


@notifier("slackThread", SlackThread)
def slack_thread(config: SlackThread, fill: Fill) -> Thread:
    return Thread(
        token=config.token,
        channel=config.channel,
        title=fill(config.title).translate(_ESCAPES),
        text=fill(config.message).translate(_ESCAPES),
        lease=config.lease_name,
        namespace=config.lease_namespace,
        lives_for=config.period,
    )

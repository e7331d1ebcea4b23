"""slack: posts to an incoming webhook of Slack, or of anything that answers like it."""

from haulout.plugins.api import Config, Fill, Post, notifier


class Slack(Config, frozen=True, kw_only=True):
    """The settings of a `slack` notification.

    Only `message` is a template. The hook is a secret: with it, any client can post.

    - {type: slack, name: tell-channel, schedule: {type: periodic, config: {interval: 24h}},
      config: {hook: "${SLACK_HOOK}", channel: "#nodes", message: "{{ .Node.Name }} is {{ .State }}"}}
    """

    hook: str
    channel: str
    message: str

    def __repr__(self) -> str:
        return f"{type(self).__name__}(...)"


@notifier("slack", Slack)
def slack(config: Slack, fill: Fill) -> Post:
    # The exact answer of Slack. Another server that sends it has accepted the message, too.
    body = {"text": fill(config.message), "channel": config.channel}
    return Post(config.hook, body, expects="ok", refusal="slack webhook response is not ok")

"""mail: sends a mail, encrypted where the server offers it."""

import msgspec

from haulout.plugins.api import Config, Fill, Mail, notifier


class MailConfig(Config, frozen=True, kw_only=True):
    """The settings of a `mail` notification.

    Only `message` is a template. The password of `auth` is sent only over TLS, or to a server on this computer.

    - {type: mail, name: tell-team, schedule: {type: periodic, config: {interval: 24h}},
      config: {address: "mail.example.com:25", from: haulout@example.com, to: [team@example.com], subject: Maintenance,
               message: "{{ .Node.Name }} is {{ .State }}"}}
    """

    auth: bool = False
    address: str
    sender: str = msgspec.field(name="from")
    to: tuple[str, ...]
    subject: str
    message: str
    identity: str = ""
    user: str = ""
    password: str = ""

    def __repr__(self) -> str:
        return f"{type(self).__name__}(...)"


@notifier("mail", MailConfig)
def mail(config: MailConfig, fill: Fill) -> Mail:
    login = (config.identity, config.user, config.password) if config.auth else None
    return Mail(config.address, config.sender, config.to, config.subject, fill(config.message), login)

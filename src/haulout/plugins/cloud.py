"""The place of cloud credentials: a Secret that the configuration names, else the credentials file of the process."""

from __future__ import annotations

from haulout.plugins.config import Config


class CloudSecret(Config, frozen=True, kw_only=True):
    """The name and the namespace of a Secret that holds the credentials of a cloud.

    Only both together name a Secret.
    """

    name: str = ""
    namespace: str = ""

    @property
    def place(self) -> tuple[str, str]:
        """The namespace and name of the Secret; both empty if the credentials are in the file of the process."""
        return (self.namespace, self.name) if self.name and self.namespace else ("", "")

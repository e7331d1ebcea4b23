"""Where the credentials for the cloud are: in a Secret that a configuration names, or in the file that it does not."""

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
        """Return namespace and name of the Secret; two empty texts mean the file."""
        return (self.namespace, self.name) if self.name and self.namespace else ("", "")

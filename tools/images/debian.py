"""The Debian packages of the images: the lock file that pins them, their download, and their files."""

from __future__ import annotations

import dataclasses
import hashlib
import io
import os
import re
import shutil
import subprocess
import tarfile
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath

LOCK = Path(__file__).parents[2] / "requirements" / "debian.lock"
RELEASE = "bookworm"
HEAD = """\
# The Debian packages of the images, for amd64: name, version, SHA-256, place in the archive. `python -m tools.images --lock` writes it.
# snapshot: when it was written. For packages that mirrors no longer have, HAULOUT_DEBIAN_MIRRORS names an archive of snapshots as of then.
"""
STAMP = "%Y%m%dT%H%M%SZ"
# Addresses beside the mirrors of this machine, separated by spaces, with {archive} and {snapshot} in their places.
MIRRORS = "HAULOUT_DEBIAN_MIRRORS"
SECONDS = 60
LARGEST_PACKAGE = 64 << 20
MERGED = ("bin", "lib", "lib64", "sbin")


class Unavailable(Exception):
    """A locked package that no mirror gave."""


@dataclasses.dataclass(frozen=True)
class Package:
    """A Debian package. `path`: where it is, below the address of a mirror: `debian/pool/main/...`."""

    name: str
    version: str
    sha256: str
    path: str

    @property
    def archive(self) -> str:
        """The part of Debian that it is from: debian or debian-security."""
        return self.path.partition("/")[0]

    @property
    def architecture(self) -> str:
        return self.path.rpartition("_")[2].removesuffix(".deb")


@dataclasses.dataclass(frozen=True)
class Lock:
    """Pinned packages. `snapshot`: when they were pinned, as archives of snapshots write times."""

    snapshot: str
    packages: tuple[Package, ...]

    @property
    def epoch(self) -> int:
        """The time stamp of the files that come from packages."""
        return int(datetime.strptime(self.snapshot, STAMP).replace(tzinfo=UTC).timestamp())

    def packages_of(self, names: Iterable[str]) -> list[Package]:
        by_name = {package.name: package for package in self.packages}
        if absent := sorted(set(names) - by_name.keys()):
            raise SystemExit(f"{LOCK}: {', '.join(absent)} is not pinned: run `python -m tools.images --lock`")
        return [by_name[name] for name in sorted(set(names))]

    def text(self) -> str:
        lines = (f"{each.name} {each.version} sha256:{each.sha256} {each.path}\n" for each in self.packages)
        return "".join([HEAD, f"snapshot {self.snapshot}\n", *lines])


def read(path: Path = LOCK) -> Lock:
    snapshot, packages = "", []
    for number, line in enumerate(path.read_text().splitlines(), 1):
        match line.partition("#")[0].split():
            case []:
                continue
            case ["snapshot", stamp]:
                snapshot = stamp
            case [name, version, digest, place] if re.fullmatch(r"sha256:[0-9a-f]{64}", digest):
                packages.append(Package(name, version, digest.partition(":")[2], place))
            case _:
                raise SystemExit(f"{path}:{number}: not a package (NAME VERSION sha256:DIGEST PATH): {line}")
    return Lock(snapshot, tuple(packages))


def newest(names: Iterable[str]) -> Lock:
    """Return the newest packages that this machine's apt offers, which has verified the signatures of its lists."""
    if not shutil.which("apt-get") or f"VERSION_CODENAME={RELEASE}" not in Path("/etc/os-release").read_text():
        raise SystemExit(f"packages are pinned on Debian {RELEASE}, for example in its container")
    words = ["apt-get", "download", "--quiet", "--print-uris", *sorted(set(names))]
    done = subprocess.run(words, check=False, capture_output=True, text=True)
    # '<address>/<archive>/pool/...deb' <file name> <size> SHA256:<digest>
    found = re.findall(r"^'\S*?/([^/' ]+/pool/\S+)' (\S+) \d+ SHA256:([0-9a-f]{64})$", done.stdout, re.MULTILINE)
    packages = []
    for place, file, digest in sorted(found, key=lambda each: str(each[1])):
        name, version, _ = file.split("_")
        packages.append(Package(name, version.replace("%3a", ":"), digest, urllib.parse.unquote(place)))
    if absent := sorted(set(names) - {package.name for package in packages}):
        raise SystemExit(f"apt-get does not offer {', '.join(absent)}: run `apt-get update`. {done.stderr.strip()}")
    return Lock(datetime.now(UTC).strftime(STAMP), tuple(packages))


def download(package: Package, snapshot: str, cache: Path) -> Path:
    """Return the file of a package from the cache or from a mirror."""
    kept = cache / f"{package.sha256}.deb"
    if kept.exists() and hashlib.sha256(kept.read_bytes()).hexdigest() == package.sha256:
        return kept
    refusals = []
    for base in mirrors(package.archive, snapshot):
        address = base + urllib.parse.quote(package.path.partition("/")[2])
        try:
            with urllib.request.urlopen(address, timeout=SECONDS) as answer:
                content = answer.read(LARGEST_PACKAGE)
        except (OSError, urllib.error.URLError) as error:
            refusals.append(f"{address}: {error}")
            continue
        if hashlib.sha256(content).hexdigest() == package.sha256:
            cache.mkdir(parents=True, exist_ok=True)
            fresh = kept.with_suffix(f".{os.getpid()}")
            fresh.write_bytes(content)
            fresh.rename(kept)
            return kept
        refusals.append(f"{address}: its SHA-256 is not the pinned one")
    raise Unavailable(
        f"{package.name} {package.version} cannot be downloaded. `python -m tools.images --lock` pins newer packages, and"
        f" {MIRRORS} names more mirrors:\n  " + "\n  ".join(refusals)
    )


def mirrors(archive: str, snapshot: str) -> list[str]:
    """Return the addresses of an archive: those of this machine's apt, then those that the environment names."""
    named = os.environ.get(MIRRORS, "").replace("{archive}", archive).replace("{snapshot}", snapshot).split()
    if not shutil.which("apt-get"):
        return named
    words = ["apt-get", "indextargets", "--format", "$(REPO_URI)"]
    done = subprocess.run(words, check=False, capture_output=True, text=True)
    ours = {line for line in done.stdout.splitlines() if line.startswith("http") and line.endswith(f"/{archive}/")}
    return [*sorted(ours), *named]


def control(deb: Path) -> str:
    """Return the description of a package, as dpkg keeps it in its list of installed ones."""
    with tarfile.open(fileobj=io.BytesIO(_member(deb, "control.tar"))) as tar:
        content = tar.extractfile("./control")
        assert content is not None
        return content.read().decode()


def unpack(deb: Path, into: Path, wants: Callable[[str], bool]) -> None:
    """Write the wanted files of a package. Directories without a wanted file are left out."""
    with tarfile.open(fileobj=io.BytesIO(_member(deb, "data.tar"))) as tar:
        for entry in tar:
            path = merged(entry.name)
            if entry.isdir() or not path or not wants(path):
                continue
            target = into / path
            target.parent.mkdir(parents=True, exist_ok=True)
            if entry.issym():
                target.symlink_to(entry.linkname)
            elif entry.islnk():
                shutil.copy(into / merged(entry.linkname), target)
            else:
                content = tar.extractfile(entry)
                assert content is not None
                target.write_bytes(content.read())
                target.chmod(0o755 if entry.mode & 0o100 else 0o644)


def merged(name: str) -> str:
    """Return the place of a file in an image, where /bin, /lib, /lib64 and /sbin are links into /usr."""
    parts = PurePosixPath(name.lstrip("/")).parts
    if ".." in parts:
        raise SystemExit(f"a package has a file outside of the root: {name}")
    return "/".join(("usr", *parts) if parts[:1] and parts[0] in MERGED else parts)


def _member(deb: Path, name: str) -> bytes:
    """Return the content of a member of a package, which is an archive of ar."""
    content = deb.read_bytes()
    for found, start, size in _members(content):
        if found.startswith(name):
            return content[start : start + size]
    raise SystemExit(f"{deb} has no {name}")


def _members(content: bytes) -> Iterator[tuple[str, int, int]]:
    at = 8
    while at + 60 <= len(content):
        head = content[at : at + 60]
        size = int(head[48:58])
        yield head[:16].decode().strip().rstrip("/"), at + 60, size
        at += 60 + size + size % 2

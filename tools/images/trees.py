"""The files of the images as directories, one a layer: the system, the dependencies, Haulout, and what one image adds."""

from __future__ import annotations

import dataclasses
import functools
import json
import os
import shutil
import subprocess
import textwrap
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path

from tools.images import debian, spec, wheels
from tools.images.spec import (
    AGENT,
    AGENT_HOME,
    HOME,
    INTERPRETER,
    LIBRARIES,
    LIBRARY,
    LOADER,
    OPERATOR,
    PATH,
    SITE,
    Image,
    wants_of_wheel,
)

ROOT = Path(__file__).parents[2]
PACK = Path(__file__).parent / "pack.py"
# The links of a Debian system into /usr.
LINKS = {**{name: f"usr/{name}" for name in ("bin", "lib", "lib64", "sbin")}, "var/run": "/run"}
FOLDERS = ("dev", "etc", "proc", "root", "run", "sys", "usr/bin", "usr/sbin", "var")
PASSWD = """\
root:x:0:0:root:/root:/usr/sbin/nologin
haulout:x:65532:65532:haulout:/:/usr/sbin/nologin
nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin
"""
GROUP = "root:x:0:\nhaulout:x:65532:\nnogroup:x:65534:\n"
AUTHORITIES, BUNDLE = "usr/share/ca-certificates", "etc/ssl/certs/ca-certificates.crt"
# Where OpenSSL of Debian looks.
AUTHORITY_LINKS = {"usr/lib/ssl/certs": "/etc/ssl/certs", "usr/lib/ssl/cert.pem": f"/{BUNDLE}"}
# Isolated: neither the environment nor the working directory can put a module in the place of one of ours.
AGENT_LAUNCHER = f"""\
#!/{INTERPRETER} -IS
import sys

sys.path.insert(0, "/{AGENT_HOME}")
from haulout.agent.main import main

sys.exit(main(sys.argv[1:]))
"""
# It starts an original whatever it is called by, without a shell.
MANAGER = f"""\
#!/{HOME}/bin/python
import sys

from haulout.app.main import main

sys.argv[:1] = ["haulout", "as", "{{name}}"]
sys.exit(main())
"""


@dataclasses.dataclass(frozen=True)
class Source:
    """What an image is made of. `lock`: its Debian packages; `cache`: where downloads are kept; `commit`, `epoch`: of the checkout."""

    lock: debian.Lock
    cache: Path
    commit: str
    epoch: int

    @property
    def committed_at(self) -> str:
        return datetime.fromtimestamp(self.epoch, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


@dataclasses.dataclass(frozen=True)
class Layer:
    """A packed layer. `made_of`: what is in it, for people. The digest of the unpacked layer is its `diff_id`."""

    path: Path
    made_of: str
    digest: str
    diff_id: str
    size: int
    unpacked: int


class Trees:
    """The layers of all images of one build, each made once. `directory`: a scratch directory."""

    def __init__(self, source: Source, directory: Path) -> None:
        self.source = source
        self.directory = directory
        self.wheels: list[wheels.Wheel] = []
        self._pool = ThreadPoolExecutor(os.cpu_count())
        self._made: dict[str, Future[Layer]] = {}

    def begin(self, image: Image) -> list[Future[Layer]]:
        """Lay out the layers of an image, the lowest first, and begin to pack those that no other image has yet."""
        if image.name == AGENT:
            return [self._layer(AGENT, lambda: self.system(AGENT, image)), self._layer("agent-itself", self.agent)]
        layers = [
            self._layer("system", lambda: self.system("system", image)),
            self._layer("dependencies", self.dependencies),
            self._layer("haulout", self.haulout),
        ]
        if image.original:
            layers.append(self._layer(image.original, lambda: self.manager(image.original)))
        return layers

    def layers(self, image: Image) -> list[Layer]:
        """Return the packed layers of an image, the lowest first."""
        return [each.result() for each in self.begin(image)]

    def _layer(self, name: str, lay: Callable[[], Future[Layer]]) -> Future[Layer]:
        if name not in self._made:
            self._made[name] = lay()
        return self._made[name]

    @functools.cached_property
    def debs(self) -> dict[str, Path]:
        """The files of the locked packages."""
        lock, cache = self.source.lock, self.source.cache / "debian"
        return {each.name: debian.download(each, lock.snapshot, cache) for each in lock.packages}

    @functools.cached_property
    def builder(self) -> Path:
        """The root of a system whose interpreter packs the layers. No image is made of it."""
        root = self.directory / "builder"
        lay_system(root, list(self.source.lock.packages), self.debs, spec.image(OPERATOR))
        return root

    def system(self, name: str, image: Image) -> Future[Layer]:
        """The layer of Debian packages: an interpreter, its standard library, and what both are linked with."""
        root = self.directory / name
        lay_system(root, self.source.lock.packages_of(image.packages), self.debs, image)
        return self._pack(root, [LIBRARY], "Debian packages", self.source.lock.epoch)

    def dependencies(self) -> Future[Layer]:
        """The layer of the locked dependencies, in a virtual environment of the image's interpreter."""
        root = self.directory / "dependencies"
        self.wheels = wheels.download(self.source.cache / "wheels")
        for each in self.wheels:
            wheels.unpack(each, root / SITE, wants_of_wheel)
        (python,) = self.source.lock.packages_of(["python3.11-minimal"])
        version = python.version.partition("-")[0]
        write(
            root / HOME / "pyvenv.cfg", f"home = /usr/bin\ninclude-system-site-packages = false\nversion = {version}\n"
        )
        link(root / HOME / "bin/python", f"/{INTERPRETER}")
        link(root / HOME / "bin/python3", "python")
        return self._pack(root, [SITE], "Locked Python packages", self.source.lock.epoch)

    @functools.cached_property
    def own_wheel(self) -> wheels.Wheel:
        return wheels.build(self.directory / "wheel", self.source.epoch)

    def haulout(self) -> Future[Layer]:
        """The layer of Haulout itself, with a link for every program whose place it takes."""
        root = self.directory / "haulout"
        wheels.unpack(self.own_wheel, root / SITE, wants_of_wheel)
        self._mark(root / SITE)
        program = f"{HOME}/bin/haulout"
        write(root / program, (ROOT / "deploy/haulout").read_text(), 0o755)
        link(root / "usr/local/bin/haulout", f"/{program}")
        for name in self._names(root / SITE):
            link(root / name, f"/{program}")
            link(root / "usr/local/bin" / name, f"/{program}")
        return self._pack(root, [SITE], "Haulout", self.source.epoch)

    def agent(self) -> Future[Layer]:
        """The layer of the agent, which uses nothing of the rest of Haulout."""
        root = self.directory / "agent-itself"
        packages = root / AGENT_HOME
        wheels.unpack(
            self.own_wheel, packages, lambda path: path.startswith("haulout/agent/") or path == "haulout/__init__.py"
        )
        self._mark(packages)
        write(root / "usr/bin/skyhook-agent", AGENT_LAUNCHER, 0o755)
        # Steps do not get the variables that are written down here, because they are about the image, not about the host.
        write(root / "usr/share/skyhook-agent/image-env", f"{PATH}\n")
        return self._pack(root, [AGENT_HOME], "The agent", self.source.epoch)

    def manager(self, original: str) -> Future[Layer]:
        """Return the layer that makes /manager one of the originals."""
        names = self._names(self.directory / "haulout" / SITE)
        if original not in names:
            raise SystemExit(
                f"no image or program is called {original}; there are: operator, console, agent, {', '.join(names)}"
            )
        root = self.directory / f"manager-{original}"
        write(root / "manager", MANAGER.format(name=original), 0o755)
        return self._pack(root, [], f"/manager is {original}", self.source.epoch)

    def _names(self, site: Path) -> list[str]:
        """Return the names of the programs whose place Haulout takes, as the image itself prints them."""
        path = os.pathsep.join([str(self.directory / "dependencies" / SITE), str(site)])
        words = ["-s", "-S", "-B", "-m", "haulout.app.main", "as", "--names"]
        return run_interpreter(self.builder, words, PYTHONPATH=path).split()

    def _mark(self, packages: Path) -> None:
        """Write down what the image is made of where `haulout version` finds it."""
        with (packages / "haulout/__init__.py").open("a") as module:
            module.write(f'COMMIT = "{self.source.commit}"\nBUILT = "{self.source.committed_at}"\n')

    def _pack(self, root: Path, folders: list[str], made_of: str, epoch: int) -> Future[Layer]:
        into = root.with_name(f"{root.name}.tar.gz")
        request = json.dumps({"root": str(root), "compile": folders, "epoch": epoch, "into": str(into)})
        builder = self.builder

        def packed() -> Layer:
            made = json.loads(run_interpreter(builder, ["-s", "-S", "-B", str(PACK)], stdin=request))
            return Layer(path=into, made_of=made_of, **made)

        return self._pool.submit(packed)


def lay_system(root: Path, packages: list[debian.Package], debs: dict[str, Path], image: Image) -> None:
    for name in FOLDERS:
        (root / name).mkdir(parents=True, exist_ok=True)
    for name, target in LINKS.items():
        link(root / name, target)
    for name in ("tmp", "var/tmp"):
        (root / name).mkdir()
        (root / name).chmod(0o1777)
    for package in packages:
        debian.unpack(debs[package.name], root, image.wants)
        # Where scanners of images look for the packages of an image without dpkg.
        write(root / "var/lib/dpkg/status.d" / package.name, debian.control(debs[package.name]))
    write(root / "etc/passwd", PASSWD)
    write(root / "etc/group", GROUP)
    write(root / "etc/nsswitch.conf", "passwd: files\ngroup: files\nhosts: files dns\n")
    if (root / AUTHORITIES).exists():
        certificates = sorted((root / AUTHORITIES).rglob("*.crt"))
        write(root / BUNDLE, "".join(path.read_text() for path in certificates))
        shutil.rmtree(root / AUTHORITIES)
        for name, target in AUTHORITY_LINKS.items():
            link(root / name, target)


def run_interpreter(root: Path, words: list[str], *, stdin: str = "", **variables: str) -> str:
    """Run the interpreter of a system from its directory, with its own loader and libraries. Return its output."""
    # The order of sets in compiled modules follows the seed.
    environment = {"PATH": "/usr/bin:/bin", "PYTHONHASHSEED": "0", "PYTHONHOME": str(root / "usr"), **variables}
    argv = [str(root / LOADER), "--library-path", str(root / LIBRARIES), str(root / INTERPRETER), *words]
    done = subprocess.run(argv, check=False, capture_output=True, text=True, input=stdin, env=environment)
    if done.returncode:
        text = textwrap.indent(done.stdout + done.stderr, "  ")
        raise SystemExit(
            f"the image's interpreter ended with {done.returncode} (it runs on Linux for amd64 alone):\n{text}"
        )
    return done.stdout


def write(path: Path, text: str, mode: int = 0o644) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(mode)


def link(path: Path, target: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.symlink_to(target)

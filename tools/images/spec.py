"""The images as data: the packages, files, user and entrypoint of each."""

from __future__ import annotations

import dataclasses
import fnmatch

OPERATOR, CONSOLE, AGENT = "operator", "console", "agent"
# Where images are, as long as no registry is named.
REPOSITORY = "haulout"
# Beside a layout: the name of each image in it, and where it will be.
REFERENCES = "references.txt"
# Where the operator's packages are, as a virtual environment of the image's interpreter.
HOME = "opt/haulout"
SITE = f"{HOME}/lib/python3.11/site-packages"
# Where the agent is: it uses the standard library alone.
AGENT_HOME = "opt/haulout"
INTERPRETER = "usr/bin/python3.11"
LIBRARY = "usr/lib/python3.11"
LIBRARIES = "usr/lib/x86_64-linux-gnu"
LOADER = f"{LIBRARIES}/ld-linux-x86-64.so.2"
PATH = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

# The interpreter of Debian, which is built with profile-guided and link-time optimization, and what it is linked with.
PYTHON = (
    "base-files",
    "gcc-12-base",
    "libbz2-1.0",
    "libc6",
    "libexpat1",
    "libffi8",
    "libgcc-s1",
    "liblzma5",
    "libpython3.11-minimal",
    "libpython3.11-stdlib",
    "libssl3",
    "libuuid1",
    "python3.11-minimal",
    "zlib1g",
)

# Files of packages that no image has: documents other than licenses, conversions between character sets, and maintainers'
# tools. The patterns of fnmatch, in which * matches slashes, too.
UNUSED = (
    "usr/bin/pdb3*",
    "usr/bin/py3*",
    "usr/lib/*/audit/*",
    "usr/lib/*/engines-3/*",
    "usr/lib/*/gconv/*",
    "usr/lib/binfmt.d/*",
    "usr/lib/locale/*",
    "usr/lib/valgrind/*",
    "usr/sbin/*",
    "usr/share/base-files/*",
    "usr/share/binfmts/*",
    "usr/share/gcc/*",
    "usr/share/gdb/*",
    "usr/share/lintian/*",
    "usr/share/man/*",
    "usr/share/applications/*",
    "usr/share/pixmaps/*",
    "etc/default/*",
    "etc/dpkg/*",
    "etc/init.d/*",
    "etc/issue*",
    "etc/ld.so.conf.d/*",
    "etc/ca-certificates/*",
    "etc/profile.d/*",
    "etc/skel/*",
    "etc/update-motd.d/*",
    "var/*",
    # Of the standard library: tests, tools for developers and pip's installer.
    *(
        f"{LIBRARY}/{name}/*"
        for name in (
            "__pycache__",
            "*-packages",
            "config-*",
            "curses",
            "dbm",
            "distutils",
            "ensurepip",
            "idlelib",
            "lib2to3",
            "pydoc_data",
            "sqlite3",
            "test",
            "tests",
            "tkinter",
            "turtledemo",
        )
    ),
    # Modules in C whose libraries no image has, and those for tests.
    *(
        f"{LIBRARY}/lib-dynload/{name}.*"
        for name in (
            "_crypt",
            "_curses",
            "_curses_panel",
            "_dbm",
            "_gdbm",
            "_sqlite3",
            "_ctypes_test",
            "_test*",
            "_tkinter",
            "_xxtestfuzz",
            "nis",
            "ossaudiodev",
            "readline",
            "xxlimited*",
        )
    ),
)
# Of the standard library, what talks to networks or is for servers: the agent does neither.
UNUSED_BY_AGENT = (
    *(
        f"{LIBRARY}/{name}/*"
        for name in (
            "asyncio",
            "concurrent",
            "email",
            "html",
            "http",
            "multiprocessing",
            "unittest",
            "urllib",
            "venv",
            "wsgiref",
            "xml",
            "xmlrpc",
        )
    ),
    f"{LIBRARY}/lib-dynload/_ssl.*",
    f"{LIBRARIES}/libssl.*",
    f"{LIBRARIES}/ossl-modules/*",
)
# Of the locked dependencies: sources of modules in C, and the descriptions of all services of AWS but those that messages to
# SNS use, among them the ways to its credentials.
UNUSED_OF_WHEELS = ("*.pyx", "*.pxd", "*.pyi", "*.c", "*.h", "*/RECORD", "*/INSTALLER", "*.data/scripts/*")
AWS = ("signin", "sns", "sso", "sso-oidc", "sts")


@dataclasses.dataclass(frozen=True)
class Image:
    """An image. `packages`: those of Debian. `original`: the program whose name it answers to as /manager."""

    name: str
    title: str
    packages: tuple[str, ...]
    user: str
    entrypoint: tuple[str, ...]
    command: tuple[str, ...] = ()
    unused: tuple[str, ...] = UNUSED
    original: str = ""

    def wants(self, path: str) -> bool:
        """Whether a file of a Debian package, named without a leading slash, belongs into the image."""
        if path.startswith("usr/share/doc/"):
            # A license has to accompany what is copied. Some packages have a link to the directory of another package.
            depth = path.count("/")
            return depth == 3 or (depth == 4 and path.endswith("/copyright"))
        return not any(fnmatch.fnmatchcase(path, pattern) for pattern in self.unused)


def wants_of_wheel(path: str) -> bool:
    """Whether a file of a locked dependency belongs into the image."""
    head, found, rest = path.partition("botocore/data/")
    if found and not head and "/" in rest:
        return rest.partition("/")[0] in AWS
    return not any(fnmatch.fnmatchcase(path, pattern) for pattern in UNUSED_OF_WHEELS)


_PROGRAM = "/usr/local/bin/haulout"
_OPERATOR = Image(
    OPERATOR,
    "Haulout: the operator, all surfaces and every drop-in program",
    (*PYTHON, "ca-certificates", "libstdc++6"),
    "65532:65532",
    (_PROGRAM,),
    ("run",),
)
_AGENT = Image(
    AGENT,
    "Haulout: the agent that runs packages on hosts",
    PYTHON,
    "0:0",
    ("/usr/bin/skyhook-agent",),
    unused=(*UNUSED, *UNUSED_BY_AGENT),
)
_CONSOLE = dataclasses.replace(
    _OPERATOR, name=CONSOLE, title="Haulout: the web console", entrypoint=(_PROGRAM, "console"), command=()
)


def reference(name: str, repository: str, version: str) -> str:
    """Return where the image of a version is: the operator's has the version as its tag, others that and their names."""
    return f"{repository}:{version}" if name == OPERATOR else f"{repository}:{version}-{name}"


def image(name: str) -> Image:
    """Return an image by its name. Any other name is that of a drop-in program, which the operator's image starts as /manager."""
    for each in (_OPERATOR, _CONSOLE, _AGENT):
        if each.name == name:
            return each
    return dataclasses.replace(
        _OPERATOR,
        name=name,
        title=f"Haulout in the place of {name}",
        entrypoint=("/manager",),
        command=(),
        original=name,
    )

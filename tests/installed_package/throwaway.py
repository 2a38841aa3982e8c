"""A throw-away copy of this machine's file system: packages are installed in it with the real dpkg.

    with Root(folder) as root:
        root.run("dpkg", "--install", "/mnt/x.deb")
        root.changed()

The folder is /mnt there.

It is an overlay: what is written goes to a folder in memory, and the machine stays as it is. The mount is
in a name space of its own, which ends with the process that holds it. /run is empty, so that nothing
takes the machine's systemd for its own.
"""

import os
import pathlib
import shutil
import stat
import subprocess
import tempfile

MEMORY = pathlib.Path("/dev/shm")  # an overlay cannot lie on the file system that it covers
LIMIT_S = 120
ENVIRONMENT = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C.UTF-8", "DEBIAN_FRONTEND": "noninteractive"}

MOUNT = """
set -e
mount -t overlay overlay -o "lowerdir=/,upperdir=$1/upper,workdir=$1/work" "$1/root"
mount --rbind /proc "$1/root/proc"
mount --rbind /dev "$1/root/dev"
mount -t tmpfs tmpfs "$1/root/run"
mount -t tmpfs tmpfs "$1/root/tmp"
mount --bind "$2" "$1/root/mnt"
rm -f "$1/root/var/lib/man-db/auto-update"    # each installation would index all manuals
echo mounted
exec sleep 900
"""


class Missing(Exception):
    """It cannot be had here; says why."""


class Root:
    def __init__(self, shared):
        if os.geteuid() != 0:
            raise Missing("only root can make a throw-away root")
        if not os.access(MEMORY, os.W_OK):
            raise Missing(f"needs {MEMORY}")
        for tool in ("unshare", "nsenter", "chroot", "dpkg"):
            if shutil.which(tool) is None:
                raise Missing(f"needs {tool}")
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="redrive-root-", dir=MEMORY))
        self.folder.chmod(0o755)
        for name in ("upper", "work", "root"):
            (self.folder / name).mkdir()
        self.holder = subprocess.Popen(
            ["unshare", "--mount", "--propagation", "private", "sh", "-c", MOUNT, "sh", str(self.folder), str(shared)],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        if self.holder.stdout.readline() != "mounted\n":
            said = self.holder.communicate(timeout=LIMIT_S)[1]
            shutil.rmtree(self.folder)
            raise Missing(f"an overlay cannot be mounted here: {said.strip()}")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.holder.kill()
        self.holder.communicate(timeout=LIMIT_S)
        shutil.rmtree(self.folder)

    def inside(self, *words, user=None):
        """A command line that runs `words` there."""
        who = [f"--userspec={user}"] if user else []
        return ["nsenter", f"--target={self.holder.pid}", "--mount", "chroot", *who, str(self.folder / "root"),
                *(str(word) for word in words)]

    def start(self, *words, user=None, env=None, **options):
        """A process there, with the id of the program itself. Its standard error is a pipe."""
        return subprocess.Popen(self.inside(*words, user=user), stdin=subprocess.DEVNULL, stderr=subprocess.PIPE,
                                env={**ENVIRONMENT, **(env or {})}, **options)

    def run(self, *words, user=None):
        """What it prints; it must succeed."""
        done = subprocess.run(self.inside(*words, user=user), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, timeout=LIMIT_S, check=False, env=ENVIRONMENT)
        assert done.returncode == 0, f"{words}: {done.stdout}"
        return done.stdout

    def changed(self):
        """Files that were written and are there, and new folders, as absolute paths. What was removed is a device
        0/0 in an overlay."""
        upper = self.folder / "upper"
        found = set()
        for folder, folders, names in os.walk(upper):
            here = pathlib.Path("/", pathlib.Path(folder).relative_to(upper))
            found |= {str(here / name) for name in folders if not (here / name).exists()}
            found |= {str(here / name) for name in names if not stat.S_ISCHR(os.lstat(os.path.join(folder, name)).st_mode)}
        return found

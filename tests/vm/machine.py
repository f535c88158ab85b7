# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""A virtual machine with the RDMA stack of Debian's kernel, made from packages alone, on any machine.

prepare() downloads the kernel package and builds the initramfs, once; Machine.run() boots and runs one command.
The guest sees the host's root read-only with a layer in memory above it: its writes are lost, except those below
shared folders.
"""

import fcntl
import glob
import lzma
import os
import re
import shlex
import shutil
import struct
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field

import siw
import tsc

FOLDER = os.path.dirname(os.path.abspath(__file__))
REPOSITORY = os.path.dirname(os.path.dirname(FOLDER))

KERNEL_PACKAGE = "linux-image-amd64"
# The modules that the guest loads, in this order, each after its dependencies.
MODULES = ("virtio_pci", "9pnet_virtio", "9p", "overlay", "virtio_rng", "crc32_generic", "crc32c_generic",
           "ib_uverbs", "rdma_ucm", "ib_umad", "veth", "sch_netem", "cls_u32", "sch_prio")
DEVICES = {"rxe": "rdma_rxe", "siw": "siw"}  # type of the RDMA devices -> module
PROGRAMS = {"qemu-system-x86_64": "qemu-system-x86", "busybox": "busybox-static", "cpio": "cpio",
            "depmod": "kmod", "modprobe": "kmod", "dpkg": "dpkg", "apt-get": "apt", "rdma": "iproute2"}

TIMED_OUT = 124  # as timeout(1)
BROKEN = 125  # the machine ended without a status


class Unavailable(Exception):
    """The virtual machine is not possible here: a program or a package is missing."""


def say(text):
    print(f"vm: {text}", file=sys.stderr, flush=True)


def cache_folder():
    return os.environ.get("UDAPL_VM_CACHE") or os.path.join(REPOSITORY, "build", "vm-cache")


def checked(*command, **options):
    try:
        done = subprocess.run(command, capture_output=True, text=True, **options)
    except subprocess.TimeoutExpired as error:
        raise Unavailable(str(error)) from None
    if done.returncode != 0:
        raise Unavailable(f"{shlex.join(command)}: {(done.stderr or done.stdout).strip()}")
    return done.stdout


# ---- the kernel and the initramfs ------------------------------------------------------------

@dataclass
class Kernel:
    version: str
    image: str
    bootable: str  # what QEMU boots: the same, not compressed, if possible
    root: str  # the unpacked package: lib/modules/VERSION is below it


def kernel_package():
    """The package to which KERNEL_PACKAGE currently refers, e.g. linux-image-6.1.0-NN-amd64."""
    shown = checked("apt-cache", "depends", "--no-recommends", "--no-suggests", KERNEL_PACKAGE)
    names = re.findall(r"Depends: (linux-image-\S+)", shown)
    if not names:
        raise Unavailable(f"{KERNEL_PACKAGE} depends on no kernel package")
    return names[0]


def download(package, folder):
    """Downloads the .deb of the package (or of NAME=VERSION) from the distribution's archive. Returns its path."""
    command = ("apt-get", "download", "-o", "APT::Sandbox::User=root", package)
    say(f"fetching {package}")
    try:
        checked(*command, cwd=folder, timeout=600)
    except Unavailable:  # the package lists may be older than the archive
        if os.geteuid() != 0:
            raise
        checked("apt-get", "update", timeout=300)
        checked(*command, cwd=folder, timeout=600)
    return glob.glob(os.path.join(folder, package.partition("=")[0] + "_*.deb"))[0]


def decompressed(image):
    """The kernel inside the compressed image, as the file vmlinux-VERSION beside it: an emulated processor would need
    half of the boot to start in 16-bit mode and decompress it. The image itself, if it is not compressed by XZ."""
    target = image.replace("vmlinuz-", "vmlinux-")
    if not os.path.exists(target):
        with open(image, "rb") as file:
            data = file.read()
        setup_sectors = data[0x1f1] or 4  # Linux, Documentation/arch/x86/boot.rst: setup_sects, payload_offset
        offset, length = struct.unpack_from("<II", data, 0x248)
        begin = (setup_sectors + 1) * 512 + offset
        try:
            kernel = lzma.LZMADecompressor(lzma.FORMAT_XZ).decompress(data[begin:begin + length])
        except lzma.LZMAError:
            return image
        with open(target + ".new", "wb") as file:
            file.write(kernel)
        os.rename(target + ".new", target)
    return target


def unpacked_kernel(cache):
    """The unpacked kernel. An existing one is kept; to get a newer package, delete the cache."""
    for image in sorted(glob.glob(os.path.join(cache, "kernel", "boot", "vmlinuz-*"))):
        version = os.path.basename(image).removeprefix("vmlinuz-")
        return Kernel(version, image, decompressed(image), os.path.join(cache, "kernel"))
    with tempfile.TemporaryDirectory(dir=cache) as work:
        package = download(kernel_package(), work)
        root = os.path.join(work, "kernel")
        checked("dpkg", "-x", package, root)
        version = os.path.basename(glob.glob(os.path.join(root, "boot", "vmlinuz-*"))[0]).removeprefix("vmlinuz-")
        if os.path.isdir(os.path.join(root, "usr/lib/modules")) and not os.path.isdir(os.path.join(root, "lib")):
            os.symlink("usr/lib", os.path.join(root, "lib"))
        checked("depmod", "-b", root, version)
        shutil.rmtree(os.path.join(cache, "kernel"), ignore_errors=True)
        os.rename(root, os.path.join(cache, "kernel"))
    return unpacked_kernel(cache)


def siw_module(kernel, cache):
    """Builds siw.ko and adds it to the kernel's modules, unless it is there already."""
    extra = os.path.join(kernel.root, "lib/modules", kernel.version, "extra")
    target = os.path.join(extra, siw.FLAVOUR, "siw.ko")
    if not os.path.exists(target):
        with tempfile.TemporaryDirectory(dir=cache) as work:
            built = siw.build(kernel, work,
                              lambda package, version: download(f"{package}={version}" if version else package, work),
                              checked, Unavailable)
            shutil.rmtree(extra, ignore_errors=True)
            os.makedirs(os.path.dirname(target))
            shutil.copy(built, target + ".new")
            os.rename(target + ".new", target)
        checked("depmod", "-b", kernel.root, kernel.version)
    return target


def module_files(kernel, modules):
    """The .ko files to load, dependencies first."""
    files = []
    for module in modules:
        shown = checked("modprobe", "-d", kernel.root, "-S", kernel.version, "--show-depends", module)
        for line in shown.splitlines():
            kind, *rest = line.split()
            if kind == "insmod" and rest[0] not in files:
                files.append(rest[0])
    return files


def build_initramfs(kernel, modules, target):
    with tempfile.TemporaryDirectory(dir=os.path.dirname(target)) as work:
        root = os.path.join(work, "root")
        for folder in ("bin", "modules", "proc", "sys", "dev"):
            os.makedirs(os.path.join(root, folder))
        shutil.copy(shutil.which("busybox"), os.path.join(root, "bin", "busybox"))
        shutil.copy(os.path.join(FOLDER, "guest", "init"), os.path.join(root, "init"))
        os.chmod(os.path.join(root, "init"), 0o755)
        names = []
        for file in modules:
            names.append(os.path.basename(file))
            shutil.copy(file, os.path.join(root, "modules"))
        with open(os.path.join(root, "modules", "order"), "w") as order:
            order.write("".join(name + "\n" for name in names))
        found = "\n".join(os.path.relpath(os.path.join(folder, name), root)
                          for folder, folders, files in os.walk(root) for name in folders + files)
        archive = os.path.join(work, "archive")
        with open(archive, "wb") as output:
            subprocess.run(["cpio", "--quiet", "-o", "-H", "newc", "-R", "0:0"], input=found.encode(), cwd=root,
                           stdout=output, check=True)
        os.rename(archive, target)


def prepare(device):
    """Returns (kernel, initramfs with the module for the device type), made if necessary. Raises Unavailable."""
    if os.uname().machine != "x86_64":
        raise Unavailable("the kernel package that is used is one for x86_64")
    for program, package in PROGRAMS.items():
        if not shutil.which(program):
            raise Unavailable(f"{program} is missing (package {package})")
    cache = cache_folder()
    os.makedirs(cache, exist_ok=True)
    with open(os.path.join(cache, "lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        kernel = unpacked_kernel(cache)
        initramfs = os.path.join(cache, f"initramfs-{device}")
        sources = [__file__, os.path.join(FOLDER, "guest", "init"), kernel.image]
        if device == "siw":
            sources.append(siw_module(kernel, cache))
        if not os.path.exists(initramfs) or os.path.getmtime(initramfs) < max(map(os.path.getmtime, sources)):
            build_initramfs(kernel, module_files(kernel, (*MODULES, DEVICES[device])), initramfs)
        return kernel, initramfs


# ---- one run ---------------------------------------------------------------------------------

@dataclass
class Machine:
    hosts: int = 1
    device: str = "rxe"
    memory: int = 2048  # MiB
    processors: int = 2
    environment: dict = field(default_factory=dict)
    shares: list = field(default_factory=list)  # folders that the guest may write
    folder: str = REPOSITORY  # where the command runs

    def run(self, command, timeout, output=None, console=False):
        """Boots, runs the shell text `command`, returns its exit status, TIMED_OUT or BROKEN.

        output: binary stream for the output of the command (default: standard output). console: show the
        guest's console as well. If there is no status, the end of the console is written to standard error.
        """
        kernel, initramfs = prepare(self.device)
        output = output or sys.stdout.buffer
        with tempfile.TemporaryDirectory(prefix="udapl-vm-") as work:
            exchange = os.path.join(work, "exchange")
            os.mkdir(exchange)
            self._write_exchange(exchange, command)
            console_file = os.path.join(work, "console")
            open(console_file, "wb").close()
            say(f"booting {kernel.version}")
            begin = time.monotonic()
            with open(os.path.join(work, "qemu"), "wb") as errors:
                process = subprocess.Popen(self._qemu(kernel, initramfs, exchange, console_file),
                                           stdin=subprocess.DEVNULL, stdout=errors, stderr=errors)
            try:
                self._follow(process, begin + timeout, [(os.path.join(exchange, "output"), output)] +
                             ([(console_file, sys.stderr.buffer)] if console else []))
            finally:
                timed_out = process.poll() is None
                if timed_out:
                    process.kill()
                process.wait()
            return self._status(work, exchange, timed_out, timeout, time.monotonic() - begin)

    def _write_exchange(self, exchange, command):
        def write(name, text):
            with open(os.path.join(exchange, name), "w") as file:
                file.write(text)

        write("settings", f"hosts={self.hosts}\ndevice={self.device}\nfolder={shlex.quote(self.folder)}\n"
                          f"shares=({shlex.join(self.shares)})\n")
        write("environment", "".join(f"export {name}={shlex.quote(value)}\n"
                                     for name, value in self.environment.items()))
        write("command", command + "\n")
        write("output", "")

    def _qemu(self, kernel, initramfs, exchange, console):
        frequency = tsc.frequency()
        command = ["qemu-system-x86_64", "-accel", "tcg,thread=multi", "-cpu", "max,-erms,-fsrm,-la57", "-smp", str(self.processors),
                   "-m", str(self.memory), "-display", "none", "-monitor", "none", "-no-reboot", "-nodefaults",
                   "-serial", f"file:{console}", "-kernel", kernel.bootable, "-initrd", initramfs,
                   "-append", "console=ttyS0 quiet panic=-1 oops=panic nokaslr mitigations=off nowatchdog clearcpuid=rep_good "
                              "tsc=reliable " + (f"tsc_early_khz={frequency} " if frequency else "") +
                              "random.trust_cpu=on cryptomgr.notests no_timer_check "
                              f"udapl.next={os.path.join(FOLDER, 'guest', 'setup')}",
                   "-device", "virtio-rng-pci"]
        shared = [("hostroot", "/", True), ("exchange", exchange, False)]
        shared += [(f"share{index}", path, False) for index, path in enumerate(self.shares)]
        for tag, path, readonly in shared:
            path = path.replace(",", ",,")
            command += ["-fsdev", f"local,id={tag},path={path},security_model=none,multidevs=remap" +
                        (",readonly=on" if readonly else ""),
                        "-device", f"virtio-9p-pci,fsdev={tag},mount_tag={tag}"]
        return command

    @staticmethod
    def _follow(process, deadline, streams):
        """Copies what is appended to the files until the machine is off or the deadline has passed."""
        opened = [(open(path, "rb"), stream) for path, stream in streams]
        try:
            running = True
            while running:
                running = process.poll() is None and time.monotonic() < deadline
                for file, stream in opened:
                    data = file.read()
                    if data:
                        stream.write(data)
                        stream.flush()
                if running:
                    time.sleep(0.05)
        finally:
            for file, _ in opened:
                file.close()

    @staticmethod
    def _status(work, exchange, timed_out, timeout, seconds):
        try:
            with open(os.path.join(exchange, "status")) as file:
                status = int(file.read())
            say(f"status {status} after {seconds:.1f} s")
            with open(os.path.join(exchange, "uptime")) as file:
                uptime = float(file.read())
            if uptime > 1.1 * seconds:
                say(f"time passed {uptime / seconds:.1f} times too fast, so commands may have timed out early")
            return status
        except (FileNotFoundError, ValueError):
            pass
        say(f"not finished after {timeout:.0f} s" if timed_out else "ended without a status")
        for name in ("qemu", "console"):
            with open(os.path.join(work, name), errors="replace") as file:
                lines = file.read().splitlines()[-40:]
            if lines:
                say(f"end of {name}:")
                print("\n".join(lines), file=sys.stderr, flush=True)
        return TIMED_OUT if timed_out else BROKEN

"""A real Slurm cluster of one node in a temporary folder, for as long as a test needs it.

Everything is its own: the key of munge, the ports, the configuration, the state. There is no
accounting, as on many small clusters, so sacct knows nothing.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from textwrap import dedent

PROGRAMS = ("munged", "mungekey", "slurmctld", "slurmd", "sinfo", "sbatch", "scancel")
PATH = os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/sbin"])
LONGEST_FOLDER = 70
"""Slurm puts sockets below its folder, whose names are limited to 108 bytes."""


def why_not() -> str:
    """Why no cluster can be started here; empty: one can."""
    missing = [name for name in PROGRAMS if shutil.which(name, path=PATH) is None]
    if missing:
        return f"{', '.join(missing)} not installed (Debian: apt-get install slurm-wlm munge)"
    if os.geteuid() != 0:
        return "slurmd starts jobs as root alone"
    try:
        socket.gethostbyname(socket.gethostname())
    except OSError:
        return f"this machine's name {socket.gethostname()} does not resolve"
    return ""


class SlurmCluster:
    """munged, slurmctld and slurmd, started and stopped by their process ids.

    Args:
        folder: new or empty, with a short path; everything of the cluster is below it.
        cpus: that the node claims to have.
    """

    def __init__(self, folder: Path, cpus: int) -> None:
        assert len(str(folder)) <= LONGEST_FOLDER, folder
        self.folder = folder
        self.cpus = cpus
        self.host = socket.gethostname().partition(".")[0]
        self.socket = folder / "munge" / "socket"
        self.daemons: list[subprocess.Popen[bytes]] = []

    @property
    def environment(self) -> dict[str, str]:
        """Variables for every command that is to reach this cluster, and no other one."""
        strange = ("SLURM_", "SBATCH_", "SRUN_", "SUBMITIT_")
        own = {key: value for key, value in os.environ.items() if not key.startswith(strange)}
        return {**own, "PATH": PATH, "SLURM_CONF": str(self.folder / "slurm.conf")}

    def start(self) -> float:
        """Start it.

        Returns:
            Seconds until the node was ready for jobs.
        """
        started = time.monotonic()
        # Slurm's daemons look at these folders as another user: they may be entered by all.
        for name, mode in (("munge", 0o711), ("state", 0o700), ("spool", 0o755), ("log", 0o755)):
            (self.folder / name).mkdir(mode=mode)
            (self.folder / name).chmod(mode)
        self.folder.chmod(0o755)
        key = self.folder / "munge" / "key"
        self.command("mungekey", "--create", f"--keyfile={key}")
        key.chmod(0o600)
        munge = self.folder / "munge"
        self.daemon(
            "munged", "--foreground", f"--socket={self.socket}", f"--key-file={key}",
            f"--pid-file={munge / 'pid'}", f"--seed-file={munge / 'seed'}",
            f"--log-file={munge / 'log'}",
        )  # fmt: skip
        self.wait_until(self.socket.exists)
        (self.folder / "slurm.conf").write_text(self.configuration(), encoding="utf-8")
        self.daemon("slurmctld", "-D", "-c")
        self.daemon("slurmd", "-D")
        self.wait_until(lambda: self.tell("sinfo", "--noheader", "--format=%T").strip() == "idle")
        return time.monotonic() - started

    def configuration(self) -> str:
        """slurm.conf: one node, quick answers, everything on the loopback where that works."""
        controller, node = free_ports(2)
        loopback = socket.gethostbyname(socket.gethostname()).startswith("127.")
        bind = "CommunicationParameters=NoInAddrAny,NoCtldInAddrAny" if loopback else ""
        folder = self.folder
        return dedent(f"""\
            ClusterName=damcha
            SlurmctldHost={self.host}(127.0.0.1)
            SlurmctldPort={controller}
            SlurmdPort={node}
            {bind}
            SlurmUser=root
            SlurmdUser=root
            AuthType=auth/munge
            CredType=cred/munge
            # A job that was put back starts again only when its credential has expired.
            AuthInfo=socket={self.socket},cred_expire=5
            StateSaveLocation={folder}/state
            SlurmdSpoolDir={folder}/spool
            SlurmctldPidFile={folder}/slurmctld.pid
            SlurmdPidFile={folder}/slurmd.pid
            SlurmctldLogFile={folder}/log/slurmctld
            SlurmdLogFile={folder}/log/slurmd
            ProctrackType=proctrack/linuxproc
            TaskPlugin=task/none
            SwitchType=switch/none
            MpiDefault=none
            MailProg=/bin/true
            ReturnToService=2
            KillWait=5
            InactiveLimit=0
            SchedulerType=sched/backfill
            SchedulerParameters=sched_interval=1,sched_min_interval=0,bf_interval=1,batch_sched_delay=0
            FirstJobId={100 + int(time.time()) % 1_000_000}
            SelectType=select/cons_tres
            SelectTypeParameters=CR_CPU
            JobAcctGatherType=jobacct_gather/none
            AccountingStorageType=accounting_storage/none
            SlurmdParameters=config_overrides
            NodeName={self.host} NodeAddr=127.0.0.1 CPUs={self.cpus} State=UNKNOWN
            PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP
            """)

    def command(self, *words: str) -> None:
        """Run a command that must succeed."""
        subprocess.run(words, env=self.environment, check=True, capture_output=True, timeout=60)

    def tell(self, *words: str) -> str:
        """What a command prints, whether it succeeds or not."""
        done = subprocess.run(
            words, env=self.environment, check=False, capture_output=True, timeout=60
        )
        return done.stdout.decode()

    def daemon(self, *words: str) -> None:
        """Start a program that stays, in a session of its own."""
        with (self.folder / "log" / f"{words[0]}.out").open("wb") as log:
            self.daemons.append(
                subprocess.Popen(
                    words, env=self.environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                    start_new_session=True,
                )
            )  # fmt: skip

    def wait_until(self, holds: Callable[[], bool], seconds: float = 60.0) -> None:
        """Wait until something holds, while all daemons run."""
        until = time.monotonic() + seconds
        while not holds():
            for one in self.daemons:
                assert one.poll() is None, f"{one.args} ended\n{self.logs()}"
            assert time.monotonic() < until, self.logs()
            time.sleep(0.05)

    def logs(self) -> str:
        """The ends of all logs."""
        files = sorted((self.folder / "log").iterdir())
        return "\n".join(f"{path}:\n{path.read_text(errors='replace')[-1500:]}" for path in files)

    def queue(self, layout: str) -> Sequence[str]:
        """What squeue lists of jobs that are not over, a line each."""
        return self.tell("squeue", "--noheader", "--array", f"--format={layout}").split("\n")[:-1]

    def stop(self) -> None:
        """Cancel what is left, and end the daemons that this object started."""
        if self.daemons and all(one.poll() is None for one in self.daemons):
            # The processes of a job outlive slurmd, so they go first.
            self.tell("scancel", "--user=root")
            until = time.monotonic() + 30
            while self.queue("%i") and time.monotonic() < until:
                time.sleep(0.1)
        for one in reversed(self.daemons):
            if one.poll() is None:
                one.send_signal(signal.SIGTERM)
                try:
                    one.wait(20)
                except subprocess.TimeoutExpired:
                    one.kill()
                    one.wait()
        self.daemons.clear()


def free_ports(n: int) -> list[int]:
    """Ports that nobody listens on at the moment."""
    sockets = [socket.socket() for _ in range(n)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    ports = [int(one.getsockname()[1]) for one in sockets]
    for one in sockets:
        one.close()
    return ports

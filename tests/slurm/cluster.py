"""A real SLURM of one node, on this machine's loopback, for tests: no systemd, no munge, no accounting.

    python -m tests.slurm.cluster FOLDER         until Ctrl-C; then in another shell:
    SLURM_CONF=FOLDER/slurm.conf sinfo

Needs root and `apt-get install --no-install-recommends slurm-wlm`.
"""

import ctypes
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

DAEMONS = ("slurmctld", "slurmd")

CONF = """
ClusterName=zoo
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
SlurmdUser=root
SlurmctldPort={ctld_port}
SlurmdPort={d_port}
# listens on the loopback alone
CommunicationParameters=NoInAddrAny,NoCtldInAddrAny
AuthType=auth/none
CredType=cred/none
# a requeued job would wait two minutes for its old credential to expire
AuthInfo=cred_expire=5
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
AccountingStorageType=accounting_storage/none
JobAcctGatherType=jobacct_gather/none
JobCompType=jobcomp/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerType=sched/backfill
SchedulerParameters=sched_interval=1,sched_min_interval=0,batch_sched_delay=0,bf_interval=1
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
JobRequeue=1
KillWait=10
MaxArraySize={max_array_size}
MaxJobCount=20000
ReturnToService=2
MailProg=/bin/true
MpiDefault=none
# more CPUs than the machine has
SlurmdParameters=config_overrides
GresTypes=gpu
NodeName={host} NodeAddr=127.0.0.1 CPUs={cpus} RealMemory=16000 Gres=gpu:1 State=UNKNOWN
PartitionName=main Nodes={host} Default=YES MaxTime=INFINITE State=UP PriorityTier=1 PreemptMode=OFF
PartitionName=short Nodes={host} MaxTime=30 State=UP PriorityTier=1
PartitionName=cheap Nodes={host} MaxTime=INFINITE State=UP PriorityTier=1
PartitionName=high Nodes={host} MaxTime=INFINITE State=UP PriorityTier=10 PreemptMode=OFF
"""

# any character device will do for a GPU that nothing computes on
GRES = "NodeName={host} Name=gpu File=/dev/null AutoDetect=off"


class Cluster:
    """A cluster that is started by `with`; its daemons die with this process, however it dies."""

    def __init__(self, folder: Path, cpus: int = 16, max_array_size: int = 1001) -> None:
        self.folder, self.conf = folder, folder / "slurm.conf"
        self.environment = {"SLURM_CONF": str(self.conf)}
        self.host = socket.gethostname().split(".")[0]
        settings = {"host": self.host, "folder": folder, "cpus": cpus}
        settings |= {"ctld_port": free_port(), "d_port": free_port(), "max_array_size": max_array_size}
        for name in ("state", "spool"):
            (folder / name).mkdir(parents=True)
        self.conf.write_text(CONF.format(**settings))
        (folder / "gres.conf").write_text(GRES.format(**settings))
        self.daemons: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> "Cluster":
        self.daemons = [self._start("slurmctld", "-D", "-c"), self._start("slurmd", "-D", "-c")]
        end = time.monotonic() + 30
        while self.ask("sinfo", "-h", "-p", "main", "-o", "%T", check=False).strip() != "idle":
            if time.monotonic() > end or any(daemon.poll() is not None for daemon in self.daemons):
                logs = [path.read_text()[-2000:] for path in sorted(self.folder.glob("slurm*.log"))]
                self.__exit__()
                raise RuntimeError("\n".join(["the cluster did not come up", *logs]))
            time.sleep(0.1)
        return self

    def lose_the_node(self) -> None:
        """Kill the node's daemon and all that runs on it; then bring it back, empty."""
        daemon = self.daemons.pop()
        daemon.kill()
        daemon.wait()
        for pid in self._on_the_node():
            with suppress(ProcessLookupError):  # it may have ended by itself meanwhile
                os.kill(pid, signal.SIGKILL)
        self.ask("scontrol", "update", f"NodeName={self.host}", "State=DOWN", "Reason=lost")
        self.daemons.append(self._start("slurmd", "-D", "-c"))
        self.ask("scontrol", "update", f"NodeName={self.host}", "State=RESUME")

    def _on_the_node(self) -> list[int]:
        """List the processes of this cluster's jobs and their slurmstepd."""
        pids = []
        for process in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                environment = (process / "environ").read_bytes().split(b"\0")
                name = (process / "cmdline").read_bytes()
                ours = f"SLURM_CONF={self.conf}".encode() in environment
                job = any(line.startswith(b"SLURM_JOB_ID=") for line in environment)
                if ours and (job or name.startswith(b"slurmstepd")):
                    pids.append(int(process.name))
        return pids

    def __exit__(self, *exc: object) -> None:
        self.ask("scancel", "--user=root", "--signal=KILL", "--full", check=False)
        self.ask("scancel", "--user=root", check=False)
        end = time.monotonic() + 15
        while self.ask("squeue", "-h", check=False).strip() and time.monotonic() < end:
            time.sleep(0.1)
        for daemon in reversed(self.daemons):
            daemon.terminate()
            daemon.wait(20)

    def _start(self, *words: str) -> subprocess.Popen[bytes]:
        null = subprocess.DEVNULL
        environment = os.environ | self.environment
        return subprocess.Popen(words, env=environment, stdout=null, stderr=null, preexec_fn=_die_with_parent)

    def ask(self, *words: str, check: bool = True) -> str:
        done = subprocess.run(words, env=os.environ | self.environment, capture_output=True, text=True)
        if check and done.returncode:
            raise RuntimeError(f"{' '.join(words)}: {done.stderr}")
        return done.stdout

    def job(self, index: int) -> str:
        """Return the id of the running array element of that index, in the partition main."""
        running = self.ask("squeue", "-h", "-r", "-p", "main", "-t", "R", "-o", "%i").split()
        (job,) = (job for job in running if job.endswith(f"_{index}"))
        return job

    def squeue(self, what: str = "%i %T") -> list[str]:
        """Return a line for each job and array element, also for those that have ended."""
        return self.ask("squeue", "-h", "-r", "-t", "all", "-o", what).splitlines()


def why_not() -> str | None:
    """Return the reason that no cluster can be started here, or None."""
    missing = [name for name in (*DAEMONS, "sbatch", "srun") if shutil.which(name) is None]
    if os.geteuid() != 0:
        return "the SLURM of the tests needs root"
    if missing:
        return f"no {missing[0]}: apt-get install --no-install-recommends slurm-wlm (make slurm-test does)"
    return None


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def _die_with_parent() -> None:
    death_signal = 1  # PR_SET_PDEATHSIG, linux/prctl.h
    ctypes.CDLL(None).prctl(death_signal, signal.SIGTERM)


if __name__ == "__main__":
    with Cluster(Path(sys.argv[1]).resolve()) as cluster:
        print(f"export SLURM_CONF={cluster.conf}", flush=True)
        signal.pause()

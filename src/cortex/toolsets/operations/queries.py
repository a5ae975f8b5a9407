"""What operations asks of the machine, through psutil."""

from dataclasses import dataclass

import psutil

MB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class CpuTimes:
    """Seconds all cores together were busy, and in all, since the machine started."""

    busy_s: float
    total_s: float


def cpu_times() -> CpuTimes:
    """Read the machine's CPU clock."""
    times = psutil.cpu_times()._asdict()
    # Linux counts guest time inside user time; waiting for a disk is not work.
    total_s = sum(times.values()) - times.get("guest", 0.0) - times.get("guest_nice", 0.0)
    return CpuTimes(busy_s=total_s - times["idle"] - times.get("iowait", 0.0), total_s=total_s)


def cpu_percent(before: CpuTimes, after: CpuTimes) -> float:
    """Return how busy the machine was between two readings, in percent of all cores."""
    elapsed_s = after.total_s - before.total_s
    if elapsed_s <= 0:
        return 0.0
    share = (after.busy_s - before.busy_s) / elapsed_s
    return round(min(max(share * 100, 0.0), 100.0), 1)


def memory_mb() -> tuple[int, int]:
    """Return memory in use and in all, in MB."""
    memory = psutil.virtual_memory()
    return (memory.total - memory.available) // MB, memory.total // MB


def load_average() -> tuple[float, float, float]:
    """Return the load over 1, 5 and 15 minutes."""
    one, five, fifteen = psutil.getloadavg()
    return round(one, 2), round(five, 2), round(fifteen, 2)

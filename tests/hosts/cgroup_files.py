"""A cgroup's files with counters, as the kernel writes them."""

from pathlib import Path


def write_cgroup(folder: Path, cpu: int = 5_000_000, **files: str) -> str:
    """Write the files of a cgroup that used so many microseconds of CPU time; return its path."""
    folder.mkdir(parents=True, exist_ok=True)
    contents = {
        "cpu.stat": f"usage_usec {cpu}\nuser_usec 1\nnr_throttled 2\nthrottled_usec {cpu // 5}\n",
        "cpu.pressure": f"some avg10=0.00 avg60=0.00 avg300=0.00 total={cpu // 2}\nfull avg10=0.00 total=7\n",
        "memory.current": f"{cpu}\n",
        "io.stat": f"259:0 rbytes={cpu} wbytes={cpu} rios=1 wios=1 dbytes=9 dios=0\n253:0 rbytes=1 wbytes=1\n",
        **{name.replace("_", "."): text for name, text in files.items()},
    }
    for name, text in contents.items():
        (folder / name).write_text(text)
    return str(folder)

"""Speed of the core, as ratios within one run.

`python tests/benchmark_core.py` prints a line a bar, and exits 1 if one is missed.

Times of a shared machine drift by tens of percent from minute to minute, so whatever is compared is measured in turns,
and a bar on an absolute rate stands beside a yardstick: numpy multiplying two arrays of the same size into a third.

    import      import roofline, over import numpy and pydantic; and the same with its names looked up, which a lazy
                front door puts off
    decode      a million (batch, context) points of an 8B model through `roofline.decode`
    memory      what ten million such points take above the two arrays that name them
    command     `roofline predict … --json` end to end, over importing what it stands on
    simulation  5,000 requests of a shipped trace at 80 % load on a real deployment's steps, against a loop that looks at
                every sequence in every step
    closed form a hundred thousand rates of the same, over a million points of decode
    sizing      12 chips × 6 plans × 3 pairs of formats × 4 settings, as one pool and as two, over the same
    sweep       ten million points of one model on one chip to a folder of Parquet, over pyarrow writing as many random
                columns in as many files and row groups with the same settings; what it takes of memory; two processes
    pictures    a roofline with a hundred thousand measurements and a Pareto front of as many candidates, each drawn and
                saved as PNG, over a bare scatter of as many points saved alike

Not a test: a loaded machine may miss a bar, and no code would be wrong.
"""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

IMPORT_BAR = 1.4  # × numpy and pydantic
POINTS_BAR = 25e6  # points/s
MULTIPLY_BAR = 1 / 30  # of the rate at which numpy multiplies
MEMORY_BAR = 2**30  # B
COMMAND_BAR = 2.5  # × numpy, pydantic and typer
SIMULATION_BAR = 10.0  # × faster than the loop
CLOSED_BAR = 40.0  # × a million points of decode
SIZING_BAR = 100.0  # × a million points of decode
SWEEP_BAR = 2.0  # × as many random columns
SWEEP_MEMORY_BAR = 1.5 * 2**30  # B
SWEEP_PROCESSES_BAR = 1.6  # × one process
PICTURE_BAR = 4.0  # × a bare scatter of as many points

DEPLOYMENT = (
    "import numpy as np, roofline as rl\n"
    "d = rl.Deployment(model=rl.model('llama-3.1-8b'), hardware=rl.hardware('h100-sxm-80gb'), weights='bf16', kv='bf16')\n"
    "def grid(n):\n"
    "    g = np.random.default_rng(0)\n"
    "    return g.integers(1, 256, n).astype(float), g.integers(1, 32768, n).astype(float)\n"
)
# VmHWM, not ru_maxrss: Linux lets a child inherit the maximum of the process it was forked from
PEAK = (
    "import re, resource, pathlib, sys\n"
    "status = pathlib.Path('/proc/self/status')\n"
    "kib = int(re.search(r'VmHWM:\\s+(\\d+)', status.read_text())[1]) if status.exists() else "
    "resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1024 if sys.platform == 'darwin' else 1)\n"
    "print(kib)\n"
)


def seconds(command: list[str]) -> float:
    start = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=one_core())
    return time.perf_counter() - start


def one_core() -> dict[str, str]:
    return os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}


def python(code: str) -> list[str]:
    return [sys.executable, "-c", code]


def output(code: str) -> list[float]:
    """The numbers a new interpreter prints."""
    done = subprocess.run(python(code), check=True, stdout=subprocess.PIPE, text=True, env=one_core())
    return [float(word) for word in done.stdout.split()]


def ratio(ours: list[str], theirs: list[str], *, rounds: int) -> float:
    """Median of the ratios of runs taken in turns; the first pair warms the disk."""
    pairs = [(seconds(ours), seconds(theirs)) for _ in range(rounds + 1)][1:]
    return statistics.median(a / b for a, b in pairs)


def said(what: str, value: float, bar: float, unit: str, *, most: bool = True) -> bool:
    """Print a bar and whether it is met."""
    met = value <= bar if most else value >= bar
    sign = "<=" if most else ">="
    print(f"{'ok  ' if met else 'MISS'}  {what:<64} {value:10.3f} {unit}  ({sign} {bar:.3f})", flush=True)
    return met


def import_cost() -> bool:
    theirs = python("import numpy; from pydantic import BaseModel")
    bare, used = python("import roofline"), python("from roofline import Deployment, hardware, model, predict")
    met = said("import roofline / import numpy, pydantic", ratio(bare, theirs, rounds=9), IMPORT_BAR, "×")
    print(
        f"      {'  with the names of a first question':<64} {ratio(used, theirs, rounds=9):10.3f} ×  (no bar)",
        flush=True,
    )
    return met


def decode_rate() -> bool:
    """Points and multiplications in turns; the best of each, since a million points last a few scheduler ticks only."""
    code = DEPLOYMENT + (
        "import time\n"
        "n = 1_000_000; b, c = grid(n); out = np.empty(n)\n"
        "def timed(f):\n"
        "    s = time.perf_counter(); f(); return time.perf_counter() - s\n"
        "runs = [(timed(lambda: np.asarray(rl.decode(d, context_tokens=c, batch=b).seconds)),\n"
        "         timed(lambda: np.multiply(b, c, out=out))) for _ in range(15)]\n"
        "ours, theirs = (min(x) for x in zip(*runs))\n"
        "print(n / ours, theirs / ours)\n"
    )
    rate, of_multiply = output(code)
    first = said("decode, 1,000,000 points", rate / 1e6, POINTS_BAR / 1e6, "M points/s", most=False)
    return said("decode / numpy.multiply of two such arrays", of_multiply, MULTIPLY_BAR, "×", most=False) and first


def memory_cost() -> bool:
    """Peak resident memory of a process that answers, minus that of one that only holds the question.

    Ten million points are asked for all at once and for every quantity of an answer that is a number a point.
    """
    question = DEPLOYMENT + "b, c = grid(10_000_000)\n"
    answer = (
        "t = rl.decode(d, context_tokens=c, batch=b)\n"
        "kept = [np.asarray(getattr(t, name)) for name in ('seconds', 'floor_s')]\n"
    )
    (with_answer,), (without,) = output(question + answer + PEAK), output(question + PEAK)
    return said(
        "decode, 10,000,000 points, above their two arrays", (with_answer - without) / 2**20, MEMORY_BAR / 2**30, "GiB"
    )


def command_cost() -> bool | None:
    beside = Path(sys.executable).parent / "roofline"
    found = str(beside) if beside.exists() else shutil.which("roofline")
    command = [
        found or "roofline",
        "predict",
        "llama-3.1-8b",
        "h100-sxm-80gb",
        "--prompt",
        "2048",
        "--output",
        "256",
        "--json",
    ]
    if found is None or subprocess.run(command, capture_output=True, check=False).returncode != 0:
        print("skip  roofline predict … --json: the command does not run here")
        return None
    theirs = python("import numpy, pydantic, typer")
    return said(
        "roofline predict … --json / import numpy, pydantic, typer", ratio(command, theirs, rounds=7), COMMAND_BAR, "×"
    )


LOAD = (
    "import sys, time; sys.path.insert(0, 'tests')\n"
    "import numpy as np, roofline as rl\n"
    "from roofline.answers.serving import replica_of, serve\n"
    "from roofline.specs.arrivals import Poisson\n"
    "def timed(act):\n"
    "    start = time.perf_counter(); act(); return time.perf_counter() - start\n"
    "d = rl.Deployment(model=rl.model('llama-3.1-8b'), hardware=rl.hardware('h100-sxm-80gb'), engine='vllm')\n"
    "ideal = rl.Deployment(model=d.model, hardware=d.hardware)\n"
    "w = rl.workload('azure-conv').arriving(Poisson())\n"
    "most = serve(d, w, rate_per_s=1.0, method='closed form').saturation_per_s\n"
    "g = np.random.default_rng(0)\n"
    "batches, contexts = g.integers(1, 256, 1_000_000) * 1.0, g.integers(1, 32768, 1_000_000) * 1.0\n"
    "def point(): return timed(lambda: rl.decode(ideal, context_tokens=contexts, batch=batches).seconds)\n"
)


def simulation_speed() -> bool:
    """Both take the same steps of the same law."""
    code = LOAD + (
        "from naive_replica import serve as naive\n"
        "from roofline.answers.simulate import simulate\n"
        "from roofline.answers.steps import step_law\n"
        "law, replica = step_law(d), replica_of(d)\n"
        "r = w.draw(5000, rate_per_s=0.8 * most, seed=0)\n"
        "asked = list(zip(r.arrival_s.tolist(), r.prompt_tokens.tolist(), r.output_tokens.tolist()))\n"
        "ours = [timed(lambda: simulate(r.arrival_s, r.prompt_tokens, r.output_tokens, law, replica)) for _ in range(3)]\n"
        "print(np.median(ours), timed(lambda: naive(asked, law, replica)))\n"
    )
    ours, theirs = output(code)
    print(f"      {'5,000 requests simulated':<64} {ours:10.3f} s  (no bar)", flush=True)
    return said("a loop over every sequence / the simulation", theirs / ours, SIMULATION_BAR, "×", most=False)


def closed_form_speed() -> bool:
    """A hundred thousand rates up to 95 % of saturation, percentiles and all."""
    code = LOAD + (
        "rates = np.linspace(0.01, 0.95, 100_000) * most\n"
        "pairs = [(timed(lambda: serve(d, w, rate_per_s=rates, method='closed form')), point()) for _ in range(6)][1:]\n"
        "print(np.median([a for a, _ in pairs]), np.median([a / b for a, b in pairs]))\n"
    )
    ours, over = output(code)
    print(f"      {'100,000 rates by the closed form':<64} {ours:10.3f} s  (no bar)", flush=True)
    return said("100,000 rates by the closed form / 1e6 points of decode", over, CLOSED_BAR, "×")


def sizing_speed() -> bool:
    """1,728 candidates, ranked."""
    code = LOAD + (
        "from roofline.answers.sizing import size\n"
        "names = ('h100-sxm-80gb', 'h200-sxm-141gb', 'b200-sxm-180gb', 'l40s', 'a100-sxm-80gb', 'l4', 'a100-sxm-40gb',\n"
        "         'mi300x', 'h100-pcie-80gb', 'a10', 'rtx-4090', 'mi325x')\n"
        "chips = [rl.hardware(n) for n in names]\n"
        "plans = [rl.Plan(tp=n) for n in (1, 2, 4, 8)] + [rl.Plan(pp=2), rl.Plan(tp=2, pp=2)]\n"
        "formats = [('bf16', 'bf16'), ('fp8', 'bf16'), ('fp8', 'fp8')]\n"
        "def search(): return size(d.model, hardware=chips, workload=w, slo=rl.SLO(ttft_p95_s=1.0, tpot_p95_s=0.05),\n"
        "    rate_per_s=20.0, plans=plans, formats=formats, batch_tokens=(512, 1024, 2048, 8192), simulate=0)\n"
        "assert search().n_tried == 1728\n"
        "pairs = [(timed(search), point()) for _ in range(4)][1:]\n"
        "print(np.median([a for a, _ in pairs]), np.median([a / b for a, b in pairs]))\n"
    )
    ours, over = output(code)
    print(f"      {'1,728 candidates sized':<64} {ours:10.3f} s  (no bar)", flush=True)
    return said("1,728 candidates sized / 1e6 points of decode", over, SIZING_BAR, "×")


SWEEP = (
    "import glob, os, re, shutil, tempfile, time\n"
    "import numpy as np, pyarrow as pa, pyarrow.parquet as pq, roofline as rl\n"
    "from roofline.views.sweep import writing\n"
    "from roofline.views.sweep.columns import Column\n"
    "names = ['batch', 'context_tokens', 'tpot_s', 'tpot_floor_s', 'tokens_per_s_per_user', 'tokens_per_s',\n"
    "         'tokens_per_s_per_chip', 'kv_bytes']\n"
    "place = tempfile.mkdtemp()\n"
    "contexts = np.arange(1, 10_001) * 13\n"
    "def timed(act):\n"
    "    start = time.perf_counter(); act(); return time.perf_counter() - start\n"
    "def ours(**more):\n"
    "    rl.sweep(models='llama-3.1-8b', hardware='h100-sxm-80gb', batch=np.arange(1, 1001), context_tokens=contexts,\n"
    "             columns=names, out=os.path.join(place, 'ours'), progress=False, **more)\n"
)


def sweep_rate() -> bool:
    """In turns, in one process; the files of the sweep say how many rows theirs have. No bar: beside pyarrow's defaults."""
    code = SWEEP + (
        "ours()\n"
        "rows = [pq.read_metadata(p).num_rows for p in sorted(glob.glob(os.path.join(place, 'ours', '*')))]\n"
        "g = np.random.default_rng(0); table = pa.table({n: g.random(max(rows)) for n in names})\n"
        "same = writing._settings(tuple(Column(n, 'number', n) for n in names)) | {'row_group_size': writing.ROW_GROUP}\n"
        "os.mkdir(os.path.join(place, 'theirs'))\n"
        "def theirs(**settings):\n"
        "    for i, n in enumerate(rows):\n"
        "        pq.write_table(table[:n], os.path.join(place, 'theirs', f'{i}.parquet'), **settings)\n"
        "runs = [(timed(ours), timed(lambda: theirs(**same)), timed(theirs)) for _ in range(5)]\n"
        "shutil.rmtree(place)\n"
        "print(sum(rows), *np.median([(a / b, a / c) for a, b, c in runs], axis=0))\n"
    )
    n_rows, over, over_defaults = output(code)
    print(f"      {'  over pyarrow with its own settings':<64} {over_defaults:10.3f} ×  (no bar)", flush=True)
    return said(f"sweep, {n_rows:,.0f} points to Parquet / random columns", over, SWEEP_BAR, "×")


def sweep_memory() -> bool:
    """Of the whole process, imports and all."""
    (peak,) = output(SWEEP + f"ours()\nshutil.rmtree(place)\n{PEAK}")
    return said("sweep, 10,000,000 points, the process at its peak", peak / 2**20, SWEEP_MEMORY_BAR / 2**30, "GiB")


def sweep_processes() -> bool | None:
    """Pools of one process and of two that have started, in turns; every task writes a part file of its own.

    No bar: a loop that shares nothing in the same pools, which says what a second process is worth on this machine now.
    """
    if (os.cpu_count() or 1) < 2:
        print("skip  sweep in two processes: there is one core")
        return None
    code = SWEEP + (
        "from concurrent.futures import ProcessPoolExecutor\n"
        "def start(i): time.sleep(0.5)\n"
        "def loop(i): return sum(range(20_000_000))\n"
        "with ProcessPoolExecutor(1) as one, ProcessPoolExecutor(2) as two:\n"
        "    list(one.map(start, [1])), list(two.map(start, [1, 2]))\n"
        "    runs = [[timed(lambda: ours(executor=pool)) for pool in (one, two)] +\n"
        "            [timed(lambda: list(pool.map(loop, range(8)))) for pool in (one, two)] for _ in range(6)][1:]\n"
        "shutil.rmtree(place)\n"
        "print(*np.median([(a / b, c / d) for a, b, c, d in runs], axis=0))\n"
    )
    faster, alone = output(code)
    print(f"      {'  of a loop that shares nothing':<64} {alone:10.3f} ×  (no bar)", flush=True)
    return said("sweep, one process / two, a part file each", faster, SWEEP_PROCESSES_BAR, "×", most=False)


def picture_speed() -> bool:
    """A hundred thousand points as one cloud; most of what a picture takes is its letters, whatever it shows."""
    code = DEPLOYMENT + (
        "import io, time, matplotlib, pandas as pd; matplotlib.use('Agg'); import matplotlib.pyplot as plt\n"
        "g = np.random.default_rng(0); n = 100_000\n"
        "x = 10.0 ** g.uniform(0.0, 3.0, n); y = np.minimum(989e12, 3.35e12 * x) * g.beta(5, 2, n)\n"
        "measured = pd.DataFrame({'intensity': x, 'flops_per_s': y})\n"
        "names = ('tokens_per_s_per_user', 'output_tokens_per_s_per_chip', 'label', 'meets')\n"
        "rows = pd.DataFrame(dict(zip(names, (x, g.beta(5, 2, n) * 1e3 / x ** 0.5, 'tp 1', True))))\n"
        "def saved(draw):\n"
        "    s = time.perf_counter(); draw().figure.savefig(io.BytesIO(), format='png', dpi=120); plt.close('all')\n"
        "    return time.perf_counter() - s\n"
        "def bare():\n"
        "    ax = plt.subplots(figsize=(7.2, 4.6))[1]; ax.scatter(x, y, s=4)\n"
        "    ax.set(xscale='log', yscale='log'); return ax\n"
        "ours = (lambda: rl.plot.roofline(d, measured=measured), lambda: rl.plot.pareto(rows))\n"
        "print(*(np.median([saved(draw) / saved(bare) for _ in range(8)][1:]) for draw in ours))\n"
    )
    roof, front = output(code)
    met = said("roofline of 100,000 measurements / a bare scatter", roof, PICTURE_BAR, "×")
    return said("Pareto front of 100,000 candidates / a bare scatter", front, PICTURE_BAR, "×") and met


BARS: tuple[Callable[[], bool | None], ...] = (
    import_cost, decode_rate, memory_cost, command_cost, simulation_speed, closed_form_speed, sizing_speed,
    sweep_rate, sweep_memory, sweep_processes, picture_speed,
)  # fmt: skip


def main() -> int:
    """0 where every bar that could be measured is met."""
    return int(any(met is False for met in [bar() for bar in BARS]))


if __name__ == "__main__":
    raise SystemExit(main())
